/**
 * Processes that have loaded a test file and judge many mutants with it: loading takes longer than most tests. A
 * mutant that they do not notice has survived these tests; anything else is judged by a separate process (judge.ts).
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { environment, endGroup, PRELOADS, started } from './processes.ts'
import type { Answer, Question } from './serve.ts'

/** For one mutant at a time; each takes 100 to 300 MiB. */
const MAX_PROCESSES = 16
const LOADING_MS = 120_000

/** `unknown`: the process could not say. */
export type Hint = { is: 'passed' | 'unknown' } | { is: 'failed'; test: string }

export class Workers {
  readonly #folder: string
  /** By test file; the one that was asked last is the last. */
  readonly #processes = new Map<string, ChildProcess>()
  /** Files of which a process has noticed what a separate one did not, or that cannot be loaded so. */
  readonly #unfit = new Set<string>()

  constructor(folder: string) {
    this.#folder = folder
  }

  async ask(file: string, question: Question, limitMs: number): Promise<Hint> {
    if (this.#unfit.has(file)) return { is: 'unknown' }
    const child = await this.#processOf(file)
    if (child === undefined) {
      this.distrust(file)
      return { is: 'unknown' }
    }
    const answer = answerOf(child, limitMs)
    child.send(question)
    const found = await answer
    if (found?.is === 'passed') return { is: 'passed' }
    this.#end(file)
    return found?.is === 'failed' ? found : { is: 'unknown' }
  }

  /** Its tests are not run here any more. */
  distrust(file: string): void {
    this.#unfit.add(file)
    this.#end(file)
  }

  end(): void {
    for (const file of this.#processes.keys()) this.#end(file)
  }

  async #processOf(file: string): Promise<ChildProcess | undefined> {
    const known = this.#processes.get(file)
    this.#processes.delete(file)
    const isRunning = known?.exitCode === null && known.signalCode === null
    const child = isRunning ? known : await this.#start(file)
    if (child === undefined) return undefined
    this.#processes.set(file, child)
    const [oldest] = this.#processes.keys()
    if (this.#processes.size > MAX_PROCESSES && oldest !== undefined) this.#end(oldest)
    return child
  }

  async #start(file: string): Promise<ChildProcess | undefined> {
    const script = './test/mutation/sample/serve.ts'
    const [preload] = PRELOADS
    // Tap names the folder of a test after the arguments: the last one keeps two processes apart.
    const name = `${process.pid}-${started.next()}`
    const child = spawn(process.execPath, ['--import', preload, script, name], {
      cwd: this.#folder,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      detached: true,
      env: { ...environment(this.#folder), MUTANTS_FILE: file },
    })
    started.add(child)
    const answer = await answerOf(child, LOADING_MS)
    if (answer?.is === 'ready') return child
    endGroup(child)
    return undefined
  }

  #end(file: string): void {
    const child = this.#processes.get(file)
    this.#processes.delete(file)
    if (child !== undefined) endGroup(child)
  }
}

/** Undefined if the process ends, or does not answer within the limit. */
function answerOf(child: ChildProcess, limitMs: number): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const done = (answer?: Answer) => {
      clearTimeout(timer)
      child.off('message', heard)
      child.off('exit', ended)
      resolve(answer)
    }
    const ended = () => done()
    // Tap sends messages of its own to a parent.
    const heard = (message: Answer | object) => {
      if ('is' in message) done(message)
    }
    const timer = setTimeout(ended, limitMs)
    child.on('message', heard)
    child.once('exit', ended)
  })
}

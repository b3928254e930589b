/**
 * Programs of the simulated machine: what a process starts by name runs in here, as a process of its
 * own that dies with the one that started it.
 */
import childProcess from 'node:child_process'
import { EventEmitter } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import { PassThrough, type Readable } from 'node:stream'
import { bound, currentProcess, SimulatedProcess } from './process.ts'

export interface Start {
  name: string
  args: string[]
  env: NodeJS.ProcessEnv
  input: Readable
}

/** What the program prints; what it throws goes to standard error, and it ends with code 1. */
export type Program = (start: Start) => Promise<string>

/** Asked before a program starts; false when it is not to begin. */
export type Watch = (start: Start, process: SimulatedProcess) => boolean

/** From now on these are all the programs this process can start. */
export function installPrograms(programs: Record<string, Program>): { watch(watch: Watch): void } {
  let watch: Watch = () => true
  const spawn = (name: string, args: string[], { env = {} }: { env?: NodeJS.ProcessEnv }) => {
    const program = programs[name]
    if (program === undefined) throw new Error(`no program ${name} on this machine`)
    const child = new Child(name)
    const start = { name, args, env, input: child.stdin }
    if (watch(start, child.process)) child.follow(program, start)
    return child
  }
  Object.assign(childProcess, { spawn })
  syncBuiltinESMExports()
  return { watch: (next) => (watch = next) }
}

/** A process as its parent sees it, as far as anyone looks. */
class Child extends EventEmitter {
  readonly stdin = new PassThrough()
  readonly stdout = new PassThrough()
  readonly stderr = new PassThrough()
  readonly process: SimulatedProcess
  /** Tells the parent, as long as that lives. */
  readonly #told: () => void
  #ended = false
  #code: number | null = null

  constructor(name: string) {
    super()
    this.process = new SimulatedProcess(name)
    this.#told = bound(() => this.emit('close', this.#code))
    this.process.onKill(() => this.#end(null))
    currentProcess()?.onKill(() => this.process.kill())
  }

  follow(program: Program, start: Start): void {
    const running = this.process.run(() => program(start))
    running.then(
      (text) => this.#end(0, this.stdout, text),
      (error: unknown) => this.#end(1, this.stderr, `Error: ${wordsOf(error)}`),
    )
  }

  /** Whatever it is told, it ends at once: nothing is harder to live with. */
  kill(): boolean {
    this.process.kill()
    return true
  }

  #end(code: number | null, output?: PassThrough, text = ''): void {
    if (this.#ended) return
    this.#ended = true
    this.#code = code
    output?.write(`${text}\n`)
    this.stdout.end()
    this.stderr.end()
    setImmediate(this.#told)
    this.process.kill()
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

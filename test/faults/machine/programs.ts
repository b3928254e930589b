/**
 * Programs of the simulated machine: a program that a process spawns by name runs as a simulated process,
 * which is killed together with its parent.
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

/** Resolves to standard output. A rejection is written to standard error and the exit code is 1. */
export type Program = (start: Start) => Promise<string>

/** Called before a program starts; false prevents it from starting. */
export type Watch = (start: Start, process: SimulatedProcess) => boolean

/** Replaces `spawn` in this process: only these programs can be started. */
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

/** The subset of `ChildProcess` that the operator uses. */
class Child extends EventEmitter {
  readonly stdin = new PassThrough()
  readonly stdout = new PassThrough()
  readonly stderr = new PassThrough()
  readonly process: SimulatedProcess
  /** Emits `close` in the parent, unless the parent was killed. */
  readonly #notifyParent: () => void
  #ended = false
  #code: number | null = null

  constructor(name: string) {
    super()
    this.process = new SimulatedProcess(name)
    this.#notifyParent = bound(() => this.emit('close', this.#code))
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

  /** Each signal ends the program at once, as SIGKILL does: the worst case for its parent. */
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
    setImmediate(this.#notifyParent)
    this.process.kill()
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/**
 * The processes of the local cluster: starts them detached with a log file each, waits for what
 * they promise, and ends them by process id. A process id is trusted only together with the
 * moment it started, because the kernel gives ids out again.
 */
import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync, readFileSync, readdirSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** Marks everything a cluster started, so that a process whose id was lost can still be found. */
export const MARK = 'VEC_OPERATOR_CLUSTER'

const TERM_GRACE_MS = 10_000
const POLL_MS = 50

export interface ProcessSpec {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly log: string
  readonly env?: Readonly<Record<string, string>>
}

export interface ProcessId {
  readonly pid: number
  readonly startTicks: string
}

export interface ProcessRecord extends ProcessSpec, ProcessId {}

/** Starts a process in a session of its own: a Ctrl-C in the terminal must not end it first. */
export function startProcess(spec: ProcessSpec, mark: string): ProcessRecord {
  const log = openSync(spec.log, 'a')
  const child = spawn(spec.command, spec.args, {
    detached: true,
    stdio: ['ignore', log, log],
    // Most of them are written in Go: memory there is enough of, processors there are few.
    env: { ...process.env, GOGC: '400', ...spec.env, [MARK]: mark },
  })
  closeSync(log)
  // Without a listener a missing command would end the whole run; alive() reports it with more detail.
  child.on('error', () => undefined)
  child.unref()
  if (child.pid === undefined) throw new Error(`${spec.name}: ${spec.command} cannot be started`)
  return { ...spec, ...processId(child.pid) }
}

export function processId(pid: number): ProcessId {
  return { pid, startTicks: startTicks(pid) ?? '' }
}

export function alive(record: ProcessId): boolean {
  return startTicks(record.pid) === record.startTicks
}

/** Ends a process: asks, then insists; answers once it is gone. */
export async function stopProcess(record: ProcessId) {
  if (!alive(record)) return
  signal(record.pid, 'SIGTERM')
  if (await becomes(() => !alive(record), TERM_GRACE_MS)) return
  signal(record.pid, 'SIGKILL')
  await becomes(() => !alive(record), TERM_GRACE_MS)
}

/** Waits for a condition; a process that ended meanwhile is reported with the end of its log. */
export async function waitFor(
  what: string,
  condition: () => boolean | Promise<boolean>,
  { timeoutMs = 60_000, process: record }: { timeoutMs?: number; process?: ProcessRecord } = {},
): Promise<void> {
  const died = () => record !== undefined && !alive(record)
  if (await becomes(async () => died() || (await condition()), timeoutMs)) {
    if (!died()) return
  }
  const why = died() ? 'its process ended' : `not within ${timeoutMs / 1000} s`
  const tail = record === undefined ? '' : `\n${record.log}:\n${lastLines(record.log)}`
  throw new Error(`${what}: ${why}${tail}`)
}

/** Processes that carry the mark of a cluster, whether or not anyone wrote their ids down. */
export function marked(mark: string): ProcessId[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry) && environmentOf(entry).includes(`${MARK}=${mark}`))
    .map((entry) => processId(Number(entry)))
}

export async function freePort(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  const server = createServer()
  server.once('error', reject)
  server.listen(0, '0.0.0.0', () => {
    const address = server.address()
    server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
  })
  return promise
}

export async function portAnswers(host: string, port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect({ host, port, timeout: 1000 })
  socket.once('connect', () => resolve(true))
  socket.once('timeout', () => resolve(false))
  socket.once('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

export interface RunOptions {
  readonly input?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** Running commands: a run that a signal ends must not leave one of them behind. */
const commands = new Set<ChildProcess>()
process.once('exit', () => commands.forEach((child) => child.kill()))

/** Runs a command to its end and answers what it printed; its complaint becomes the error. */
export async function run(command: string, args: readonly string[], options: RunOptions = {}) {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  const { input, cwd, env } = options
  const child = execFile(
    command,
    args,
    { cwd, env: { ...process.env, ...env }, maxBuffer: 256 * 2 ** 20 },
    (error, stdout, stderr) => {
      commands.delete(child)
      if (error === null) resolve(stdout)
      else reject(new Error(complaint([command, ...args], stdout, stderr || error.message)))
    },
  )
  commands.add(child)
  // A command that ends without reading its input closes the pipe; its exit code reports the rest.
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input ?? '')
  return promise
}

export async function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  )
}

/** Compilers complain on standard output; what is last is nearest to the cause. */
function complaint(commandLine: readonly string[], stdout: string, stderr: string): string {
  const said = `${stdout.slice(-2000)}${stderr.slice(-4000)}`
  return `${commandLine.join(' ')}: ${said}`
}

async function becomes(condition: () => boolean | Promise<boolean>, timeoutMs: number) {
  const deadline = Date.now() + timeoutMs
  while (!(await condition())) {
    if (Date.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It ended between the look and the signal.
  }
}

/** Field 22 of /proc/<pid>/stat; undefined for a process that is gone or only a zombie. */
function startTicks(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? undefined : fields[19]
  } catch {
    return undefined
  }
}

function environmentOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0')
  } catch {
    return []
  }
}

function lastLines(file: string): string {
  return readFileSync(file, 'utf8').split('\n').slice(-40).join('\n')
}

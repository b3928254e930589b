/** The processes that are measured: the built service as the image runs it, and the yardstick; each on core 0. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { once } from 'node:events'
import { ScriptTarget, transpile } from 'typescript'
import { build as buildProgram } from '../program.ts'
import { serviceFlags } from '../service-flags.ts'
import type { HookTime } from './own-time.ts'

export const ROOT = new URL('../..', import.meta.url).pathname
export const TOKEN = 'token-of-the-bench'

/** dist/ is where builds go; in a separate folder this one disturbs no other. */
export const BENCH = join(ROOT, 'dist', 'bench')
/** What is `/app` in the image. */
export const APP = join(BENCH, 'app')

/** What a Job loads before anything else, so that names of a cluster lead to this machine. */
export const NAMES = join(BENCH, 'loopback-names.js')
const OWN_TIME = join(BENCH, 'own-time.js')
/** Argument of Node that loads own-time.ts into the service. */
export const NOTE_TIMES = `--import=${OWN_TIME}`

/** What is loaded into that which is measured, and is no part of it. */
const LOADED = [
  [NAMES, join('doubles', 'loopback-names.ts')],
  [OWN_TIME, join('bench', 'own-time.ts')],
  [join(BENCH, 'instants.js'), join('bench', 'instants.ts')],
] as const

/** Of /proc, on every Linux there is. */
const TICKS_PER_SECOND = 100
const ON_CORE_0 = ['-c', '0', process.execPath]

export interface Measured {
  url: string
  pid: number
  /** Resident memory now, and the most it ever was, in MiB. */
  memory(): { now: number; peak: number }
  /** Seconds of processor time used so far, by all its threads. */
  cpuSeconds(): number
  /** What own-time.ts, where it is loaded, noted of hooks since it was asked last. */
  hookTimes(): Promise<HookTime[]>
  stop(): Promise<void>
}

/** Builds all that is measured: types that are stripped at run time would count as its time and memory. */
export async function build(): Promise<void> {
  await buildProgram(APP)
  const compilerOptions = { target: ScriptTarget.ESNext, rewriteRelativeImportExtensions: true }
  for (const [compiled, source] of LOADED) {
    const text = readFileSync(join(ROOT, 'test', source), 'utf8')
    writeFileSync(compiled, transpile(text, compilerOptions))
  }
}

/** The service's own main, in surroundings like those of its pod. */
export async function startBuiltService(
  folder: string,
  api: string,
  nodeArgs: string[] = [],
): Promise<Measured> {
  const tokens = join(folder, 'tokens')
  writeFileSync(tokens, `${TOKEN}\n`)
  const main = join(APP, 'metacontroller', 'serve.js')
  return start([...serviceFlags(), ...nodeArgs, main, '--host', '127.0.0.1', '--port', '0'], {
    HOOK_TOKEN_FILE: tokens,
    VEC_API_SERVER: api,
    ENGINE_ROUTE: 'proxy',
    // As the image sets it.
    NODE_ENV: 'production',
    NODE_OPTIONS: '--use-system-ca',
  })
}

/** It finds an engine behind the pod proxy of that API server. */
export async function startEcho(api: string, nodeArgs: string[] = []): Promise<Measured> {
  const engine = `${api}/api/v1/namespaces/ns/pods/http:vec-a-0:6333/proxy`
  const main = join(ROOT, 'test', 'bench', 'echo.ts')
  return start([...nodeArgs, main, engine], { NODE_ENV: 'production' })
}

/** Leaves core 0 to what is measured, where the machine lets us. */
export function moveAside(cores: number): void {
  if (cores < 2 || !hasTaskset()) return
  const args = ['-a', '-c', '-p', `1-${cores - 1}`, String(process.pid)]
  execFileSync('taskset', args, { stdio: 'ignore' })
}

function hasTaskset(): boolean {
  try {
    execFileSync('taskset', ['-c', '0', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

async function start(args: string[], env: Record<string, string>): Promise<Measured> {
  const pinned = hasTaskset()
  const child = spawn(
    pinned ? 'taskset' : process.execPath,
    [...(pinned ? ON_CORE_0 : []), ...args],
    {
      env: { PATH: process.env['PATH'] ?? '', ...env },
      stdio: ['ignore', 'pipe', 2, 'ipc'],
    },
  )
  const pid = child.pid ?? 0
  return {
    url: await urlOf(child),
    pid,
    memory: () => memoryOf(pid),
    cpuSeconds: () => cpuOf(pid),
    hookTimes: async () => {
      child.send('times')
      const [times] = (await once(child, 'message')) as [HookTime[]]
      return times
    },
    stop: () => stop(child),
  }
}

/** The first address it prints; what comes after is thrown away, so that its log never blocks it. */
async function urlOf(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('the process has no output')
  for await (const line of createInterface({ input: child.stdout })) {
    const [url] = /http:\/\/127\.0\.0\.1:\d+/.exec(line) ?? []
    if (url === undefined || line.includes('"server"')) continue
    child.stdout.resume()
    return url
  }
  throw new Error('the process ended before it listened')
}

/** taskset replaces itself by what it starts, so the pid is that of Node. */
export function memoryOf(pid: number): { now: number; peak: number } {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8')
  const mebibytes = (field: string) =>
    Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(text)?.[1] ?? 0) / 1024
  return { now: mebibytes('VmRSS'), peak: mebibytes('VmHWM') }
}

export function cpuOf(pid: number): number {
  // The name of the process is in brackets and may hold spaces; user and system time follow.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  await ended
}

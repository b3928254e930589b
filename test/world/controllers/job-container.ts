/** A container of a Job: a real child process of the companion CLI, in the pod's sandbox. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import type { Running } from './containers.ts'
import type { Container } from './objects.ts'
import type { Sandbox } from './sandbox.ts'

export interface JobSurroundings {
  /** Folder of the program, as in the image. */
  app: string
  server: string
  token: string
  /** Folder of the `helm` the Jobs find. */
  helm: string
  /** How far the world's time is ahead of the machine's. */
  offsetMs: number
  env: Record<string, string>
}

const SHIFTED_TIME = new URL('./shifted-time.ts', import.meta.url).href

/** Whether the container runs the companion CLI. */
export function isJobContainer({ args = [] }: Container): boolean {
  return args[0] === 'jobs/main.js'
}

export function startJobContainer(
  { args = [] }: Container,
  sandbox: Sandbox,
  surroundings: JobSurroundings,
): Running {
  const { app } = surroundings
  const child = spawn(process.execPath, ['--import', SHIFTED_TIME, ...args], {
    cwd: app,
    env: { NODE_COMPILE_CACHE: join(app, 'compiled'), ...environment(sandbox, surroundings) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: what the process started dies with it, as in a container.
    detached: true,
  })
  const output: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk))
  const end = (signal: NodeJS.Signals) => killGroup(child.pid, signal)
  return {
    log: () => Buffer.concat(output).toString(),
    port: () => undefined,
    // The process itself decides what it still cleans up; only it gets the signal, as in a container.
    stop: () => child.kill('SIGTERM'),
    kill: () => end('SIGKILL'),
    setReady: () => undefined,
    ended: new Promise((resolve) => {
      child.once('error', (error) => output.push(Buffer.from(`${error.message}\n`)))
      child.once('close', (code, signal) => {
        end('SIGKILL')
        resolve(code ?? (signal === 'SIGKILL' ? 137 : 143))
      })
    }),
  }
}

/** What a Job of ours finds in its environment here. */
export function environment(
  sandbox: Sandbox,
  surroundings: Omit<JobSurroundings, 'app'>,
): NodeJS.ProcessEnv {
  const { server, token, helm, offsetMs, env } = surroundings
  return {
    PATH: `${helm}:${process.env['PATH'] ?? ''}`,
    HOME: sandbox.root,
    TMPDIR: sandbox.path('/tmp'),
    ...sandbox.environment(),
    VEC_API_SERVER: server,
    VEC_API_TOKEN_FILE: sandbox.mountToken(token),
    VEC_CREDENTIALS: sandbox.path('/var/run/vec'),
    VEC_ENGINE_ROUTE: 'proxy',
    EMBEDDED_CLOCK_OFFSET_MS: String(offsetMs),
    ...env,
  }
}

function killGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch {
    // Nobody of the group is left.
  }
}

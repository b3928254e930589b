/**
 * How a test sets this helm up: a JSON file named by HELM_DOUBLE, read at every run. Without it every
 * chart version from 1.12.0 to 1.19.9 exists and nothing goes wrong.
 */
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'

interface Settings {
  /** Chart versions the repository has. */
  versions?: string[]
  /** A moment at which helm stops for as long as the file `hold` exists. */
  holdAt?: 'pending' | 'applied' | 'uninstalling'
  hold?: string
  /** helm fails with these words when it applies the objects. */
  fail?: string
  /** The repository accepts only these; by default it accepts every call. */
  credentials?: { username: string; password: string }
}

const KNOWN_VERSION = /^1\.1[2-9]\.\d$/
const POLL_MS = 20
/** In a pod helm dies with its container; here it notices that its parent is gone. */
const PARENT = process.ppid

let terminated = false

/** SIGTERM was received: helm ends at its next checkpoint. */
export function terminate(): void {
  terminated = true
}

export function settings(): Settings {
  const file = process.env['HELM_DOUBLE']
  if (file === undefined || !existsSync(file)) return {}
  return JSON.parse(readFileSync(file, 'utf8')) as Settings
}

export function isKnownVersion(version: string): boolean {
  return settings().versions?.includes(version) ?? KNOWN_VERSION.test(version)
}

/** Blocks here while the test holds helm at this checkpoint; throws if helm was asked to end. */
export async function checkpoint(moment: NonNullable<Settings['holdAt']>): Promise<void> {
  for (;;) {
    if (process.ppid !== PARENT) process.kill(process.pid, 'SIGKILL')
    if (terminated) throw new Error('context canceled')
    const { holdAt, hold } = settings()
    if (holdAt !== moment || hold === undefined || !existsSync(hold)) return
    await setTimeout(POLL_MS)
  }
}

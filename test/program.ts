/**
 * The program as the image has it (`npm run build`), for the processes that tests start: they run what
 * pods run, and load it in half the time of the sources. It is made once for what the sources say.
 */
import { execFile } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fingerprint } from './fingerprint.ts'

const ROOT = join(import.meta.dirname, '..')
const CACHE = join(ROOT, 'node_modules/.cache/program')
const CONFIG = '.ci/rolldown.config.js'
/** All that a build depends on. */
export const MADE_OF = [
  ...['crds', 'hooks', 'jobs', 'metacontroller', 'package.json', 'package-lock.json'],
  CONFIG,
]
/** A build that was not used for this long is deleted. */
const UNUSED_MS = 24 * 3600_000

let made: Promise<string> | undefined

/** Folder of the program: what is `/app` in the image. */
export function program(): Promise<string> {
  return (made ??= make())
}

async function make(): Promise<string> {
  const print = fingerprint(
    [],
    MADE_OF.map((path) => join(ROOT, path)),
  )
  const folder = join(CACHE, print)
  if (existsSync(folder)) {
    const now = new Date()
    utimesSync(folder, now, now)
    return folder
  }
  forgetOld()
  mkdirSync(CACHE, { recursive: true })
  const unfinished = mkdtempSync(join(CACHE, 'unfinished-'))
  await build(unfinished)
  try {
    renameSync(unfinished, folder)
  } catch (error) {
    // Another process has made the same at the same time.
    if (!existsSync(folder)) throw error
    rmSync(unfinished, { recursive: true })
  }
  return folder
}

/** Puts the program into a folder. Throws with all that the bundler said. */
export async function build(folder: string): Promise<void> {
  const rolldown = join(ROOT, 'node_modules/rolldown/bin/cli.mjs')
  const args = [rolldown, '--config', CONFIG, '--dir', folder, '--log-level', 'warn']
  await promisify(execFile)(process.execPath, args, { cwd: ROOT })
  copyFileSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
}

function forgetOld(): void {
  if (!existsSync(CACHE)) return
  for (const name of readdirSync(CACHE)) {
    const old = join(CACHE, name)
    if (Date.now() - statSync(old).mtimeMs > UNUSED_MS)
      rmSync(old, { recursive: true, force: true })
  }
}

/** Processes of tests, each in a group of its own: what it has started ends with it. */
import type { ChildProcess } from 'node:child_process'
import { join } from 'node:path'

/** The first is for any test of this project; the second records what a test comes past. */
export const PRELOADS = ['./test/preload.ts', './test/mutation/sample/record.ts'] as const

const running = new Set<number>()
let count = 0

process.on('exit', () => {
  for (const id of running) process.kill(-id, 'SIGKILL')
})

export const started = {
  /** Another number each time. */
  next(): number {
    count += 1
    return count
  },
  /** It ends with this process at the latest. */
  add(child: ChildProcess): void {
    const { pid: id } = child
    if (id === undefined) return
    running.add(id)
    child.once('exit', () => running.delete(id))
  },
}

export function endGroup({ pid: id }: ChildProcess): void {
  if (id !== undefined && running.has(id)) process.kill(-id, 'SIGKILL')
}

export function environment(folder: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    TAP_TIMEOUT: '0',
    // What only a part of the cases meets is met.
    TEST_DEPTH: 'full',
    // What one process has compiled serves the next.
    NODE_COMPILE_CACHE: join(folder, 'compiled'),
  }
}

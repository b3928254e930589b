/** A key of a mounted Secret. It is read each time, for the kubelet renews it while a Job runs. */
import { readFileSync } from 'node:fs'

/** Its text; undefined when there is no such key. */
export function mountedFile(path: string): string | undefined {
  try {
    // The file lies in memory: a way through the thread pool takes ten times as long, at every call.
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

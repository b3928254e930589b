/** A memory cgroup for one process: what the kernel counts for a pod, and whether it ends the process for it. */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = '/sys/fs/cgroup'

interface Hierarchy {
  /** An existing cgroup, below which one with memory control can be created. */
  parent: string
  /** Files that limit the memory, in this order, and what is written to them; those that do not exist are skipped. */
  limits: (bytes: number) => [file: string, value: number][]
  peak: string
  /** A file with a line `oom_kill N`. */
  kills: string
}

export interface MemoryCgroup {
  /** A command that runs this one in the cgroup from its first byte. */
  command: (program: string, args: string[]) => [program: string, args: string[]]
  /** The most memory of all its processes, with the pages of files, in bytes. */
  peak: () => number
  /** Processes that the kernel has ended because of the limit. */
  kills: () => number
  /** Only once its processes have ended. */
  remove: () => void
}

/** Version 1 or 2, below the cgroup of this process. Throws an error with the reason if none can be created. */
export function createMemoryCgroup(bytes: number): MemoryCgroup {
  const { parent, limits, ...files } = findHierarchy(readFileSync('/proc/self/cgroup', 'utf8'))
  const path = join(parent, `vec-operator-bench-${process.pid}`)
  try {
    accessSync(parent, constants.W_OK)
    mkdirSync(path)
  } catch (error) {
    throw new Error(`no memory cgroup: ${String(error)}`, { cause: error })
  }
  const read = (file: string) => readFileSync(join(path, file), 'utf8')
  for (const [file, value] of limits(bytes)) {
    if (existsSync(join(path, file))) writeFileSync(join(path, file), String(value))
  }
  return {
    command: (program, args) => [
      'sh',
      ['-c', 'echo $$ > "$0" && exec "$@"', join(path, 'cgroup.procs'), program, ...args],
    ],
    peak: () => Number(read(files.peak)),
    kills: () => Number(/^oom_kill (\d+)$/m.exec(read(files.kills))?.[1] ?? NaN),
    remove: () => rmdirSync(path),
  }
}

/** From the lines `<number>:<controllers>:<path>` of a process. */
function findHierarchy(lines: string): Hierarchy {
  const pathOf = (controller: string) =>
    lines
      .split('\n')
      .map((line) => line.split(':'))
      .find(([, controllers]) => controllers?.split(',').includes(controller))?.[2]
  const own = pathOf('memory')
  if (own !== undefined) {
    return {
      parent: join(ROOT, 'memory', own),
      limits: (bytes) => [
        ['memory.limit_in_bytes', bytes],
        // With swap, if it is counted.
        ['memory.memsw.limit_in_bytes', bytes],
      ],
      ...{ peak: 'memory.max_usage_in_bytes', kills: 'memory.oom_control' },
    }
  }
  return {
    parent: delegating(join(ROOT, pathOf('') ?? '/')),
    limits: (bytes) => [
      ['memory.max', bytes],
      ['memory.swap.max', 0],
    ],
    ...{ peak: 'memory.peak', kills: 'memory.events' },
  }
}

/** The nearest cgroup of version 2 whose children have memory control: one with processes has no such children. */
function delegating(path: string): string {
  const file = join(path, 'cgroup.subtree_control')
  if (existsSync(file) && readFileSync(file, 'utf8').split(/\s/).includes('memory')) return path
  if (path === ROOT || !path.startsWith(ROOT))
    throw new Error('no memory cgroup: no cgroup above this process controls memory')
  return delegating(dirname(path))
}

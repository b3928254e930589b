/**
 * Parts of a run in slices, each slice in a process of its own (worker.ts), as many at a time as there are
 * cores. All parts come forward evenly, and the run may be ended at any time with what it has come to.
 */
import { fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { merged, type Fuzzed } from './run.ts'
import { RUN_AGAIN } from './subject.ts'

/** Cases of one subject: the same ones for the same seed, wherever and beside whatever they are drawn. */
export interface Part {
  subject: string
  /** Through a whole world. */
  isWorld: boolean
  seed: number
  count: number
}

/** A process and a world are dear to begin with, and grow as they last. */
const CASES = 10_000
const CASES_IN_WORLD = 50

interface Options {
  /** Ends the run early. */
  enough?: AbortSignal
  /** The program of each process. */
  worker?: URL
}

/** Results of the parts, in order. Each result is also reported as soon as it is complete. */
export async function fuzzAll(
  parts: Part[],
  report: (part: Part, fuzzed: Fuzzed) => void,
  options: Options = {},
): Promise<Fuzzed[]> {
  const { enough = new AbortController().signal, worker = new URL('worker.ts', import.meta.url) } =
    options
  const runs = parts.map((part) => ({ part, slices: slicesOf(part), ended: [] as Fuzzed[] }))
  // Of each part one slice, and then of each the next; all lanes take from it.
  const waiting = runs
    .flatMap((run) => run.slices.map((slice, round) => ({ run, slice, round })))
    .toSorted((one, other) => one.round - other.round)
    .values()
  const lane = async () => {
    for (const { run, slice } of waiting) {
      if (enough.aborted) return
      run.ended.push(await fuzzApart(slice, { enough, worker }))
      if (run.ended.length === run.slices.length) report(run.part, merged(run.ended))
    }
  }
  await Promise.all(Array.from({ length: availableParallelism() }, lane))
  for (const { part, slices, ended } of runs) {
    if (ended.length < slices.length) report(part, merged(ended))
  }
  return runs.map(({ ended }) => merged(ended))
}

/** With seeds of their own, or all would draw the same cases. */
function slicesOf({ count, seed, ...part }: Part): Part[] {
  const most = part.isWorld ? CASES_IN_WORLD : CASES
  return Array.from({ length: Math.ceil(count / most) }, (_, index) => ({
    ...part,
    seed: seed + index,
    count: Math.min(most, count - index * most),
  }))
}

/** A process that the machine ended is run once more, and is said to be. One that ended by itself is a failure. */
async function fuzzApart(part: Part, options: Required<Options>): Promise<Fuzzed> {
  const first = await inProcess(part, options)
  if (!('why' in first)) return first
  if (options.enough.aborted || !first.isByMachine) return failed(first.why)
  process.stderr.write(`fuzz: ${first.why}; its cases run once more\n`)
  const second = await inProcess(part, options)
  if ('why' in second) return failed(second.why)
  return { ...second, kinds: { ...second.kinds, [RUN_AGAIN]: 1 } }
}

interface Lost {
  why: string
  /** SIGKILL: it has no memory left. An exit code, and the SIGABRT of a heap that is full, are of the process itself. */
  isByMachine: boolean
}

function failed(why: string): Fuzzed {
  return { ...merged([]), failures: [{ case: undefined, why }] }
}

/** The result, or why there is none. */
async function inProcess(
  part: Part,
  { enough, worker: program }: Required<Options>,
): Promise<Fuzzed | Lost> {
  const worker = fork(program, [JSON.stringify(part)])
  const { promise, resolve } = Promise.withResolvers<Fuzzed | Lost>()
  worker.once('message', (fuzzed) => resolve(fuzzed as Fuzzed))
  worker.once('exit', (code, signal) => {
    // Has no effect after the worker sent its result.
    const why = `the process of seed ${part.seed} ended with ${signal ?? code}`
    resolve({ why, isByMachine: signal === 'SIGKILL' })
  })
  const end = () => void worker.send('enough')
  enough.addEventListener('abort', end)
  try {
    return await promise
  } finally {
    enough.removeEventListener('abort', end)
  }
}

/**
 * Parts of a run in slices, each slice in a process of its own (worker.ts), as many at a time as there are
 * cores. All parts come forward evenly, and the run may be ended at any time with what it has come to.
 */
import { fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { merged, type Fuzzed } from './run.ts'

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

/** Results of the parts, in order. Each result is also reported as soon as it is complete. */
export async function fuzzAll(
  parts: Part[],
  report: (part: Part, fuzzed: Fuzzed) => void,
  enough = new AbortController().signal,
): Promise<Fuzzed[]> {
  const runs = parts.map((part) => ({ part, slices: slicesOf(part), ended: [] as Fuzzed[] }))
  // Of each part one slice, and then of each the next; all lanes take from it.
  const waiting = runs
    .flatMap((run) => run.slices.map((slice, round) => ({ run, slice, round })))
    .toSorted((one, other) => one.round - other.round)
    .values()
  const lane = async () => {
    for (const { run, slice } of waiting) {
      if (enough.aborted) return
      run.ended.push(await fuzzApart(slice, enough))
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

/**
 * A process that ends without a result is run once more, and said to be: a defect ends the same cases again, a
 * machine without memory does not.
 */
async function fuzzApart(part: Part, enough: AbortSignal): Promise<Fuzzed> {
  const first = await inProcess(part, enough)
  if (typeof first !== 'string') return first
  if (enough.aborted) return failed(first)
  process.stderr.write(`fuzz: ${first}; its cases run once more\n`)
  const second = await inProcess(part, enough)
  if (typeof second === 'string') return failed(second)
  return { ...second, kinds: { ...second.kinds, [RUN_AGAIN]: 1 } }
}

/** Among the kinds of cases, so that each result shows it. */
const RUN_AGAIN = 'processes that ended without a result, and were run once more'

function failed(why: string): Fuzzed {
  return { ...merged([]), failures: [{ case: undefined, why }] }
}

/** The result, or why there is none. */
async function inProcess(part: Part, enough: AbortSignal): Promise<Fuzzed | string> {
  const worker = fork(new URL('worker.ts', import.meta.url), [JSON.stringify(part)])
  const { promise, resolve } = Promise.withResolvers<Fuzzed | string>()
  worker.once('message', (fuzzed) => resolve(fuzzed as Fuzzed))
  worker.once('exit', (code, signal) => {
    // Has no effect after the worker sent its result.
    resolve(`the process of seed ${part.seed} ended with ${signal ?? code}`)
  })
  const end = () => void worker.send('enough')
  enough.addEventListener('abort', end)
  try {
    return await promise
  } finally {
    enough.removeEventListener('abort', end)
  }
}

/**
 * The replication factor of a collection that is restored over: 1 while snapshots are taken, for with more
 * each recovery would have whole shards copied to and fro. It is remembered in the report before it is
 * lowered, so that it is put back however the restore ends.
 */
import { wordsOf } from '../clients/call.ts'
import { patiently } from '../patience.ts'
import { collectionsOn, recoveryOn, type Work } from './work.ts'

/** An end in time for what is still done when the Job must stop. */
const CLEAN_UP_MS = 10_000

export async function lowerFactor(name: string, factor: number, work: Work): Promise<void> {
  if (factor === 1) return
  await work.tally.lowers(factor)
  work.factors.set(name, factor)
  await setFactor(name, 1, work)
}

/** An earlier pod of this restore lowered it, and may have put it back when it was stopped. */
export async function lowerAgain(name: string, work: Work): Promise<void> {
  if (work.factors.has(name)) await setFactor(name, 1, work)
}

/** Every collection of which it is still lowered; also after this Job was told to stop. */
export async function putBackFactors(work: Work): Promise<void> {
  for (const name of [...work.factors.keys()]) await putBackFactor(name, work)
}

/** Never throws: why the restore ends is what matters then. */
export async function putBackFactor(name: string, work: Work): Promise<void> {
  const factor = work.factors.get(name)
  if (factor === undefined) return
  const { signal, log } = work.tools
  const body = { params: { replication_factor: factor } }
  const patch = async (ends: AbortSignal) => {
    const found = await recoveryOn(work, 0).collection(name, ends)
    if (found !== undefined) await collectionsOn(work, 0).patchCollection(name, body, ends)
  }
  try {
    if (signal.aborted) await patch(AbortSignal.timeout(CLEAN_UP_MS))
    else await patiently(work, () => patch(signal))
    work.factors.delete(name)
    log.info({ collection: name, factor }, 'replication factor put back')
  } catch (error) {
    const reason = wordsOf(error)
    work.tally.note(`${name} was left at replication factor 1, not ${factor}: ${reason}`)
  }
}

/** The copies that were asked for are made with a factor of their own. */
export function keepsNewFactor(name: string, work: Work): void {
  work.factors.delete(name)
}

async function setFactor(name: string, factor: number, work: Work): Promise<void> {
  const body = { params: { replication_factor: factor } }
  await patiently(work, () => collectionsOn(work, 0).patchCollection(name, body, work.tools.signal))
}

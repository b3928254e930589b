/** What proves a collection, and what makes it whole again: fan-out, colour, counts, configuration. */
import { EngineError } from '../../crds/errors.ts'
import { GREEN_POLL_SECONDS, GREEN_TIMEOUT_SECONDS } from '../../crds/limits.ts'
import { fanOutBody } from '../../crds/rules/recreate.ts'
import type { LiveCollection } from '../clients/engine-recovery-answers.ts'
import { patiently } from '../patience.ts'
import { isTold } from '../failures.ts'
import { noteDifferences } from './config.ts'
import { provePoints, type Proof } from './counting.ts'
import { collectionsOn, recoveryOn, type Work } from './work.ts'
import type { Wanted } from './wanted.ts'

/** Most collections are green at once or nearly, and a whole pause would be the longest part of it. */
const FIRST_PAUSES_MS = [25, 50, 100, 250, 500, 1_000, 2_000]
const PAUSE_MS = GREEN_POLL_SECONDS * 1000
/** Idle at so many looks although there is something to optimise: it waits for an update. */
const GREY_LOOKS = 3

export interface Ending {
  points: number | undefined
  /** Why it is not complete although all was done: each step is taken, whatever became of the others. */
  failures: string[]
}

/** Throws only where the Job must stop. */
export async function finish(wanted: Wanted, work: Work): Promise<Ending> {
  const { source, name } = wanted
  const { tally } = work
  const failures: string[] = []
  const body = fanOutBody(source.config)
  await attempted(failures, async () => body && patch(name, body, work), work)
  if (work.waitForIndexing) tally.step('waits until it is green')
  await attempted(failures, () => untilGreen(name, work), work)
  tally.step('counts its points')
  const { points, loss } = await countedPoints(wanted, work)
  if (loss !== undefined) failures.push(loss)
  await attempted(failures, () => noteDifferences(wanted, work), work)
  return { points, failures }
}

async function attempted(
  failures: string[],
  step: () => Promise<unknown>,
  { tools }: Work,
): Promise<void> {
  try {
    await step()
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    failures.push(error.message)
  }
}

/** What cannot be counted is not known, and nothing has failed by that. */
async function countedPoints(wanted: Wanted, work: Work): Promise<Proof> {
  try {
    return await provePoints(wanted, work)
  } catch (error) {
    work.tools.signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    work.tally.note(`points of ${wanted.name} were not counted: ${error.message}`)
    return { points: undefined }
  }
}

async function untilGreen(name: string, work: Work): Promise<void> {
  const { time, signal } = work.tools
  for (let looks = 0, waitedMs = 0; ; looks += 1) {
    const live = await patiently(work, () => recoveryOn(work, 0).collection(name, signal))
    if (live === undefined)
      throw new EngineError(`collection ${name} was deleted during the restore`)
    if (live.status === 'red') throw new EngineError(`${name} is red: ${reasonOf(live)}`)
    if (live.status === 'green' || !work.waitForIndexing) return
    const later = looks - FIRST_PAUSES_MS.length
    if (live.status === 'grey' && later > 0 && later % GREY_LOOKS === 0) {
      work.tools.log.info({ collection: name }, 'wakes the optimisers')
      await patch(name, { optimizers_config: {} }, work)
    }
    if (waitedMs >= GREEN_TIMEOUT_SECONDS * 1000)
      throw new EngineError('Collection did not turn green in time')
    work.tally.tell()
    const pause = FIRST_PAUSES_MS[looks] ?? PAUSE_MS
    await time.sleep(pause, signal)
    waitedMs += pause
    await work.tally.told()
  }
}

/** The engine's own words. */
function reasonOf({ optimizer_status }: LiveCollection): string {
  const { error } = Object(optimizer_status) as { error?: unknown }
  return typeof error === 'string' ? error : JSON.stringify(optimizer_status)
}

async function patch(name: string, body: Record<string, unknown>, work: Work): Promise<void> {
  await patiently(work, () => collectionsOn(work, 0).patchCollection(name, body, work.tools.signal))
}

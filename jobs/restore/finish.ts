/** What proves a collection, and what makes it whole again: fan-out, counts, colour, aliases (facts 6.4, step 7). */
import { EngineError } from '../../crds/errors.ts'
import { GREEN_POLL_SECONDS, GREEN_TIMEOUT_SECONDS } from '../../crds/limits.ts'
import type { ManifestCollection } from '../../crds/manifest.ts'
import { fanOutBody } from '../../crds/rules/recreate.ts'
import type { LiveCollection } from '../clients/engine-recovery-answers.ts'
import { patiently } from '../patience.ts'
import { provenPoints } from './counting.ts'
import { collectionsOn, recoveryOn, type Work } from './work.ts'
import type { Wanted } from './wanted.ts'

/** Most collections are green at once or nearly, and a whole pause would be the longest part of it. */
const FIRST_PAUSES_MS = [25, 50, 100, 250, 500, 1_000, 2_000]
const PAUSE_MS = GREEN_POLL_SECONDS * 1000
/** Idle at so many looks although there is something to optimise: it waits for an update. */
const GREY_LOOKS = 3

/** Answers how many points are back. */
export async function finish({ source, name }: Wanted, work: Work): Promise<number | undefined> {
  const { tally } = work
  const body = fanOutBody(source.config)
  if (body !== undefined) await patch(name, body, work)
  tally.step('counts its points')
  const points = await provenPoints({ source, name }, work)
  if (work.waitForIndexing) tally.step('waits until it is green')
  await untilGreen(name, work)
  await restoreAliases(name, source, work)
  return points
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

/** One that points elsewhere by now stays: moving it would move somebody's readers without a word. */
async function restoreAliases(
  name: string,
  { aliases }: ManifestCollection,
  work: Work,
): Promise<void> {
  const { signal } = work.tools
  const engine = collectionsOn(work, 0)
  const [held, names] = await patiently(work, async () =>
    Promise.all([engine.aliases(signal), recoveryNames(work)]),
  )
  const free = aliases.filter((alias) => {
    const owner = names.includes(alias)
      ? alias
      : held.find(({ alias_name }) => alias_name === alias)?.collection_name
    if (owner !== undefined && owner !== name) {
      const what = owner === alias ? 'is a collection' : `points to ${owner}`
      work.tally.note(`alias ${alias} ${what} and was left as it is`)
    }
    return owner === undefined
  })
  if (free.length === 0) return
  const actions = free.map((alias) => ({
    create_alias: { collection_name: name, alias_name: alias },
  }))
  await patiently(work, () => engine.updateAliases(actions, signal))
}

function recoveryNames(work: Work): Promise<string[]> {
  return work.tools.engineOn(work.plan.cluster, 0).collections(work.tools.signal)
}

async function patch(name: string, body: Record<string, unknown>, work: Work): Promise<void> {
  await patiently(work, () => collectionsOn(work, 0).patchCollection(name, body, work.tools.signal))
}

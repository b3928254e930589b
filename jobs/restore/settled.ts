/**
 * Where the shards of a collection are, as every node sees it. Answers of the engine come before its
 * nodes agree: the next step is taken only once all of them see the same, and nothing moves (facts 6.4).
 */
import { EngineError } from '../../crds/errors.ts'
import { isPassing } from '../patience.ts'
import { repair } from './repair.ts'
import {
  disagreement,
  fingerprint,
  firstCopies,
  sightOf,
  whyRestless,
  type Copies,
  type Sight,
} from './sight.ts'
import { ordinals, recoveryOn, type Reach, type Work } from './work.ts'

/** The first pauses: nodes agree within some of the short ones, and all the while nothing is restored. */
const FIRST_PAUSES_MS = [
  ...Array.from({ length: 10 }, () => 10),
  ...Array.from({ length: 10 }, () => 40),
  ...Array.from({ length: 20 }, () => 200),
]
const PAUSE_MS = 1_000
/** Longer than this, a disagreement stays until it is repaired. */
const DISAGREEMENT_MS = 30_000
/** All agree, nothing moves, and something is missing for so long. */
const REST_MS = 30_000
/** Nothing has changed for so long, not even how far a transfer is. */
const STILL_MS = 900_000

/** After so many repairs the nodes will not agree any more. */
const REPAIRS = 3

/**
 * Nodes that will never agree about a collection. An engine that is killed while it recovers a snapshot
 * may come back without a shard that the others go on calling Active there.
 */
export class LastingDisagreement extends EngineError {
  constructor(collection: string, why: string) {
    super(
      `${collection}: ${why}, and that does not change: delete the collection and create the VecRestore again`,
      { status: 409 },
    )
  }
}

/** Waits until all nodes agree, nothing moves, and `missing` finds nothing that is missing. */
export async function settled(
  collection: string,
  work: Work,
  missing: (copies: Copies) => string | undefined = () => undefined,
): Promise<Sight> {
  const { time, signal, log } = work.tools
  const watch = new Watch(() => time.now().getTime())
  let repairs = 0
  for (let polls = 0; ; polls += 1) {
    const sight = await look(collection, work)
    const restless = typeof sight === 'string' ? sight : whyRestless(sight)
    const lack = typeof sight === 'string' ? undefined : missing(firstCopies(sight))
    if (typeof sight !== 'string' && restless === undefined && lack === undefined) return sight
    watch.saw(sight, restless)
    const why = restless ?? lack ?? ''
    // At rest and not as it should be, or still in between after all that time: nothing will change.
    if (watch.restMs() >= REST_MS || watch.stillMs() >= STILL_MS) {
      throw new EngineError(`${collection}: ${why}, and that does not change`)
    }
    if (typeof sight !== 'string' && watch.disagreesMs() >= DISAGREEMENT_MS) {
      if (repairs === REPAIRS) throw new LastingDisagreement(collection, why)
      repairs += 1
      await repair(collection, sight, work)
      watch.repaired()
    }
    if (polls === FIRST_PAUSES_MS.length)
      log.info({ collection, reason: why }, 'waits until the nodes agree')
    work.tally.tell()
    await time.sleep(FIRST_PAUSES_MS[polls] ?? PAUSE_MS, signal)
    await work.tally.told()
  }
}

/** What the nodes say; a text where they cannot be asked at this moment. */
export async function look(collection: string, work: Reach): Promise<Sight | string> {
  try {
    const { signal } = work.tools
    const nodes = ordinals(work).map((ordinal) => recoveryOn(work, ordinal))
    const views = await Promise.all(nodes.map((node) => node.view(signal)))
    return sightOf(
      await Promise.all(nodes.map((node) => node.placement(collection, signal))),
      views,
    )
  } catch (error) {
    if (!isPassing(error)) throw error
    return error.message
  }
}

/** For how long nothing has changed, the nodes have disagreed at rest, or agreed at rest. */
class Watch {
  readonly #now: () => number
  #seen = ''
  #since: number
  #restSince: number | undefined
  #disagreesSince: number | undefined

  constructor(now: () => number) {
    this.#now = now
    this.#since = now()
  }

  saw(sight: Sight | string, restless: string | undefined): void {
    const copies = typeof sight === 'string' ? '' : sight.copies.map(fingerprint).join()
    const seen = `${restless ?? ''} ${copies}`
    if (seen !== this.#seen) this.#since = this.#now()
    this.#seen = seen
    this.#restSince = restless === undefined ? (this.#restSince ?? this.#now()) : undefined
    const disagrees =
      typeof sight !== 'string' && sight.unrest === undefined && disagreement(sight) !== undefined
    this.#disagreesSince = disagrees ? (this.#disagreesSince ?? this.#now()) : undefined
  }

  repaired(): void {
    this.#disagreesSince = undefined
  }

  restMs(): number {
    return this.#from(this.#restSince)
  }

  stillMs(): number {
    return this.#from(this.#since)
  }

  disagreesMs(): number {
    return this.#from(this.#disagreesSince)
  }

  #from(since: number | undefined): number {
    return since === undefined ? 0 : this.#now() - since
  }
}

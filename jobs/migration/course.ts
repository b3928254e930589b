/** Where the copying of a collection stands, lane by lane: what a pod that comes after this one goes on from. */
import type { ShardKey } from '../../crds/manifest.ts'
import type { MigrationLane, MigrationPosition } from '../../crds/migration-command.ts'
import type { Page } from '../clients/page.ts'
import type { Lane } from './pages.ts'
import { orderOfKeys } from './shape.ts'
import type { Tally } from './tally.ts'

export class Course {
  readonly #tally: Pick<Tally, 'reached'>
  readonly #collection: Omit<MigrationPosition, 'lanes' | 'begun' | 'copied'>
  readonly #open = new Map<Lane, MigrationLane>()
  #begun: ShardKey | undefined
  #copied: number

  /** `open` is at work from the first moment on: what is left out of the first report would be lost. */
  constructor(position: MigrationPosition, open: readonly Lane[], tally: Pick<Tally, 'reached'>) {
    const { collection, isOurs, before, indexingThreshold, begun, copied } = position
    this.#collection = {
      ...{ collection, isOurs, before },
      ...(indexingThreshold !== undefined && { indexingThreshold }),
    }
    this.#begun = begun
    this.#copied = copied
    this.#tally = tally
    for (const lane of open) this.begin(lane)
  }

  /** Points that are written for sure. */
  get copied(): number {
    return this.#copied
  }

  begin(lane: Lane): void {
    const { shardKey } = lane
    if (!this.#open.has(lane)) this.#open.set(lane, recordOf(lane))
    if (shardKey === undefined) return
    if (this.#begun === undefined || orderOfKeys(shardKey, this.#begun) > 0) this.#begun = shardKey
  }

  /** A page of a lane is written, and all that were before it. */
  wrote(lane: Lane, { count, next }: Page): void {
    this.#copied += count
    if (next === undefined) this.#open.delete(lane)
    else this.#open.set(lane, recordOf({ ...lane, offset: next }))
    this.#tally.reached({
      ...this.#collection,
      lanes: [...this.#open.values()],
      ...(this.#begun !== undefined && { begun: this.#begun }),
      copied: this.#copied,
    })
  }
}

function recordOf({ shardKey, offset, until }: Lane): MigrationLane {
  return {
    ...(shardKey !== undefined && { shardKey }),
    ...(offset !== undefined && { offset }),
    ...(until !== undefined && { until }),
  }
}

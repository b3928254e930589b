/** What `restore plan` tells of a backup by shard: which shard goes where, and what room each node has. */
import { humanSize } from '../../crds/size.ts'
import { noLoad, placesOf, type Load, type Places } from '../restore/places.ts'
import { sharesOf, type Share } from '../restore/room.ts'
import type { Sight } from '../restore/sight.ts'
import { targetOf, type Inspection } from '../restore/work.ts'
import type { Wanted } from '../restore/wanted.ts'
import { columns } from './table.ts'

/** Collects where each collection would go, in the order the Job would decide it. */
export class Outlook {
  readonly #work: Inspection
  readonly #load: Load
  readonly #places = new Map<string, Places>()
  readonly #wanted: Wanted[] = []

  constructor(work: Inspection) {
    this.#work = work
    this.#load = noLoad(targetOf(work))
  }

  /** One that fits; `sight` is of what stands at the target under its name. */
  add(wanted: Wanted, sight: Sight | undefined): void {
    this.#wanted.push(wanted)
    const places = placesOf(wanted, { sight }, targetOf(this.#work), this.#load)
    this.#places.set(wanted.name, places)
  }

  /** Of the collections that are backed up by shard. */
  shards(): PlannedShard[] {
    return this.#wanted.flatMap((one) => {
      if (one.method === 'Node') return []
      return one.source.snapshots.map(({ shardId, shardKey, sizeBytes }) => {
        const [node = 0, ...copies] = this.#places.get(one.name)?.get(shardId) ?? []
        const key = shardKey === undefined ? {} : { shardKey }
        return { collection: one.name, shardId, ...key, bytes: sizeBytes, node, copies }
      })
    })
  }

  /** Of every node, where anything is backed up by shard. */
  async nodes(): Promise<Share[]> {
    if (this.shards().length === 0) return []
    return sharesOf(this.#wanted, this.#places, this.#work)
  }
}

export interface PlannedShard {
  /** Its name at the target. */
  collection: string
  shardId: number
  shardKey?: string | number
  bytes: number
  /** Ordinal of the node that takes its snapshot, and of those that get copies of it. */
  node: number
  copies: number[]
}

export function isTooMuch({ bytes, disk }: Share): boolean {
  return disk !== undefined && bytes > disk
}

/** Two tables, or nothing where there are no shards to tell of. */
export function shardTables(shards: PlannedShard[], nodes: Share[]): string {
  if (shards.length === 0) return ''
  const ways = shards.map(({ collection, shardId, shardKey, bytes, node, copies }) => [
    collection,
    String(shardId),
    shardKey === undefined ? '-' : JSON.stringify(shardKey),
    humanSize(bytes),
    String(node),
    copies.length === 0 ? '-' : copies.join(', '),
  ])
  const room = nodes.map((share) => [
    isTooMuch(share) ? 'x' : 'ok',
    String(share.node),
    humanSize(share.bytes),
    share.disk === undefined ? 'unknown' : humanSize(share.disk),
  ])
  return [
    '\n',
    columns([['COLLECTION', 'SHARD', 'KEY', 'SIZE', 'NODE', 'COPIES ON'], ...ways]),
    '\n',
    columns([['', 'NODE', 'TAKES', 'DISKS'], ...room]),
  ].join('')
}

/**
 * Where the shards of a collection are, as every node sees it. Answers of the engine come before its
 * nodes agree: the next step is taken only once all of them see the same, and nothing moves (facts 6.4).
 */
import { EngineError, Rejected } from '../../crds/errors.ts'
import type { MovingPlacement, NodeView } from '../clients/engine-recovery-answers.ts'
import { isPassing } from '../patience.ts'
import { repair } from './repair.ts'
import { ordinals, recoveryOn, type Reach, type Work } from './work.ts'

/** State of each copy, by ordinal of its node, of each shard. A peer that is none of the pods is itself. */
export type Copies = Map<number, Map<number, string>>

/** What all nodes say at about one moment. */
export interface Sight {
  /** By ordinal of the node that says so. */
  copies: Copies[]
  /** Key of each shard, under custom sharding. */
  keys: Map<number, string | number>
  /** Peer ids by ordinal. */
  peers: number[]
  /** Why the nodes are not at rest; undefined when they are. */
  unrest?: string
}

const FIRST_POLL_MS = 200
const POLL_MS = 1_000
/** So often at first: normally it takes no longer. */
const QUICK_POLLS = 25
/** Longer than this, a disagreement stays until it is repaired. */
const DISAGREEMENT_MS = 30_000
/** All agree, nothing moves, and something is missing for so long. */
const REST_MS = 30_000
/** Nothing has changed for so long, not even how far a transfer is. */
const STILL_MS = 900_000

/** Waits until all nodes agree, nothing moves, and `missing` finds nothing that is missing. */
export async function settled(
  collection: string,
  work: Work,
  missing: (copies: Copies) => string | undefined = () => undefined,
): Promise<Sight> {
  const { time, signal, log } = work.tools
  const watch = new Watch(() => time.now().getTime())
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
      await repair(collection, sight, work)
      watch.repaired()
    }
    if (polls === QUICK_POLLS) log.info({ collection, reason: why }, 'waits until the nodes agree')
    work.tally.tell()
    await time.sleep(polls < QUICK_POLLS ? FIRST_POLL_MS : POLL_MS, signal)
    await work.tally.told()
  }
}

/** What the nodes say; a text where they cannot be asked at this moment. */
export async function look(collection: string, work: Reach): Promise<Sight | string> {
  try {
    const placements: MovingPlacement[] = []
    const views: NodeView[] = []
    for (const ordinal of ordinals(work)) {
      const engine = recoveryOn(work, ordinal)
      views.push(await engine.view(work.tools.signal))
      placements.push(await engine.placement(collection, work.tools.signal))
    }
    return sightOf(placements, views)
  } catch (error) {
    if (!isPassing(error)) throw error
    return error.message
  }
}

/** Where each shard is, when nodes disagree as the first of them says. */
export function firstCopies({ copies: [first] }: Sight): Copies {
  return first ?? new Map<number, Map<number, string>>()
}

export function sightOf(placements: MovingPlacement[], views: NodeView[]): Sight {
  const peers = placements.map(({ peer_id }) => peer_id)
  const ordinalOf = (peer: number) => {
    const ordinal = peers.indexOf(peer)
    return ordinal === -1 ? peer : ordinal
  }
  const keys = new Map<number, string | number>()
  const copies = placements.map(({ peer_id, local_shards, remote_shards }) => {
    const known: Copies = new Map()
    const all = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
    for (const { shard_id, shard_key, peer_id: peer, state } of all) {
      if (shard_key != null) keys.set(shard_id, shard_key)
      const shard = known.get(shard_id) ?? new Map<number, string>()
      known.set(shard_id, shard.set(ordinalOf(peer), state))
    }
    return known
  })
  const unrest = movement(placements, ordinalOf) ?? backlog(views)
  return { copies, keys, peers, ...(unrest !== undefined && { unrest }) }
}

function whyRestless(sight: Sight): string | undefined {
  return sight.unrest ?? disagreement(sight) ?? inactive(sight.copies)
}

export function disagreement({ copies: [first, ...others] }: Sight): string | undefined {
  const index = others.findIndex((other) => fingerprint(other) !== fingerprint(first))
  return index === -1 ? undefined : `nodes 0 and ${index + 1} disagree about its copies`
}

function inactive(all: Copies[]): string | undefined {
  for (const copies of all) {
    for (const [shard, states] of copies) {
      for (const [ordinal, state] of states) {
        if (state !== 'Active') return `shard ${shard} on node ${ordinal} is ${state}`
      }
    }
  }
  return undefined
}

function movement(
  placements: MovingPlacement[],
  ordinalOf: (peer: number) => number,
): string | undefined {
  for (const { shard_transfers, resharding_operations = [] } of placements) {
    const [transfer] = shard_transfers
    if (transfer !== undefined) {
      const { shard_id, from, to, comment } = transfer
      const way = `shard ${shard_id} is on its way from node ${ordinalOf(from)} to node ${ordinalOf(to)}`
      return comment == null ? way : `${way} (${comment})`
    }
    if (resharding_operations.length > 0) return 'the number of its shards is being changed'
  }
  return undefined
}

/** Throws where consensus is dead: nothing that is waited for would come. */
function backlog(views: NodeView[]): string | undefined {
  const commits = new Set<number>()
  for (const [ordinal, view] of views.entries()) {
    if (view.status === 'disabled') continue
    const { consensus_thread_status: thread, err } = view.consensus_thread_status
    if (thread !== 'working') {
      throw new Rejected(`consensus is ${thread} on node ${ordinal}: ${err ?? 'no reason given'}`)
    }
    if (view.raft_info.pending_operations > 0)
      return `node ${ordinal} has not applied all that was agreed on`
    commits.add(view.raft_info.commit)
  }
  return commits.size > 1 ? 'the nodes have not applied the same' : undefined
}

function fingerprint(copies: Copies | undefined): string {
  const shards = [...(copies ?? [])].map(([shard, states]) => [shard, [...states].sort(byFirst)])
  return JSON.stringify(shards.sort(byFirst))
}

function byFirst([one]: unknown[], [other]: unknown[]): number {
  return Number(one) - Number(other)
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

/** Which shards the nodes hold that are about to leave, asked of every pod there is. */
import { EngineError, NotReady } from '../../crds/errors.ts'
import type { Engine } from '../clients/engine.ts'
import type { ClusterView, Placement } from '../clients/engine-answers.ts'

interface View {
  ordinal: number
  peers: Extract<ClusterView, { status: 'enabled' }>
  placements: { collection: string; placement: Placement }[]
}

/**
 * The shards on pods with the ordinals `after` and above, a line each. The views of all pods are put
 * together: one that fell out of consensus must not hide what the others know. Pods that stay must
 * answer; one that leaves may be silent, for those that stay know its shards.
 */
export async function shardsOn(
  { before, after }: { before: number; after: number },
  engineOn: (ordinal: number) => Engine,
  signal: AbortSignal,
): Promise<string[]> {
  const views: View[] = []
  for (let ordinal = 0; ordinal < before; ordinal += 1) {
    try {
      views.push(await viewOf(engineOn(ordinal), ordinal, signal))
    } catch (error) {
      if (!(error instanceof EngineError)) throw error
      if (ordinal < after) {
        throw new NotReady(
          `spec.replicas: ${before} -> ${after} needs every node that stays to say where the shards are: ${error.message}`,
          { cause: error },
        )
      }
    }
  }
  return heldBy(leavingPeers(views, after), views)
}

async function viewOf(engine: Engine, ordinal: number, signal: AbortSignal): Promise<View> {
  const peers = await engine.cluster(signal)
  if (peers.status === 'disabled') {
    throw new NotReady(`${engine.node} runs alone: nobody can say which shards other nodes hold`)
  }
  const placements: View['placements'] = []
  for (const collection of await engine.collections(signal)) {
    const placement = await placementOf(engine, collection, signal)
    if (placement !== undefined) placements.push({ collection, placement })
  }
  return { ordinal, peers, placements }
}

/** Undefined when the collection was deleted since it was listed. */
async function placementOf(
  engine: Engine,
  collection: string,
  signal: AbortSignal,
): Promise<Placement | undefined> {
  try {
    return await engine.collectionCluster(collection, signal)
  } catch (error) {
    if (error instanceof EngineError && error.status === 404) return undefined
    throw error
  }
}

/** Ordinals of the peers that leave. A pod that lost its volume is two peers with one address. */
function leavingPeers(views: View[], after: number): Map<number, number> {
  const leaving = new Map<number, number>()
  for (const { ordinal, peers } of views) {
    for (const [id, { uri }] of Object.entries(peers.peers)) {
      const at = ordinalIn(uri)
      if (at !== undefined && at >= after) leaving.set(Number(id), at)
    }
    if (ordinal >= after) leaving.set(peers.peer_id, ordinal)
  }
  return leaving
}

/** `http://vec-docs-2.vec-docs-headless:6335/` is pod 2. */
function ordinalIn(uri: string): number | undefined {
  const digits = /^[a-z]+:\/\/[^./:]*-(\d+)[.:/]/.exec(uri)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

function heldBy(leaving: Map<number, number>, views: View[]): string[] {
  const held = new Set<string>()
  for (const { collection, placement } of views.flatMap(({ placements }) => placements)) {
    const here = placement.local_shards.map((shard) => ({ ...shard, peer_id: placement.peer_id }))
    for (const { peer_id, shard_id } of [...here, ...placement.remote_shards]) {
      const ordinal = leaving.get(peer_id)
      if (ordinal !== undefined) held.add(`${collection} shard ${shard_id} on node ${ordinal}`)
    }
  }
  return [...held].sort()
}

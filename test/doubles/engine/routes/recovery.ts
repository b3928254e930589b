/** Taking snapshots by address or as a form, and copies of shards. */
import { failed, ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { ChangeCluster, RecoverSnapshot } from '../bodies/placing.ts'
import type { EngineCluster } from '../cluster.ts'
import type { Shard } from '../collection.ts'
import { readBody } from '../read.ts'
import { checkedContent, takeSnapshot, type Priority } from '../recovery.ts'
import { counted, holding, stage } from '../running.ts'
import { takeShardSnapshot } from '../shard-recovery.ts'
import { snapshotFiles } from '../snapshots.ts'
import { found, timeoutOf } from './collections.ts'

/** Time until a replica of a small shard is copied. */
const COPY_MS = 30

export async function recoveryRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): Promise<EngineAnswer | undefined> {
  const { method, path } = request
  const [root = '', name = '', part = '', verb = ''] = path
  if (isOfShard(path)) return awaited(request, ofShard(request, cluster, ordinal))
  switch (`${method} ${path.length} ${root} ${part} ${verb}`.trim()) {
    case 'PUT 4 collections snapshots recover':
      return awaited(request, recover(request, cluster, { ordinal, name }))
    case 'POST 4 collections snapshots upload':
      return awaited(request, upload(request, cluster, { ordinal, name }))
    case 'POST 3 collections cluster':
      return change(request, cluster, name)
    default:
      return undefined
  }
}

/** A client that does not wait gets its answer before the recovery has ended, and never its error. */
async function awaited<Answer extends EngineAnswer | undefined>(
  { query }: EngineRequest,
  recovery: Promise<Answer>,
): Promise<Answer | EngineAnswer> {
  if (query['wait'] !== 'false') return recovery
  recovery.catch(() => undefined)
  return { status: 202, body: { status: 'accepted', time: 0.000012 } }
}

/** `/collections/{c}/shards/{id}/snapshots/{verb}` */
function isOfShard({ length, [2]: part, [4]: snapshots }: string[]): boolean {
  return length === 6 && part === 'shards' && snapshots === 'snapshots'
}

async function ofShard(
  request: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): Promise<EngineAnswer | undefined> {
  const [, name = '', , id, , verb = ''] = request.path
  const target = { ordinal, name, shard: Number(id) }
  switch (`${request.method} ${verb}`) {
    case 'PUT recover': {
      const { location, checksum } = addressed(request)
      // Telemetry does not report it before all bytes have arrived, and yet it locks the collection.
      return holding(cluster, name, async () => {
        const bytes = await fetched(location, cluster, target)
        if (!Buffer.isBuffer(bytes)) return bytes
        await takeShard(cluster, { ...target, bytes, checksum })
        return ok(true)
      })
    }
    case 'POST upload': {
      // Unlike that of a collection, no file of it stays.
      const { base64 } = request.body as { base64: string }
      const bytes = Buffer.from(base64, 'base64')
      const { checksum } = request.query
      await hashed(cluster, target, checksum)
      await takeShard(cluster, { ...target, bytes, checksum })
      return ok(null)
    }
    default:
      return undefined
  }
}

interface ShardTaking extends RecoveryTarget {
  shard: number
  bytes: Buffer
  checksum: string | undefined
}

async function takeShard(cluster: EngineCluster, taking: ShardTaking): Promise<void> {
  const at = { ...stageOf(taking), stage: 'apply' } as const
  checkedContent(taking)
  await holding(cluster, taking.name, () =>
    counted(cluster, at, () => stage(cluster, at, () => takeShardSnapshot(cluster, taking))),
  )
}

/** The bytes of an upload are checked before telemetry reports the recovery. */
async function hashed(
  cluster: EngineCluster,
  target: RecoveryTarget & { shard?: number },
  checksum: string | undefined,
): Promise<void> {
  if (checksum === undefined) return
  await stage(cluster, { ...stageOf(target), stage: 'hash' }, () => undefined)
}

function stageOf({ ordinal, name, shard }: RecoveryTarget & { shard?: number }) {
  return { ordinal, collection: name, shard }
}

interface RecoveryTarget {
  ordinal: number
  name: string
}

async function recover(
  request: EngineRequest,
  cluster: EngineCluster,
  target: RecoveryTarget,
): Promise<EngineAnswer> {
  const { location, priority, checksum } = addressed(request)
  // Telemetry reports the recovery from its first byte on.
  return counted(cluster, stageOf(target), async () => {
    const bytes = await fetched(location, cluster, target)
    if (!Buffer.isBuffer(bytes)) return bytes
    await apply(cluster, { ...target, bytes, priority, checksum })
    return ok(true)
  })
}

/** A collection that was deleted meanwhile is recreated from the snapshot. */
async function apply(
  cluster: EngineCluster,
  taking: RecoveryTarget & Parameters<typeof takeSnapshot>[1],
): Promise<void> {
  checkedContent(taking)
  await holding(cluster, taking.name, () =>
    stage(cluster, { ...stageOf(taking), stage: 'apply' }, () => takeSnapshot(cluster, taking)),
  )
}

function addressed({ body }: EngineRequest) {
  const read = readBody(RecoverSnapshot, body) as Record<string, string>
  const { location = '', priority = 'snapshot', checksum } = read
  return { location, priority: priority as Priority, checksum }
}

async function fetched(
  location: string,
  cluster: EngineCluster,
  target: RecoveryTarget & { shard?: number },
): Promise<Buffer | EngineAnswer> {
  try {
    const response = await stage(cluster, { ...stageOf(target), stage: 'fetch' }, () =>
      fetch(location),
    )
    if (response.ok) return Buffer.from(await response.arrayBuffer())
    const status = `${response.status} ${response.statusText}`
    return failed(400, `Wrong input: Failed to download tar from ${location}: status - ${status}`)
  } catch {
    const words = `Http request error: error sending request for url (${location})`
    return failed(500, `Service internal error: ${words}`)
  }
}

/** The file stays in the folder under its own name. */
async function upload(
  { query, body }: EngineRequest,
  cluster: EngineCluster,
  target: RecoveryTarget,
): Promise<EngineAnswer> {
  const { file, base64 } = body as { file: string; base64: string }
  const content = Buffer.from(base64, 'base64')
  const { checksum, priority = 'snapshot' } = query
  await hashed(cluster, target, checksum)
  const made = { name: file, creation_time: '', size: content.length, checksum: '', content }
  snapshotFiles(cluster).set(`${target.ordinal}/${target.name}/${file}`, made)
  const taking = { ...target, bytes: content, priority: priority as Priority, checksum }
  await counted(cluster, stageOf(target), () => apply(cluster, taking))
  return ok(true)
}

function change(request: EngineRequest, cluster: EngineCluster, name: string): EngineAnswer {
  timeoutOf(request)
  const { shards } = found(cluster, name)
  const body = readBody(ChangeCluster, request.body) as Record<string, Record<string, number>>
  const { replicate_shard: copy, move_shard: move, drop_replica: drop } = body
  const { shard_id: id = -1 } = copy ?? move ?? drop ?? {}
  const shard =
    shards.find((one) => one.id === id) ?? refuse(400, `Bad request: Shard ${id} does not exist`)
  const way = copy ?? move
  if (way !== undefined) {
    const { from_peer_id: from = 0, to_peer_id: to = 0 } = way
    for (const peer of [from, to]) checkPeer(cluster, peer)
    shard.peers = [...shard.peers.filter((peer) => copy !== undefined || peer !== from), to]
    shard.arriving = [...(shard.arriving ?? []), { from, to, until: Date.now() + COPY_MS }]
  } else dropReplica(shard, drop?.['peer_id'] ?? 0)
  return ok(true)
}

function checkPeer(cluster: EngineCluster, peer: number): void {
  if (cluster.peers().some(({ id }) => id === peer)) return
  refuse(400, `Bad request: Peer ${peer} does not exist`)
}

function dropReplica(shard: Shard, peer: number): void {
  if (Object.values(shard.phantoms ?? {}).some((peers) => peers.includes(peer))) {
    delete shard.phantoms
    return
  }
  if (!shard.peers.includes(peer)) {
    refuse(400, `Bad request: Peer ${peer} has no replica of shard ${shard.id}`)
  }
  if (shard.peers.length === 1) {
    const words = `Shard ${shard.id} must have at least one active replica after removing ${peer}`
    refuse(400, `Bad request: ${words}`)
  }
  shard.peers = shard.peers.filter((other) => other !== peer)
}

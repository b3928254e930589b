/** Taking snapshots by address or as a form, and copies of shards. */
import { failed, ok, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { RecoverSnapshot } from '../bodies/placing.ts'
import type { EngineCluster } from '../cluster.ts'
import { readBody } from '../read.ts'
import { checkedContent, takeSnapshot, type Priority } from '../recovery.ts'
import { counted, holding, stage } from '../running.ts'
import { takeShardSnapshot } from '../shard-recovery.ts'
import { snapshotFiles } from '../snapshots.ts'
import { changeReplicas } from './replicas.ts'

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
      return changeReplicas(request, cluster, name)
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

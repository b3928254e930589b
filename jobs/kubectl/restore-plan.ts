/**
 * `restore plan`: previews a restore. It runs the checks that a restore runs before its first change, in the
 * order of the Job, with the permissions of the caller.
 */
import { EngineError, Rejected, StorageError } from '../../crds/contract/errors.ts'
import { restoreTarget, type VecRestore } from '../../crds/restore.ts'
import { formatBytes } from '../../crds/units.ts'
import { errorMessage } from '../clients/http/request.ts'
import { checkCollection, findCollection } from '../restore/collection-checks.ts'
import { targetTopology, type PreflightContext } from '../restore/context.ts'
import {
  emptyLoad,
  planPlacement,
  type BytesByNode,
  type Placement,
  type ReportedShards,
} from '../restore/placement.ts'
import { snapshotBytes, type RestoreItem } from '../manifest-check.ts'
import { selectItems } from '../restore/select-collections.ts'
import { withTargetIds } from '../restore/shard-ids.ts'
import {
  checkNodeCapacity,
  checkTarget,
  nodeLoads,
  type NodeLoad,
} from '../restore/target-checks.ts'
import { CliError, CLUSTER_FLAGS, EXIT_CODES, type CliCommand, type Invocation } from './command.ts'
import { formatOutput, oneLine, outputFlags, formatColumns } from './output.ts'
import { openInspection, readRestore } from './restore-context.ts'

export const restorePlan: CliCommand = {
  name: 'restore plan',
  operands: '[<restore>]',
  operandCount: { min: 0, max: 1 },
  summary: 'check whether a VecRestore would succeed, without changing anything',
  details: [
    'Checks an existing VecRestore, or one in a file that is not applied yet: reads the manifest, queries every node of the target, and compares each collection with the existing one. For a backup with method Shard it also shows the placement of each shard and the disk capacity of each node. Needs permission to read the Secrets of the bucket and of the cluster; for a bucket with serviceAccountName, credentials come from the environment, as for backup verify. Use --endpoint if the store has a different address outside the cluster.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    file: { type: 'string', short: 'f', value: 'FILE', description: 'manifest of the VecRestore' },
    endpoint: {
      type: 'string',
      value: 'URL',
      description: 'endpoint of the store as reachable from this machine',
    },
    ...outputFlags(),
  },
  run: previewRestore,
}

/** Preview of one collection. */
interface CollectionPreview {
  collection: string
  becomes: string
  bytes: number
  /** Absent when the collection cannot be restored. */
  does?: 'is created' | 'replaces existing collection'
  problem?: string
}

async function previewRestore(call: Invocation): Promise<number> {
  const access = await call.connect()
  const restore = await readRestore(call, access)
  if (restore.spec.shards !== undefined) {
    throw new CliError('restore plan shows restores of whole collections, and spec.shards is set')
  }
  const { bucket, work: context, readSource } = await openInspection(restore, call, access)
  try {
    const manifest = await readSource()
    const items = selectItems(manifest, restore.spec)
    await checkTarget(manifest, items, context)
    await checkNodeCapacity(items, context)
    const placement = new PlacementPreview(context)
    const verdicts: CollectionPreview[] = []
    for (const item of items) verdicts.push(await previewCollection(item, context, placement))
    const { backupName, createdAt, engineVersion, nodeCount } = manifest
    const version = engineVersion === undefined ? {} : { engineVersion }
    const source = { backupName, createdAt, nodeCount, ...version }
    const shards = placement.shards()
    const nodes = await placement.nodes()
    const restorePreview: RestorePreview = { source, verdicts, shards, nodes }
    call.print(formatOutput(call, restorePreview, () => formatPreview(restore, restorePreview)))
    const fits = verdicts.every(({ problem }) => problem === undefined) && !nodes.some(exceedsDisk)
    return fits ? EXIT_CODES.success : EXIT_CODES.failure
  } finally {
    bucket.close()
  }
}

async function previewCollection(
  item: RestoreItem,
  context: PreflightContext,
  placement: PlacementPreview,
): Promise<CollectionPreview> {
  const { source, name } = item
  const preview = { collection: source.name, becomes: name, bytes: snapshotBytes(source) }
  try {
    const reportedShards = await checkCollection(item, context)
    placement.add(withTargetIds(item, reportedShards), reportedShards)
    const exists = (await findCollection(name, context)) !== undefined
    return { ...preview, does: exists ? 'replaces existing collection' : 'is created' }
  } catch (error) {
    context.tools.signal.throwIfAborted()
    const errorTypes = [Rejected, EngineError, StorageError]
    if (!errorTypes.some((errorType) => error instanceof errorType)) throw error
    return { ...preview, problem: errorMessage(error) }
  }
}

interface Source {
  backupName: string
  createdAt: string
  /** Absent if another program wrote the manifest. */
  engineVersion?: string
  nodeCount: number
}

/** The preview; shards and nodes only for a backup by shard. */
interface RestorePreview {
  source: Source
  verdicts: CollectionPreview[]
  shards: PlannedShard[]
  nodes: NodeLoad[]
}

function formatPreview(
  restore: VecRestore,
  { source, verdicts, shards, nodes }: RestorePreview,
): string {
  const target = restoreTarget(restore)
  const rows = verdicts.map(({ collection, becomes, bytes, does, problem }) => [
    problem === undefined ? 'ok' : 'x',
    collection,
    becomes,
    formatBytes(bytes),
    problem ?? does ?? '',
  ])
  const bytes = verdicts.reduce((sum, preview) => sum + preview.bytes, 0)
  const failed = verdicts.filter(({ problem }) => problem !== undefined).length
  return [
    `backup ${oneLine(source.backupName)} of ${source.createdAt}, engine ${oneLine(source.engineVersion ?? 'unknown')}, ${source.nodeCount} nodes\n`,
    `into cluster ${target.namespace}/${target.name}\n\n`,
    formatColumns([['', 'COLLECTION', 'TARGET', 'SIZE', 'RESULT'], ...rows]),
    formatPlacement(shards, nodes),
    `\n${verdicts.length - failed} of ${verdicts.length} collections can be restored, ${formatBytes(bytes)} in total; nothing was changed\n`,
  ].join('')
}

/** Collects the placement of each collection, in the order in which the Job decides. */
export class PlacementPreview {
  readonly #context: PreflightContext
  readonly #load: BytesByNode
  readonly #placements = new Map<string, Placement>()
  readonly #items: RestoreItem[] = []

  constructor(context: PreflightContext) {
    this.#context = context
    this.#load = emptyLoad(targetTopology(context))
  }

  /** A collection that can be restored; `reportedShards` is of the existing one at the target. */
  add(item: RestoreItem, reportedShards: ReportedShards | undefined): void {
    this.#items.push(item)
    const placement = planPlacement(
      item,
      { view: reportedShards },
      targetTopology(this.#context),
      this.#load,
    )
    this.#placements.set(item.name, placement)
  }

  /** Shards of the collections in a backup by shard. */
  shards(): PlannedShard[] {
    return this.#items.flatMap((item) => {
      if (item.method === 'Node') return []
      return item.source.snapshots.map(({ shardId, shardKey, sizeBytes }) => {
        const [node = 0, ...copies] = this.#placements.get(item.name)?.get(shardId) ?? []
        const key = shardKey === undefined ? {} : { shardKey }
        return { collection: item.name, shardId, ...key, bytes: sizeBytes, node, copies }
      })
    })
  }

  /** Load of every node, for a backup by shard. */
  async nodes(): Promise<NodeLoad[]> {
    if (this.shards().length === 0) return []
    return nodeLoads(this.#items, this.#placements, this.#context)
  }
}

export interface PlannedShard {
  /** Name at the target. */
  collection: string
  shardId: number
  shardKey?: string | number
  bytes: number
  /** Ordinal of the node that recovers the snapshot, and of the nodes that receive replicas. */
  node: number
  copies: number[]
}

export function exceedsDisk({ bytes, disk }: NodeLoad): boolean {
  return disk !== undefined && bytes > disk
}

/** Two tables, or an empty text without shards. */
export function formatPlacement(shards: PlannedShard[], nodes: NodeLoad[]): string {
  if (shards.length === 0) return ''
  const shardRows = shards.map(({ collection, shardId, shardKey, bytes, node, copies }) => [
    collection,
    String(shardId),
    shardKey === undefined ? '-' : JSON.stringify(shardKey),
    formatBytes(bytes),
    String(node),
    copies.length === 0 ? '-' : copies.join(', '),
  ])
  const nodeRows = nodes.map((nodeLoad) => [
    exceedsDisk(nodeLoad) ? 'x' : 'ok',
    String(nodeLoad.node),
    formatBytes(nodeLoad.bytes),
    nodeLoad.disk === undefined ? 'unknown' : formatBytes(nodeLoad.disk),
  ])
  return [
    '\n',
    formatColumns([['COLLECTION', 'SHARD', 'KEY', 'SIZE', 'NODE', 'REPLICAS ON'], ...shardRows]),
    '\n',
    formatColumns([['', 'NODE', 'RECEIVES', 'CAPACITY'], ...nodeRows]),
  ].join('')
}

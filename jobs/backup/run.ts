/**
 * `backup run`: uploads a snapshot of every node, or of every shard, of each collection, one
 * collection after the other, and writes the manifest last. A failed collection does not stop the
 * others. The next pod of the same Job resumes a killed one; another Job starts over in the same folder.
 */
import { Type } from '@sinclair/typebox'
import { backupFolder, manifestKey } from '../../crds/contract/backup-keys.ts'
import { StorageError } from '../../crds/contract/errors.ts'
import { formatNames } from '../../crds/units.ts'
import { compareVersions } from '../../crds/versions.ts'
import type { BackupPlan } from '../../crds/contract/job.ts'
import {
  MANIFEST_VERSION,
  type ManifestCollection,
  type ManifestSnapshot,
} from '../../crds/contract/manifest.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Dependencies, RunResult } from '../dependencies.ts'
import { parseManifest, withChecksum } from '../manifest-check.ts'
import { replicaDifferences } from '../replica-differences.ts'
import { ResourceDeleted, type Report } from '../reporter.ts'
import { canRestoreToSeveralNodes, MIN_MULTI_NODE_VERSION } from '../restore/target-checks.ts'
import { isReportable, mapConcurrently, reportReason, RetryBudget, withHint } from '../retry.ts'
import { backUpCollections, deletedNotes, type BackedUpCollections } from './collections.ts'
import { ShardSizes, type RunContext } from './context.ts'
import { isUploaded } from './objects.ts'
import { FolderClaim, type Owner } from './owner.ts'
import { BackupProgress } from './progress.ts'
import { formatUndeleted } from './nodes/snapshot-files.ts'
import {
  aliasChanges,
  clusterCollections,
  clusterVersion,
  pointCounts,
  readAliases,
  selectCollections,
  withAliases,
  type Aliases,
} from './source-cluster.ts'

export async function run(plan: BackupPlan, tools: Dependencies): Promise<RunResult> {
  const progress = new BackupProgress(tools)
  const bucket = await tools.openBucket(plan.storage, {
    onWaiting: (error) => progress.reportCredentials(error),
    // A pod that was presumed dead must not change what the one that replaced it has written.
    beforeChange: () => tools.reporter.verifyOwnership(),
  })
  try {
    const report = await attempt(plan, tools, { bucket, progress })
    tools.log.info({ state: report.state, error: report.backup?.error }, report.message ?? '')
    await tools.reporter.finish(report)
    return report.state
  } finally {
    bucket.close()
  }
}

/** Notes that the message contains; the manifest lists all aliases and counts. */
const MAX_NOTES = 5

type FinalReport = Report & { state: 'Done' | 'Failed' }

const BackupSpec = Type.Object({
  spec: Type.Object({ collections: Type.Optional(Type.Array(Type.String())) }),
})

async function attempt(
  plan: BackupPlan,
  tools: Dependencies,
  { bucket, progress }: Pick<RunContext, 'bucket' | 'progress'>,
): Promise<FinalReport> {
  const folder = backupFolder({ prefix: plan.storage.prefix, name: plan.name })
  const retryBudget = new RetryBudget()
  const shardSizes = new ShardSizes()
  const context: RunContext = {
    plan,
    tools,
    bucket,
    folder,
    progress,
    retryBudget,
    shardSizes,
    undeletedSnapshots: [],
  }
  const { signal, log } = tools
  const claim = new FolderClaim({ bucket, folder, uid: plan.uid, signal, log })
  try {
    const requested = await requestedCollections(context)
    const owner = await claimFolder(context, claim, requested)
    progress.start(owner, plan.clusterUid)
    const engineVersion = await clusterVersion(context)
    const aliases = await readAliases(context)
    progress.setPointCounts(await pointCounts(owner.collections, context))
    const { completed, deleted } = await backUpCollections(
      { names: owner.collections, mayDisappear: requested === undefined },
      context,
    )
    await requireObjects(completed, context)
    const aliasesAfter = await readAliases(context)
    // Verified before and after: a store that ignores If-None-Match may have accepted another
    // owner.
    await claim.verify()
    const version = newestVersion(engineVersion, completed)
    await writeManifest(
      owner,
      { engineVersion: version, aliases: aliasesAfter },
      { completed, deleted },
      context,
    )
    await claim.verify()
    const present = new Set(owner.collections.filter((name) => !deleted.includes(name)))
    return finalReport(context, [
      ...deletedNotes(deleted),
      ...restoreWarnings(version, context),
      ...differences(completed),
      ...aliasChanges(aliases, aliasesAfter),
      // Selected collections are not expected to have the collections of all aliases.
      ...(requested === undefined ? absentTargets(aliasesAfter, present) : []),
    ])
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    const message = withHint(error.message) + formatUndeleted(context)
    return {
      state: 'Failed',
      reason: reportReason(error),
      message,
      backup: failAll(progress, message),
    }
  }
}

/**
 * Claims the folder first. From an earlier attempt only the start time and the names of its collections are used: these can
 * add collections, and remove none.
 */
async function claimFolder(
  context: RunContext,
  claim: FolderClaim,
  requested: string[] | undefined,
): Promise<Owner> {
  const { plan, tools } = context
  const { uid, namespace, name, cluster } = plan
  let existing: Promise<string[]> | undefined
  // Reject the folder of another backup before asking any node.
  const select = async (previous: string[]) =>
    selectCollections(requested, {
      previous,
      existing: await (existing ??= clusterCollections(context)),
    })
  const identity: Omit<Owner, 'startedAt' | 'collections'> = {
    uid,
    namespace,
    name,
    cluster: { namespace: cluster.namespace, name: cluster.name },
  }
  const { startedAt, collections } = await claim.acquire(async () => ({
    ...identity,
    startedAt: tools.time.now().toISOString(),
    collections: await select([]),
  }))
  tools.log.info({ startedAt }, 'folder claimed by owner.json')
  return { ...identity, startedAt, collections: await select(collections) }
}

/** What the spec asks for: it is immutable, and every attempt reads it again. */
async function requestedCollections({ plan, tools }: RunContext): Promise<string[] | undefined> {
  const { namespace, name, resource } = plan
  const apiResource = { apiVersion: API_VERSION, plural: resource, namespace }
  const backup = await tools.kubernetes.get(apiResource, name, BackupSpec)
  if (backup === undefined) throw new ResourceDeleted(`vecbackups ${namespace}/${name} is gone`)
  return backup.spec.collections
}

async function writeManifest(
  { startedAt, cluster }: Owner,
  { engineVersion, aliases }: { engineVersion: string; aliases: Aliases },
  { completed: collections, deleted }: BackedUpCollections,
  { plan, bucket, folder, tools }: RunContext,
): Promise<void> {
  const manifest = parseManifest({
    manifestVersion: MANIFEST_VERSION[plan.method],
    ...(plan.method === 'Shard' && { method: plan.method }),
    backupName: plan.name,
    uid: plan.uid,
    cluster: { name: cluster.name, namespace: cluster.namespace },
    nodeCount: plan.cluster.replicas,
    engineVersion,
    createdAt: startedAt,
    aliases,
    ...(deleted.length > 0 && { deletedCollections: deleted }),
    collections: withAliases(collections, aliases),
  })
  await bucket.putJson(manifestKey(folder), withChecksum(manifest), { signal: tools.signal })
  tools.log.info({ key: manifestKey(folder), collections: collections.length }, 'manifest written')
}

/** Objects that are looked for at the same time: a store needs some milliseconds for each answer. */
const OBJECT_CONCURRENCY = 8

/**
 * Throws unless every object is still in the bucket, by its key and size: the first ones may be days old, and a rule of
 * the bucket, another client or a pod that was presumed dead may have deleted them.
 */
async function requireObjects(
  collections: ManifestCollection[],
  context: RunContext,
): Promise<void> {
  const snapshots = collections.flatMap((collection): ManifestSnapshot[] => collection.snapshots)
  await mapConcurrently(snapshots, OBJECT_CONCURRENCY, async (snapshot) => {
    if (await isUploaded(snapshot, context)) return
    throw new StorageError(
      `s3://${context.bucket.name}/${snapshot.key} was deleted or replaced during the backup`,
    )
  })
}

/**
 * A restore compares with the version of each collection; readers that use only this one must not
 * go below any of them.
 */
function newestVersion(version: string, collections: ManifestCollection[]): string {
  const all = [version, ...collections.flatMap(({ engineVersion }) => engineVersion ?? [])]
  return all.toSorted(compareVersions).at(-1) ?? version
}

/** Each replica says that it is Active: a user learns of the difference here, and not from a restore. */
function differences(collections: ManifestCollection[]): string[] {
  return collections.flatMap((collection) => replicaDifferences(collection, 'differ'))
}

/** A client may have moved an alias to a collection that it created during the backup. */
function absentTargets(aliases: Aliases, present: ReadonlySet<string>): string[] {
  const absent = aliases.filter(({ collection }) => !present.has(collection))
  if (absent.length === 0) return []
  const listed = absent.map(({ alias, collection }) => `${alias} of ${collection}`)
  return [
    `the collections of these aliases are not in this backup: ${formatNames(listed, MAX_LISTED)}`,
  ]
}

const MAX_LISTED = 10

/** Users must learn about these limits before they need the backup. */
function restoreWarnings(version: string, { plan }: RunContext): string[] {
  if (plan.cluster.replicas === 1 || canRestoreToSeveralNodes(version)) return []
  return [
    `no VecRestore brings a backup of engine ${version} into several nodes: that needs ${MIN_MULTI_NODE_VERSION}, which reads snapshots of 1.16 and later. Upgrade the cluster, then back it up again`,
  ]
}

function finalReport(context: RunContext, notes: string[]): FinalReport {
  const { progress } = context
  const backup = progress.result()
  const emptyNote = backup.total === 0 ? ': the cluster has none' : ''
  const summary = progress.summary() + emptyNote + formatUndeleted(context)
  const message = [summary, ...notes.slice(0, MAX_NOTES)].join('; ')
  if (backup.failed === 0) return { state: 'Done', message, backup }
  return { state: 'Failed', reason: 'BackupFailed', message, backup }
}

function failAll(progress: BackupProgress, message: string) {
  progress.finish()
  const result = progress.result()
  return { ...result, error: result.error ?? message }
}

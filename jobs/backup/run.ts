/**
 * `backup run`: of every collection, one after the other, a snapshot of every node, or of every shard,
 * into the bucket, and the manifest last. A collection that fails does not stop the others; an attempt that was killed is
 * gone on with.
 */
import { Type } from '@sinclair/typebox'
import type { BackupPlan } from '../../crds/command.ts'
import { StorageError } from '../../crds/errors.ts'
import { backupFolder, manifestKey } from '../../crds/layout.ts'
import { MANIFEST_VERSION, type ManifestCollection } from '../../crds/manifest.ts'
import { withChecksum } from '../../crds/rules/manifest-checksum.ts'
import { checkedManifest } from '../../crds/rules/manifest.ts'
import { API_VERSION } from '../../crds/names.ts'
import { isTold, reasonOf } from '../failures.ts'
import { FIRST_FOR_SEVERAL, fitsSeveralNodes } from '../restore/target.ts'
import { Patience, explained } from '../patience.ts'
import { Gone, type Report } from '../report.ts'
import type { Outcome, Tools } from '../tools.ts'
import { aliasChanges, readAliases, withAliases, type Aliases } from './aliases.ts'
import { backUpCollection } from './collection.ts'
import { Claim, ownerOf, type Owner } from './owner.ts'
import { Tally } from './tally.ts'
import { backUpByShard } from './shards/collection.ts'
import { ShardSizes } from './shards/sizes.ts'
import {
  agreedCollections,
  agreedVersion,
  collectionsToBackUp,
  orderOfVersions,
  pointsOf,
} from './source.ts'
import type { Work } from './work.ts'

export async function run(plan: BackupPlan, tools: Tools): Promise<Outcome> {
  const tally = new Tally(tools)
  const bucket = await tools.bucketAt(plan.storage, (refused) => tally.waits(refused))
  try {
    const report = await attempt(plan, tools, { bucket, tally })
    tools.log.info({ state: report.state, error: report.backup?.error }, report.message ?? '')
    await tools.reporter.ended(report)
    return report.state
  } finally {
    bucket.close()
  }
}

/** Changed aliases that are named; the manifest has them all. */
const MAX_CHANGES = 5

type End = Report & { state: 'Done' | 'Failed' }

const Own = Type.Object({
  spec: Type.Object({ collections: Type.Optional(Type.Array(Type.String())) }),
})

async function attempt(
  plan: BackupPlan,
  tools: Tools,
  { bucket, tally }: Pick<Work, 'bucket' | 'tally'>,
): Promise<End> {
  const folder = backupFolder({ prefix: plan.storage.prefix, name: plan.name })
  const patience = new Patience()
  const sizes = new ShardSizes()
  const work: Work = { plan, tools, bucket, folder, tally, patience, sizes, leftBehind: [] }
  const { signal, log } = tools
  const claim = new Claim({ bucket, folder, uid: plan.uid, signal, log })
  try {
    const owner = await own(work, claim)
    tally.plans(owner, plan.clusterUid)
    const engineVersion = await agreedVersion(work)
    const aliases = await readAliases(work)
    tally.expect(await pointsOf(owner.collections, work))
    const taken = await backUpAll(owner, work)
    await tools.reporter.confirm()
    const after = await readAliases(work)
    // Read before and after: a store that ignores If-None-Match may have let another owner in.
    await claim.confirm()
    const version = newest(engineVersion, taken)
    await writeManifest(owner, { engineVersion: version, aliases: after }, taken, work)
    await claim.confirm()
    return endOf(work, [...unrestorable(version, work), ...aliasChanges(aliases, after)])
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    const message = explained(error.message) + filesLeft(work)
    return {
      state: 'Failed',
      reason: reasonOf(error),
      message,
      backup: failedWhole(tally, message),
    }
  }
}

/**
 * Owner first. Of what an earlier attempt wrote there, only the time of its start is taken as it is: what
 * is backed up comes from the resource and from the nodes.
 */
async function own(work: Work, claim: Claim): Promise<Owner> {
  const { plan, tools } = work
  const { uid, namespace, name, cluster } = plan
  const asked = await askedCollections(work)
  let agreed: Promise<string[]> | undefined
  // Another backup's folder is refused before any node is asked.
  const decided = async (earlier: string[]) =>
    collectionsToBackUp(asked, { earlier, agreed: await (agreed ??= agreedCollections(work)) })
  const owner: Omit<Owner, 'startedAt' | 'collections'> = {
    uid,
    namespace,
    name,
    cluster: { namespace: cluster.namespace, name: cluster.name },
  }
  const { startedAt, collections } = await claim.take(async () => ({
    ...owner,
    startedAt: tools.time.now().toISOString(),
    collections: await decided([]),
  }))
  tools.log.info({ startedAt }, 'owner.json claims the folder')
  return { ...owner, startedAt, collections: await decided(collections) }
}

/** What the spec asks for: it is immutable, and every attempt reads it again. */
async function askedCollections({ plan, tools }: Work): Promise<string[] | undefined> {
  const { namespace, name, resource } = plan
  const collection = { apiVersion: API_VERSION, plural: resource, namespace }
  const backup = await tools.kubernetes.get(collection, name, Own)
  if (backup === undefined) throw new Gone(`vecbackups ${namespace}/${name} is gone`)
  return backup.spec.collections
}

async function backUpAll({ collections }: Owner, work: Work): Promise<ManifestCollection[]> {
  const { tally, tools } = work
  const taken: ManifestCollection[] = []
  let closed: StorageError | undefined
  for (const name of collections) {
    begin(name, work)
    try {
      if (closed !== undefined) throw closed
      tools.log.info({ collection: name }, tally.line())
      const collection = await backUp(name, work)
      tally.completed(collection)
      taken.push(collection)
    } catch (error) {
      tools.signal.throwIfAborted()
      if (!isTold(error)) throw error
      const message = explained(error.message)
      tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
      tally.failed(name, message)
      closed ??= await closedFor(error, work)
    }
    tally.tell()
    await tally.told()
  }
  tally.finish()
  return taken
}

function begin(name: string, { tally, plan }: Work): void {
  if (plan.method === 'Shard') tally.begin(name)
  else tally.begin(name, plan.cluster.replicas)
}

function backUp(name: string, work: Work): Promise<ManifestCollection> {
  return work.plan.method === 'Shard' ? backUpByShard(name, work) : backUpCollection(name, work)
}

/** A bucket that lets us do nothing any more: each further snapshot would be made for nothing. */
async function closedFor(error: unknown, work: Work): Promise<StorageError | undefined> {
  if (!(error instanceof StorageError)) return undefined
  try {
    await ownerOf(work.bucket, work.folder, work.tools.signal)
    return undefined
  } catch (again) {
    return again instanceof StorageError ? again : undefined
  }
}

async function writeManifest(
  { startedAt, cluster }: Owner,
  { engineVersion, aliases }: { engineVersion: string; aliases: Aliases },
  collections: ManifestCollection[],
  { plan, bucket, folder, tools }: Work,
): Promise<void> {
  const manifest = checkedManifest({
    manifestVersion: MANIFEST_VERSION[plan.method],
    ...(plan.method === 'Shard' && { method: plan.method }),
    backupName: plan.name,
    uid: plan.uid,
    cluster: { name: cluster.name, namespace: cluster.namespace },
    nodeCount: plan.cluster.replicas,
    engineVersion,
    createdAt: startedAt,
    aliases,
    collections: withAliases(collections, aliases),
  })
  await bucket.putJson(manifestKey(folder), withChecksum(manifest), { signal: tools.signal })
  tools.log.info({ key: manifestKey(folder), collections: collections.length }, 'manifest written')
}

/** A restore compares with each collection's version; who reads only this one must not go below any. */
function newest(version: string, collections: ManifestCollection[]): string {
  const all = [version, ...collections.flatMap(({ engineVersion }) => engineVersion ?? [])]
  return all.toSorted(orderOfVersions).at(-1) ?? version
}

/** Who makes such a backup must hear of it before it is needed. */
function unrestorable(version: string, { plan }: Work): string[] {
  if (plan.cluster.replicas === 1 || fitsSeveralNodes(version)) return []
  return [
    `no VecRestore brings a backup of engine ${version} into several nodes: that needs ${FIRST_FOR_SEVERAL}, which reads snapshots of 1.16 and later. Upgrade the cluster, then back it up again`,
  ]
}

const MAX_LEFT_BEHIND = 5

function filesLeft({ leftBehind }: Pick<Work, 'leftBehind'>): string {
  if (leftBehind.length === 0) return ''
  const more = leftBehind.length - MAX_LEFT_BEHIND
  const descriptions = leftBehind.map(({ description }) => description)
  const listed = descriptions.slice(0, MAX_LEFT_BEHIND).join('; ')
  return `; still on nodes, to be deleted there: ${listed}${more > 0 ? `; and ${more} more` : ''}`
}

function endOf(work: Work, changes: string[]): End {
  const { tally } = work
  const backup = tally.result()
  const none = backup.total === 0 ? ': the cluster has none' : ''
  const done = tally.summary() + none + filesLeft(work)
  const message = [done, ...changes.slice(0, MAX_CHANGES)].join('; ')
  if (backup.failed === 0) return { state: 'Done', message, backup }
  return { state: 'Failed', reason: 'BackupFailed', message, backup }
}

function failedWhole(tally: Tally, message: string) {
  tally.finish()
  const result = tally.result()
  return { ...result, error: result.error ?? message }
}

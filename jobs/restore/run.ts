/**
 * `restore run`: reads the manifest, checks everything that can be checked in advance, then
 * restores one collection after the other. A failed collection does not stop the others. An attempt
 * that follows a killed one continues from the checkpoint, after the last restored node or shard.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import { VecRestore, type RestoreSpec } from '../../crds/restore.ts'
import { recordReader } from '../backup/readers.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import type { Dependencies, RunResult } from '../dependencies.ts'
import { ResourceDeleted, type Report } from '../reporter.ts'
import { isReportable, reportReason, RetryBudget, retryTransient, withHint } from '../retry.ts'
import { restoreAliases } from './aliases.ts'
import { isPartlyRestored, isStarted, type Checkpoint } from './checkpoint.ts'
import { checkCollection, readReportedShards } from './collection-checks.ts'
import { failLostCollections, requireOwnCollection } from './collection-identity.ts'
import { attemptCollection, targetTopology, type RunContext } from './context.ts'
import { detectDeliveryModes } from './deliver-snapshot.ts'
import { restoreLostShards } from './lost-shards.ts'
import { manifestFolder, readManifest, unverifiableNotes } from './manifest.ts'
import { emptyLoad, planPlacement } from './placement.ts'
import {
  lowerFactorAgain,
  prepareCollection,
  restoreFactor,
  restoreFactors,
} from './prepare-collection.ts'
import { Progress } from './progress.ts'
import { recoverNodes, recoverShards } from './recover.ts'
import type { RestoreItem, SourceManifest } from '../manifest-check.ts'
import { waitForEarlierRecoveries } from './retry-recovery.ts'
import { selectItems } from './select-collections.ts'
import { withTargetIds } from './shard-ids.ts'
import { moveShards, replicateShards } from './shard-transfers.ts'
import { checkNodeCapacity, checkTarget, nodeLoads, rejectOverCapacity } from './target-checks.ts'
import { verifyCollection } from './verify.ts'
import { PermanentDisagreement } from './wait-for-shards.ts'

export async function run(plan: RestorePlan, tools: Dependencies): Promise<RunResult> {
  // Load the S3 client while the API request is in progress.
  const [bucket, spec] = await Promise.all([tools.openBucket(plan.source), readSpec(plan, tools)])
  // Before the manifest is read, so that a purge that starts afterwards finds the record.
  const reader = await recordReader(readerOptions(plan, tools, bucket))
  let isReported = false
  try {
    const report = await attempt({ plan, spec, tools, bucket })
    tools.log.info({ state: report.state, error: report.restore?.error }, report.message ?? '')
    await tools.reporter.finish(report)
    isReported = true
    return report.state
  } finally {
    await reader.stop({ hasEnded: isReported || (await tools.reporter.isDeleted()) })
    bucket.close()
  }
}

function readerOptions(plan: RestorePlan, { time, log, signal }: Dependencies, bucket: Bucket) {
  const { uid, namespace, name } = plan
  return {
    bucket,
    folder: manifestFolder(plan),
    restore: { uid, namespace, name },
    time,
    log,
    signal,
  }
}

type FinalReport = Report & { state: 'Done' | 'Failed' }

interface AttemptOptions {
  plan: RestorePlan
  spec: RestoreSpec
  tools: Dependencies
  bucket: Bucket
}

async function attempt({ plan, spec, tools, bucket }: AttemptOptions): Promise<FinalReport> {
  const progress = new Progress(tools, tools.reporter.previous?.restore)
  const { priority, waitForIndexing, replicationFactor } = spec
  const settings = { folder: manifestFolder(plan), priority, waitForIndexing, replicationFactor }
  const factors = progress.loweredFactors()
  const shared = {
    retryBudget: new RetryBudget(),
    deliveryModes: new Map(),
    placements: new Map(),
    factors,
  }
  const context: RunContext = { plan, tools, bucket, progress, ...settings, ...shared }
  try {
    if (spec.shards === undefined) await restoreAll(spec, context)
    else await restoreLostShards(spec.shards, context)
    await tools.reporter.verifyOwnership()
    return finalReport(progress)
  } catch (error) {
    await restoreFactors(context)
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    const message = withHint(error.message)
    progress.finish()
    const result = progress.result()
    const restored = { ...result, error: result.error ?? message }
    return { state: 'Failed', reason: reportReason(error), message, restore: restored }
  }
}

async function restoreAll(spec: RestoreSpec, context: RunContext): Promise<void> {
  const { manifest, items } = await preflight(spec, context)
  const restorable = await checkItems(items, context)
  rejectOverCapacity(await nodeLoads(restorable, context.placements, context))
  for (const item of restorable) await restoreCollection(item, context)
  await restoreFactors(context)
  await failLostCollections(items, context)
  await restoreAliases(manifest, items, context)
}

const ResourceSpec = Type.Object({ spec: VecRestore.schema.properties.spec })

/** Reads the spec from the API: its lists may be too long for a plan, and the spec is immutable. */
async function readSpec(
  { namespace, name, resource }: RestorePlan,
  tools: Dependencies,
): Promise<RestoreSpec> {
  const apiResource = { apiVersion: API_VERSION, plural: resource, namespace }
  const object = await tools.kubernetes.get(apiResource, name, ResourceSpec)
  if (object === undefined) throw new ResourceDeleted(`vecrestores ${namespace}/${name} is gone`)
  return Value.Default(VecRestore.schema.properties.spec, object.spec) as RestoreSpec
}

/** Checks that concern the whole restore; nothing has been changed yet. */
async function preflight(
  spec: RestoreSpec,
  context: RunContext,
): Promise<{ manifest: SourceManifest; items: RestoreItem[] }> {
  const { plan, tools, bucket, progress } = context
  const { signal } = tools
  progress.report()
  const manifest = await readManifest({ bucket, plan, collections: spec.collections, signal })
  const items = selectItems(manifest, spec)
  for (const note of unverifiableNotes(manifest)) progress.note(note)
  await Promise.all([checkTarget(manifest, items, context), checkNodeCapacity(items, context)])
  const { backupName, engineVersion, createdAt } = manifest
  const fields = { backup: backupName, engineVersion, createdAt, collections: items.length }
  tools.log.info(fields, `manifest of ${backupName} read, target checked`)
  progress.setItems(items, plan.cluster.replicas)
  progress.report()
  return { manifest, items }
}

/**
 * Checks all collections before the first one is changed; a collection that does not fit fails on
 * its own.
 */
async function checkItems(items: RestoreItem[], context: RunContext): Promise<RestoreItem[]> {
  const { progress } = context
  const target = targetTopology(context)
  const bytesByNode = emptyLoad(target)
  const restorable: RestoreItem[] = []
  for (const item of items) {
    const checkpoint = progress.checkpoint(item.name)
    if (checkpoint === 'Completed' || checkpoint === 'Failed') continue
    await attemptCollection(
      item.name,
      async () => {
        // Skip the checks of a collection that this restore has started: it is not in its final
        // state.
        const view = isStarted(checkpoint) ? undefined : await checkCollection(item, context)
        if (!isStarted(checkpoint) && view === undefined) progress.recordAbsent(item.name)
        const current = isPartlyRestored(checkpoint)
          ? await retryTransient(context, () => readReportedShards(item.name, context))
          : view
        const resolved = withTargetIds(item, current)
        context.placements.set(item.name, planPlacement(resolved, { view }, target, bytesByNode))
        restorable.push(resolved)
      },
      context,
    )
    progress.report()
    await progress.reported()
  }
  await progress.checksDone()
  return restorable
}

async function restoreCollection(item: RestoreItem, context: RunContext): Promise<void> {
  const { progress, plan, tools } = context
  const { name } = item
  const checkpoint = progress.checkpoint(name)
  if (checkpoint === 'Completed' || checkpoint === 'Failed') return
  progress.startCollection(item, plan.cluster.replicas, checkpoint)
  tools.log.info({ collection: name, ...checkpoint }, progress.statusLine())
  const isRestored = await attemptCollection(
    name,
    () => restoreItem(item, context, checkpoint),
    context,
  )
  if (isRestored) {
    const { points, failures, isLost } = await verifyCollection(item, context)
    if (failures.length === 0) progress.completed(name, points)
    else if (isLost) progress.failed(name, failures.join('; '))
    else progress.incomplete(name, failures.join('; '), points)
    tools.log.info({ collection: name, failures }, `collection ${name} restored`)
  }
  progress.report()
  await progress.reported()
}

/**
 * Nodes can disagree permanently about a collection if an engine was killed during a recovery. If
 * this restore created the collection and has restored nothing in it yet, it recreates the
 * collection. A restored shard may have writes of clients since, which would be lost.
 */
async function restoreItem(
  item: RestoreItem,
  context: RunContext,
  checkpoint: Checkpoint,
): Promise<void> {
  const { progress, tools, plan } = context
  try {
    await restoreFromCheckpoint(item, context, checkpoint)
    return
  } catch (error) {
    if (!(error instanceof PermanentDisagreement) || !progress.isCreatedAndEmpty()) throw error
    tools.log.warn({ collection: item.name, reason: error.message }, 'recreating collection')
  }
  const { uuid } = progress
  const emptyCheckpoint = { nodesDone: 0, shardsDone: [], isOurs: true, running: [], uuid }
  progress.startCollection(item, plan.cluster.replicas, emptyCheckpoint)
  await restoreFromCheckpoint(item, context, emptyCheckpoint)
}

async function restoreFromCheckpoint(
  item: RestoreItem,
  context: RunContext,
  checkpoint: Checkpoint,
): Promise<void> {
  const { name } = item
  try {
    await requireOwnCollection(name, checkpoint, context)
    await waitForEarlierRecoveries(item, checkpoint, context)
    // That may take hours, in which other clients and another pod may have acted.
    await context.tools.reporter.verifyOwnership()
    await requireOwnCollection(name, checkpoint, context)
    if (isPartlyRestored(checkpoint)) await lowerFactorAgain(name, context)
    const prepared = isPartlyRestored(checkpoint)
      ? undefined
      : prepareCollection(item, context, checkpoint)
    const deliveryModes = item.method === 'Node' ? detectDeliveryModes(name, context) : undefined
    await Promise.all([prepared, deliveryModes])
    await recoverSnapshots(item, context, checkpoint)
    await replicateShards(item, context)
  } catch (error) {
    if (isReportable(error) && !context.tools.signal.aborted) await restoreFactor(name, context)
    throw error
  }
}

/** Recovers the snapshots that are not restored yet, by the method of the backup. */
async function recoverSnapshots(
  item: RestoreItem,
  context: RunContext,
  checkpoint: Checkpoint,
): Promise<void> {
  if (item.method === 'Node') return recoverNodes(item, context, checkpoint.nodesDone)
  if (!isPartlyRestored(checkpoint)) await moveShards(item, context)
  await recoverShards(item, context, checkpoint.shardsDone)
}

function finalReport(progress: Progress): FinalReport {
  progress.finish()
  const result = progress.result()
  const message = progress.summary()
  if (result.failed === 0) return { state: 'Done', message, restore: result }
  return { state: 'Failed', reason: 'RestoreFailed', message, restore: result }
}

/**
 * `restore run`: reads the manifest, looks at all that could go wrong, and then brings back one
 * collection after the other. One that fails does not stop the others; an attempt that was killed is
 * gone on with, node by node.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { API_VERSION } from '../../crds/names.ts'
import type { RestorePlan } from '../../crds/restore-command.ts'
import { VecRestore, type RestoreSpec } from '../../crds/restore.ts'
import { recordReader } from '../backup/readers.ts'
import type { Bucket } from '../clients/s3.ts'
import { isTold, reasonOf } from '../failures.ts'
import { Patience, explained, patiently } from '../patience.ts'
import { Gone, Superseded, type Report } from '../report.ts'
import type { Outcome, Tools } from '../tools.ts'
import { restoreAliases } from './aliases.ts'
import { endEarlier } from './attempts.ts'
import { findWays } from './bring.ts'
import { makeCopies } from './copies.ts'
import { holdsSome, isBegun, type Left } from './current.ts'
import { lowerAgain, putBackFactor, putBackFactors } from './factor.ts'
import { finish } from './finish.ts'
import { checkCollection, seen } from './fitting.ts'
import { makeReady } from './making.ts'
import { noLoad, placesOf } from './places.ts'
import { placeShards } from './placing.ts'
import { recoverNodes } from './recover.ts'
import { checkRoom, refuseShares, sharesOf } from './room.ts'
import { atTarget } from './shard-ids.ts'
import { LastingDisagreement } from './settled.ts'
import { recoverShards } from './shards.ts'
import { chosen, folderOf, readManifest, uncheckedIn } from './source.ts'
import { Tally } from './tally.ts'
import { checkTarget } from './target.ts'
import { targetOf, type Work } from './work.ts'
import type { Source, Wanted } from './wanted.ts'

export async function run(plan: RestorePlan, tools: Tools): Promise<Outcome> {
  // What speaks to buckets is loaded while the API answers.
  const [bucket, spec] = await Promise.all([tools.bucketAt(plan.source), specOf(plan, tools)])
  // Before the manifest is read: a purge that begins then sees it.
  const reading = await recordReader(readingOf(plan, tools, bucket))
  try {
    const report = await attempt({ plan, spec, tools, bucket })
    tools.log.info({ state: report.state, error: report.restore?.error }, report.message ?? '')
    await tools.reporter.ended(report)
    return report.state
  } finally {
    await reading.end()
    bucket.close()
  }
}

function readingOf(plan: RestorePlan, { time, log, signal }: Tools, bucket: Bucket) {
  const { uid, namespace, name } = plan
  return { bucket, folder: folderOf(plan), restore: { uid, namespace, name }, time, log, signal }
}

type End = Report & { state: 'Done' | 'Failed' }

interface Start {
  plan: RestorePlan
  spec: RestoreSpec
  tools: Tools
  bucket: Bucket
}

async function attempt({ plan, spec, tools, bucket }: Start): Promise<End> {
  const tally = new Tally(tools, tools.reporter.earlier?.restore)
  const { priority, waitForIndexing, replicationFactor } = spec
  const settings = { folder: folderOf(plan), priority, waitForIndexing, replicationFactor }
  const factors = tally.loweredFactors()
  const shared = { patience: new Patience(), ways: new Map(), places: new Map(), factors }
  const work: Work = { plan, tools, bucket, tally, ...settings, ...shared }
  try {
    await restoreAll(spec, work)
    await tools.reporter.confirm()
    return endOf(tally)
  } catch (error) {
    await putBackUnlessSuperseded(error, work)
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    const message = explained(error.message)
    tally.finish()
    const result = tally.result()
    const restored = { ...result, error: result.error ?? message }
    return { state: 'Failed', reason: reasonOf(error), message, restore: restored }
  }
}

async function restoreAll(spec: RestoreSpec, work: Work): Promise<void> {
  const { manifest, wanted } = await preflight(spec, work)
  const fit = await fitting(wanted, work)
  refuseShares(await sharesOf(fit, work.places, work))
  for (const one of fit) await restore(one, work)
  await putBackFactors(work)
  await restoreAliases(manifest, wanted, work)
}

/** A pod that took over goes on with what is lowered. */
async function putBackUnlessSuperseded(error: unknown, work: Work): Promise<void> {
  if (work.factors.size === 0) return
  const isSuperseded = (reason: unknown) => reason instanceof Superseded
  const confirmed = await work.tools.reporter.confirm().then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!isSuperseded(error) && !isSuperseded(confirmed)) await putBackFactors(work)
}

const Own = Type.Object({ spec: VecRestore.schema.properties.spec })

/** Lists that stand in the immutable spec may be too long for a plan. */
async function specOf(
  { namespace, name, resource }: RestorePlan,
  tools: Tools,
): Promise<RestoreSpec> {
  const place = { apiVersion: API_VERSION, plural: resource, namespace }
  const found = await tools.kubernetes.get(place, name, Own)
  if (found === undefined) throw new Gone(`vecrestores ${namespace}/${name} is gone`)
  return Value.Default(VecRestore.schema.properties.spec, found.spec) as RestoreSpec
}

/** What is true of the whole; nothing has been touched yet. */
async function preflight(
  spec: RestoreSpec,
  work: Work,
): Promise<{ manifest: Source; wanted: Wanted[] }> {
  const { plan, tools, bucket, tally } = work
  const { signal } = tools
  tally.tell()
  const manifest = await readManifest({ bucket, plan, collections: spec.collections, signal })
  const wanted = chosen(manifest, spec)
  for (const note of uncheckedIn(manifest)) tally.note(note)
  await Promise.all([checkTarget(manifest, wanted, work), checkRoom(wanted, work)])
  const { backupName, engineVersion, createdAt } = manifest
  const fields = { backup: backupName, engineVersion, createdAt, collections: wanted.length }
  tools.log.info(fields, `the manifest of ${backupName} was read and fits the target`)
  tally.chosen(wanted, plan.cluster.replicas)
  tally.tell()
  return { manifest, wanted }
}

/** All are looked at before the first is touched; what does not fit has failed by itself. */
async function fitting(wanted: Wanted[], work: Work): Promise<Wanted[]> {
  const { tally } = work
  const target = targetOf(work)
  const load = noLoad(target)
  const fit: Wanted[] = []
  for (const one of wanted) {
    const left = tally.left(one.name)
    if (left === 'Completed' || left === 'Failed') continue
    await succeeds(
      one.name,
      async () => {
        // What this very restore has begun is not as it will be.
        const sight = isBegun(left) ? undefined : await checkCollection(one, work)
        const begun = holdsSome(left) ? await patiently(work, () => seen(one.name, work)) : sight
        const ready = atTarget(one, begun)
        work.places.set(one.name, placesOf(ready, { sight }, target, load))
        fit.push(ready)
      },
      work,
    )
    tally.tell()
    await tally.told()
  }
  return fit
}

async function restore(wanted: Wanted, work: Work): Promise<void> {
  const { tally, plan, tools } = work
  const { name } = wanted
  const left = tally.left(name)
  if (left === 'Completed' || left === 'Failed') return
  tally.begin(wanted, plan.cluster.replicas, left)
  tools.log.info({ collection: name, ...left }, tally.line())
  const isBack = await succeeds(name, () => bringBack(wanted, work, left), work)
  if (isBack) {
    const { points, failures } = await finish(wanted, work)
    if (failures.length === 0) tally.completed(name, points)
    else tally.incomplete(name, failures.join('; '), points)
    tools.log.info({ collection: name, failures }, `collection ${name} is back`)
  }
  tally.tell()
  await tally.told()
}

/**
 * Nodes may disagree for good about a collection that an engine was killed in. Where nothing is back of it
 * yet, and this restore has made it, it is made once more.
 */
async function bringBack(wanted: Wanted, work: Work, left: Left): Promise<void> {
  const { tally, tools, plan } = work
  try {
    await bringBackFrom(wanted, work, left)
    return
  } catch (error) {
    if (!(error instanceof LastingDisagreement) || !tally.hasOnlyBegun()) throw error
    tools.log.warn({ collection: wanted.name, reason: error.message }, 'recreating the collection')
  }
  const afresh: Left = { nodesDone: 0, shardsDone: [], isOurs: true, running: [] }
  tally.begin(wanted, plan.cluster.replicas, afresh)
  await bringBackFrom(wanted, work, afresh)
}

async function bringBackFrom(wanted: Wanted, work: Work, left: Left): Promise<void> {
  const { name } = wanted
  try {
    await endEarlier(wanted, left, work)
    if (holdsSome(left)) await lowerAgain(name, work)
    const made = holdsSome(left) ? undefined : makeReady(wanted, work, left.isOurs)
    const ways = wanted.method === 'Node' ? findWays(name, work) : undefined
    await Promise.all([made, ways])
    await recover(wanted, work, left)
    await makeCopies(wanted, work)
  } catch (error) {
    if (isTold(error) && !work.tools.signal.aborted) await putBackFactor(name, work)
    throw error
  }
}

/** What is left of it to take, by the method of its backup. */
async function recover(wanted: Wanted, work: Work, left: Left): Promise<void> {
  if (wanted.method === 'Node') return recoverNodes(wanted, work, left.nodesDone)
  if (!holdsSome(left)) await placeShards(wanted, work)
  await recoverShards(wanted, work, left.shardsDone)
}

/** An error a person can mend fails this collection and no other. */
async function succeeds(name: string, act: () => Promise<void>, work: Work): Promise<boolean> {
  const { tools, tally } = work
  try {
    await act()
    return true
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    const message = explained(error.message)
    tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
    tally.failed(name, message)
    return false
  }
}

function endOf(tally: Tally): End {
  tally.finish()
  const result = tally.result()
  const message = tally.summary()
  if (result.failed === 0) return { state: 'Done', message, restore: result }
  return { state: 'Failed', reason: 'RestoreFailed', message, restore: result }
}

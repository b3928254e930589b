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
import type { Bucket } from '../clients/s3.ts'
import { isTold, reasonOf } from '../failures.ts'
import { Patience, explained } from '../patience.ts'
import { Gone, type Report } from '../report.ts'
import type { Outcome, Tools } from '../tools.ts'
import { makeCopies } from './copies.ts'
import { finish } from './finish.ts'
import { checkCollection, checkRoom } from './fitting.ts'
import { makeReady } from './making.ts'
import { recoverNodes } from './recover.ts'
import { chosen, folderOf, readManifest } from './source.ts'
import { Tally, type Left } from './tally.ts'
import { checkTarget } from './target.ts'
import type { Wanted, Work } from './work.ts'

export async function run(plan: RestorePlan, tools: Tools): Promise<Outcome> {
  const bucket = await tools.bucketAt(plan.source)
  try {
    const report = await attempt(plan, tools, bucket)
    tools.log.info({ state: report.state, error: report.restore?.error }, report.message ?? '')
    await tools.reporter.ended(report)
    return report.state
  } finally {
    bucket.close()
  }
}

type End = Report & { state: 'Done' | 'Failed' }

async function attempt(plan: RestorePlan, tools: Tools, bucket: Bucket): Promise<End> {
  const tally = new Tally(tools, tools.reporter.earlier?.restore)
  try {
    const spec = await specOf(plan, tools)
    const { priority, waitForIndexing } = spec
    const settings = { folder: folderOf(plan), priority, waitForIndexing }
    const shared = { patience: new Patience(), ways: new Map() }
    const work: Work = { plan, tools, bucket, tally, ...settings, ...shared }
    const wanted = await preflight(spec, work)
    for (const one of await fitting(wanted, work)) await restore(one, work)
    await tools.reporter.confirm()
    return endOf(tally)
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    const message = explained(error.message)
    tally.finish()
    const result = tally.result()
    const restored = { ...result, error: result.error ?? message }
    return { state: 'Failed', reason: reasonOf(error), message, restore: restored }
  }
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
async function preflight(spec: RestoreSpec, work: Work): Promise<Wanted[]> {
  const { plan, tools, bucket, folder, tally } = work
  tally.tell()
  const manifest = await readManifest(bucket, folder, plan, tools.signal)
  const wanted = chosen(manifest, spec)
  await checkTarget(manifest, work)
  await checkRoom(wanted, work)
  const { backupName, engineVersion, createdAt } = manifest
  const fields = { backup: backupName, engineVersion, createdAt, collections: wanted.length }
  tools.log.info(fields, `the manifest of ${backupName} was read and fits the target`)
  tally.chosen(wanted, plan.cluster.replicas)
  tally.tell()
  return wanted
}

/** All are looked at before the first is touched; what does not fit has failed by itself. */
async function fitting(wanted: Wanted[], work: Work): Promise<Wanted[]> {
  const { tally } = work
  const fit: Wanted[] = []
  for (const one of wanted) {
    const left = tally.left(one.name)
    if (left === 'Completed' || left === 'Failed') continue
    // What this very restore has begun is not as it will be.
    if (isBegun(left) || (await succeeds(one.name, () => checkCollection(one, work), work))) {
      fit.push(one)
    }
    tally.tell()
    await tally.told()
  }
  return fit
}

async function restore(wanted: Wanted, work: Work): Promise<void> {
  const { tally, plan, tools } = work
  const { name, source } = wanted
  const left = tally.left(name)
  if (left === 'Completed' || left === 'Failed') return
  const done = source.snapshots.filter(({ nodeIndex }) => nodeIndex < left.nodesDone)
  const bytesDone = done.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
  tally.begin(name, plan.cluster.replicas, left, bytesDone)
  tools.log.info({ collection: name, ...left }, tally.line())
  await succeeds(
    name,
    async () => {
      if (left.nodesDone === 0) await makeReady(wanted, work, left.isOurs)
      await recoverNodes(wanted, work, left.nodesDone)
      await makeCopies(wanted, work)
      tally.completed(name, await finish(wanted, work))
      tools.log.info({ collection: name }, `collection ${name} is back`)
    },
    work,
  )
  tally.tell()
  await tally.told()
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

function isBegun({ nodesDone, isOurs }: Left): boolean {
  return nodesDone > 0 || isOurs
}

function endOf(tally: Tally): End {
  tally.finish()
  const result = tally.result()
  const message = tally.summary()
  if (result.failed === 0) return { state: 'Done', message, restore: result }
  return { state: 'Failed', reason: 'RestoreFailed', message, restore: result }
}

/**
 * `backup purge`: deletes the objects of a VecBackup that is being deleted, in a bucket that only the
 * identity of a ServiceAccount may access.
 */
import type { PurgePlan } from '../../crds/contract/job.ts'
import { StorageError } from '../../crds/contract/errors.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import type { Dependencies, RunResult } from '../dependencies.ts'
import type { Report } from '../reporter.ts'
import { purge, type Survey } from './purge-folder.ts'

export async function purgeBackup(plan: PurgePlan, tools: Dependencies): Promise<RunResult> {
  const { reporter, log } = tools
  const bucket = await tools.openBucket(plan.storage)
  const report = await purgeAll(bucket, plan, tools).finally(() => bucket.close())
  if (report.state !== 'Done') log.error({ reason: report.reason }, report.message)
  await reporter.finish(report)
  return report.state
}

async function purgeAll(
  bucket: Bucket,
  { storage, name, uid }: PurgePlan,
  { reporter, signal, time, log }: Dependencies,
): Promise<Report & { state: RunResult }> {
  let survey: Survey | undefined
  try {
    for (;;) {
      signal.throwIfAborted()
      const target = { prefix: storage.prefix, name, uid }
      const result = await purge(bucket, target, { signal, survey, now: time.now() })
      const { reader, others, done } = result
      if (reader !== undefined) {
        const message = `waiting for VecRestore ${reader.namespace}/${reader.name}, which recorded in the bucket that it reads the backup; the record expires at ${reader.until} unless the restore renews it`
        return { state: 'Refused', reason: 'WaitingForRestore', message }
      }
      if (done) {
        if (others === undefined) return { state: 'Done' }
        const message = `${others.count} objects that this backup did not write were not deleted, such as s3://${bucket.name}/${others.example}`
        return { state: 'Done', message }
      }
      survey = result.survey
      const left = `${survey?.left ?? 0} objects remain`
      log.info({ deleted: result.deleted }, left)
      await reporter.progress(left)
    }
  } catch (error) {
    if (!(error instanceof StorageError)) throw error
    return { state: 'Failed', reason: 'PurgeFailed', message: error.message }
  }
}

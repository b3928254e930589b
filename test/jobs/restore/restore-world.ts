/** What the tests of `restore run` share: the world of a backup, a VecRestore in it, and runs of the CLI. */
import type { Test } from 'tap'
import { JOB_ENV, encodePlan, parseProgress } from '../../../crds/contract/job.ts'
import { customResourceDefinition } from '../../../crds/crd.ts'
import { backupFolder } from '../../../crds/contract/backup-keys.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import type { RestorePlan, RestoreResult } from '../../../crds/contract/restore-job.ts'
import { VecRestore, type RestoreSpec } from '../../../crds/restore.ts'
import { backupWorld, type BackupWorld, type BackupWorldOptions } from '../backup/backup-world.ts'
import { startCli } from '../job-fixture.ts'
import { runJob, type RunOptions } from '../job-world.ts'

export type RestoreWorld = Awaited<ReturnType<typeof restoreWorld>>
export type Restore = Awaited<ReturnType<RestoreWorld['restore']>>

export async function restoreWorld(t: Test, options: BackupWorldOptions) {
  const world = await backupWorld(t, options)
  await world.api.create(customResourceDefinition(VecRestore, '0.0.0'))
  let count = 0
  return {
    ...world,
    /** A VecRestore of the backup, and what its Job is given. */
    restore: (spec: Partial<RestoreSpec> = {}, changes: Partial<RestorePlan> = {}) =>
      makeRestore(t, world, { name: `r${(count += 1)}`, spec, changes }),
  }
}

interface RestoreOptions {
  name: string
  spec: Partial<RestoreSpec>
  changes: Partial<RestorePlan>
}

async function makeRestore(t: Test, world: BackupWorld, { name, spec, changes }: RestoreOptions) {
  const created = await world.api.create({
    apiVersion: API_VERSION,
    kind: 'VecRestore',
    metadata: { namespace: 'ns', name },
    spec: {
      ...(spec.source === undefined && { backupRef: { name: 'b' } }),
      targetClusterRef: { name: 'a' },
      ...spec,
    },
  })
  const uid = created.metadata.uid ?? ''
  const { prefix, ...bucket } = world.plan.storage
  const plan: RestorePlan = {
    resource: 'vecrestores',
    namespace: 'ns',
    name,
    uid,
    run: 1,
    hash: 'hash-1',
    cluster: world.plan.cluster,
    source: { ...bucket, path: backupFolder({ prefix, name: 'b' }).slice(0, -1) },
    ...(spec.source === undefined && { backup: { name: 'b', uid: world.uid } }),
    ...changes,
  }
  const progress = async () => {
    const found = await world.api.get({
      apiVersion: API_VERSION,
      kind: 'VecRestore',
      namespace: 'ns',
      name,
    })
    return parseProgress(found?.metadata.annotations?.[ANNOTATIONS.progress], uid)
  }
  const env = { ...world.env, [JOB_ENV.plan]: encodePlan(plan, 'spec') }
  const args = ['restore', 'run', `ns/${name}`]
  return {
    plan,
    progress,
    result: async (): Promise<Partial<RestoreResult>> => (await progress())?.restore ?? {},
    /** In this process. */
    run: ({ pod, ...options }: RunOptions & { pod?: string } = {}) =>
      runJob(args, { ...env, ...(pod !== undefined && { [JOB_ENV.podUid]: pod }) }, options),
    /** As a separate process. */
    start: (extra: NodeJS.ProcessEnv = {}) => startCli(t, args, { ...env, ...extra }),
  }
}

/** What the tests of `migration run` share: an API server with a VecMigration, pods of the target, and runs of the CLI. */
import type { Test } from 'tap'
import { JOB_ENV, encodePlan, parseProgress } from '../../../crds/contract/job.ts'
import type { MigrationPlan, MigrationResult } from '../../../crds/contract/migration-job.ts'
import { VecMigration } from '../../../crds/migration.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import {
  byOrdinal,
  mountCredential,
  openApi,
  openNamespace,
  podEnv,
  startCli,
} from '../job-fixture.ts'
import { podOf, runJob, type RunOptions } from '../job-world.ts'

const NAME = { namespace: 'ns', name: 'm' }

export interface MigrationWorldOptions {
  /** Address of the source. */
  source: string
  /** Ports of the nodes of the target, cluster `a`. */
  ports: number[]
  spec?: Partial<VecMigration['spec']>
  /** Keys of the source, as they are mounted. */
  plan?: Partial<MigrationPlan>
}

export type MigrationWorld = Awaited<ReturnType<typeof migrationWorld>>

export async function migrationWorld(t: Test, options: MigrationWorldOptions) {
  const { source, ports, spec } = options
  const folder = t.testdir({})
  const { server, api } = await openApi(t, byOrdinal(ports))
  await openNamespace(api, VecMigration)
  for (const ordinal of ports.keys()) await api.create(podOf(`vec-a-${ordinal}`))
  const created = await api.create({
    apiVersion: API_VERSION,
    kind: 'VecMigration',
    metadata: NAME,
    spec: { source: { endpoint: { url: source } }, targetClusterRef: { name: 'a' }, ...spec },
  })
  const uid = created.metadata.uid ?? ''
  const env = podEnv(folder, server)
  const plan: MigrationPlan = {
    resource: 'vecmigrations',
    ...NAME,
    uid,
    run: 1,
    hash: 'hash-1',
    source: { url: source },
    target: { namespace: 'ns', name: 'a', replicas: ports.length, tls: false },
    ...options.plan,
  }
  const args = ['migration', 'run', 'ns/m']
  const progress = async () => {
    const found = await api.get({ ...NAME, apiVersion: API_VERSION, kind: 'VecMigration' })
    return parseProgress(found?.metadata.annotations?.[ANNOTATIONS.progress], uid)
  }
  return {
    api,
    env,
    plan,
    progress,
    result: async (): Promise<Partial<MigrationResult>> => (await progress())?.migration ?? {},
    credential: (name: string, key: string, value: string) =>
      mountCredential(folder, name, [key, value]),
    /** In this process. */
    run: ({ pod, ...rest }: RunOptions & { pod?: string } = {}) =>
      runJob(
        args,
        {
          ...env,
          ...(pod !== undefined && { [JOB_ENV.podUid]: pod }),
          [JOB_ENV.plan]: encodePlan(plan, 'spec'),
        },
        rest,
      ),
    /** As a separate process. */
    start: (extra: NodeJS.ProcessEnv = {}) =>
      startCli(t, args, { ...env, [JOB_ENV.plan]: encodePlan(plan, 'spec'), ...extra }),
  }
}

/** What the tests of `migration run` share: an API server with a VecMigration, pods of the target, and runs of the CLI. */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { JOB_ENV, encodePlan, parseProgress } from '../../../crds/command.ts'
import { definitionOf } from '../../../crds/definition.ts'
import type { MigrationPlan, MigrationResult } from '../../../crds/migration-command.ts'
import { VecMigration } from '../../../crds/migration.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/names.ts'
import { COMPILED } from '../../compiled.ts'
import { startApi } from '../../world/api/server.ts'
import { ApiClient } from '../../world/client.ts'
import { MovableClock } from '../../world/clock.ts'
import { JOB, RUNNER, START, podOf, runJob, type RunOptions } from '../job-world.ts'

const CLI = fileURLToPath(new URL('../../../jobs/cli.ts', import.meta.url))
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
  const server = await startApi(new MovableClock(START))
  const api = new ApiClient({ server: server.url, token: server.token })
  t.teardown(async () => {
    await api.close()
    await server.close()
  })
  server.attach({
    log: () => undefined,
    port: (_, pod) => ports[Number(/-(\d+)$/.exec(pod)?.[1])],
  })
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  const account = { name: 'default', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  await api.create(definitionOf(VecMigration, '0.0.0'))
  for (const ordinal of ports.keys()) await api.create(podOf(`vec-a-${ordinal}`))
  const created = await api.create({
    apiVersion: API_VERSION,
    kind: 'VecMigration',
    metadata: NAME,
    spec: { source: { endpoint: { url: source } }, targetClusterRef: { name: 'a' }, ...spec },
  })
  const uid = created.metadata.uid ?? ''
  writeFileSync(join(folder, 'token'), server.token)
  const env: NodeJS.ProcessEnv = {
    ...COMPILED,
    PATH: process.env['PATH'],
    VEC_API_SERVER: server.url,
    VEC_API_TOKEN_FILE: join(folder, 'token'),
    VEC_CREDENTIALS: join(folder, 'credentials'),
    VEC_ENGINE_ROUTE: 'proxy',
    [JOB_ENV.podUid]: RUNNER,
    [JOB_ENV.jobUid]: JOB,
  }
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
    credential(name: string, key: string, value: string) {
      mkdirSync(join(folder, 'credentials', name), { recursive: true })
      writeFileSync(join(folder, 'credentials', name, key), value)
    },
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
    /** As a process of its own. */
    start(extra: NodeJS.ProcessEnv = {}) {
      const child = spawn(process.execPath, [CLI, ...args], {
        env: { ...env, [JOB_ENV.plan]: encodePlan(plan, 'spec'), LOG_FORMAT: 'text', ...extra },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      return { child, log: text(child.stdout) }
    },
  }
}

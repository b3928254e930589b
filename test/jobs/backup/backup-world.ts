/** What the tests of `backup run` share: an API server with a VecBackup and pods, credentials, and runs of the CLI. */
import { spawn } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { VecBackup, type BackupMethod } from '../../../crds/backup.ts'
import { JOB_ENV, encodePlan, parseProgress, type BackupPlan } from '../../../crds/command.ts'
import { definitionOf } from '../../../crds/definition.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/names.ts'
import type { S3Target } from '../../../crds/storage.ts'
import { COMPILED } from '../../compiled.ts'
import { startApi } from '../../world/api/server.ts'
import { ApiClient, type ApiObject } from '../../world/client.ts'
import { MovableClock } from '../../world/clock.ts'
import { JOB, RUNNER, START, podOf, runJob, type RunOptions } from '../job-world.ts'

const CLI = fileURLToPath(new URL('../../../jobs/cli.ts', import.meta.url))

export interface BackupWorldOptions {
  /** Where the engine's nodes answer on loopback, by ordinal. */
  ports: number[]
  /** Where the store answers. */
  endpoint: string
  bucket?: string
  prefix?: string
  collections?: string[]
  method?: BackupMethod
  parallelism?: number
  credentials?: Record<string, string>
}

export type BackupWorld = Awaited<ReturnType<typeof backupWorld>>

export async function backupWorld(t: Test, options: BackupWorldOptions) {
  const { ports, endpoint, bucket = 'backups', prefix = 'nightly', collections } = options
  const { method = 'Node', parallelism = 2 } = options
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
  await api.create(definitionOf(VecBackup, '0.0.0'))
  for (const ordinal of ports.keys()) await api.create(podOf(`vec-a-${ordinal}`))
  const storage: S3Target = {
    bucket,
    prefix,
    region: 'us-east-1',
    endpoint,
    forcePathStyle: true,
    credentialsSecretRef: {
      name: 'keys',
      accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
      secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
    },
  }
  const uid = await createBackup(api, storage, collections)
  writeFileSync(join(folder, 'token'), server.token)
  const mounted = join(folder, 'credentials', 'bucket')
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
  const plan: BackupPlan = {
    resource: 'vecbackups',
    namespace: 'ns',
    name: 'b',
    uid,
    run: 1,
    hash: 'hash-1',
    cluster: { namespace: 'ns', name: 'a', replicas: ports.length, tls: false },
    storage,
    method,
    parallelism,
  }
  const world = {
    api,
    env,
    uid,
    plan,
    /** `<prefix>/<name>/` */
    folder: prefix === '' ? 'b/' : `${prefix}/b/`,
    /** Mounts these keys, and no others. */
    credentials(keys: Record<string, string>) {
      rmSync(mounted, { recursive: true, force: true })
      mkdirSync(mounted, { recursive: true })
      for (const [key, value] of Object.entries(keys)) writeFileSync(join(mounted, key), value)
    },
    async progress() {
      const found = await api.get({ ...NAME, apiVersion: API_VERSION, kind: 'VecBackup' })
      return parseProgress(found?.metadata.annotations?.[ANNOTATIONS.progress], uid)
    },
    /** In this process. */
    run: (
      changes: Partial<BackupPlan> = {},
      { pod, ...rest }: RunOptions & { pod?: string } = {},
    ) =>
      runJob(
        ['backup', 'run', 'ns/b'],
        {
          ...env,
          ...(pod !== undefined && { [JOB_ENV.podUid]: pod }),
          [JOB_ENV.plan]: encodePlan({ ...plan, ...changes }, 'spec'),
        },
        rest,
      ),
    /** As a process of its own. */
    start(extra: NodeJS.ProcessEnv = {}) {
      const child = spawn(process.execPath, [CLI, 'backup', 'run', 'ns/b'], {
        env: { ...env, [JOB_ENV.plan]: encodePlan(plan, 'spec'), LOG_FORMAT: 'text', ...extra },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      t.teardown(() => child.kill('SIGKILL'))
      return { child, log: text(child.stdout) }
    },
    verify: (target: string, ...flags: string[]) =>
      runJob(['backup', 'verify', target, '--endpoint', endpoint, '--path-style', ...flags], {
        ...env,
        ...(options.credentials ?? KEYS),
      }),
  }
  world.credentials(options.credentials ?? KEYS)
  return world
}

export const KEYS = { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'secretsecret' }
const NAME = { namespace: 'ns', name: 'b' }

async function createBackup(api: ApiClient, storage: S3Target, collections: string[] | undefined) {
  const backup: ApiObject = await api.create({
    apiVersion: API_VERSION,
    kind: 'VecBackup',
    metadata: NAME,
    spec: {
      clusterRef: { name: 'a' },
      storage: { s3: storage },
      ...(collections !== undefined && { collections }),
    },
  })
  return backup.metadata.uid ?? ''
}

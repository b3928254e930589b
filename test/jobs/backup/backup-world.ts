/** What the tests of `backup run` share: an API server with a VecBackup and pods, credentials, and runs of the CLI. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { VecBackup, type BackupMethod } from '../../../crds/backup.ts'
import { JOB_ENV, encodePlan, parseProgress, type BackupPlan } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import type { S3Target } from '../../../crds/storage.ts'
import type { ApiClient, ApiObject } from '../../world/client.ts'
import { byOrdinal, openApi, openNamespace, podEnv, startCli } from '../job-fixture.ts'
import { podOf, runJob, type RunOptions } from '../job-world.ts'

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
  const { server, api } = await openApi(t, byOrdinal(ports))
  await openNamespace(api, VecBackup)
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
  const mounted = join(folder, 'credentials', 'bucket')
  const env = podEnv(folder, server)
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
  const args = ['backup', 'run', 'ns/b']
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
    /** Mounts this file as the certificate authority that the bucket names. */
    authority(key: string, content: string) {
      const mountedCa = join(folder, 'credentials', 'bucket-ca')
      mkdirSync(mountedCa, { recursive: true })
      writeFileSync(join(mountedCa, key), content)
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
        args,
        {
          ...env,
          ...(pod !== undefined && { [JOB_ENV.podUid]: pod }),
          [JOB_ENV.plan]: encodePlan({ ...plan, ...changes }, 'spec'),
        },
        rest,
      ),
    /** As a separate process. */
    start: (extra: NodeJS.ProcessEnv = {}) =>
      startCli(t, args, { ...env, [JOB_ENV.plan]: encodePlan(plan, 'spec'), ...extra }),
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

/** A real engine of three nodes, each where its pod would answer, next to a real store; and Jobs that work on both. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { VecBackup, type BackupMethod } from '../../crds/backup.ts'
import { JOB_ENV, encodePlan, type BackupPlan } from '../../crds/contract/job.ts'
import { API_VERSION, HTTP_PORT } from '../../crds/contract/names.ts'
import type { RestorePlan } from '../../crds/contract/restore-job.ts'
import { VecRestore } from '../../crds/restore.ts'
import { realStore } from '../contract/bucket/real.ts'
import { realSubject } from '../contract/engine/real.ts'
import { STORAGE, mountKeys } from './bucket.ts'
import { call } from './engine-calls.ts'
import { jobCommand, startJobApi, taken, type Taken } from './job.ts'

/** Next to those of the other parts. */
const HOSTS = ['127.0.0.4', '127.0.0.5', '127.0.0.6']
const CLUSTER = { namespace: 'ns', name: 'a', replicas: HOSTS.length, tls: false }

export interface ThreeNodes {
  /** Where each node answers, by ordinal. */
  urls: string[]
  /** The store, for who asks it next to the Jobs. */
  endpoint: string
  /** A VecBackup of everything there is. */
  backUp(method: BackupMethod): Promise<BackedUp>
  /** A VecRestore of it; its collections must not be there. */
  restore(backup: BackedUp): Promise<Taken>
  /** Deletes it from the store: the next one needs the disk. */
  forget(backup: BackedUp): void
  close(): Promise<void>
}

export interface BackedUp extends Taken {
  uid: string
  /** Where manifest.json lies. */
  path: string
  /** Of all snapshots. */
  bytes: number
}

export async function threeNodes(
  bin: { engine: string; store: string },
  folder: string,
): Promise<ThreeNodes> {
  mountKeys(folder)
  const store = await realStore(bin.store, folder)
  const setting = { size: 'three', service: {} } as const
  const engine = await realSubject(bin.engine, setting, { hosts: HOSTS, port: HTTP_PORT })
  let run = 0
  const runJob = async (
    kind: typeof VecBackup | typeof VecRestore,
    spec: object,
    plan: (uid: string) => object,
  ) => {
    const metadata = { namespace: 'ns', name: `b${run}` }
    const object = { apiVersion: API_VERSION, kind: kind.kind, metadata, spec }
    const api = await startJobApi(kind, object, folder)
    const env = {
      ...api.env,
      VEC_CREDENTIALS: join(folder, 'credentials'),
      LOOPBACK_CLUSTER: HOSTS.join(','),
      [JOB_ENV.plan]: encodePlan(plan(api.uid), 'spec'),
    }
    const words = [kind.kind === 'VecBackup' ? 'backup' : 'restore', 'run', `ns/b${run}`]
    try {
      return { uid: api.uid, ...(await taken(jobCommand(words, env))) }
    } finally {
      await api.close()
    }
  }
  const base = (uid: string, resource: string) => ({
    ...{ resource, namespace: 'ns', name: `b${run}`, uid, run: 1, hash: 'hash' },
    cluster: CLUSTER,
  })
  return {
    urls: engine.urls,
    endpoint: store.endpoint,
    async backUp(method) {
      run += 1
      const storage = { ...STORAGE, endpoint: store.endpoint, prefix: 'bench' }
      const spec = { clusterRef: { name: 'a' }, storage: { s3: storage }, method }
      const ended = await runJob(VecBackup, spec, (uid): BackupPlan => ({
        ...base(uid, VecBackup.plural),
        ...{ storage, method, parallelism: 2 },
      }))
      return { ...ended, path: `bench/b${run}`, bytes: bytesIn(ended.output) }
    },
    async restore({ uid, path }) {
      run += 1
      const source = { ...STORAGE, endpoint: store.endpoint, path }
      const spec = { source: { s3: source }, targetClusterRef: { name: 'a' } }
      return runJob(VecRestore, spec, (own): RestorePlan => ({
        ...base(own, VecRestore.plural),
        ...{ source, backup: { name: 'b', uid } },
      }))
    },
    forget: ({ path }) => rmSync(join(folder, 'data', STORAGE.bucket, path), { recursive: true }),
    async close() {
      await engine.close()
      await store.close()
    },
  }
}

export async function remove({ urls }: Pick<ThreeNodes, 'urls'>, collection: string) {
  await call(urls[0] ?? '', 'DELETE', `/collections/${collection}?timeout=60`)
}

/** From its log: one line for each object. */
function bytesIn(output: string): number {
  const lines = output.trim().split('\n')
  return lines
    .map((line) => JSON.parse(line) as { msg: string; bytes?: number })
    .filter(({ msg }) => msg.startsWith('uploaded '))
    .reduce((sum, { bytes = 0 }) => sum + bytes, 0)
}

/** Two real engines, and the Job of a VecMigration from the one into the other. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JOB_ENV, encodePlan } from '../../crds/contract/job.ts'
import type { MigrationPlan } from '../../crds/contract/migration-job.ts'
import { VecMigration } from '../../crds/migration.ts'
import { API_VERSION, HTTP_PORT } from '../../crds/contract/names.ts'
import { realSubject, type RealSubject } from '../contract/engine/real.ts'
import { CLUSTER_HOST, jobCommand, startJobApi, type Command } from './job.ts'

const NAME = { namespace: 'ns', name: 'm' }

export interface Engines {
  source: RealSubject
  target: RealSubject
}

export async function withEngines<Result>(
  bin: string,
  measure: (engines: Engines) => Promise<Result>,
): Promise<Result> {
  const setting = { size: 'one', service: {} } as const
  const source = await realSubject(bin, setting)
  try {
    const target = await realSubject(bin, setting, { host: CLUSTER_HOST, port: HTTP_PORT })
    try {
      return await measure({ source, target })
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

/** The Job of a separate resource: one that has ended is not run again. */
export async function withJob<Result>(
  { source }: Engines,
  collections: string[],
  run: (command: Command) => Promise<Result>,
): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const url = source.urls[0] ?? ''
  const spec = { source: { endpoint: { url } }, targetClusterRef: { name: 'a' }, collections }
  const identity = { apiVersion: API_VERSION, kind: 'VecMigration', metadata: NAME }
  const api = await startJobApi(VecMigration, { ...identity, spec }, folder)
  const plan: MigrationPlan = {
    ...{ resource: 'vecmigrations', ...NAME, uid: api.uid, run: 1, hash: 'hash' },
    source: { url },
    target: { namespace: 'ns', name: 'a', replicas: 1, tls: false },
  }
  const env = { ...api.env, [JOB_ENV.plan]: encodePlan(plan, 'spec') }
  try {
    return await run(jobCommand(['migration', 'run', 'ns/m'], env))
  } finally {
    await api.close()
    rmSync(folder, { recursive: true })
  }
}

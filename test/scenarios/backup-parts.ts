/** What the scenarios about backups share: resources, a cluster with something in it, and a look at the bucket. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { BackupStatus } from '../../crds/backup.ts'
import type { BackupScheduleStatus } from '../../crds/backup-schedule.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Condition } from '../../crds/schema.ts'
import type { BucketCall, PassingState, Reference, World, WorldBucket } from '../world/world.ts'
import { jobsIn, running, untilGone } from './scenario.ts'

const CLI = fileURLToPath(new URL('../../jobs/main.ts', import.meta.url))

/** A VecBackup or VecBackupSchedule of cluster `a` into this bucket, as a user writes it. */
export function backupResource(
  kind: 'VecBackup' | 'VecBackupSchedule',
  { namespace, name }: { namespace: string; name: string },
  { target }: WorldBucket,
) {
  const reference: Reference = { apiVersion: API_VERSION, kind, namespace, name }
  const of = (spec: object = {}, annotations: Record<string, string> = {}): object => ({
    apiVersion: API_VERSION,
    kind,
    metadata: { namespace, name, annotations },
    spec: { clusterRef: { name: 'a' }, storage: { s3: target }, ...spec },
  })
  return { reference, of }
}

/** Names of the Jobs of backups in a namespace, in the order of their runs. */
export async function backupJobs(world: World, namespace: string): Promise<string[]> {
  return (await jobsIn(world, namespace)).filter((name) => /-backup-[0-9a-f]{5}-\d+$/.test(name))
}

export function backupStatus(object: AnyObject | undefined): BackupStatus {
  return (object as { status?: BackupStatus } | undefined)?.status ?? {}
}

export function scheduleStatus(object: AnyObject | undefined): BackupScheduleStatus {
  return (object as { status?: BackupScheduleStatus } | undefined)?.status ?? {}
}

/** The message of the condition Complete of a backup, or Ready of a schedule. */
export function said(object: AnyObject | undefined): Condition | undefined {
  return backupStatus(object).conditions?.find(({ type }) => ['Complete', 'Ready'].includes(type))
}

/** Waits until a backup has ended in this phase; fails as soon as it has ended in the other. */
export async function untilEnded(
  world: World,
  reference: Reference,
  phase: 'Completed' | 'Failed' = 'Completed',
): Promise<BackupStatus> {
  const object = await world.waitFor(
    reference,
    'ended',
    (found) => ['Completed', 'Failed'].includes(backupStatus(found).phase ?? ''),
    600,
  )
  const status = backupStatus(object)
  if (status.phase !== phase) throw new Error(`${reference.name} is ${JSON.stringify(status)}`)
  return status
}

/** Waits until the status reports that the Job of a backup is running. */
export async function untilInProgress(world: World, reference: Reference): Promise<void> {
  const isInProgress = (found: AnyObject | undefined) => backupStatus(found).phase === 'InProgress'
  await world.waitFor(reference, 'in progress', isInProgress)
}

export function untilSaid(world: World, reference: Reference, reason: string, seconds = 180) {
  return world.waitFor(reference, reason, (object) => said(object)?.reason === reason, seconds)
}

/** What a resource says, perhaps for a moment only. */
export function saying(reason: string, seconds = 180): PassingState {
  return { what: reason, isReached: (object) => said(object)?.reason === reason, seconds }
}

export async function deleted(world: World, reference: Reference): Promise<void> {
  await world.delete(reference)
  await untilGone(world, reference, 180)
}

/** Waits for what is not an object of the API. */
export async function eventually(
  world: World,
  what: string,
  isTrue: () => boolean | Promise<boolean>,
  seconds = 300,
): Promise<void> {
  for (let left = seconds; !(await isTrue()); left -= 1) {
    if (left <= 0) throw new Error(`not so after ${seconds} s: ${what}`)
    await world.advance(1)
  }
}

/** A namespace with a bucket and cluster `a`, and these collections in it. */
export async function filledCluster(world: World, purpose: string, collections = ['docs']) {
  const namespace = await world.namespace(purpose)
  const bucket = await world.bucket(namespace)
  const cluster = await running(world, namespace, 'a')
  for (const name of collections) await fill(world, namespace, name)
  return { namespace, bucket, cluster }
}

/** Makes a collection with an index, an alias and some points in cluster `a`. */
export async function fill(world: World, namespace: string, name: string, spec: object = {}) {
  const call = (method: string, path: string, body: object) =>
    world.engine({ namespace, name: 'vec-a-0' }, method, path, body)
  const path = `/collections/${encodeURIComponent(name)}`
  await call('PUT', `${path}?timeout=60`, { vectors: { size: 4, distance: 'Dot' }, ...spec })
  await call('PUT', `${path}/index?wait=true`, { field_name: 'author', field_schema: 'keyword' })
  const create_alias = { collection_name: name, alias_name: `${name} today` }
  await call('POST', '/collections/aliases', { actions: [{ create_alias }] })
  const upsert = (body: object) => call('PUT', `${path}/points?wait=true`, body)
  return {
    call: (method: string, rest: string, body: object) => call(method, path + rest, body),
    upsert,
  }
}

/** Points one after the other from this id on. */
export function points(count: number, from = 1): object[] {
  return Array.from({ length: count }, (_, index) => ({
    id: from + index,
    vector: [index, 1, 2, 3],
    payload: { author: `author ${index % 3}` },
  }))
}

/** Snapshot files that the engine's nodes still have of a collection. */
export async function engineFiles(
  world: World,
  namespace: string,
  nodes: number,
  collection: string,
): Promise<string[]> {
  const path = `/collections/${encodeURIComponent(collection)}/snapshots`
  const files: string[] = []
  for (let node = 0; node < nodes; node += 1) {
    const answer = await world.engine({ namespace, name: `vec-a-${node}` }, 'GET', path)
    files.push(...(answer as { result: { name: string }[] }).result.map(({ name }) => name))
  }
  return files
}

/** How often the bytes of each snapshot were sent, by key. */
export function uploads(bucket: WorldBucket): Record<string, number> {
  const begun = bucket
    .calls()
    .filter(isUpload)
    .map(({ key }) => key)
  return Object.fromEntries(
    Object.entries(Object.groupBy(begun, String)).map(([key, times]) => [key, times?.length ?? 0]),
  )
}

/** One object in one call, or the first of its parts. */
export function isUpload({ method, key, query }: BucketCall): boolean {
  return method === 'PUT' && key.endsWith('.snapshot') && (query['partNumber'] ?? '1') === '1'
}

/** Holds the uploads under a prefix until they are released. */
export function heldUpload(bucket: WorldBucket, prefix = '') {
  const { promise: hold, resolve: release } = Promise.withResolvers<undefined>()
  const isHeld = (call: BucketCall) => isUpload(call) && call.key.startsWith(prefix)
  bucket.misbehave((call) => (isHeld(call) ? { hold } : undefined))
  return {
    begun: () => bucket.calls().some(isHeld),
    release() {
      bucket.misbehave()
      release(undefined)
    },
  }
}

/** The companion CLI verifies a backup from the bucket alone, as a user runs it. */
export async function verify(bucket: WorldBucket, path: string) {
  const { endpoint, accessKeyId, secretAccessKey } = bucket.access
  const args = ['backup', 'verify', `s3://${bucket.name}/${path}`, '--endpoint', endpoint]
  const env = {
    ...process.env,
    CLOUD_ACCESS_KEY_ID: accessKeyId,
    CLOUD_SECRET_ACCESS_KEY: secretAccessKey,
    LOG_FORMAT: 'text',
  }
  try {
    const run = promisify(execFile)
    const { stdout } = await run(process.execPath, [CLI, ...args, '--path-style'], { env })
    return { code: 0, output: stdout }
  } catch (error) {
    const { code, stdout } = error as { code: number; stdout: string }
    return { code, output: stdout }
  }
}

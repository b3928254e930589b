/**
 * VecBackup, VecRestore and VecMigration: what they wait for, when their Job may start, and how they
 * end. Sources: "States and transitions" of the specification, docs/kinds/{backup,restore,migration}.md.
 */
import fc from 'fast-check'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { result as backupResult } from '../../hooks/backup/objects.ts'
import { result as migrationResult } from '../../hooks/migration/objects.ts'
import { result as restoreResult } from '../../hooks/restore/objects.ts'
import { engineOf } from '../../doubles/engine/without-server.ts'
import { Broken } from '../promises.ts'
import type { Stage } from '../stage.ts'
import { endJob, report } from './job-steps.ts'
import { Run, unfinishedJobs, type Model, type Expectation } from './model.ts'
import {
  drop,
  HOME,
  namespaceOf,
  putCluster,
  putSecret,
  replace,
  type Access,
  type ClusterState,
  type SecretState,
} from './surroundings.ts'

type Kind = 'VecBackup' | 'VecRestore' | 'VecMigration'
type BackupState = 'absent' | 'deleting' | 'Pending' | 'InProgress' | 'Failed' | 'Completed'
type End = 'Done' | 'Failed' | 'crash'

export interface DataJobCase {
  cluster: ClusterState
  access: Access
  /** Secret with the API key of the cluster. */
  apiKey: 'absent' | 'good'
  /** Secret with the credentials of the bucket, or the key of the engine that is copied from. */
  credentials: SecretState
  /** Only a restore reads it. */
  backup: BackupState
  /** A VecRestore works on the cluster. */
  isBusy: boolean
  end: End
}

/** How a kind names what it does. */
interface Words {
  noun: string
  running: readonly string[]
}

const WORDS: Record<Kind, Words> = {
  VecBackup: { noun: 'Backup', running: ['InProgress'] },
  VecRestore: { noun: 'Restore', running: ['Downloading', 'Restoring'] },
  VecMigration: { noun: 'Migration', running: ['Running'] },
}

/** Mostly in order, so that many cases reach their Job. */
function mostly<T>(good: T, ...others: T[]): fc.Arbitrary<T> {
  return fc.oneof({ arbitrary: fc.constant(good), weight: 4 }, fc.constantFrom(...others))
}

const cases: fc.Arbitrary<DataJobCase> = fc.record(
  {
    cluster: mostly<ClusterState>('Running', 'absent', 'deleting', 'Pending', 'Upgrading', 'split'),
    access: fc.constantFrom<Access>('own', 'own', 'allowed', 'allowed', 'denied'),
    apiKey: mostly<'absent' | 'good'>('good', 'absent'),
    credentials: mostly<SecretState>('good', 'absent', 'empty', 'token'),
    backup: mostly<BackupState>(
      'Completed',
      'absent',
      'deleting',
      'Pending',
      'InProgress',
      'Failed',
    ),
    isBusy: mostly(false, true),
    end: fc.constantFrom<End>('Done', 'Failed', 'crash'),
  },
  { noNullPrototype: true },
)

export function dataJobModel(kind: Kind): Model<DataJobCase> {
  return { kind, cases, run: (stage, one) => runCase(stage, kind, one) }
}

/** Every reason for which the Job may not start. The order in which a resource names them is its own. */
export function blockersOf(kind: Kind, one: DataJobCase): string[] {
  const { cluster, access, apiKey, credentials, backup, isBusy } = one
  const found: string[] = []
  const isThere = cluster !== 'absent'
  if (cluster === 'absent' || cluster === 'deleting') found.push('ClusterNotFound')
  if (['Pending', 'Upgrading', 'split'].includes(cluster)) found.push('ClusterNotReady')
  if (isThere && access === 'denied') found.push('RefNotPermitted')
  if (isThere && apiKey === 'absent') found.push('SecretNotFound')
  // A restore of a backup takes the credentials of the backup.
  if (credentials === 'absent') found.push('SecretNotFound')
  if (credentials === 'empty' || credentials === 'token') found.push('InvalidSecret')
  if (kind === 'VecRestore') {
    if (backup === 'absent' || backup === 'deleting') found.push('BackupNotFound')
    if (backup === 'Pending' || backup === 'InProgress') found.push('BackupNotCompleted')
  }
  if (isBusy) found.push('ClusterBusy')
  return [...new Set(found)]
}

/** What must be seen while nothing changes. */
export function expected(kind: Kind, one: DataJobCase): Expectation[] {
  const { noun } = WORDS[kind]
  const verdicts = blockersOf(kind, one).map((reason) => ({
    ...{ phase: 'Pending', condition: `Complete=False ${reason}` },
    jobs: 0,
  }))
  const isHopeless = kind === 'VecRestore' && one.backup === 'Failed'
  if (isHopeless) {
    verdicts.push({ phase: 'Failed', condition: `Complete=False ${noun}Failed`, jobs: 0 })
  }
  if (verdicts.length > 0) return verdicts
  return [{ phase: 'Pending', condition: `Complete=False ${noun}Starting`, jobs: 1 }]
}

async function runCase(stage: Stage, kind: Kind, one: DataJobCase): Promise<string> {
  const { noun, running } = WORDS[kind]
  stage.clear()
  stage.engine = engineOf(new EngineCluster({ staleMs: 0 }))
  const good: DataJobCase = {
    ...one,
    ...{ cluster: 'Running', apiKey: 'good', credentials: 'good', backup: 'Completed' },
    ...{ access: one.access === 'denied' ? 'allowed' : one.access, isBusy: false },
  }
  surround(stage, good)
  const other = one.isBusy ? await startOther(stage, good) : undefined
  surround(stage, one)
  const parent = stage.put(objectOf(kind, one))
  const run = new Run(stage, parent, ['Completed', 'Failed'])
  const found = await run.expect(expected(kind, one), 'at first')
  if (found.phase === 'Failed') return `${kind} Failed at once`
  const word = found.jobs === 0 ? found.condition.split(' ').at(-1) : one.end

  // What was missing comes: within a bounded number of passes the Job starts.
  if (found.jobs === 0) {
    surround(stage, good)
    if (other !== undefined)
      for (const job of unfinishedJobs(stage, other)) endJob(stage, job, 'Complete')
    await run.expect(expected(kind, good), 'once nothing is missing')
  }
  await untilEnd(run, kind, { one, noun, running })
  return `${kind} ${word}`
}

async function untilEnd(
  run: Run,
  kind: Kind,
  { one, noun, running }: { one: DataJobCase } & Words,
): Promise<void> {
  const { stage, parent } = run
  const [job] = unfinishedJobs(stage, parent)
  if (job === undefined) throw new Broken('its Job is gone')
  report(stage, parent, job, { state: 'Started', ...resultOf(kind, 'Started') })
  const phases = running.map((phase) => ({
    ...{ phase, condition: `Complete=False ${noun}Running` },
    jobs: 1,
  }))
  await run.expect(phases, 'while its Job works')
  if (one.end !== 'crash')
    report(stage, parent, job, { state: one.end, ...resultOf(kind, one.end) })
  endJob(stage, job, one.end === 'Done' ? 'Complete' : 'Failed')
  const isDone = one.end === 'Done'
  await run.expect(
    [
      {
        phase: isDone ? 'Completed' : 'Failed',
        condition: `Complete=${isDone ? 'True' : 'False'} ${noun}${isDone ? 'Completed' : 'Failed'}`,
        jobs: 0,
      },
    ],
    'at its end',
  )
}

function resultOf(kind: Kind, state: 'Started' | 'Done' | 'Failed'): object {
  const failed = state === 'Failed' ? 1 : 0
  const counts = { total: 2, completed: state === 'Started' ? 1 : 2 - failed, failed }
  const error = failed > 0 ? { error: 'the store is full' } : {}
  const rest = { ...counts, ...error, collections: [] }
  const unlisted = { completed: counts.completed, failed, pending: 2 - counts.completed - failed }
  switch (kind) {
    case 'VecBackup':
      return { backup: backupResult({ ...rest, unlisted }) }
    case 'VecRestore':
      return { restore: restoreResult({ ...rest, unlisted }) }
    case 'VecMigration':
      return { migration: migrationResult({ ...rest, unlisted }) }
  }
}

const S3 = {
  bucket: 'store',
  region: 'us-east-1',
  endpoint: 'https://s3.example.com',
  credentialsSecretRef: { name: 'credentials' },
}
const KEYS = ['CLOUD_ACCESS_KEY_ID', 'CLOUD_SECRET_ACCESS_KEY', 'key']

function objectOf(kind: Kind, { access }: DataJobCase) {
  const ref = { name: 'main', namespace: namespaceOf(access) }
  const specs: Record<Kind, object> = {
    VecBackup: { clusterRef: ref, storage: { s3: { ...S3, prefix: 'p' } } },
    VecRestore: { targetClusterRef: ref, backupRef: { name: 'saved' } },
    VecMigration: {
      targetClusterRef: ref,
      source: {
        endpoint: {
          url: 'https://engine.example.com',
          apiKeySecretRef: { name: 'credentials', key: 'key' },
        },
      },
    },
  }
  const metadata = { name: 'one', namespace: HOME }
  return { apiVersion: API_VERSION, kind, metadata, spec: specs[kind] }
}

function surround(stage: Stage, one: DataJobCase): void {
  const { cluster: state, access, apiKey, credentials, backup } = one
  const elsewhere = { apiVersion: API_VERSION, kind: 'VecCluster' }
  const existing = stage.find({
    ...elsewhere,
    metadata: { name: 'main', namespace: namespaceOf(access) },
  })
  // A cluster that was being deleted is gone before one of its name is created again.
  if (existing?.metadata.deletionTimestamp !== undefined) drop(stage, existing)
  putCluster(stage, { state, access })
  const namespace = namespaceOf(access)
  putSecret(stage, { namespace, name: 'vec-main-apikey', state: apiKey }, ['api-key'])
  putSecret(stage, { namespace: HOME, name: 'credentials', state: credentials }, KEYS)
  putBackup(stage, backup)
}

function putBackup(stage: Stage, state: BackupState): void {
  const metadata = { name: 'saved', namespace: HOME }
  const identity = { apiVersion: API_VERSION, kind: 'VecBackup' }
  const spec = { clusterRef: { name: 'gone' }, storage: { s3: { ...S3, prefix: 'saved' } } }
  const found = stage.find({ ...identity, metadata })
  if (found?.metadata.deletionTimestamp !== undefined) drop(stage, found)
  if (state === 'absent') {
    drop(stage, { ...identity, metadata })
    return
  }
  const isDeleting = state === 'deleting'
  replace(stage, {
    ...identity,
    metadata: { ...metadata, ...(isDeleting && { finalizers: ['fuzz.test/held'] }) },
    spec,
    status: { phase: isDeleting ? 'Completed' : state },
  })
  if (isDeleting)
    stage.resources.delete(stage.resources.kinds.of(API_VERSION, 'VecBackup'), metadata)
}

/** A VecRestore in the namespace of the cluster whose Job works. */
async function startOther(stage: Stage, { access }: DataJobCase) {
  const namespace = namespaceOf(access)
  putSecret(stage, { namespace, name: 'credentials-of-other', state: 'good' }, KEYS)
  const s3 = { ...S3, path: 'q/b', credentialsSecretRef: { name: 'credentials-of-other' } }
  const other = stage.put({
    apiVersion: API_VERSION,
    kind: 'VecRestore',
    metadata: { name: 'other', namespace },
    spec: { targetClusterRef: { name: 'main' }, source: { s3 } },
  })
  const run = new Run(stage, other)
  await run.expect(
    [{ phase: 'Pending', condition: 'Complete=False RestoreStarting', jobs: 1 }],
    'the other restore',
  )
  const [job] = unfinishedJobs(stage, other)
  if (job !== undefined) report(stage, other, job, { state: 'Started', restore: restoreResult() })
  return other
}

/** The size of a finished backup: its schedule gets all of them in one request. */
import t from 'tap'
import type { BackupStatus, VecBackup } from '../../../crds/backup.ts'
import type { BackupResult, Progress } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION, hashNames } from '../../../crds/contract/names.ts'
import { context, NOW } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { hookRequest } from '../request.ts'
import { callHook, withProgress } from './call-hook.ts'
import { result } from './objects.ts'

const COLLECTIONS = 100
const NODES = 3
const DAY_MS = 86_400_000
const ended = { state: 'Done' as const, at: '2026-03-01T11:59:00Z' }
const names = Array.from({ length: COLLECTIONS }, (_, at) => `team-${at}-documents`)
const full = (more: Partial<BackupResult> = {}) => {
  const collectionHashes = hashNames(names)
  return result({
    total: COLLECTIONS,
    completed: COLLECTIONS - 1,
    failed: 1,
    ...(collectionHashes !== undefined && { collectionHashes }),
    collections: names.map((name, at) => ({
      name,
      status: at === 70 ? 'Failed' : 'Completed',
      ...(at === 70 && { error: 'e'.repeat(1000) }),
      bytes: 1_000_000,
      snapshots: Array.from({ length: NODES }, (_, node) => ({
        node,
        snapshotName: `${name}-1234567890-2026-03-01-03-00-00.snapshot`,
        key: `daily/b/${name}/node-${node}/${name}-1234567890-2026-03-01-03-00-00.snapshot`,
      })),
    })),
    ...more,
  })
}

function scheduled(backup: VecBackup): VecBackup {
  const owner = { apiVersion: API_VERSION, kind: 'VecBackupSchedule', name: 'nightly', uid: 'u' }
  const ownerReferences = [{ ...owner, controller: true, blockOwnerDeletion: true }]
  return { ...backup, metadata: { ...backup.metadata, ownerReferences } }
}

/** The answer to a finished backup, and the report that replaces its own. */
async function after(parent: VecBackup, ms: number) {
  const reports: Progress[] = []
  const { desired } = await callHook(
    'sync',
    hookRequest(parent),
    { replaceReport: async (_, report) => void reports.push(report) },
    { ...context, now: new Date(NOW.getTime() + ms) },
  )
  return { status: desired.status, report: reports[0] }
}

/** The backup with its final status, as the API server stores it. */
async function finished(parent: VecBackup): Promise<VecBackup> {
  const { desired } = await callHook('sync', hookRequest(parent))
  return { ...parent, status: desired.status }
}

t.test('the report of a backup is deleted once its status has all of it', async (t) => {
  const started = withProgress({ ...ended, backup: full() })
  const first = await callHook('sync', hookRequest(started))
  t.strictSame(
    first.written.filter((line) => line.startsWith('report')),
    [],
    'not recorded yet',
  )
  const done = await finished(started)
  const { status, report } = await after(done, 0)
  t.strictSame(status, done.status, 'the status has the snapshots for a day')
  matchWhole(t, report, {
    ...{ uid: 'uid-b', state: 'Done', at: ended.at },
    backup: {
      ...{ collections: [], collectionHashes: full().collectionHashes },
      unlisted: { completed: 99, failed: 1, pending: 0 },
    },
  })
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
  const next = { ...done, metadata: { ...done.metadata, annotations } }
  t.equal((await after(next, 0)).report, undefined, 'it is written once')
  const wiped = { ...next }
  delete wiped.status
  const { phase, collectionHashes, totalSize } = (await after(wiped, 0)).status
  t.strictSame(
    { phase, collectionHashes, totalSize },
    { phase: 'Completed', collectionHashes: done.status?.collectionHashes, totalSize: done.status?.totalSize }, // prettier-ignore
    'a lost status is created from it',
  )
})

t.test('a day later a backup of a schedule takes less than 8 KiB of a request', async (t) => {
  const done = await finished(scheduled(withProgress({ ...ended, backup: full() })))
  t.ok(JSON.stringify(done).length > 80 * 1024)
  const { report } = await after(done, 0)
  const { status } = await after(done, DAY_MS)
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
  const old = { ...done, metadata: { ...done.metadata, annotations }, status }
  t.ok(JSON.stringify(old).length < 8 * 1024, String(JSON.stringify(old).length))
  t.strictSame((await after(old, 2 * DAY_MS)).status, status, 'and stays so')

  const { collections = [], unlistedCollections, ...others } = status
  t.strictSame(unlistedCollections, { completed: COLLECTIONS - 20 })
  const { collections: before, ...same } = done.status as Required<BackupStatus>
  t.strictSame(others, { ...same, nodes: NODES }, 'its status has their number of nodes instead')
  t.equal(before.length, COLLECTIONS)
  t.equal(collections.length, 20)
  t.match(collections[0], { name: 'team-70-documents', status: 'Failed', error: /^e{200}$/ })
  t.notOk(collections.some((collection) => 'snapshots' in collection))
})

t.test('a manual backup keeps its list, and without hashes every name stays', async (t) => {
  const byHand = await finished(withProgress({ ...ended, backup: full() }))
  t.strictSame((await after(byHand, DAY_MS)).status, byHand.status)

  const { collectionHashes: _, ...older } = full()
  const done = await finished(scheduled(withProgress({ ...ended, backup: older })))
  const { collections, nodes } = (await after(done, DAY_MS)).status
  t.equal(nodes, NODES)
  t.strictSame(
    collections?.map(({ name }) => name),
    names,
  )
})

t.test('the collections without points remain in the status, from the newest report', async (t) => {
  const emptyCollectionHashes = hashNames(names.slice(0, 3)) ?? ''
  const started = withProgress({ ...ended, backup: full({ emptyCollectionHashes }) })
  const done = await finished(scheduled(started))
  t.equal(done.status?.emptyCollectionHashes, emptyCollectionHashes)
  t.equal((await after(done, DAY_MS)).status.emptyCollectionHashes, emptyCollectionHashes)
  t.equal((await after(done, 0)).report?.backup?.emptyCollectionHashes, emptyCollectionHashes)
  // A collection that was backed up again, by a later pod, has points by then.
  const running = { phase: 'InProgress' as const, startTime: ended.at, emptyCollectionHashes }
  const again = { ...withProgress({ ...ended, backup: full() }), status: running }
  t.equal((await finished(again)).status?.emptyCollectionHashes, undefined)
})

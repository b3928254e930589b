/** A helm run holds the Lease `backup` of its cluster while it runs, and waits for it before. */
import t from 'tap'
import type { Lease } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { clusterHooks } from '../../../hooks/cluster/index.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { readLease, type ObservedLease } from '../../../hooks/lease.ts'
import {
  ago,
  allAllowed,
  cluster,
  context,
  helmJob,
  settings,
  statefulSet,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { createdJob } from '../decisions.ts'
import { LeaseStore, newJob } from '../lease-store.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { hookRequest } from '../request.ts'
import { condition, ready, rbac, sync } from './decisions.ts'
import { fakePorts } from './ports.ts'

const OWN_HOLDER = 'VecCluster/ns/a/uid-a'
const BACKUP = 'VecBackup/ns/b/uid-b'

const write: ObservedLease = { kind: 'write' }
const backup: ObservedLease = { kind: 'backup' }

function heldLease(
  by: string,
  run?: number,
  seconds = 5,
  jobs: ObservedLease['jobs'] = [],
): ObservedLease {
  const lease = leaseOf('backup', by, seconds)
  const annotations = run === undefined ? {} : { [ANNOTATIONS.run]: String(run) }
  return { kind: 'backup', lease: { ...lease, metadata: { ...lease.metadata, annotations } }, jobs }
}

/** An installed cluster whose spec has changed. */
function withPendingRun(parts: Partial<Observed> = {}): Observed {
  return ready({ statefulSet: statefulSet(), leases: { write, backup }, ...parts })
}

function waiters(lease: Lease | undefined): string[] {
  const text = lease?.metadata.annotations?.[ANNOTATIONS.waiters] ?? '[]'
  return (JSON.parse(text) as { holder: string }[]).map(({ holder }) => holder)
}

t.test('a run acquires the Lease for its number, and then creates its Job', async (t) => {
  const taking = sync(withPendingRun(), context)
  t.equal(createdJob(taking), undefined)
  t.strictSame(condition(taking, 'Applied'), [
    ...['False', 'HelmStarting', 'acquiring the Lease of the cluster'],
  ])
  t.equal(taking.resyncAfterSeconds, 2)
  const [taken] = taking.leases ?? []
  t.match(taken, { action: 'take', lease: { spec: { holderIdentity: OWN_HOLDER } } })
  t.equal(taken?.lease.metadata.annotations?.[ANNOTATIONS.run], '1')
  const holding = sync(
    withPendingRun({ leases: { write, backup: heldLease(OWN_HOLDER, 1) } }),
    context,
  )
  t.match(createdJob(holding), { metadata: { name: /-1$/ } })
  matchWhole(t, holding.leases, [
    { action: 'renew', lease: { spec: { holderIdentity: OWN_HOLDER } } },
  ])
})

t.test('a Lease of an earlier run is acquired again for the next run', async (t) => {
  const decision = sync(
    withPendingRun({
      leases: { write, backup: heldLease(OWN_HOLDER, 1) },
      liveJobs: [helmJob({ run: 1, ended: ['Failed', 90] })],
    }),
    context,
  )
  t.equal(createdJob(decision), undefined)
  t.equal(decision.leases?.[0]?.lease.metadata.annotations?.[ANNOTATIONS.run], '2')
})

t.test('Jobs of earlier runs do not end the hold of the next one', async (t) => {
  const store = new LeaseStore()
  const { lease } = heldLease(OWN_HOLDER, 3)
  if (lease !== undefined) store.leases.set('vec-a-backup', lease)
  store.jobs.set('uid-a', [
    newJob('cluster-upgrade-x-1', true),
    newJob('cluster-upgrade-x-2', true),
  ])
  const at = { namespace: 'ns', name: 'a' }
  t.strictSame((await readLease(at, 'backup', store, allAllowed)).jobs, [])
  store.jobs.set('uid-a', [newJob('cluster-upgrade-x-2', true), newJob('cluster-upgrade-x-3')])
  matchWhole(t, (await readLease(at, 'backup', store, allAllowed)).jobs, [
    { metadata: { name: /-3$/ } },
  ])
})

t.test(
  'while a backup runs no helm run starts: the message names the backup, and the wait is recorded',
  async (t) => {
    const leases = { write, backup: heldLease(BACKUP, undefined, 4000, [newJob('backup-run-1')]) }
    const decision = sync(withPendingRun({ leases }), context)
    t.equal(createdJob(decision), undefined)
    t.strictSame(condition(decision, 'Applied'), [
      ...['False', 'ClusterBusy', 'waiting for VecBackup ns/b'],
    ])
    t.equal(decision.resyncAfterSeconds, 30)
    t.strictSame(waiters(decision.leases?.[0]?.lease), [OWN_HOLDER])
    t.equal(decision.leases?.[0]?.lease.spec?.holderIdentity, BACKUP, 'and nothing else is changed')
  },
)

t.test(
  'while a restore holds the Lease -write no run starts, for any holder of the other Lease',
  async (t) => {
    const restore = leaseOf('write', 'VecRestore/ns/r/uid-r', 5)
    const leases = { write: { kind: 'write' as const, lease: restore, jobs: [] }, backup }
    t.strictSame(condition(sync(withPendingRun({ leases }), context), 'Applied')?.slice(1), [
      ...['ClusterBusy', 'waiting for VecRestore ns/r'],
    ])
  },
)

t.test('the first install waits for no Lease', async (t) => {
  const busy = heldLease(BACKUP, undefined, 4000, [newJob('backup-run-1')])
  const first = sync(ready({ leases: { write, backup: busy } }), context)
  t.ok(createdJob(first))
  const known = cluster({ status: { helmRelease: 'vec-a' } })
  t.equal(
    createdJob(sync(ready({ cluster: known, leases: { write, backup: busy } }), context)),
    undefined,
  )
})

t.test('a deletion reads no Lease', async (t) => {
  const asked: string[] = []
  const lease = async (_: string, name: string) => {
    asked.push(name)
    return undefined
  }
  const { ports, writes: written } = fakePorts({ lease, statefulSet: async () => statefulSet() })
  const parent = cluster({ deletionTimestamp: ago(5), status: { helmRelease: 'vec-a' } })
  const desired = await clusterHooks(ports).finalize?.(hookRequest(parent, rbac), context)
  t.match(createdJob(desired ?? { children: [] }), { metadata: { name: /uninstall/ } })
  t.strictSame([asked, written.leases], [[], []])
  await clusterHooks(ports).sync(hookRequest(cluster(), rbac), context)
  t.strictSame(asked, ['vec-a-write', 'vec-a-backup'], 'a helm run does')
})

t.test('a cluster that waits for a slot or a Secret holds no Lease', async (t) => {
  const leases = { write, backup: heldLease(OWN_HOLDER, 1) }
  const drops = (parts: Partial<Observed>) =>
    sync(withPendingRun({ leases, ...parts }), context).leases?.map(({ action: act }) => act)
  t.strictSame(drops({ unfinishedHelmJobs: 10 }), ['drop'])
  const secretRef = { name: 'missing', key: 'key' }
  t.strictSame(
    drops({
      cluster: cluster({ spec: { apiKey: { secretRef, jwtRbac: false, autoGenerate: false } } }),
    }),
    ['drop'],
  )
})

t.test('a Job that appears after its Lease has expired is stopped before it reports', async (t) => {
  const plan = desiredRun(withPendingRun(), settings).hash
  const jobs = [helmJob({ plan, createdAgo: 20 })]
  const busy = { write, backup: heldLease(BACKUP, undefined, 10) }
  matchWhole(t, sync(withPendingRun({ jobs, leases: busy }), context).deleteJobs, [
    { uid: 'job-1' },
  ])
  const mine = { write, backup: heldLease(OWN_HOLDER, 1) }
  t.equal(sync(withPendingRun({ jobs, leases: mine }), context).deleteJobs, undefined)
  t.equal(sync(ready({ jobs, leases: busy }), context).deleteJobs, undefined, 'the first install')
})

t.test('the first waiter is first, and a waiter that stopped renewing is skipped', async (t) => {
  const noted = (seen: string) => {
    const { lease } = heldLease('', undefined)
    const entry = JSON.stringify([{ holder: BACKUP, seen }])
    if (lease === undefined) throw new Error('there is no Lease')
    const metadata = { ...lease.metadata, annotations: { [ANNOTATIONS.waiters]: entry } }
    return { write, backup: { kind: 'backup' as const, lease: { ...lease, metadata }, jobs: [] } }
  }
  const behind = sync(withPendingRun({ leases: noted(ago(40)) }), context)
  t.strictSame(condition(behind, 'Applied')?.[2], 'waiting for VecBackup ns/b')
  t.strictSame(waiters(behind.leases?.[0]?.lease), [BACKUP, OWN_HOLDER])
  const first = sync(withPendingRun({ leases: noted(ago(180)) }), context)
  matchWhole(t, first.leases, [{ lease: { spec: { holderIdentity: OWN_HOLDER } } }])
})

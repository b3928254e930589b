/** The holder of a Lease, with any content that others wrote, and its release. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import type { Job, Lease, LeaseHolder } from '../../crds/kubernetes.ts'
import {
  currentHolder,
  holderOf,
  isHolder,
  readLease,
  secondsSinceAcquired,
  writeLeases,
} from '../../hooks/lease.ts'
import { firstWaiter } from '../../hooks/lease-queue.ts'
import { signJob } from '../../hooks/request.ts'
import { claim, leaseReleases, release } from '../../hooks/lease-claim.ts'
import { ago, allAllowed, NOW } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'
import { leaseOf } from './data-job/fixtures.ts'
import { Claimant, CLUSTER, LeaseStore, newJob } from './lease-store.ts'

const me: LeaseHolder = { kind: 'VecBackup', namespace: 'ns', name: 'me', uid: 'uid-me' }
const mine = 'VecBackup/ns/me/uid-me'
const other = 'VecRestore/far/other/uid-other'
const about = { cluster: CLUSTER, now: NOW }

function withSpec(spec: Lease['spec']): Lease {
  const { apiVersion, kind, metadata } = leaseOf('backup', mine)
  return { apiVersion, kind, metadata, ...(spec !== undefined && { spec }) }
}

const FOREIGN: [string, Lease][] = [
  ['without a spec', withSpec(undefined)],
  ['without a holder', withSpec({ acquireTime: ago(5) })],
  ['of one part', leaseOf('backup', 'unknown')],
  ['of two parts', leaseOf('backup', 'VecBackup/ns')],
  ['of three parts', leaseOf('backup', 'VecBackup/ns/me')],
  ['of five parts', leaseOf('backup', `${mine}/more`)],
]

for (const [what, lease] of FOREIGN) {
  t.test(`a Lease with a holder ${what} is free and is acquired`, async (t) => {
    const seen = { kind: 'backup' as const, lease, jobs: [] }
    t.equal(holderOf(seen, NOW), undefined)
    t.notOk(isHolder(lease, me))
    t.strictSame(leaseReleases([seen], me), [])
    matchWhole(t, claim([seen], me, about), { state: 'taking', writes: [{ action: 'take' }] })
  })
}

t.test('no Job is asked for where a Lease has no holder', async (t) => {
  const asked: string[] = []
  const read = (holder: string) =>
    readLease(
      CLUSTER.metadata,
      'backup',
      {
        lease: async () => leaseOf('backup', holder),
        jobsOf: async (_, uid) => [newJob(`${asked.push(uid)}`)],
        holderState: async () => 'unfinished',
      },
      allAllowed,
    )
  t.strictSame((await read('unknown')).jobs, [])
  t.strictSame(asked, [])
  t.equal((await read(mine)).jobs?.length, 1)
  t.strictSame(asked, ['uid-me'])
})

t.test('a Lease that was never acquired has no holder, and its age is infinite', async (t) => {
  const lease = withSpec({ holderIdentity: mine })
  t.equal(holderOf({ kind: 'backup', lease, jobs: [] }, NOW), undefined)
  t.equal(secondsSinceAcquired([{ kind: 'backup', lease }], NOW), Infinity)
  t.equal(secondsSinceAcquired([{ kind: 'backup', lease: withSpec(undefined) }], NOW), Infinity)
  t.equal(secondsSinceAcquired([{ kind: 'backup' }], NOW), Infinity)
})

t.test('two Leases are held since the later of them was taken', async (t) => {
  const leases = [100, 20].map((seconds) => ({
    ...{ kind: 'backup' as const, lease: leaseOf('backup', mine, seconds) },
  }))
  t.equal(secondsSinceAcquired(leases, NOW), 20)
})

t.test('a Lease is held if this very cluster owns it, until its Job has ended', async (t) => {
  const seen = (holder: string, owner = 'uid-a') => ({
    ...{ kind: 'backup' as const, lease: leaseOf('backup', holder, 5, owner), jobs: [] },
  })
  t.match(claim([seen(mine)], me, about), { state: 'held' })
  t.match(claim([seen(mine, 'uid-former')], me, about), { state: 'taking' })
  t.match(claim([seen(other)], me, about), { state: 'waiting' })
  const { kind, lease } = seen(mine)
  t.not(claim([{ kind, lease }], me, about).state, 'held', 'its Jobs could not be listed')
  const after = { ...seen(mine), jobs: [newJob('one', true)] }
  t.not(claim([after], me, about).state, 'held', 'its Job has ended')
})

t.test('one owner among several suffices, and a Lease without owners is not owned', async (t) => {
  const lease = leaseOf('backup', mine)
  const stranger = { apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: 'uid-x' }
  lease.metadata.ownerReferences?.unshift(stranger)
  t.match(claim([{ kind: 'backup', lease, jobs: [] }], me, about), { state: 'held' })
  delete lease.metadata.ownerReferences
  matchWhole(t, claim([{ kind: 'backup', lease, jobs: [] }], me, about), {
    state: 'taking',
    writes: [{ action: 'drop' }, { action: 'take' }],
  })
})

t.test('a Lease is taken by the version that was read, where it has one', async (t) => {
  const lease = leaseOf('backup', 'unknown')
  delete lease.metadata.resourceVersion
  const claimed = claim([{ kind: 'backup', lease, jobs: [] }], me, about)
  const [first] = claimed.state === 'taking' ? claimed.writes : []
  t.equal(first?.action, 'take')
  t.notOk('resourceVersion' in (first?.lease.metadata ?? {}))
})

t.test('the first write that fails ends it', async (t) => {
  const written: string[] = []
  const port = (name: string, isDone: boolean) => async () => {
    written.push(name)
    return isDone
  }
  const writes = (['drop', 'take', 'drop'] as const).map((action) => ({
    ...{ action, lease: leaseOf('backup', mine) },
  }))
  await writeLeases(writes, { writeLease: port('take', false), deleteLease: port('drop', true) })
  t.strictSame(written, ['drop', 'take'])
})

t.test('a deleted resource releases the Leases that it holds, and no other', async (t) => {
  const store = new LeaseStore()
  store.leases.set('vec-a-backup', leaseOf('backup', mine))
  store.leases.set('vec-a-write', leaseOf('write', other))
  await release({ namespace: 'ns', name: 'a' }, ['backup', 'write'], me, store)
  t.strictSame([...store.leases.keys()], ['vec-a-write'])
})

t.test('a Lease that another claimant writes during the release is released', async (t) => {
  const cluster = { namespace: 'ns', name: 'a' }
  const store = new LeaseStore()
  store.now = NOW
  store.leases.set('vec-a-backup', leaseOf('backup', mine))
  const waiting = new Claimant('later', ['backup'], store)
  let isFirst = true
  await release(cluster, ['backup'], me, {
    lease: (namespace, name) => store.lease(namespace, name),
    writeLease: (lease) => store.writeLease(lease),
    deleteLease: async (lease) => {
      // It enters the queue between the read and the write of the release.
      if (isFirst) await waiting.pass()
      isFirst = false
      return store.deleteLease(lease)
    },
  })
  t.notOk(isFirst)
  const lease = store.leases.get('vec-a-backup')
  t.strictSame(lease?.spec, {}, 'it has no holder')
  t.equal(firstWaiter(lease, store.now)?.name, 'later')
})

t.test(
  'a deleted resource that waits leaves the queue: the next one takes the Lease',
  async (t) => {
    const store = new LeaseStore()
    store.now = NOW
    store.leases.set('vec-a-backup', leaseOf('backup', other))
    store.jobs.set('uid-other', [newJob('other-1')])
    const [first, second] = ['first', 'second'].map((name) => new Claimant(name, ['backup'], store))
    await first?.pass()
    await second?.pass()
    t.equal(firstWaiter(store.leases.get('vec-a-backup'), store.now)?.name, 'first')
    if (first !== undefined) {
      await release({ namespace: 'ns', name: 'a' }, ['backup'], first.holder, store)
    }
    t.equal(firstWaiter(store.leases.get('vec-a-backup'), store.now)?.name, 'second')
    store.jobs.set('uid-other', [newJob('other-1', true)])
    for (let pass = 0; pass < 3; pass += 1) await second?.pass()
    second?.arrive()
    t.ok(second?.hasActiveJob)
  },
)

t.test(
  'a Lease that cannot be released does not block the resource or the next Lease',
  async (t) => {
    const dropped: string[] = []
    await release({ namespace: 'ns', name: 'a' }, ['write', 'backup'], me, {
      async lease(_, name) {
        if (name === 'vec-a-write') throw new KubernetesError('no answer')
        return leaseOf('backup', mine)
      },
      writeLease: async () => t.fail('taken'),
      deleteLease: async ({ metadata }) => dropped.push(metadata.name) > 0,
    })
    t.strictSame(dropped, ['vec-a-backup'])
  },
)

t.test('the message names the holder, or none if there is no holder', async (t) => {
  const store = new LeaseStore()
  const cluster = { namespace: 'ns', name: 'a' }
  t.equal(await currentHolder(cluster, 'write', store, allAllowed), undefined)
  store.leases.set('vec-a-write', leaseOf('write', other))
  t.equal(await currentHolder(cluster, 'write', store, allAllowed), 'VecRestore far/other')
})

const FAR: LeaseHolder = { kind: 'VecRestore', namespace: 'far', name: 'other', uid: 'uid-other' }

interface Hold {
  state: 'unfinished' | 'finished' | 'gone'
  /** Whether the cluster allows the namespace of the holder. */
  isAllowed?: boolean
  isSigned?: boolean
  /** The Job has the holder as its controller. */
  isOwned?: boolean
  suspendedSeconds?: number
  active?: number
}

/** The holder of an old Lease with one Job, and whether the resource was read. */
async function holderWith(hold: Hold): Promise<{ holder: string | undefined; isRead: boolean }> {
  const { state, isAllowed = true, isSigned = true, isOwned = false } = hold
  const name = 'other-restore-x-1'
  const identity = { namespace: FAR.namespace, name, parentUid: FAR.uid }
  const owner = { apiVersion: 'v1', kind: FAR.kind, name: FAR.name, uid: FAR.uid, controller: true }
  const { suspendedSeconds, active = suspendedSeconds === undefined ? 1 : 0 } = hold
  const lastTransitionTime = ago(suspendedSeconds ?? 0)
  const suspended = { type: 'Suspended', status: 'True', lastTransitionTime }
  const job: Job = {
    ...newJob(name),
    metadata: {
      ...{ name, namespace: FAR.namespace, labels: { [LABELS.parent]: FAR.uid } },
      annotations: isSigned
        ? { [ANNOTATIONS.signature]: signJob(identity, allAllowed.jobKeys) }
        : {},
      ownerReferences: isOwned ? [owner] : [],
    },
    ...(suspendedSeconds !== undefined && {
      spec: { suspend: true, template: { spec: { containers: [] } } },
    }),
    status: { active, conditions: suspendedSeconds === undefined ? [] : [suspended] },
  }
  let isRead = false
  const ports = {
    lease: async () => leaseOf('backup', other, 9_000),
    jobsOf: async () => [job],
    async holderState(holder: LeaseHolder) {
      isRead = true
      return isDeepStrictEqual(holder, FAR) ? state : 'unfinished'
    },
  }
  const rules = { ...allAllowed, isAllowed: () => isAllowed }
  const holder = await currentHolder(CLUSTER.metadata, 'backup', ports, rules)
  return { holder, isRead }
}

const HELD = 'VecRestore far/other'

t.test('a holder that works is not read, and a Job of its own counts', async (t) => {
  t.strictSame(await holderWith({ state: 'gone', isOwned: true }), { holder: HELD, isRead: false })
  t.strictSame(
    await holderWith({ state: 'gone' }),
    { holder: HELD, isRead: false },
    'a pod may run',
  )
  const isOwned = true
  for (const state of ['unfinished', 'gone'] as const) {
    t.equal((await holderWith({ state, isOwned, isAllowed: false })).holder, HELD)
    t.equal((await holderWith({ state, isOwned, suspendedSeconds: 9_000 })).holder, HELD)
  }
})

t.test('a Lease of a holder that is gone is not held by Jobs that do no work of it', async (t) => {
  for (const parts of [{ isSigned: false }, { suspendedSeconds: 120 }]) {
    t.equal((await holderWith({ state: 'gone', ...parts })).holder, undefined)
    t.equal((await holderWith({ state: 'unfinished', ...parts })).holder, HELD)
    t.equal((await holderWith({ state: 'finished', ...parts })).holder, HELD)
  }
  const state = 'gone'
  t.equal((await holderWith({ state, suspendedSeconds: 119 })).holder, HELD, 'its pods may stop')
  t.equal((await holderWith({ state, suspendedSeconds: 9_000, active: 1 })).holder, HELD)
})

t.test('in a namespace that is not allowed, only an unfinished holder counts', async (t) => {
  const isAllowed = false
  t.equal((await holderWith({ state: 'unfinished', isAllowed })).holder, HELD)
  t.equal((await holderWith({ state: 'gone', isAllowed })).holder, undefined, 'a copy of its Job')
  t.equal((await holderWith({ state: 'finished', isAllowed })).holder, undefined)
  t.equal((await holderWith({ state: 'finished', isAllowed, isOwned: true })).holder, undefined)
})

t.test('a Lease that was just acquired is held, although its holder is gone', async (t) => {
  const ports = {
    lease: async () => leaseOf('backup', other, 5),
    jobsOf: async () => [newJob('labelled')],
    holderState: async () => 'gone' as const,
  }
  t.equal(await currentHolder(CLUSTER.metadata, 'backup', ports, allAllowed), HELD)
})

t.test('a holder that cannot be read holds its Lease', async (t) => {
  const ports = {
    lease: async () => leaseOf('backup', other, 9_000),
    jobsOf: async () => [newJob('labelled')],
    async holderState() {
      throw new KubernetesError('no answer')
    },
  }
  t.equal(await currentHolder(CLUSTER.metadata, 'backup', ports, allAllowed), HELD)
})

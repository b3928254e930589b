/** Who holds a Lease, who may take it, and when. */
import t from 'tap'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { Lease, LeaseHolder } from '../../crds/kubernetes.ts'
import { currentHolder, holderOf, readLease, type ObservedLease } from '../../hooks/lease.ts'
import { claim, leaseReleases, release } from '../../hooks/lease-claim.ts'
import { ago, allAllowed, NOW } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'
import { leaseOf } from './data-job/fixtures.ts'
import { CLUSTER, LeaseStore, newJob } from './lease-store.ts'

const me: LeaseHolder = { kind: 'VecBackup', namespace: 'ns', name: 'me', uid: 'uid-me' }

const other: LeaseHolder = { kind: 'VecRestore', namespace: 'far', name: 'other', uid: 'uid-other' }

const about = { cluster: CLUSTER, now: NOW }

function lease(
  kind: 'write' | 'backup',
  holder: LeaseHolder,
  secondsAgo: number,
  owner = 'uid-a',
): Lease {
  const { kind: of, namespace, name, uid } = holder
  return leaseOf(kind, `${of}/${namespace}/${name}/${uid}`, secondsAgo, owner)
}

function seen(
  holder: LeaseHolder,
  secondsAgo: number,
  jobs: ObservedLease['jobs'] = [],
): ObservedLease {
  return { kind: 'backup', lease: lease('backup', holder, secondsAgo), jobs }
}

t.test(
  'a Lease that does not exist is created, in the namespace of the cluster and owned by it',
  async (t) => {
    t.strictSame(claim([{ kind: 'backup' }], me, about), {
      state: 'taking',
      writes: [
        {
          action: 'take',
          lease: {
            apiVersion: 'coordination.k8s.io/v1',
            kind: 'Lease',
            metadata: {
              name: 'vec-a-backup',
              namespace: 'ns',
              labels: { 'app.kubernetes.io/managed-by': 'vec-operator' },
              ownerReferences: [
                {
                  apiVersion: 'vec-operator.dev/v1alpha1',
                  kind: 'VecCluster',
                  name: 'a',
                  uid: 'uid-a',
                },
              ],
            },
            spec: {
              holderIdentity: 'VecBackup/ns/me/uid-me',
              acquireTime: '2026-03-01T12:00:00.000000Z',
            },
          },
        },
      ],
    })
  },
)

t.test(
  'the holder holds while a live list finds a Job of it neither Complete nor Failed',
  async (t) => {
    t.strictSame(holderOf(seen(other, 9_000, [newJob('one')]), NOW), other)
    const deleting = newJob('one')
    deleting.metadata.deletionTimestamp = ago(5)
    t.strictSame(holderOf(seen(other, 9_000, [newJob('old', true), deleting]), NOW), other)
    t.equal(holderOf(seen(other, 9_000, [newJob('one', true)]), NOW), undefined)
  },
)

t.test('before its first Job it holds for 5 minutes after acquireTime', async (t) => {
  t.strictSame(holderOf(seen(other, 299), NOW), other)
  t.equal(holderOf(seen(other, 300), NOW), undefined)
  t.equal(holderOf(seen(other, 10, [newJob('one', true)]), NOW), undefined, 'its Job has ended')
})

t.test('a clock that was ahead does not keep a Lease held', async (t) => {
  t.strictSame(holderOf(seen(other, -299), NOW), other)
  t.equal(holderOf(seen(other, -300), NOW), undefined)
})

t.test('a defect while the holder is asked for is not taken for an API that fails', async (t) => {
  const store = new LeaseStore()
  store.leases.set('vec-a-backup', lease('backup', other, 9_000))
  const broken = async () => {
    throw new TypeError('x is not a function')
  }
  const ports = {
    lease: (namespace: string, name: string) => store.lease(namespace, name),
    jobsOf: broken,
    holderState: broken,
  }
  await t.rejects(readLease(CLUSTER.metadata, 'backup', ports, allAllowed), TypeError)
  await t.rejects(
    release({ namespace: 'ns', name: 'a' }, ['backup'], me, {
      ...{ lease: broken, writeLease: broken, deleteLease: broken },
    }),
    TypeError,
  )
})

t.test('a failed list counts as held', async (t) => {
  const store = new LeaseStore()
  store.leases.set('vec-a-backup', lease('backup', other, 9_000))
  const ports = {
    lease: (namespace: string, name: string) => store.lease(namespace, name),
    jobsOf: async () => {
      throw new KubernetesError('no answer')
    },
    holderState: () => store.holderState(),
  }
  const found = await readLease(CLUSTER.metadata, 'backup', ports, allAllowed)
  t.strictSame(holderOf(found, NOW), other)
  t.match(claim([found], me, about), { state: 'waiting', holder: other })
})

t.test('a Lease whose holder is over is taken by its resourceVersion', async (t) => {
  const claimed = claim([seen(other, 301)], me, about)
  matchWhole(t, claimed, {
    state: 'taking',
    writes: [
      {
        action: 'take',
        lease: {
          metadata: { resourceVersion: '7' },
          spec: { holderIdentity: 'VecBackup/ns/me/uid-me' },
        },
      },
    ],
  })
})

t.test(
  'a Job is created in a pass that sees the Lease held, with a minute of it left',
  async (t) => {
    const held = seen(me, 239)
    const renewed = {
      ...held.lease,
      spec: { ...held.lease?.spec, renewTime: '2026-03-01T12:00:00.000000Z' },
    }
    t.strictSame(claim([held], me, about), {
      state: 'held',
      writes: [{ action: 'renew', lease: renewed }],
    })
    t.equal(claim([seen(me, 240)], me, about).state, 'taking')
  },
)

t.test(
  'a Lease owned by another uid is deleted and recreated, unless its holder is active',
  async (t) => {
    const former = lease('backup', other, 400, 'uid-former')
    const claimed = claim([{ kind: 'backup', lease: former, jobs: [] }], me, about)
    matchWhole(t, claimed, {
      state: 'taking',
      writes: [
        { action: 'drop', lease: former },
        { action: 'take', lease: { metadata: { resourceVersion: undefined } } },
      ],
    })
    const busy = claim([{ kind: 'backup', lease: former, jobs: [newJob('one')] }], me, about)
    t.match(busy, { state: 'waiting', holder: other })
  },
)

t.test('a waiting resource releases its Leases: it holds both or neither', async (t) => {
  const write: ObservedLease = { kind: 'write', lease: lease('write', me, 10), jobs: [] }
  const claimed = claim([write, seen(other, 10)], me, about)
  // Written into the Lease of the other: that this one waits.
  const holderIdentity = 'VecRestore/far/other/uid-other'
  const waiter = { holder: 'VecBackup/ns/me/uid-me', seen: NOW.toISOString() }
  const annotations = { [ANNOTATIONS.waiters]: JSON.stringify([waiter]) }
  matchWhole(t, claimed, {
    state: 'waiting',
    holder: other,
    writes: [
      { action: 'drop', lease: write.lease },
      { action: 'take', lease: { metadata: { annotations }, spec: { holderIdentity } } },
    ],
  })
  t.strictSame(leaseReleases([seen(other, 10), { kind: 'write' }], me), [])
})

t.test(
  'a restore takes both Leases in the order given, and holds when it holds both',
  async (t) => {
    const both = claim([{ kind: 'backup' }, { kind: 'write' }], me, about)
    t.strictSame(both.state === 'taking' && both.writes.map(({ lease }) => lease.metadata.name), [
      'vec-a-backup',
      'vec-a-write',
    ])
    const write: ObservedLease = { kind: 'write', lease: lease('write', me, 10), jobs: [] }
    t.equal(claim([write, { kind: 'backup' }], me, about).state, 'taking')
    const held = claim([seen(me, 5), write], me, about)
    t.strictSame(held.state === 'held' && held.writes.map(({ lease }) => lease.metadata.name), [
      'vec-a-backup',
      'vec-a-write',
    ])
  },
)

for (const spec of [
  {},
  { holderIdentity: 'unknown' },
  { holderIdentity: 'a/b/c/d/e', acquireTime: ago(1) },
]) {
  t.test(
    `a Lease that names no holder of this operator is free: ${JSON.stringify(spec)}`,
    async (t) => {
      const store = new LeaseStore()
      store.leases.set('vec-a-write', { ...lease('write', other, 1), spec })
      t.equal(await currentHolder(CLUSTER.metadata, 'write', store, allAllowed), undefined)
      store.leases.set('vec-a-write', lease('write', other, 1))
      t.ok(await currentHolder(CLUSTER.metadata, 'write', store, allAllowed), 'with a holder')
    },
  )
}

t.test('a Lease without acquireTime is held only while a Job of the holder exists', async (t) => {
  const held = lease('backup', other, 1)
  held.spec = { holderIdentity: 'VecRestore/far/other/uid-other' }
  t.equal(holderOf({ kind: 'backup', lease: held, jobs: [] }, NOW), undefined)
  t.strictSame(holderOf({ kind: 'backup', lease: held, jobs: [newJob('one')] }, NOW), other)
})

t.test('the current holder of a Lease is named for those that wait', async (t) => {
  const store = new LeaseStore()
  t.equal(await currentHolder(CLUSTER.metadata, 'write', store, allAllowed), undefined)
  store.leases.set('vec-a-write', lease('write', other, 20))
  t.equal(await currentHolder(CLUSTER.metadata, 'write', store, allAllowed), 'VecRestore far/other')
})

const NO_HOLDER = [
  ...['', 'x', 'VecBackup', 'VecBackup/ns', 'VecBackup/ns/b', 'a/b/c/d/e', '/ns/b/uid'],
  // Jobs can be looked for by none of these: the API server would refuse it for ever.
  ...['VecBackup/n s/b/uid', 'VecBackup/ns/B!/uid', 'VecBackup/ns/b/', 'VecBackup/ns/b/u,x=y'],
]
for (const holder of NO_HOLDER) {
  t.test(`a foreign holder identity holds no Lease: "${holder}"`, async (t) => {
    t.equal(holderOf({ kind: 'write', lease: leaseOf('write', holder) }, NOW), undefined)
    const own = { kind: 'write' as const, lease: leaseOf('write', 'VecBackup/ns/b/uid') }
    t.strictSame(holderOf(own, NOW), { kind: 'VecBackup', namespace: 'ns', name: 'b', uid: 'uid' })
  })
}

t.test(
  'a Lease without a holder, or without a time, is free once its Jobs are known',
  async (t) => {
    const bare = leaseOf('write', '')
    delete bare.spec
    t.equal(holderOf({ kind: 'write', lease: bare, jobs: [] }, NOW), undefined)
    const timeless = lease('write', other, 1)
    delete timeless.spec?.acquireTime
    t.strictSame(holderOf({ kind: 'write', lease: timeless }, NOW), other)
    t.equal(holderOf({ kind: 'write', lease: timeless, jobs: [] }, NOW), undefined)
  },
)

t.test('a deleted resource releases its own Leases, and no other', async (t) => {
  const dropped: string[] = []
  const give = async (found: (name: string) => Lease | undefined) => {
    dropped.length = 0
    await release({ namespace: 'ns', name: 'a' }, ['write', 'backup'], me, {
      lease: async (_, name) => found(name),
      writeLease: async () => t.fail('taken'),
      deleteLease: async ({ metadata }) => dropped.push(metadata.name) > 0,
    })
    return [...dropped]
  }
  t.strictSame(await give(() => undefined), [])
  t.strictSame(await give(() => lease('write', other, 1)), [])
  const own = (name: string) => lease(name === 'vec-a-write' ? 'write' : 'backup', me, 1)
  t.strictSame(await give(own), ['vec-a-write', 'vec-a-backup'])
})

t.test('a forged Job of a namespace that is not allowed holds no Lease', async (t) => {
  const store = new LeaseStore()
  store.leases.set('vec-a-write', lease('write', other, 9_000))
  store.jobs.set(other.uid, [newJob('forged-1')])
  t.equal(await currentHolder(CLUSTER.metadata, 'write', store, allAllowed), 'VecRestore far/other')
  const closed = { ...allAllowed, isAllowed: (namespace: string) => namespace === 'ns' }
  store.jobs.set(other.uid, [
    { ...newJob('forged-1'), metadata: { name: 'forged-1', namespace: 'far' } },
  ])
  t.equal(await currentHolder(CLUSTER.metadata, 'write', store, closed), undefined)
})

import t from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { LeaseHolder } from '../../../crds/kubernetes.ts'
import { readLease, writeLeases } from '../../../hooks/lease.ts'
import { claim, leaseReleases } from '../../../hooks/lease-claim.ts'
import { leasePorts } from '../../../metacontroller/ports/common.ts'
import { embeddedApi, installCrds } from '../embedded.ts'
import { allAllowed } from '../../builders.ts'

const cluster = { metadata: { namespace: 'ns', name: 'a', uid: 'uid-a' } }

function holder(name: string): LeaseHolder {
  return { kind: 'VecBackup', namespace: 'ns', name, uid: `uid-${name}` }
}

t.test('a release that is applied late removes no Lease for which a Job starts', async (t) => {
  const { kubernetes, clock } = await embeddedApi(t)
  const ports = leasePorts(kubernetes)
  const now = clock.now()
  const one = holder('one')
  const look = () => readLease(cluster.metadata, 'backup', ports, allAllowed)
  const taken = claim([await look()], one, { cluster, now })
  if (taken.state === 'taking') await writeLeases(taken.writes, ports)
  const timedOut = leaseReleases([await look()], one)

  const started = claim([await look()], one, { cluster, now })
  t.equal(started.state, 'held')
  if (started.state === 'held') await writeLeases(started.writes, ports)
  await writeLeases(timedOut, ports)
  t.equal((await look()).lease?.spec?.holderIdentity, 'VecBackup/ns/one/uid-one')

  // In the other order the sync that would start the Job fails.
  const again = claim([await look()], one, { cluster, now: new Date(now.getTime() + 1000) })
  await writeLeases(leaseReleases([await look()], one), ports)
  t.equal(again.state, 'held')
  await t.rejects(writeLeases(again.writes, ports), /changed while a Job was about to start/)
  t.equal((await look()).lease, undefined)
})

t.test('of two that take a Lease by its resourceVersion one succeeds', async (t) => {
  const { kubernetes, clock } = await embeddedApi(t)
  const ports = leasePorts(kubernetes)
  const now = clock.now()
  const look = () => readLease(cluster.metadata, 'backup', ports, allAllowed)
  const take = async (name: string, seen: Awaited<ReturnType<typeof look>>) => {
    const claimed = claim([seen], holder(name), { cluster, now })
    if (claimed.state === 'taking') await writeLeases(claimed.writes, ports)
  }
  const none = await look()
  await take('one', none)
  await take('two', none)
  const first = await look()
  t.equal(first.lease?.spec?.holderIdentity, 'VecBackup/ns/one/uid-one')
  t.equal(claim([first], holder('one'), { cluster, now }).state, 'held')

  const later = new Date(now.getTime() + 300_000)
  const stale = claim([first], holder('two'), { cluster, now: later })
  const renewed = claim([first], holder('one'), { cluster, now: later })
  if (renewed.state === 'taking') await writeLeases(renewed.writes, ports)
  if (stale.state === 'taking') await writeLeases(stale.writes, ports)
  const { lease } = await look()
  t.match(lease?.spec, {
    holderIdentity: 'VecBackup/ns/one/uid-one',
    acquireTime: '2026-03-01T12:05:00.000000Z',
  })

  if (first.lease === undefined || lease === undefined) throw new Error('there is no Lease')
  t.equal(await ports.deleteLease(first.lease), false, 'not the one that was renewed')
  t.equal(await ports.deleteLease(lease), true)
  t.equal(await ports.deleteLease(lease), false)
  t.equal((await look()).lease, undefined)
})

t.test('a rejection by the API for another reason is an error', async (t) => {
  const { kubernetes } = await embeddedApi(t)
  const lease = {
    apiVersion: 'coordination.k8s.io/v1' as const,
    kind: 'Lease' as const,
    metadata: { name: 'Not a name', namespace: 'ns' },
  }
  await t.rejects(leasePorts(kubernetes).writeLease(lease), { code: 'KubernetesError' })
})

t.test('the holder of a Lease exists with its uid, until its status has an outcome', async (t) => {
  const { api, kubernetes } = await embeddedApi(t)
  const ports = leasePorts(kubernetes)
  t.equal(await ports.holderState(holder('one')), 'gone', 'its kind does not exist')
  await installCrds(api)
  t.equal(await ports.holderState(holder('one')), 'gone')
  const s3 = { bucket: 'backups', credentialsSecretRef: { name: 'bucket' } }
  const { metadata } = await api.create({
    ...{ apiVersion: API_VERSION, kind: 'VecBackup', metadata: { name: 'one', namespace: 'ns' } },
    spec: { clusterRef: { name: 'a' }, storage: { s3 } },
  })
  const one = { ...holder('one'), uid: metadata.uid ?? '' }
  t.equal(await ports.holderState(holder('one')), 'gone', 'another one of its name')
  t.equal(await ports.holderState(one), 'unfinished')
  const reference = { apiVersion: API_VERSION, kind: 'VecBackup', namespace: 'ns', name: 'one' }
  await api.patch(reference, { status: { phase: 'Failed' } }, { subresource: 'status' })
  t.equal(await ports.holderState(one), 'finished')
  t.equal(await ports.holderState({ ...one, kind: 'Unknown' }), 'unfinished')
})

/** Ports of the VecRestore hooks: above all, work on a cluster without its Lease. */
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import type { CollectionEngine } from '../../../hooks/collection/ports.ts'
import { signJob } from '../../../hooks/request.ts'
import { restorePorts } from '../../../metacontroller/ports/restore.ts'
import { trackWrites, InFlightWrites } from '../../../metacontroller/ports/collection.ts'
import { embeddedApi, installCrds } from '../embedded.ts'
import { allAllowed } from '../../builders.ts'

const CLUSTER = { namespace: 'ns', name: 'a' }
const endpoint = { url: 'https://engine.example:6333' }

async function stage(t: Test, { namespaces = [] as string[], crds = true } = {}) {
  const embedded = await embeddedApi(t)
  const { kubernetes, api } = embedded
  if (crds) await installCrds(api)
  const writes = new InFlightWrites()
  const log = pino({ level: 'silent' })
  const ports = restorePorts({
    kubernetes,
    namespaces,
    log,
    inFlightWrites: writes,
    secret: async () => undefined,
  })
  const makeJob = (name: string, labels: Record<string, string>, namespace = 'ns') => {
    const managed = { [LABELS.managedBy]: 'vec-operator' }
    const containers = [{ name: 'a', image: 'vec-operator:test' }]
    return api.create({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name, namespace, labels: { ...managed, ...labels } },
      spec: { template: { spec: { restartPolicy: 'Never', containers } } },
    })
  }
  const end = (name: string, type: 'Complete' | 'Failed') =>
    api.replaceStatus({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name, namespace: 'ns' },
      status: {
        ...(type === 'Complete' && { succeeded: 1 }),
        conditions: [{ type, status: 'True' }],
      },
    })
  /** A migration with a separate Job. */
  const makeMigration = async (name: string, spec: object, namespace = 'ns') => {
    const { metadata } = await api.create({
      apiVersion: API_VERSION,
      kind: 'VecMigration',
      metadata: { name, namespace },
      spec: { source: { endpoint }, targetClusterRef: { name: 'a' }, ...spec },
    })
    const labels = { [LABELS.component]: 'transfer', [LABELS.parent]: metadata.uid ?? '' }
    await makeJob(`migrate-${name}`, labels, namespace)
  }
  return { ...embedded, ports, writes, makeJob, end, makeMigration }
}

t.test('a cluster without work has no conflicting work of any kind', async (t) => {
  for (const crds of [false, true]) {
    const { ports, makeJob } = await stage(t, { crds })
    t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), [])
    await makeJob('backup', { [LABELS.component]: 'transfer', [LABELS.parent]: 'uid-b' })
    t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), [], 'a backup has a Lease')
    t.equal(await ports.restore('ns', 'r'), undefined)
  }
})

t.test('a restore waits for a helm Job of its cluster until that has ended', async (t) => {
  const { ports, makeJob, end } = await stage(t)
  const helm = { [LABELS.component]: 'helm' }
  for (const name of ['upgrade-1', 'upgrade-2', 'upgrade-3']) {
    await makeJob(name, { ...helm, [LABELS.release]: 'vec-a' })
  }
  await makeJob('neighbour', { ...helm, [LABELS.release]: 'vec-ab' })
  await makeJob('namesake', { ...helm, [LABELS.release]: 'vec-a' }, 'other')
  await end('upgrade-1', 'Complete')
  await end('upgrade-2', 'Failed')
  t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), ['helm Job upgrade-3'])
})

t.test('a restore waits for migrations from its cluster and to it', async (t) => {
  const { ports, makeMigration, end } = await stage(t)
  await makeMigration('to', {})
  await makeMigration('from', { source: { clusterRef: { name: 'a' } }, targetClusterRef: { name: 'b' } }) // prettier-ignore
  await makeMigration('across', { targetClusterRef: { name: 'a', namespace: 'ns' } }, 'other')
  await makeMigration('ended', {})
  await end('migrate-ended', 'Complete')
  await makeMigration('elsewhere', { targetClusterRef: { name: 'b' } })
  await makeMigration('namesake', {}, 'other')
  t.strictSame((await ports.conflictingWork(CLUSTER, allAllowed)).sort(), [
    'VecMigration ns/from',
    'VecMigration ns/to',
    'VecMigration other/across',
  ])
})

t.test(
  'a migration of a namespace that is not allowed counts only by a Job of this operator',
  async (t) => {
    const { ports, makeMigration, api, end } = await stage(t)
    const rules = { ...allAllowed, isAllowed: (namespace: string) => namespace === 'ns' }
    await makeMigration('here', {})
    const spec = { targetClusterRef: { name: 'a', namespace: 'ns' } }
    await makeMigration('blocker', spec, 'other')
    t.strictSame(await ports.conflictingWork(CLUSTER, rules), ['VecMigration ns/here'])
    // Labelled as the Job of a migration that the cluster allows, in a namespace that it does not.
    const reference = {
      apiVersion: API_VERSION,
      kind: 'VecMigration',
      name: 'here',
      namespace: 'ns',
    }
    const uid = (await api.get(reference))?.metadata.uid ?? ''
    const name = 'forged'
    const labels = { [LABELS.managedBy]: 'vec-operator', [LABELS.component]: 'transfer' }
    const identity = { namespace: 'other', name, parentUid: uid }
    const annotations = { [ANNOTATIONS.signature]: signJob(identity, rules.jobKeys) }
    const containers = [{ name: 'a', image: 'vec-operator:test' }]
    await api.create({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        ...{ name, annotations },
        namespace: 'other',
        labels: { ...labels, [LABELS.parent]: uid },
      },
      spec: { template: { spec: { restartPolicy: 'Never', containers } } },
    })
    await end('migrate-here', 'Complete')
    t.strictSame(await ports.conflictingWork(CLUSTER, rules), [])
  },
)

t.test('a migration that has ended counts only in a namespace that is allowed', async (t) => {
  const { ports, makeMigration, api } = await stage(t)
  await makeMigration('ended', { targetClusterRef: { name: 'a', namespace: 'ns' } }, 'other')
  const reference = { apiVersion: API_VERSION, kind: 'VecMigration', name: 'ended' }
  const migration = await api.get({ ...reference, namespace: 'other' })
  // Its own Job has ended: this one has its name and its signature.
  const job = { apiVersion: 'batch/v1', kind: 'Job', name: 'migrate-ended', namespace: 'other' }
  const parentUid = migration?.metadata.uid ?? ''
  const signature = signJob({ ...job, parentUid }, allAllowed.jobKeys)
  await api.patch(job, { metadata: { annotations: { [ANNOTATIONS.signature]: signature } } })
  const rules = { ...allAllowed, isAllowed: (namespace: string) => namespace === 'ns' }
  const setPhase = (phase: string) =>
    api.patch(
      { ...reference, namespace: 'other' },
      { status: { phase } },
      { subresource: 'status' },
    )
  const counted = ['VecMigration other/ended']
  await setPhase('Running')
  t.strictSame(
    await ports.conflictingWork(CLUSTER, rules),
    counted,
    'its Job is about to be stopped',
  )
  for (const phase of ['Completed', 'Failed']) {
    await setPhase(phase)
    t.strictSame(await ports.conflictingWork(CLUSTER, rules), [])
    t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), counted)
  }
})

t.test("a restore waits for this service's own writes to the cluster's collections", async (t) => {
  const { ports, writes } = await stage(t)
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const write = () => promise
  const engine = trackWrites(
    {
      ...{ createCollection: write, patchCollection: write, deleteCollection: write },
      ...{ putIndex: write, deleteIndex: write, updateAliases: write },
    } as unknown as CollectionEngine,
    CLUSTER,
    writes,
  )
  const { signal } = new AbortController()
  const under = Promise.all([
    engine.createCollection('one', {}, signal),
    engine.patchCollection('two', {}, signal),
    engine.deleteCollection('three', signal),
    engine.putIndex('four', { field_name: 'f', field_schema: 'keyword' }, signal),
    engine.deleteIndex('five', 'f', signal),
    engine.updateAliases([], signal),
  ])
  t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), [
    ...['one', 'two', 'three', 'four', 'five'].map((name) => `a write to collection ${name}`),
    'a change of aliases',
  ])
  t.strictSame(await ports.conflictingWork({ namespace: 'ns', name: 'b' }, allAllowed), [])
  resolve(undefined)
  await under
  t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), [])
})

t.test('a failed write is no longer in flight', async (t) => {
  const { ports, writes } = await stage(t)
  await t.rejects(writes.track(CLUSTER, 'a write', () => Promise.reject(new Error('no'))))
  t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), [])
})

t.test('others that cannot be listed are not none', async (t) => {
  const { ports, server } = await stage(t)
  await server.close()
  await t.rejects(ports.conflictingWork(CLUSTER, allAllowed), { code: 'KubernetesError' })
})

t.test('a service of one namespace looks for migrations in that one', async (t) => {
  const { ports, makeMigration } = await stage(t, { namespaces: ['ns'] })
  await makeMigration('here', {})
  await makeMigration('across', { targetClusterRef: { name: 'a', namespace: 'ns' } }, 'other')
  t.strictSame(await ports.conflictingWork(CLUSTER, allAllowed), ['VecMigration ns/here'])
})

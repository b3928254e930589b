/** Ports of the VecCollection hooks: claims that are never older than the caller, waits, and the engine. */
import { pino } from 'pino'
import t from 'tap'
import type { Test } from 'tap'
import { VecCollection } from '../../../crds/collection.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { crdName, customResourceDefinition } from '../../../crds/crd.ts'
import type { ClaimList } from '../../../crds/collection-ownership.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import { collectionPorts, InFlightWrites } from '../../../metacontroller/ports/collection.ts'
import { readShardNumbers } from '../../../metacontroller/ports/shards.ts'
import { settings } from '../../builders.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import type { ApiObject } from '../../world/client.ts'
import { embeddedApi, installCrds, VERSION } from '../embedded.ts'

const CLUSTER = { namespace: 'ns', name: 'a' }
const log = pino({ level: 'silent' })

async function ports(t: Test, namespaces: string[] = []) {
  const embedded = await embeddedApi(t)
  const { kubernetes, clock, api } = embedded
  await installCrds(api)
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    await api.close()
  })
  const secret = (namespace: string, name: string) =>
    api.get({ apiVersion: 'v1', kind: 'Secret', namespace, name }) as Promise<undefined>
  const made = collectionPorts({
    ...{ kubernetes, connections, route: 'proxy', secret, freshSecret: secret, log, namespaces },
    jobKeys: () => settings.jobKeys,
    now: () => clock.now(),
    timers: { setTimeout: (run, ms) => clock.setTimeout(run, ms) },
    inFlightWrites: new InFlightWrites(),
  })
  const make = async (name: string, namespace = 'ns', cluster: object = { name: 'a' }) => {
    const spec = { clusterRef: cluster, vectors: [{ size: 4, distance: 'Dot' }] }
    const metadata = { name, namespace }
    const kind = 'VecCollection'
    const object = await api.create({ apiVersion: API_VERSION, kind, metadata, spec })
    return object as ApiObject & VecCollection
  }
  return { ...embedded, ports: made, make }
}

function names({ claims }: ClaimList): string[] {
  return claims.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).sort()
}

t.test('the claims include every VecCollection that was created before the caller', async (t) => {
  const { ports: port, make } = await ports(t)
  const first = await make('first')
  t.strictSame(names(await port.collectionsOf(CLUSTER, first)), ['ns/first'])
  await make('second')
  t.strictSame(names(await port.collectionsOf(CLUSTER, first)), ['ns/first'], 'remembered')
  const third = await make('third')
  const all = ['ns/first', 'ns/second', 'ns/third']
  t.strictSame(names(await port.collectionsOf(CLUSTER, third)), all)
  t.strictSame(names(await port.collectionsOf(CLUSTER, first)), all)
})

t.test('a changed spec is compared with claims that were read after the change', async (t) => {
  const { ports: port, make, api } = await ports(t)
  const first = await make('first')
  await port.collectionsOf(CLUSTER, first)
  await make('second')
  const reference = {
    apiVersion: API_VERSION,
    kind: 'VecCollection',
    namespace: 'ns',
    name: 'first',
  }
  const changed = (await api.patch(reference, { spec: { aliases: ['x'] } })) as ApiObject &
    VecCollection
  t.strictSame(names(await port.collectionsOf(CLUSTER, changed)), ['ns/first', 'ns/second'])
})

t.test('a caller waits for a running list, however long it takes', async (t) => {
  const { ports: port, make, clock, server } = await ports(t)
  const first = await make('first')
  const lists = () => server.resources.pages.lists
  const before = lists()
  const one = port.collectionsOf(CLUSTER, first)
  clock.advance(6_000)
  const other = port.collectionsOf(CLUSTER, first)
  t.strictSame(names(await one), ['ns/first'])
  t.strictSame(names(await other), ['ns/first'])
  t.equal(lists() - before, 1)
})

t.test('a claim has only the fields that decide the ownership of a name', async (t) => {
  const { ports: port, make } = await ports(t)
  const first = await make('first')
  const [claim] = (await port.collectionsOf(CLUSTER, first)).claims
  const { namespace, name, uid, generation, creationTimestamp } = first.metadata
  t.strictSame(claim, {
    metadata: { namespace, name, uid, generation, creationTimestamp },
    spec: { clusterRef: { name: 'a' } },
  })
})

t.test('claims are read again after five seconds', async (t) => {
  const { ports: port, make, clock } = await ports(t)
  const first = await make('first')
  await port.collectionsOf(CLUSTER, first)
  await make('second')
  clock.advance(4_999)
  t.strictSame(names(await port.collectionsOf(CLUSTER, first)), ['ns/first'])
  clock.advance(1)
  t.strictSame(names(await port.collectionsOf(CLUSTER, first)), ['ns/first', 'ns/second'])
})

t.test('claims come from every namespace served, and are those of one cluster', async (t) => {
  const { ports: port, make } = await ports(t, ['ns', 'other'])
  await make('elsewhere', 'ns', { name: 'b' })
  await make('there', 'other', { name: 'a' })
  await make('across', 'other', { name: 'a', namespace: 'ns' })
  const here = await make('here')
  t.strictSame(names(await port.collectionsOf(CLUSTER, here)), ['ns/here', 'other/across'])
})

t.test('a claim that an older CRD admitted counts, whatever else its spec holds', async (t) => {
  const { ports: port, make, api, kubernetes, clock } = await ports(t)
  const crd = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
  const { spec } = customResourceDefinition(VecCollection, VERSION) as unknown as {
    spec: { versions: { schema: { openAPIV3Schema: typeof VecCollection.schema } }[] }
  }
  const older = structuredClone(spec)
  for (const { schema } of older.versions) {
    const { shardingMethod } = schema.openAPIV3Schema.properties.spec.properties
    Reflect.deleteProperty(shardingMethod, 'enum')
  }
  await api.patch({ ...crd, namespace: '', name: crdName('veccollections') }, { spec: older })
  const metadata = { name: 'older', namespace: 'ns' }
  await api.create({
    ...{ apiVersion: API_VERSION, kind: 'VecCollection', metadata },
    spec: {
      ...{ clusterRef: { name: 'a' }, collectionName: 'docs', aliases: ['live'] },
      ...{ vectors: [{ size: 4, distance: 'Dot' }], shardingMethod: 'ranges' },
    },
  })
  clock.advance(1000)
  const caller = await make('docs')
  const found = await port.collectionsOf(CLUSTER, caller)
  t.strictSame(names(found), ['ns/docs', 'ns/older'])
  t.strictSame(found.claims.find(({ metadata }) => metadata.name === 'older')?.spec, {
    ...{ clusterRef: { name: 'a' }, collectionName: 'docs', aliases: ['live'] },
  })
  const changed = await api.patch(refTo(caller), { spec: { shardNumber: 5 } })
  await api.replaceStatus({ ...changed, status: { phase: 'Ready', health: 'green' } })
  const query = { connection: CLUSTER, mayReshard: () => true }
  t.strictSame(await readShardNumbers({ kubernetes }, query), [], 'the younger one has no say')
  await api.delete({ ...refTo(caller), name: 'older' })
  t.strictSame(await readShardNumbers({ kubernetes }, query), [
    { collection: 'docs', shards: 5, source: { namespace: 'ns', name: 'docs' } },
  ])
})

t.test('a list for shard numbers has only what decides them, of one cluster', async (t) => {
  const { make, api, kubernetes } = await ports(t)
  const shard = async (name: string, namespace: string, cluster: object) => {
    const made = await make(name, namespace, cluster)
    const changed = await api.patch(refTo(made), { spec: { shardNumber: 5 } })
    await api.replaceStatus({ ...changed, status: { phase: 'Ready', health: 'green' } })
    return made
  }
  const docs = await shard('docs', 'ns', { name: 'a' })
  await shard('elsewhere', 'ns', { name: 'b' })
  await shard('not-allowed', 'other', { name: 'a', namespace: 'ns' })
  const lists: unknown[][] = []
  const collect: typeof kubernetes.collect = async (...call) => {
    const found = await kubernetes.collect(...call)
    lists.push(found)
    return found
  }
  const query = { connection: CLUSTER, mayReshard: (namespace: string) => namespace === 'ns' }
  t.strictSame(await readShardNumbers({ kubernetes: { collect } }, query), [
    { collection: 'docs', shards: 5, source: { namespace: 'ns', name: 'docs' } },
  ])
  const { namespace, name, uid, creationTimestamp } = docs.metadata
  const metadata = { namespace, name, uid, generation: 2, creationTimestamp }
  const spec = { clusterRef: { name: 'a' } }
  const decisive = { shardNumber: 5, shardingMethod: 'auto' }
  t.strictSame(lists, [
    [
      {
        claim: { metadata, spec, status: { health: 'green' } },
        collection: {
          metadata,
          spec: { ...spec, ...decisive },
          status: { health: 'green', phase: 'Ready' },
        },
      },
    ],
  ])
})

function refTo({ metadata: { namespace, name } }: VecCollection) {
  return { apiVersion: API_VERSION, kind: 'VecCollection', namespace, name }
}

t.test('a failed list is not empty, and is read again', async (t) => {
  const { ports: port, make, server } = await ports(t)
  const first = await make('first')
  await server.close()
  await t.rejects(port.collectionsOf(CLUSTER, first), { code: 'KubernetesError' })
  await t.rejects(port.collectionsOf(CLUSTER, first), { code: 'KubernetesError' })
})

t.test("a wait is of the service's own time, and ends with the signal", async (t) => {
  const { ports: port, clock } = await ports(t)
  const wait = port.wait(1_000, new AbortController().signal)
  clock.advance(1_000)
  await wait
  const abort = new AbortController()
  const ended = port.wait(1_000, abort.signal)
  abort.abort()
  await t.rejects(ended, { message: 'the wait was ended' })
  t.equal(clock.nextTimerAt(), undefined, 'nothing is left to come')
  await t.rejects(port.wait(1_000, abort.signal))
  t.equal(port.now().getTime(), clock.now().getTime())
})

t.test('the engine of a cluster is asked with the key its pods run', async (t) => {
  const { ports: port, server, api } = await ports(t)
  const cluster = new EngineCluster({ name: 'vec-a' })
  const config = { service: { api_key: 'the key' } }
  const node = await startEngineNode({ ordinal: 0, cluster, config })
  t.teardown(() => node.close())
  server.attach({ log: () => undefined, port: () => node.port })
  const account = { name: 'default', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  await api.create({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'vec-a-0', namespace: 'ns' },
    spec: { containers: [{ name: 'a', image: 'a' }] },
  })
  await api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'vec-a-apikey', namespace: 'ns' },
    stringData: { 'api-key': 'the key' },
  })
  const key = { secret: 'vec-a-apikey', key: 'api-key' }
  const engine = port.engine({ ...CLUSTER, replicas: 1, tls: false, key })
  const { signal } = new AbortController()
  await engine.createCollection('docs', { vectors: { size: 4, distance: 'Dot' } }, signal)
  t.match(await engine.collectionInfo('docs', signal), { points_count: 0 })
  t.equal(await port.cluster(CLUSTER), undefined)
  t.equal(await port.writeHolder(CLUSTER, () => true), undefined)
})

t.test('the versions of the pods are those of their images, each once', async (t) => {
  const { ports: port, api } = await ports(t)
  t.strictSame(await port.podVersions(CLUSTER), [])
  const account = { name: 'default', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  const create = (name: string, image: string, labels = { [INSTANCE]: 'vec-a' }) =>
    api.create({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'ns', labels },
      spec: { containers: [{ name: 'qdrant', image }] },
    })
  await create('vec-a-2', 'docker.io/qdrant/qdrant:v1.18.3-unprivileged')
  await create('vec-a-1', 'registry:5000/qdrant:v1.18.3@sha256:0123456789abcdef')
  t.strictSame(await port.podVersions(CLUSTER), ['1.18.3'])
  await create('vec-a-0', 'docker.io/qdrant/qdrant:v1.17.1')
  await create('vec-a-b-0', 'docker.io/qdrant/qdrant:v1.16.3')
  await create('vec-b-0', 'docker.io/qdrant/qdrant:v1.16.3', { [INSTANCE]: 'vec-b' })
  await create('vec-a-3', 'docker.io/qdrant/qdrant:latest')
  t.strictSame(await port.podVersions(CLUSTER), ['1.17.1', '1.18.3'])
})

const INSTANCE = 'app.kubernetes.io/instance'

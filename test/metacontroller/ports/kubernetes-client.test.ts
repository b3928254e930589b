/** Namespaces whose RoleBinding is gone: what is in them stops neither others nor their own deletion. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import t from 'tap'
import type { Test } from 'tap'
import { API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { backupHooks } from '../../../hooks/backup/index.ts'
import { clusterHooks } from '../../../hooks/cluster/index.ts'
import { collectionHooks } from '../../../hooks/collection/index.ts'
import { currentHolder } from '../../../hooks/lease.ts'
import { migrationHooks } from '../../../hooks/migration/index.ts'
import { restoreHooks } from '../../../hooks/restore/index.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { backupPorts } from '../../../metacontroller/ports/backup.ts'
import {
  cachedSecretReader,
  clusterPorts,
  listClusters,
} from '../../../metacontroller/ports/cluster.ts'
import { collectionPorts, InFlightWrites } from '../../../metacontroller/ports/collection.ts'
import { leasePorts } from '../../../metacontroller/ports/common.ts'
import { ServiceKubernetes } from '../../../metacontroller/ports/kubernetes-client.ts'
import { migrationPorts } from '../../../metacontroller/ports/migration.ts'
import { conflictingWorkPort, restorePorts } from '../../../metacontroller/ports/restore.ts'
import { readShardNumbers, shardPorts } from '../../../metacontroller/ports/shards.ts'
import { systemTimers } from '../../../metacontroller/runtime.ts'
import type { BlockingRules } from '../../../hooks/cross-namespace.ts'
import { allAllowed, cluster, context } from '../../builders.ts'
import { backup } from '../../hooks/backup/objects.ts'
import { collection } from '../../hooks/collection/stage.ts'
import { migration } from '../../hooks/migration/objects.ts'
import { restore } from '../../hooks/restore/objects.ts'
import { embeddedApi, installCrds } from '../embedded.ts'

const FORBIDDEN = { message: /answered 403/ }
const HERE = { namespace: 'ns', name: 'a' }

async function stage(t: Test) {
  const embedded = await embeddedApi(t)
  const { server, api, clock, url } = embedded
  await installCrds(api)
  const now = () => clock.now()
  const lines: string[] = []
  const log = pino({}, { write: (line) => void lines.push(line) })
  const authorization = `Bearer ${server.serviceToken}`
  const authorize = async () => ({ headers: { authorization }, dispatcher: undefined })
  const kubernetes = new ServiceKubernetes({ server: url, authorize }, log, {
    onCall: () => undefined,
    now,
  })
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const secret = cachedSecretReader(kubernetes, now)
  const common = { kubernetes, secret, namespaces: ['ns', 'other'], now, log }
  const engines = { ...common, connections, route: 'direct' as const, freshSecret: secret }
  const writes = new InFlightWrites()
  const ports = {
    cluster: clusterPorts({
      ...{ ...common, jobKeys: () => [], consensus: async () => [] },
      nodeKeys: async () => [],
      shards: shardPorts(engines),
      conflictingWork: conflictingWorkPort({ ...common, inFlightWrites: writes }),
    }),
    backup: backupPorts({ ...common, clock: systemClock }),
    restore: restorePorts({ ...common, inFlightWrites: writes }),
    migration: migrationPorts(engines),
    collection: collectionPorts({
      ...engines,
      jobKeys: () => [],
      timers: systemTimers,
      inFlightWrites: writes,
    }),
  }
  const deleteNamespace = () =>
    api.delete({ apiVersion: 'v1', kind: 'Namespace', namespace: '', name: 'other' })
  return { ...embedded, kubernetes, ports, lines, now, deleteNamespace }
}

type Stage = Awaited<ReturnType<typeof stage>>

/** Everything that resources of one namespace ask of all the others. */
async function whatOthersAsk({ ports, kubernetes }: Stage): Promise<unknown[]> {
  const storage = backup().spec.storage.s3
  return Promise.all([
    ports.cluster.unfinishedHelmJobs('ns', 10),
    ports.restore.conflictingWork(HERE, allAllowed),
    ports.backup.restoresReading({ ...HERE, storage }),
    ports.cluster.tokensSignedWith(HERE, 'fingerprint', allAllowed.isAllowed),
    claimsIn(ports),
    listClusters(kubernetes, ['ns', 'other']),
  ])
}

async function claimsIn(ports: Stage['ports']): Promise<unknown[]> {
  return (await ports.collection.collectionsOf(HERE, collection())).claims
}

const NOTHING = [0, [], [], [], [], []]

t.test('a served namespace that was deleted counts as empty for the others', async (t) => {
  const world = await stage(t)
  world.server.unbound.add('other')
  await world.deleteNamespace()
  await t.rejects(whatOthersAsk(world), { message: /^namespace other is being deleted/ })
  world.clock.advance(120_000)
  t.strictSame(await whatOthersAsk(world), NOTHING, 'while it waits for finalizers')
})

const UNREADABLE = 'which cannot be read: run helm upgrade, or remove it from operator.namespaces'

t.test('a namespace that refuses every list is never empty: what needs it waits', async (t) => {
  const world = await stage(t)
  const { clock, kubernetes, lines, ports, server } = world
  const storage = backup().spec.storage.s3
  server.unbound.add('other')
  await t.rejects(whatOthersAsk(world), FORBIDDEN)
  clock.advance(599_000)
  await t.rejects(whatOthersAsk(world), FORBIDDEN, 'it may be the API server')
  clock.advance(1_000)
  for (const _ of [1, 2]) {
    t.strictSame(await ports.restore.conflictingWork(HERE, allAllowed), [
      `work of namespace other, ${UNREADABLE}`,
    ])
    t.strictSame(await ports.backup.restoresReading({ ...HERE, storage }), [
      { namespace: 'other', name: '', uid: '', by: 'unknown' },
    ])
    await t.rejects(ports.cluster.tokensSignedWith(HERE, 'fingerprint', allAllowed.isAllowed), {
      message: 'namespace other cannot be read',
    })
    // The number of helm runs is only limited, and a start mark is set later.
    t.equal(await ports.cluster.unfinishedHelmJobs('ns', 10), 0)
    t.strictSame(await listClusters(kubernetes, ['ns', 'other']), [])
  }
  const onlyHere = { ...allAllowed, isAllowed: (namespace: string) => namespace === 'ns' }
  t.strictSame(
    await ports.restore.conflictingWork(HERE, onlyHere),
    [],
    'it may not use the cluster',
  )
  t.strictSame(
    await ports.cluster.tokensSignedWith(HERE, 'fingerprint', onlyHere.isAllowed),
    [],
    'tokens of it do not count',
  )
  const said = lines.filter((line) => line.includes('namespace cannot be read'))
  t.match(said.join(''), /"namespace":"other".*operator\.namespaces/)
  t.equal(said.length, 1, 'it is logged once')

  server.unbound.delete('other')
  t.strictSame(await whatOthersAsk(world), NOTHING)
  server.unbound.add('other')
  await t.rejects(whatOthersAsk(world), FORBIDDEN, 'ten minutes from its last answer on')
})

t.test('the shard numbers of a namespace that cannot be read are unknown', async (t) => {
  const { clock, kubernetes, server } = await stage(t)
  const numbers = (mayReshard?: (namespace: string) => boolean) =>
    readShardNumbers(
      { kubernetes, namespaces: ['ns', 'other'] },
      { connection: HERE, ...(mayReshard !== undefined && { mayReshard }) },
    )
  server.unbound.add('other')
  await t.rejects(
    numbers(() => true),
    FORBIDDEN,
  )
  clock.advance(600_000)
  t.equal(await numbers(() => true), undefined)
  t.strictSame(await numbers((namespace) => namespace === 'ns'), [], 'none of its may be changed')
  t.equal(await numbers(), undefined)
  server.unbound.delete('other')
  t.strictSame(await numbers(() => true), [])
})

t.test('the claims of a namespace that cannot be read for long are unknown', async (t) => {
  const { ports, server, clock } = await stage(t)
  const claims = () => ports.collection.collectionsOf(HERE, collection())
  server.unbound.add('other')
  await t.rejects(claims(), FORBIDDEN)
  clock.advance(600_000)
  t.strictSame(await claims(), { claims: [], unreadable: ['other'] })
  server.unbound.delete('other')
  clock.advance(5_000)
  t.strictSame(await claims(), { claims: [], unreadable: [] })
})

t.test(
  'a rejection in the namespace of the caller, or of another kind, stays an error',
  async (t) => {
    const { server, kubernetes, ports } = await stage(t)
    server.unbound.add('ns')
    await t.rejects(ports.cluster.cluster('ns', 'a'), FORBIDDEN)
    server.unbound.clear()
    server.hinder('busy')
    await t.rejects(listClusters(kubernetes, ['ns', 'other']), { message: /answered 429/ })
  },
)

const DELETED = { deletionTimestamp: '2026-03-01T12:00:00Z' }

/** Resources of the namespace that each did some work. */
const GOING = {
  VecCluster: cluster({ ...DELETED, status: { helmRelease: 'vec-a' } }),
  VecBackup: backup({
    ...DELETED,
    status: { phase: 'Completed', startTime: '2026-03-01T11:00:00Z' },
  }),
  VecRestore: restore(DELETED),
  VecMigration: migration(DELETED),
  VecCollection: collection({ deletionPolicy: 'Delete' }, DELETED),
}

t.test('every kind can be deleted in a namespace whose RoleBinding went first', async (t) => {
  const { server, ports, clock, deleteNamespace, now } = await stage(t)
  server.unbound.add('other')
  await deleteNamespace()
  const kinds = [
    clusterHooks(ports.cluster),
    backupHooks(ports.backup),
    restoreHooks(ports.restore),
    migrationHooks(ports.migration),
    collectionHooks(ports.collection),
  ]
  t.strictSame(
    kinds.map(({ kind }) => kind),
    Object.keys(GOING),
  )
  clock.advance(120_000)
  for (const [at, resource] of Object.values(GOING).entries()) {
    const { metadata } = resource
    const parent = { ...resource, metadata: { ...metadata, namespace: 'other' } }
    const request = { parent, children: {}, related: {}, finalizing: true }
    const answer = await kinds[at]?.finalize?.(request, { ...context, now: now() })
    t.equal(answer?.finalized, true, resource.kind)
  }
})

t.test(
  'a Lease whose holder is in an unreadable namespace stays held if that namespace may use the cluster',
  async (t) => {
    const { server, api, kubernetes, clock } = await stage(t)
    await api.create({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'vec-a-write', namespace: 'ns' },
      spec: {
        holderIdentity: 'VecRestore/elsewhere/r9/uid-r9',
        acquireTime: '2026-01-01T00:00:00.000000Z',
      },
    })
    await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'elsewhere' } })
    server.unbound.add('elsewhere')
    const holder = (rules: Partial<BlockingRules> = {}) =>
      currentHolder(HERE, 'write', leasePorts(kubernetes), {
        ...{ ...allAllowed, now: clock.now() },
        ...rules,
      })
    const isHere = (namespace: string) => namespace === 'ns'
    t.equal(await holder(), 'VecRestore elsewhere/r9')
    clock.advance(600_000)
    t.equal(
      await holder(),
      'VecRestore elsewhere/r9, whose namespace cannot be read: run helm upgrade, or remove it from operator.namespaces',
    )
    t.equal(await holder({ isAllowed: isHere }), undefined)
    t.equal(await holder({ isWatched: isHere }), undefined, 'operator.namespaces was made shorter')

    server.unbound.clear()
    const owner = { apiVersion: API_VERSION, kind: 'VecRestore' }
    await api.create({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        name: 'r9',
        namespace: 'elsewhere',
        labels: { [LABELS.parent]: 'uid-r9' },
        ownerReferences: [{ ...owner, name: 'r9', uid: 'uid-r9', controller: true }],
      },
      spec: {
        template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'a' }] } },
      },
    })
    t.equal(await holder(), 'VecRestore elsewhere/r9', 'as soon as its Jobs can be read')
  },
)

/** An API that answers lists when it is let go, and counts those that wait for it. */
async function slowLists(t: Test) {
  const { promise: released, resolve: letGo } = Promise.withResolvers<undefined>()
  const counts = { now: 0, most: 0, all: 0 }
  const server = createServer((_, response) => {
    counts.now += 1
    counts.all += 1
    counts.most = Math.max(counts.most, counts.now)
    void released.then(() => {
      counts.now -= 1
      response.end(JSON.stringify({ kind: 'SecretList', items: [] }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const access = { server: `http://127.0.0.1:${port}` }
  const authorize = async () => ({ headers: {}, dispatcher: undefined })
  const kubernetes = new ServiceKubernetes({ ...access, authorize }, pino({ level: 'silent' }), {
    onCall: () => undefined,
    now: () => new Date(),
  })
  const list = () => kubernetes.list({ apiVersion: 'v1', plural: 'secrets' }, AnyObject)
  const areWaiting = async () => {
    while (counts.now < 2) await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return { list, letGo, counts, areWaiting }
}

t.test('two pages of lists are in memory at the same time', async (t) => {
  const { list, letGo, counts, areWaiting } = await slowLists(t)
  const lists = Array.from({ length: 10 }, list)
  await areWaiting()
  letGo(undefined)
  await Promise.all(lists)
  t.strictSame(counts, { now: 0, most: 2, all: 10 })
})

t.test('a list that waits too long for others fails', async (t) => {
  const { list, letGo, areWaiting } = await slowLists(t)
  const lists = Array.from({ length: 2 }, list)
  await areWaiting()
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  t.teardown(() => (AbortSignal.timeout = timeout))
  AbortSignal.timeout = (ms) => timeout(ms / 1000)
  await t.rejects(list(), {
    code: 'KubernetesError',
    message: 'a list waited for more than 30 s for other lists',
  })
  letGo(undefined)
  t.strictSame(await Promise.all(lists), [[], []])
})

/** Invalid input to a VecCluster: nothing is lost, and the resource reports what to fix. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { PassingState, World, Reference } from '../world/world.ts'
import {
  conditionIn,
  eventsAbout,
  jobsIn,
  makeCluster,
  phaseOf,
  reasonIn,
  replicasOf,
  running,
  statusOf,
  untilApplied,
  untilGone,
  untilReason,
  type Scenario,
} from './scenario.ts'

async function hasNoRelease(world: World, { namespace, name }: Reference): Promise<boolean> {
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: `vec-${name}` }
  return (await world.get(set)) === undefined
}

const unknownVersion: Scenario = {
  title: 'a chart version that does not exist: Pending, no pods; retried; once corrected, it runs',
  async run(world, t) {
    const namespace = await world.namespace('no-version')
    const reference = await makeCluster(world, namespace, 'a', { version: '1.18.99' })
    const failed = await untilReason(world, reference, 'HelmFailed')
    t.equal(phaseOf(failed), 'Pending')
    t.match(conditionIn(failed, 'Applied')?.message, /1\.18\.99/)
    t.ok(await hasNoRelease(world, reference))
    t.match(await eventsAbout(world, reference), { HelmFailed: /1\.18\.99/ })
    const [job = ''] = await jobsIn(world, namespace)
    t.match(await world.logs(namespace, job), /1\.18\.99/)
    await world.patch(reference, { spec: { version: world.versions.newer } })
    await untilApplied(world, reference)
  },
}

const helmError: Scenario = {
  title: 'a Helm error on a running cluster: the phase stays, the next run is numbered',
  async run(world, t) {
    const namespace = await world.namespace('helm-error')
    const reference = await running(world, namespace, 'a')
    const metrics = { enabled: true, serviceMonitor: { enabled: true } }
    await world.patch(reference, { spec: { metrics } })
    // On a cluster that others use, a restarted operator may just have applied the release once more.
    const isRunningStill = (object: AnyObject | undefined) =>
      phaseOf(object) === 'Running' && conditionIn(object, 'Applied')?.reason === 'HelmFailed'
    await world.waitFor(reference, 'Running with HelmFailed', isRunningStill, 120)
    // The next run comes after 30 s and a turn of its own among other clusters.
    for (let waits = 0; waits < 12 && (await jobsIn(world, namespace)).length < 3; waits += 1) {
      await world.advance(15)
    }
    t.ok((await jobsIn(world, namespace)).length >= 3)
    await world.waitFor(reference, 'Running with HelmFailed', isRunningStill, 120)
    await world.patch(reference, { spec: { metrics: null } })
    await untilApplied(world, reference)
  },
}

const serviceMonitor: Scenario = {
  title: 'a ServiceMonitor without the monitoring CRDs is a Helm error that names it',
  async run(world, t) {
    const namespace = await world.namespace('monitor')
    const metrics = { enabled: true, serviceMonitor: { enabled: true } }
    const reference = await makeCluster(world, namespace, 'a', { metrics })
    const failed = await untilReason(world, reference, 'HelmFailed')
    t.match(conditionIn(failed, 'Applied')?.message, /ServiceMonitor/)
    t.equal(phaseOf(failed), 'Pending')
  },
}

function keySecret(namespace: string, data: Record<string, string>) {
  const encoded = Object.entries(data).map(([key, value]) => [
    key,
    Buffer.from(value).toString('base64'),
  ])
  const metadata = { namespace, name: 'key' }
  return { apiVersion: 'v1', kind: 'Secret', metadata, data: Object.fromEntries(encoded) as object }
}

const keyProblems: Scenario = {
  title:
    'a missing, empty or unreadable key Secret: nothing is installed, the condition names Secret and key',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('key')
    const apiKey = { secretRef: { name: 'key', key: 'api' } }
    const reference = await makeCluster(world, namespace, 'a', { apiKey })
    const says = async (words: RegExp) => {
      const found = await world.waitFor(
        reference,
        String(words),
        (object) => words.test(conditionIn(object, 'Applied')?.message ?? ''),
        180,
      )
      t.match(conditionIn(found, 'Applied'), { status: 'False', reason: 'InvalidSecret' })
    }
    await says(/Secret key does not exist/)
    await world.apply(keySecret(namespace, { other: 'x' }))
    await says(/Secret key has no key api/)
    await world.apply(keySecret(namespace, { api: '' }))
    await says(/Secret key has an empty key api/)
    await world.apply(keySecret(namespace, { api: '0123' }))
    await says(/YAML does not parse as the same text/)
    t.ok(await hasNoRelease(world, reference))
    t.strictSame(await jobsIn(world, namespace), [])
    await world.apply(keySecret(namespace, { api: 'a-good-key-of-thirty-two-letters' }))
    await untilApplied(world, reference)
  },
}

const tlsSecret: Scenario = {
  title: 'a TLS Secret without tls.crt: nothing is installed, the condition says so',
  async run(world, t) {
    const namespace = await world.namespace('tls')
    // The API server refuses a kubernetes.io/tls Secret without both keys, so this one is empty.
    const metadata = { namespace, name: 'cert' }
    const data = { 'tls.crt': '', 'tls.key': Buffer.from('k').toString('base64') }
    await world.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata,
      type: 'kubernetes.io/tls',
      data,
    })
    const tls = { enabled: true, secretRef: { name: 'cert' } }
    const reference = await makeCluster(world, namespace, 'a', { tls })
    const found = await untilReason(world, reference, 'InvalidSecret')
    t.match(
      conditionIn(found, 'Applied')?.message,
      'spec.tls.secretRef: Secret cert has an empty key tls.crt',
    )
    t.strictSame(await jobsIn(world, namespace), [])
  },
}

const collision: Scenario = {
  title: 'two clusters with colliding names: the second says what is in its way, the first runs on',
  async run(world, t) {
    const namespace = await world.namespace('collision')
    const first = await running(world, namespace, 'a')
    // Its client Service would be vec-a-headless, which is the headless Service of the first.
    const second = await makeCluster(world, namespace, 'a-headless')
    const failed = await untilReason(world, second, 'HelmFailed')
    t.match(conditionIn(failed, 'Applied')?.message, /vec-a-headless/)
    t.equal(phaseOf(await world.get(first)), 'Running')
    await world.delete(second)
    await untilGone(world, second, 600)
    const service = { apiVersion: 'v1', kind: 'Service', namespace, name: 'vec-a-headless' }
    t.ok(await world.get(service), 'the Service of the first cluster still exists')
  },
}

const snapshotVolume: Scenario = {
  title:
    'H14: a changed snapshotPersistence is stopped before helm, naming the field; reverted, all is well',
  async run(world, t) {
    const namespace = await world.namespace('volume')
    const reference = await running(world, namespace, 'a')
    await world.patch(reference, { spec: { snapshotPersistence: { enabled: true } } })
    const found = await untilReason(world, reference, 'InvalidSpec')
    t.match(conditionIn(found, 'Applied')?.message, /^spec\.snapshotPersistence\.enabled is fixed/)
    t.equal(phaseOf(found), 'Running')
    t.equal((await jobsIn(world, namespace)).length, 1)
    await world.patch(reference, { spec: { snapshotPersistence: { enabled: false } } })
    await untilApplied(world, reference)
  },
}

const bypass: Scenario = {
  title: 'a config entry that contradicts the Service is stopped before helm, naming both',
  async run(world, t) {
    const namespace = await world.namespace('bypass')
    const reference = await makeCluster(world, namespace, 'a', {
      config: { service: { http_port: 1 } },
    })
    const found = await untilReason(world, reference, 'InvalidSpec')
    t.equal(
      conditionIn(found, 'Applied')?.message,
      'spec.config.service.http_port is 1, but the Service of the chart has 6333: remove the entry',
    )
    t.strictSame(await jobsIn(world, namespace), [])
  },
}

const downgrade: Scenario = {
  title: 'H7: going back by a minor version is refused with a condition, by a patch it is not',
  async run(world, t) {
    const namespace = await world.namespace('downgrade')
    const reference = await running(world, namespace, 'a')
    const [major = 0, minor = 0] = world.versions.newer.split('.').map(Number)
    await world.patch(reference, { spec: { version: `${major}.${minor - 1}.0` } })
    const refused = await untilReason(world, reference, 'VersionDowngraded')
    t.equal(phaseOf(refused), 'Running')
    t.equal(statusOf(refused).version, world.versions.newer)
    // An install and two changes within a minute would meet the limit of Events.
    await world.advance(60)
    await world.patch(reference, { spec: { version: world.versions.older } })
    const object = await untilApplied(world, reference)
    t.equal(statusOf(object).version, world.versions.older)
  },
}

const skippedMinor: Scenario = {
  title: 'H7: a minor version that this release does not know is not skipped',
  async run(world, t) {
    const namespace = await world.namespace('skip')
    const reference = await running(world, namespace, 'a')
    const [major = 0, minor = 0] = world.versions.newer.split('.').map(Number)
    await world.patch(reference, { spec: { version: `${major}.${minor + 4}.0` } })
    const refused = await untilReason(world, reference, 'VersionSkipped')
    t.equal(phaseOf(refused), 'Running')
    await world.patch(reference, { spec: { version: world.versions.newer } })
    await untilApplied(world, reference)
  },
}

const minorByMinor: Scenario = {
  title:
    'H7: a version two minors ahead is reached by the one in between, which is rolled out first',
  // A cluster has the charts of two versions.
  only: 'embedded',
  async run(world, t) {
    const namespace = await world.namespace('steps')
    const reference = await running(world, namespace, 'a', { version: '1.16.3' })
    const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
    const { generation = 0 } = (await world.get(reference))?.metadata ?? {}
    const between: PassingState = {
      what: 'VersionStep',
      isReached: (object) => reasonIn(object) === 'VersionStep',
    }
    const step = await world.waitForPassing(reference, between, () =>
      world.patch(reference, { spec: { version: '1.18.3' } }),
    )
    t.equal(statusOf(step).version, '1.17.1')
    t.strictSame(statusOf(step).versionPlan, ['1.17.1', '1.18.3'])
    t.equal(conditionIn(step, 'Ready')?.observedGeneration, generation, 'not of the new spec')
    t.match(JSON.stringify(await world.get(set)), /qdrant:v1\.17\.1/)
    const object = await untilApplied(world, reference)
    t.equal(statusOf(object).version, '1.18.3')
    t.equal(statusOf(object).versionPlan, undefined)
    t.equal(conditionIn(object, 'Ready')?.observedGeneration, generation + 1)
    t.equal((await jobsIn(world, namespace)).length, 3, 'one run for each version')
  },
}

const scaleDown: Scenario = {
  title:
    'H5: no shard may be lost by changing a number: scale-down is refused while a collection needs the node',
  async run(world, t) {
    const namespace = await world.namespace('scale-down')
    const reference = await running(world, namespace, 'a', { replicas: 3 })
    const pod = { namespace, name: 'vec-a-0' }
    const vectors = { size: 4, distance: 'Dot' }
    const books = { vectors, shard_number: 3, replication_factor: 3 }
    await world.engine(pod, 'PUT', '/collections/books', books)
    await world.patch(reference, { spec: { replicas: 2 } })
    const refused = await untilReason(world, reference, 'NotEnoughNodes', 240)
    t.match(conditionIn(refused, 'Applied')?.message, '"books" has replication factor 3')
    const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
    t.match(await world.get(set), { spec: { replicas: 3 } })
    const annotations = { 'vec-operator.dev/accept-risk': 'shard-loss' }
    await world.patch(reference, { metadata: { annotations } })
    await untilReplicas(world, set, 2)
  },
}

const drain: Scenario = {
  title: 'H5: the shards of a removed node are moved to the remaining ones before it is removed',
  async run(world, t) {
    const namespace = await world.namespace('drain')
    const reference = await running(world, namespace, 'a', { replicas: 3 })
    const pod = { namespace, name: 'vec-a-0' }
    const vectors = { size: 4, distance: 'Dot' }
    await world.engine(pod, 'PUT', '/collections/books', { vectors, shard_number: 3 })
    await world.patch(reference, { spec: { replicas: 2 } })
    const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
    await untilReplicas(world, set, 2)
    const { result } = (await world.engine(pod, 'GET', '/collections/books/cluster')) as {
      result: { local_shards: { shard_id: number }[]; remote_shards: { shard_id: number }[] }
    }
    const shards = [...result.local_shards, ...result.remote_shards]
    t.strictSame(
      shards.map(({ shard_id }) => shard_id).toSorted((a, b) => a - b),
      [0, 1, 2],
      'each shard is on one of the remaining nodes',
    )
    await untilApplied(world, reference)
  },
}

function untilReplicas(world: World, set: Parameters<World['get']>[0], count: number) {
  return world.waitFor(set, `${count} replicas`, (object) => replicasOf(object) === count, 600)
}

export const clusterInput: Scenario[] = [
  unknownVersion,
  helmError,
  serviceMonitor,
  keyProblems,
  tlsSecret,
  collision,
  snapshotVolume,
  bypass,
  downgrade,
  skippedMinor,
  minorByMinor,
  scaleDown,
  drain,
]

/** The controllers of the embedded world bring objects forward as Kubernetes' own do. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { matchWhole } from '../../match-whole.ts'
import { startApi } from '../api/server.ts'
import { ApiClient, type ApiObject } from '../client.ts'
import { ManualClock } from '../clock.ts'
import { startControllers } from './index.ts'
import type { Pod } from './objects.ts'

async function world(t: Test) {
  const clock = new ManualClock(new Date())
  const api = await startApi(clock)
  const client = new ApiClient({ server: api.url, token: api.token })
  const helm = mkdtempSync(join(tmpdir(), 'vec-test-'))
  const controllers = startControllers({ api, clock, helm })
  t.teardown(async () => {
    await controllers.close()
    await client.close()
    await api.close()
    rmSync(helm, { recursive: true })
  })
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  /** Lets everything that is due happen, and time pass when nothing is, until it holds. */
  const until = async (holds: () => Promise<boolean>) => {
    const limit = Date.now() + 30_000
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve))
      if (controllers.busy()) continue
      if (await holds()) return
      if (Date.now() > limit) throw new Error('did not come to pass within 30 s')
      if (controllers.kubelet.processes() > 0) await new Promise((done) => setTimeout(done, 10))
      else clock.advance(Math.max(1, (clock.nextTimerAt() ?? 0) - clock.now().getTime()))
    }
  }
  const get = (apiVersion: string, kind: string, name: string) =>
    client.get({ apiVersion, kind, namespace: 'ns', name })
  return { client, controllers, clock, until, get }
}

function config(name: string, metadata: object = {}) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'ns', ...metadata } }
}

function ownedBy({ apiVersion, kind, metadata: { name, uid } }: ApiObject) {
  return { ownerReferences: [{ apiVersion, kind, name, uid, blockOwnerDeletion: true }] }
}

t.test('a namespace has its ServiceAccount, and is deleted with everything in it', async (t) => {
  const { client, until, get } = await world(t)
  await until(async () => (await get('v1', 'ServiceAccount', 'default')) !== undefined)
  await client.create(config('held', { finalizers: ['example.dev/x'] }))
  await client.create(config('free'))
  const reference = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: 'ns' }
  await client.delete(reference)
  await until(async () => (await get('v1', 'ConfigMap', 'free')) === undefined)
  t.match(await client.get(reference), { status: { phase: 'Terminating' } })
  const held = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'ns', name: 'held' }
  await client.patch(held, { metadata: { finalizers: null } })
  await until(async () => (await client.get(reference)) === undefined)
  t.equal(await client.get(held), undefined)
})

t.test('dependants follow their owner; another uid of the same name is no owner', async (t) => {
  const { client, until, get } = await world(t)
  const owner = await client.create(config('owner'))
  await client.create(config('child', ownedBy(owner)))
  await client.create(
    config('stray', ownedBy({ ...owner, metadata: { name: 'owner', uid: 'other' } })),
  )
  await until(async () => (await get('v1', 'ConfigMap', 'stray')) === undefined)
  t.ok(await get('v1', 'ConfigMap', 'child'))
  await client.delete({ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'ns', name: 'owner' })
  await until(async () => (await get('v1', 'ConfigMap', 'child')) === undefined)
})

t.test('foreground waits for dependants, orphaning frees them', async (t) => {
  const { client, until, get } = await world(t)
  const at = (name: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'ns', name })
  const owner = await client.create(config('owner'))
  await client.create(config('child', { ...ownedBy(owner), finalizers: ['example.dev/x'] }))
  await client.delete(at('owner'), { propagation: 'Foreground' })
  await until(async () => (await client.get(at('child')))?.metadata.deletionTimestamp !== undefined)
  t.ok(await client.get(at('owner')))
  await client.patch(at('child'), { metadata: { finalizers: null } })
  await until(async () => (await client.get(at('owner'))) === undefined)

  const other = await client.create(config('other'))
  await client.create(config('kept', ownedBy(other)))
  await client.delete(at('other'), { propagation: 'Orphan' })
  await until(async () => (await client.get(at('other'))) === undefined)
  t.equal((await get('v1', 'ConfigMap', 'kept'))?.metadata.ownerReferences, undefined)
})

t.test('a definition that is deleted takes its objects along', async (t) => {
  const { client, until } = await world(t)
  const schema = { openAPIV3Schema: { type: 'object' } }
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'widgets.example.dev' },
    spec: {
      group: 'example.dev',
      scope: 'Namespaced',
      names: { kind: 'Widget', plural: 'widgets' },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  }
  const at = { apiVersion: definition.apiVersion, kind: definition.kind, namespace: '' }
  const reference = { ...at, name: 'widgets.example.dev' }
  await client.create(definition)
  await until(async () => (await client.get(reference))?.metadata.finalizers !== undefined)
  const metadata = { name: 'w', namespace: 'ns', finalizers: ['example.dev/x'] }
  await client.create({ apiVersion: 'example.dev/v1', kind: 'Widget', metadata })
  const widget = { apiVersion: 'example.dev/v1', kind: 'Widget', namespace: 'ns', name: 'w' }
  await client.delete(reference)
  await until(async () => (await client.get(widget))?.metadata.deletionTimestamp !== undefined)
  t.ok(await client.get(reference))
  await client.patch(widget, { metadata: { finalizers: null } })
  await until(async () => (await client.get(reference)) === undefined)
  await t.rejects(client.raw('GET', '/apis/example.dev/v1'), { status: 404, message: /could not/ })
})

function job(extra: object = {}, image = 'vec-operator:embedded') {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'j', namespace: 'ns' },
    spec: {
      ...extra,
      template: {
        spec: {
          restartPolicy: 'Never',
          containers: [
            { name: 'job', image, args: ['jobs/main.js', 'cluster', 'upgrade', 'ns/x'] },
          ],
        },
      },
    },
  }
}

/** The companion CLI ends with its crash code where a Job has no plan that reads. */
const CRASH = 75

t.test('a Job whose pods crash is tried again with back-off, then Failed', async (t) => {
  const { client, until, get, clock } = await world(t)
  const start = clock.now().getTime()
  await client.create(job({ backoffLimit: 1 }))
  await until(async () => {
    const found = await get('batch/v1', 'Job', 'j')
    return JSON.stringify(found?.status ?? {}).includes('"Failed"')
  })
  matchWhole(t, (await get('batch/v1', 'Job', 'j'))?.status, {
    failed: 2,
    conditions: [
      { type: 'FailureTarget', reason: 'BackoffLimitExceeded' },
      { type: 'Failed', reason: 'BackoffLimitExceeded' },
    ],
  })
  t.ok(clock.now().getTime() - start >= 10_000)
  const { items } = await client.list('v1', 'Pod', { namespace: 'ns', labelSelector: 'job-name=j' })
  t.equal(items.length, 2)
  matchWhole(t, items[0]?.status, {
    phase: 'Failed',
    containerStatuses: [{ state: { terminated: { exitCode: CRASH } } }],
  })
  const path = `/api/v1/namespaces/ns/pods/${String(items[0]?.metadata.name)}/log`
  t.match(await client.raw('GET', path), /crashed/)
})

t.test('an exit code the pod failure policy names ends the Job at once', async (t) => {
  const { client, until, get } = await world(t)
  const onExitCodes = { containerName: 'job', operator: 'In', values: [CRASH] }
  await client.create(job({ podFailurePolicy: { rules: [{ action: 'FailJob', onExitCodes }] } }))
  await until(async () =>
    JSON.stringify((await get('batch/v1', 'Job', 'j'))?.status ?? {}).includes('"Failed"'),
  )
  matchWhole(t, (await get('batch/v1', 'Job', 'j'))?.status, {
    failed: 1,
    conditions: [{ type: 'FailureTarget' }, { type: 'Failed', reason: 'PodFailurePolicy' }],
  })
})

t.test('an image that is not there keeps the pod Pending; deletion ends it all', async (t) => {
  const { client, until, get } = await world(t)
  await client.create(job({}, 'missing/nothing:1'))
  const pods = async () => (await client.list('v1', 'Pod', { namespace: 'ns' })).items
  await until(async () => JSON.stringify(await pods()).includes('ErrImagePull'))
  t.match(await get('batch/v1', 'Job', 'j'), { status: { active: 1 } })
  const reference = { apiVersion: 'batch/v1', kind: 'Job', namespace: 'ns', name: 'j' }
  await client.delete(reference, { propagation: 'Foreground' })
  await until(async () => (await client.get(reference)) === undefined)
  t.strictSame(await pods(), [])
})

t.test(
  'a pod that misses a volume says so by a condition only, one of its variables by name',
  async (t) => {
    const { client, until, get } = await world(t)
    const [pod] = [job().spec.template.spec]
    const [container] = pod.containers
    const volumes = [{ name: 'v', secret: { secretName: 's' } }]
    const volumeMounts = [{ name: 'v', mountPath: '/v' }]
    const secretKeyRef = { name: 's', key: 'k' }
    const create = (name: string, spec: object) =>
      client.create({
        ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'ns' } },
        spec: { ...pod, ...spec },
      })
    await create('mounts', { volumes, containers: [{ ...container, volumeMounts }] })
    const env = [{ name: 'K', valueFrom: { secretKeyRef } }]
    await create('reads', { containers: [{ ...container, env }] })
    const waits = async (name: string) => {
      const isSeen = async () =>
        JSON.stringify((await get('v1', 'Pod', name)) ?? {}).includes('containerStatuses')
      await until(isSeen)
      const { conditions = [], containerStatuses: [status] = [] } = (
        (await get('v1', 'Pod', name)) as Pod
      ).status
      const sandbox = conditions.find(({ type }) => type === 'PodReadyToStartContainers')
      return [sandbox?.status, status?.state]
    }
    t.strictSame(await waits('mounts'), ['False', { waiting: { reason: 'ContainerCreating' } }])
    const reason = 'CreateContainerConfigError'
    t.strictSame(await waits('reads'), [
      'True',
      { waiting: { reason, message: 'secret "s" not found' } },
    ])
  },
)

function statefulSet(version: string, replicas: number) {
  const labels = { app: 'e' }
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'e', namespace: 'ns' },
    spec: {
      replicas,
      podManagementPolicy: 'Parallel',
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          containers: [
            {
              name: 'qdrant',
              image: `docker.io/qdrant/qdrant:v${version}`,
              readinessProbe: { httpGet: { path: '/readyz', port: 6333 }, periodSeconds: 5 },
            },
          ],
        },
      },
      volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: {} }],
    },
  }
}

const setAt = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: 'ns', name: 'e' }

t.test('a StatefulSet becomes pods of the engine that are reached by the proxy', async (t) => {
  const { client, until, controllers } = await world(t)
  const ready = async (count: number) => {
    const status = (await client.get(setAt))?.status as { readyReplicas?: number } | undefined
    return (status?.readyReplicas ?? 0) === count
  }
  await client.create(statefulSet('1.18.2', 2))
  await until(() => ready(2))
  t.match((await client.get(setAt))?.status, { replicas: 2, updatedReplicas: 2 })
  const proxied = '/api/v1/namespaces/ns/pods/http:e-1:6333/proxy'
  t.match(JSON.parse(await client.raw('GET', `${proxied}/`)), { version: '1.18.2' })

  controllers.kubelet.setReady('ns', 'e-1', false)
  await until(() => ready(1))
  controllers.kubelet.setReady('ns', 'e-1', true)
  await until(() => ready(2))
})

t.test('a new template rolls the highest pod first; fewer replicas leave the claims', async (t) => {
  const { client, until } = await world(t)
  const status = async () => (await client.get(setAt))?.status as Record<string, unknown>
  const done = async () => {
    const { readyReplicas, updatedReplicas, currentRevision, updateRevision } = await status()
    return readyReplicas === 2 && updatedReplicas === 2 && currentRevision === updateRevision
  }
  await client.create(statefulSet('1.18.2', 2))
  await until(done)
  const before = (await status())['updateRevision']
  const { template } = statefulSet('1.18.3', 2).spec
  await client.patch(setAt, { spec: { template } })
  await until(async () => (await status())['updatedReplicas'] === 1)
  const { items } = await client.list('v1', 'Pod', { namespace: 'ns' })
  const old = items.filter((pod) => pod.metadata.labels?.['controller-revision-hash'] === before)
  t.strictSame(
    old.map(({ metadata }) => metadata.name),
    ['e-0'],
  )
  await until(done)
  t.not((await status())['updateRevision'], before)

  await client.patch(setAt, { spec: { replicas: 1 } })
  await until(async () => (await client.list('v1', 'Pod', { namespace: 'ns' })).items.length === 1)
  const claims = await client.list('v1', 'PersistentVolumeClaim', { namespace: 'ns' })
  t.strictSame(
    claims.items.map(({ metadata }) => metadata.name),
    ['data-e-0', 'data-e-1'],
  )
  await client.delete(setAt)
  await until(async () => (await client.list('v1', 'Pod', { namespace: 'ns' })).items.length === 0)
  t.equal((await client.list('v1', 'PersistentVolumeClaim', { namespace: 'ns' })).items.length, 2)
})

t.test('a StatefulSet adopts the pods that an earlier one left, without a restart', async (t) => {
  const { client, until } = await world(t)
  const pods = async () => (await client.list('v1', 'Pod', { namespace: 'ns' })).items
  const ready = async () => (await client.get(setAt))?.status as { readyReplicas?: number }
  const uids = async () => (await pods()).map(({ metadata }) => metadata.uid)
  const { uid } = (await client.create(statefulSet('1.18.3', 2))).metadata
  await until(async () => (await ready()).readyReplicas === 2)
  const before = await uids()
  await client.delete(setAt, { propagation: 'Orphan', uid: uid ?? '' })
  await until(async () => (await client.get(setAt)) === undefined)
  t.strictSame(await uids(), before)
  t.ok((await pods()).every(({ metadata }) => metadata.ownerReferences === undefined))

  const stranger = { ...statefulSet('1.18.3', 2).spec.template, apiVersion: 'v1', kind: 'Pod' }
  const named = (name: string, labels: object) => ({
    ...stranger,
    metadata: { name, namespace: 'ns', labels },
  })
  await client.create(named('e-x', { app: 'e' }))
  await client.create(named('e-7', { app: 'other' }))
  const next = await client.create(statefulSet('1.18.3', 2))
  await until(async () => (await ready()).readyReplicas === 2)
  const owners = (await pods()).map(({ metadata }) => [
    metadata.name,
    metadata.ownerReferences?.[0]?.uid,
  ])
  t.strictSame(owners, [
    ['e-0', next.metadata.uid],
    ['e-1', next.metadata.uid],
    ['e-7', undefined],
    ['e-x', undefined],
  ])
  t.strictSame((await uids()).slice(0, 2), before)
})

t.test('a bound volume grows if its class allows it; a dry run changes nothing', async (t) => {
  const { client, until } = await world(t)
  const at = (name: string) => ({
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: 'ns' },
    name: `data-e-${name}`,
  })
  for (const [name, allowVolumeExpansion] of [
    ['fast', true],
    ['fixed', false],
  ] as const) {
    const metadata = { name, namespace: '' }
    const kind = { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass' }
    await client.create({ ...kind, metadata, provisioner: 'x', allowVolumeExpansion })
  }
  const size = (storage: string) => ({ spec: { resources: { requests: { storage } } } })
  const set = statefulSet('1.18.3', 1)
  const claim = {
    metadata: { name: 'data' },
    spec: { storageClassName: 'fast', ...size('1Gi').spec },
  }
  await client.create({ ...set, spec: { ...set.spec, volumeClaimTemplates: [claim] } })
  await until(async () => (await client.get(at('0')))?.status !== undefined)
  t.strictSame((await client.get(at('0')))?.status, {
    phase: 'Bound',
    capacity: { storage: '1Gi' },
  })

  t.match(await client.patch(at('0'), size('2Gi'), { dryRun: true }), size('2Gi'))
  t.match(await client.get(at('0')), size('1Gi'))
  await client.patch(at('0'), size('2Gi'))
  t.match((await client.get(at('0')))?.status, { capacity: { storage: '1Gi' } })
  await until(async () =>
    JSON.stringify((await client.get(at('0')))?.status).includes('"storage":"2Gi"'),
  )
  await t.rejects(client.patch(at('0'), size('1Gi')), { message: /can not be less than/ })
  await t.rejects(client.patch(at('0'), { spec: { storageClassName: 'fixed' } }), {
    message: /spec is immutable after creation except resources\.requests/,
  })

  const metadata = { name: 'data-e-fixed', namespace: 'ns' }
  const fixed = { storageClassName: 'fixed', ...size('1Gi').spec }
  await client.create({
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
    metadata,
    spec: fixed,
  })
  await t.rejects(client.patch(at('fixed'), size('2Gi')), {
    status: 403,
    message: /Only bound persistent volume claims can be expanded/,
  })
  await client.patch(at('fixed'), { status: { phase: 'Bound' } }, { subresource: 'status' })
  await t.rejects(client.patch(at('fixed'), size('2Gi'), { dryRun: true }), {
    status: 403,
    message: /the storageclass that provisions the pvc must support resize/,
  })
})

t.test(
  'pods below the partition keep their template, and get it again when they are created',
  async (t) => {
    const { client, until } = await world(t)
    const status = async () => (await client.get(setAt))?.status as Record<string, unknown>
    const images = async () => {
      const { items } = await client.list('v1', 'Pod', { namespace: 'ns' })
      return Object.fromEntries(
        items.map(({ metadata, spec }) => {
          const { containers } = spec as { containers: { image: string }[] }
          const revision = metadata.labels?.['controller-revision-hash']
          return [metadata.name, [containers[0]?.image.split(':v')[1], revision]]
        }),
      )
    }
    const stable = async (updated: number) => {
      const { readyReplicas, updatedReplicas = 0, observedGeneration } = await status()
      const { generation } = (await client.get(setAt))?.metadata ?? {}
      return readyReplicas === 3 && updatedReplicas === updated && observedGeneration === generation
    }
    const partitioned = (partition: number) => ({
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition } },
    })
    await client.create(statefulSet('1.18.2', 3))
    await until(() => stable(3))
    const { currentRevision: old } = await status()

    const { template } = statefulSet('1.18.3', 3).spec
    await client.patch(setAt, { spec: { template, ...partitioned(3) } })
    await until(() => stable(0))
    const { updateRevision, currentRevision } = await status()
    t.equal(currentRevision, old)
    t.not(updateRevision, old)
    const former = ['1.18.2', old]
    t.strictSame(await images(), { 'e-0': former, 'e-1': former, 'e-2': former })

    await client.patch(setAt, { spec: partitioned(1) })
    await until(() => stable(2))
    const latter = ['1.18.3', updateRevision]
    t.strictSame(await images(), { 'e-0': former, 'e-1': latter, 'e-2': latter })
    t.match(await status(), { currentRevision: old, currentReplicas: 1 })

    // Recreated pods are as before: the one below the partition has the old template.
    const uidOf = async (name: string) =>
      (await client.get({ apiVersion: 'v1', kind: 'Pod', namespace: 'ns', name }))?.metadata.uid
    for (const name of ['e-0', 'e-2']) {
      const before = await uidOf(name)
      await client.delete({ apiVersion: 'v1', kind: 'Pod', namespace: 'ns', name })
      await until(async () => {
        const uid = await uidOf(name)
        return uid !== undefined && uid !== before
      })
      await until(() => stable(2))
    }
    t.strictSame(await images(), { 'e-0': former, 'e-1': latter, 'e-2': latter })

    await client.patch(setAt, { spec: partitioned(0) })
    await until(() => stable(3))
    t.match(await status(), { currentRevision: updateRevision, updateRevision, currentReplicas: 3 })

    // The next update is taken back after one pod: only updatedReplicas shows that one.
    await client.patch(setAt, { spec: { ...statefulSet('1.18.4', 3).spec, ...partitioned(2) } })
    await until(() => stable(1))
    await client.patch(setAt, { spec: { template, ...partitioned(3) } })
    await until(() => stable(2))
    const both = { currentRevision: updateRevision, updateRevision, currentReplicas: 2 }
    t.match(await status(), { ...both, replicas: 3, updatedReplicas: 2, readyReplicas: 3 })
    t.strictSame(Object.values(await images())[2]?.[0], '1.18.4')
    await client.patch(setAt, { spec: partitioned(2) })
    await until(() => stable(3))
    t.strictSame(await images(), { 'e-0': latter, 'e-1': latter, 'e-2': latter })
  },
)

t.test('a pod killed with its node costs no attempt where the policy ignores that', async (t) => {
  const { client, until, controllers, get } = await world(t)
  const onPodConditions = [{ type: 'DisruptionTarget', status: 'True' }]
  const rules = [{ action: 'Ignore', onPodConditions }]
  await client.create(job({ backoffLimit: 0, podFailurePolicy: { rules } }))
  await until(async () => controllers.kubelet.processes() > 0)
  const { items } = await client.list('v1', 'Pod', { namespace: 'ns' })
  t.ok(controllers.kubelet.kill('ns', items[0]?.metadata.name ?? ''))
  const pods = async () => (await client.list('v1', 'Pod', { namespace: 'ns' })).items
  await until(async () => (await pods()).length === 2)
  t.equal((await get('batch/v1', 'Job', 'j'))?.status?.['failed' as never], undefined)
  const killed = (await pods()).find(({ metadata }) => metadata.uid === items[0]?.metadata.uid)
  matchWhole(t, killed?.status, {
    phase: 'Failed',
    containerStatuses: [{ state: { terminated: { exitCode: 137 } } }],
  })
})

t.test('the work of a controller survives its restart', async (t) => {
  const { client, until, controllers, get } = await world(t)
  await client.create(job({ backoffLimit: 0 }))
  controllers.restart()
  await until(async () =>
    JSON.stringify((await get('batch/v1', 'Job', 'j'))?.status ?? {}).includes('"Failed"'),
  )
  t.match((await get('batch/v1', 'Job', 'j'))?.status, { failed: 1 })
})

/** The life of a VecCluster without failures: created, changed, deleted. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { World } from '../world/world.ts'
import { eventually } from './backup-parts.ts'
import {
  SMALL,
  clusterManifest,
  clusterReference,
  conditionIn,
  eventsAbout,
  jobsIn,
  passing,
  phaseOf,
  running,
  statusOf,
  untilApplied,
  untilGone,
  untilNextRun,
  type Scenario,
} from './scenario.ts'
import { podsIn } from './volumes.ts'

async function names(world: World, apiVersion: string, kind: string, namespace: string) {
  const objects = await world.list(apiVersion, kind, namespace)
  return objects.map(({ metadata }) => metadata.name).sort()
}

const created: Scenario = {
  title:
    'kubectl apply of a VecCluster: release, StatefulSet, Services, pods; Pending, then Running',
  async run(world, t) {
    const namespace = await world.namespace('created')
    const reference = clusterReference(namespace, 'a')
    const spec = { version: world.versions.newer, apiKey: { autoGenerate: true }, ...SMALL }
    await world.waitForPassing(reference, passing('Pending'), () =>
      world.apply(clusterManifest(namespace, 'a', spec)),
    )
    const object = await world.waitFor(
      reference,
      'Running',
      (found) => phaseOf(found) === 'Running',
      600,
    )
    t.match(statusOf(object), {
      phase: 'Running',
      replicas: 1,
      readyReplicas: 1,
      version: world.versions.newer,
      helmRelease: 'vec-a',
      endpoint: `http://vec-a.${namespace}.svc.cluster.local:6333`,
      appliedGeneration: 1,
      observedGeneration: 1,
    })
    t.match(conditionIn(object, 'Progressing'), { status: 'False', reason: 'RolloutComplete' })
    t.match(conditionIn(object, 'Ready'), {
      status: 'True',
      reason: 'AllReplicasReady',
      message: '1/1 replicas ready',
    })
    t.strictSame(await names(world, 'apps/v1', 'StatefulSet', namespace), ['vec-a'])
    t.strictSame(await names(world, 'v1', 'Service', namespace), ['vec-a', 'vec-a-headless'])
    t.ok((await names(world, 'v1', 'Secret', namespace)).includes('vec-a-apikey'))
    t.ok((await names(world, 'v1', 'Pod', namespace)).includes('vec-a-0'))
    t.match(object?.metadata.annotations?.['vec-operator.dev/last-applied-spec'], /"version"/)
  },
}

const jobLog: Scenario = {
  title: 'kubectl logs of the helm Job covers the whole run, and no secret',
  async run(world, t) {
    const namespace = await world.namespace('log')
    await running(world, namespace, 'a', { apiKey: { autoGenerate: true } })
    const [job = ''] = await jobsIn(world, namespace)
    const log = await world.logs(namespace, job)
    t.match(log, /helm upgrade --install/)
    t.match(log, /helm completed/)
    const secrets = (await world.list('v1', 'Secret', namespace)) as (AnyObject & {
      data?: Record<string, string>
    })[]
    const key = secrets.find(({ metadata }) => metadata.name === 'vec-a-apikey')?.data?.['api-key']
    const text = Buffer.from(key ?? '', 'base64').toString()
    t.ok(text.length >= 16)
    t.notOk(log.includes(text))
  },
}

const oneRun: Scenario = {
  title: 'a cluster that is Running gets no further helm run by itself',
  async run(world, t) {
    const namespace = await world.namespace('one-run')
    await running(world, namespace, 'a')
    // More than one where the first was slow to begin.
    const runs = await jobsIn(world, namespace)
    await world.advance(65)
    t.strictSame(await jobsIn(world, namespace), runs)
  },
}

const upgraded: Scenario = {
  title: 'Running, spec change: Upgrading, then Running on the new version',
  async run(world, t) {
    const namespace = await world.namespace('upgraded')
    const reference = await running(world, namespace, 'a', { version: world.versions.older })
    await world.waitForPassing(reference, passing('Upgrading'), () =>
      world.patch(reference, { spec: { version: `v${world.versions.newer}` } }),
    )
    const object = await untilApplied(world, reference)
    t.equal(statusOf(object).version, `v${world.versions.newer}`)
    const pods = (await world.list('v1', 'Pod', namespace)) as (AnyObject & {
      spec: { containers: { image: string }[] }
    })[]
    const pod = pods.find(({ metadata }) => metadata.name === 'vec-a-0')
    t.match(pod?.spec.containers[0]?.image, new RegExp(`v${world.versions.newer}$`))
  },
}

const scaled: Scenario = {
  title: 'more replicas: the StatefulSet grows and Ready counts them',
  async run(world, t) {
    const namespace = await world.namespace('scaled')
    const reference = await running(world, namespace, 'a')
    await world.patch(reference, { spec: { replicas: 3 } })
    const object = await untilApplied(world, reference)
    t.equal(conditionIn(object, 'Ready')?.message, '3/3 replicas ready')
    const consensus = await world.waitFor(
      reference,
      'consensus of three nodes',
      (found) => conditionIn(found, 'Consensus')?.message === 'consensus works on 3 nodes',
      120,
    )
    t.equal(conditionIn(consensus, 'Consensus')?.status, 'True')
  },
}

const distributed: Scenario = {
  title: 'a single node becomes the first of a cluster, and others join it',
  async run(world, t) {
    const namespace = await world.namespace('distributed')
    const reference = await running(world, namespace, 'a', { cluster: { enabled: false } })
    await t.rejects(
      world.patch(reference, { spec: { cluster: { enabled: true }, replicas: 3 } }),
      /switched on with spec\.replicas 1/,
    )
    await world.patch(reference, { spec: { cluster: { enabled: true } } })
    await untilApplied(world, reference)
    // Three helm runs within a minute would have more Events than are written.
    await world.advance(60)
    await world.patch(reference, { spec: { replicas: 3 } })
    const object = await untilApplied(world, reference)
    t.equal(conditionIn(object, 'Ready')?.message, '3/3 replicas ready')
    const found = await world.waitFor(
      reference,
      'one cluster of three',
      (one) => conditionIn(one, 'Consensus')?.message === 'consensus works on 3 nodes',
      180,
    )
    t.equal(conditionIn(found, 'Consensus')?.status, 'True')
    await t.rejects(
      world.patch(reference, { spec: { cluster: { enabled: false } } }),
      /cannot be switched off/,
    )
  },
}

const deleted: Scenario = {
  title: 'delete: helm uninstall --wait; release, StatefulSet and rights go, PVCs stay',
  async run(world, t) {
    const namespace = await world.namespace('deleted')
    const reference = await running(world, namespace, 'a')
    await world.delete(reference)
    await untilGone(world, reference, 600)
    t.strictSame(await names(world, 'apps/v1', 'StatefulSet', namespace), [])
    t.strictSame(await names(world, 'v1', 'Service', namespace), [])
    const secrets = await names(world, 'v1', 'Secret', namespace)
    t.strictSame(
      secrets.filter((name) => name.startsWith('sh.helm.release')),
      [],
    )
    const claims = await names(world, 'v1', 'PersistentVolumeClaim', namespace)
    t.equal(claims.length, 1)
  },
}

const deletedWithVolumes: Scenario = {
  title: 'persistence.onDelete can be set later, restarts no pod, and takes the PVCs along',
  async run(world, t) {
    const namespace = await world.namespace('deleted-volumes')
    const reference = await running(world, namespace, 'a', { replicas: 2 })
    const pods = await podsIn(world, namespace)
    const { persistence } = SMALL
    await world.patch(reference, { spec: { persistence: { ...persistence, onDelete: 'Delete' } } })
    await untilApplied(world, reference)
    t.strictSame(await podsIn(world, namespace), pods, 'the same pods, not restarted')
    const claims = () => names(world, 'v1', 'PersistentVolumeClaim', namespace)
    t.equal((await claims()).length, 2)
    await world.delete(reference)
    await untilGone(world, reference, 600)
    // Those of pods that are still ending follow them.
    await eventually(world, 'the claims are gone', async () => (await claims()).length === 0)
  },
}

const secretRotated: Scenario = {
  title: 'an upgrade when a used Secret changes',
  async run(world, t) {
    const namespace = await world.namespace('rotated')
    const secret = (value: string) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: 'key' },
      data: { api: Buffer.from(value).toString('base64') },
    })
    await world.apply(secret('first-key-of-thirty-two-letters-x'))
    const apiKey = { secretRef: { name: 'key', key: 'api' } }
    const reference = await running(world, namespace, 'a', { apiKey })
    await untilNextRun(world, reference, () =>
      world.apply(secret('other-key-of-thirty-two-letters-x')),
    )
    const copy = (await world.get({
      apiVersion: 'v1',
      kind: 'Secret',
      namespace,
      name: 'vec-a-apikey',
    })) as (AnyObject & { data: Record<string, string> }) | undefined
    t.match(Buffer.from(copy?.data['api-key'] ?? '', 'base64').toString(), /^other-key/)
  },
}

const podLost: Scenario = {
  title: 'a pod lost later leaves Running and sets Ready=False until it is back',
  async run(world, t) {
    const namespace = await world.namespace('pod-lost')
    const reference = await running(world, namespace, 'a')
    await world.faults.breakPod(namespace, 'vec-a-0')
    const lost = await world.waitFor(
      reference,
      'Ready=False',
      (object) => conditionIn(object, 'Ready')?.reason === 'ReplicasNotReady',
      180,
    )
    t.equal(phaseOf(lost), 'Running')
    t.equal(conditionIn(lost, 'Ready')?.message, '0/1 replicas ready')
    await world.faults.healPod(namespace, 'vec-a-0')
    await world.waitFor(
      reference,
      'Ready=True',
      (object) => conditionIn(object, 'Ready')?.status === 'True',
      180,
    )
    t.match(await eventsAbout(world, reference), { RolloutComplete: String })
  },
}

export const clusterLife: Scenario[] = [
  created,
  jobLog,
  oneRun,
  upgraded,
  scaled,
  distributed,
  deleted,
  deletedWithVolumes,
  secretRotated,
  podLost,
]

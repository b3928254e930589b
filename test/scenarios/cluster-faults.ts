/** Bad days of a VecCluster: what fails around it, and that it comes through. */
import type { World } from '../world/world.ts'
import {
  UPGRADES_SECONDS,
  clusterReference,
  conditionIn,
  eventsAbout,
  jobsIn,
  makeCluster,
  phaseOf,
  running,
  statusOf,
  untilApplied,
  untilGone,
  untilNextRun,
  type Scenario,
} from './scenario.ts'
import { podsIn } from './volumes.ts'

/** Waits until the first helm Job has a pod that works. */
async function untilHelmRuns(world: World, namespace: string, name: string) {
  const reference = clusterReference(namespace, name)
  await world.waitFor(
    reference,
    'a helm Job that reported',
    (object) => object?.metadata.annotations?.['vec-operator.dev/progress'] !== undefined,
    UPGRADES_SECONDS,
  )
  const [job = ''] = await jobsIn(world, namespace)
  return job
}

async function releaseSecrets(world: World, namespace: string): Promise<string[]> {
  const secrets = await world.list('v1', 'Secret', namespace)
  return secrets
    .map(({ metadata }) => metadata.name)
    .filter((name) => name.startsWith('sh.helm.release'))
}

const killedJob: Scenario = {
  title: 'a Job pod killed in the middle of helm: the release is healed and the cluster runs',
  async run(world, t) {
    const namespace = await world.namespace('killed')
    const reference = await makeCluster(world, namespace, 'a')
    const job = await untilHelmRuns(world, namespace, 'a')
    await world.faults.killJobPod(namespace, job)
    const object = await untilApplied(world, reference, UPGRADES_SECONDS)
    t.equal(phaseOf(object), 'Running')
  },
}

const deletedEarly: Scenario = {
  title: 'a cluster deleted while its first install still runs leaves nothing behind',
  async run(world, t) {
    const namespace = await world.namespace('early')
    const reference = await makeCluster(world, namespace, 'a')
    await untilHelmRuns(world, namespace, 'a')
    await world.delete(reference)
    await untilGone(world, reference, 600)
    t.strictSame(await releaseSecrets(world, namespace), [])
    t.strictSame(await world.list('apps/v1', 'StatefulSet', namespace), [])
  },
}

const deletedForeground: Scenario = {
  title: 'foreground deletion, as GitOps tools do it, uninstalls the release too',
  async run(world, t) {
    const namespace = await world.namespace('foreground')
    const reference = await running(world, namespace, 'a')
    await world.delete(reference, 'Foreground')
    await untilGone(world, reference, 600)
    t.strictSame(await releaseSecrets(world, namespace), [])
  },
}

const namespaceDeleted: Scenario = {
  title:
    'a namespace deleted with a cluster in it goes, without an uninstall that could hold it up',
  async run(world, t) {
    const namespace = await world.namespace('namespace')
    await running(world, namespace, 'a')
    const reference = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: namespace }
    await world.delete(reference)
    await untilGone(world, reference, 600)
    t.equal(await world.get(reference), undefined)
  },
}

const serviceDown: Scenario = {
  title:
    'the hook service down for a minute: nothing is lost, and a change made meanwhile is applied',
  disturbs: true,
  async run(world, t, stage) {
    const namespace = await world.namespace('down')
    const reference = await running(world, namespace, 'a')
    await stage.quiet()
    await world.faults.stopService()
    // Upgrading, where the service had just been replaced by another scenario.
    const phase = phaseOf(await world.get(reference))
    t.match(phase, /^(Running|Upgrading)$/)
    const before = await jobsIn(world, namespace)
    await world.patch(reference, { spec: { config: { log_level: 'DEBUG' } } })
    await world.advance(60)
    t.equal(phaseOf(await world.get(reference)), phase)
    t.strictSame(await jobsIn(world, namespace), before)
    await world.faults.startService()
    stage.calm()
    const object = await untilApplied(world, reference, UPGRADES_SECONDS)
    t.equal(statusOf(object).appliedGeneration, object?.metadata.generation)
  },
}

const controllersRestarted: Scenario = {
  title: 'controllers restarted during a rollout: the cluster still arrives at Running',
  disturbs: true,
  async run(world, t) {
    const namespace = await world.namespace('controllers')
    const reference = await makeCluster(world, namespace, 'a')
    await untilHelmRuns(world, namespace, 'a')
    await world.faults.restartControllers()
    t.equal(phaseOf(await untilApplied(world, reference, UPGRADES_SECONDS)), 'Running')
  },
}

const statefulSetDeleted: Scenario = {
  title: 'a StatefulSet deleted by hand is created again by a helm run, with the same volume',
  async run(world, t) {
    const namespace = await world.namespace('no-statefulset')
    const reference = await running(world, namespace, 'a')
    const statefulSet = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
    const volume = {
      ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace },
      name: 'qdrant-storage-vec-a-0',
    }
    const before = await Promise.all([world.get(statefulSet), world.get(volume)])
    t.ok(before.every((object) => object !== undefined))
    const object = await untilNextRun(world, reference, () => world.delete(statefulSet))
    t.equal(statusOf(object).readyReplicas, 1)
    const after = await Promise.all([world.get(statefulSet), world.get(volume)])
    t.not(after[0]?.metadata.uid, before[0]?.metadata.uid)
    t.equal(after[1]?.metadata.uid, before[1]?.metadata.uid)
  },
}

const objectsDeleted: Scenario = {
  title:
    'a Service, the ConfigMap and a generated key deleted by hand: not Ready until a helm run has created them, with the same key and pods',
  async run(world, t) {
    const namespace = await world.namespace('no-objects')
    const apiKey = { autoGenerate: true, jwtRbac: true }
    const reference = await running(world, namespace, 'a', { apiKey })
    const ofRelease = (kind: string, name: string) => ({ apiVersion: 'v1', kind, namespace, name })
    const key = ofRelease('Secret', 'vec-a-apikey')
    const deleted = [ofRelease('Service', 'vec-a'), ofRelease('ConfigMap', 'vec-a'), key]
    const dataOf = async () => ((await world.get(key)) as { data?: object } | undefined)?.data
    const before = await dataOf()
    t.ok(before)
    const pods = await podsIn(world, namespace)
    const object = await untilNextRun(world, reference, async () => {
      for (const one of deleted) await world.delete(one)
      await world.waitFor(
        reference,
        'not Ready',
        (found) => conditionIn(found, 'Ready')?.reason === 'ReleaseIncomplete',
        UPGRADES_SECONDS,
      )
    })
    t.equal(phaseOf(object), 'Running')
    for (const one of deleted) t.ok(await world.get(one), `${one.kind} ${one.name}`)
    t.strictSame(await dataOf(), before)
    t.match(await eventsAbout(world, reference), {
      // A sync between two of the deletions has not seen all of them.
      ReleaseIncomplete: /^objects of the release do not exist: .*; a helm run creates them/,
    })
    await world.waitFor(
      reference,
      'Ready again',
      (found) => conditionIn(found, 'Ready')?.status === 'True',
      UPGRADES_SECONDS,
    )
    t.strictSame(await podsIn(world, namespace), pods, 'the same pods, not restarted')
  },
}

const statefulSetScaled: Scenario = {
  title: 'a StatefulSet scaled down by hand gets its pods again by a helm run',
  // For five minutes after the last helm run nothing is done about it.
  only: 'embedded',
  async run(world, t) {
    const namespace = await world.namespace('scaled')
    const reference = await running(world, namespace, 'a')
    const statefulSet = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
    const object = await untilNextRun(world, reference, () =>
      world.patch(statefulSet, { spec: { replicas: 0 } }),
    )
    t.match(statusOf(object), { phase: 'Running', readyReplicas: 1 })
    t.match(await world.get(statefulSet), { spec: { replicas: 1 } })
  },
}

const operatorUpgraded: Scenario = {
  title: 'operator upgraded: one helm upgrade per cluster after its start, pods stay as they are',
  alone: true,
  async run(world, t, stage) {
    const namespace = await world.namespace('operator')
    const reference = await running(world, namespace, 'a')
    const pod = { apiVersion: 'v1', kind: 'Pod', namespace, name: 'vec-a-0' }
    const before = (await world.get(pod))?.metadata.uid
    const { appliedRun: first = 0 } = statusOf(await world.get(reference))
    await untilNextRun(world, reference, async () => {
      // A later one than the scenario before it on a cluster installed.
      await world.faults.upgradeService('0.4.0')
      stage.calm()
    })
    await world.advance(60)
    t.equal(statusOf(await world.get(reference)).appliedRun, first + 1)
    t.equal((await world.get(pod))?.metadata.uid, before)
  },
}

export const clusterFaults: Scenario[] = [
  killedJob,
  deletedEarly,
  deletedForeground,
  namespaceDeleted,
  serviceDown,
  controllersRestarted,
  statefulSetDeleted,
  objectsDeleted,
  statefulSetScaled,
  operatorUpgraded,
]

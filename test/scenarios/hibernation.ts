/** A cluster without pods: what stays, what waits, and that it is the cluster of before once it runs again. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { NotSupported, type Reference, type World } from '../world/world.ts'
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import {
  backupResource,
  backupStatus,
  deleted,
  eventually,
  fill,
  filledCluster,
  heldUpload,
  points,
  said,
  untilEnded,
  untilSaid,
  verify,
} from './backup-parts.ts'
import { backupsOf } from './backup-schedule.ts'
import { isReal, THREE_NODES, TWO_COPIES, untilAgreed } from './formation.ts'
import {
  conditionIn,
  phaseOf,
  replicasOf,
  running,
  statusOf,
  untilApplied,
  untilReason,
  type Scenario,
} from './scenario.ts'

const SECONDS = 300

async function podsOf(world: World, namespace: string): Promise<string[]> {
  const all = await world.list('v1', 'Pod', namespace)
  return all.map(({ metadata }) => metadata.name).filter((name) => /^vec-a-[0-9]+$/.test(name))
}

/** uid of each claim: a volume that was replaced has another one. */
async function claimsOf(world: World, namespace: string): Promise<Record<string, unknown>> {
  const all = await world.list('v1', 'PersistentVolumeClaim', namespace)
  return Object.fromEntries(all.map(({ metadata: { name, uid } }) => [name, uid]))
}

async function currentReplicas(world: World, namespace: string): Promise<unknown> {
  const reference = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
  return replicasOf(await world.get(reference))
}

async function untilHibernated(world: World, cluster: Reference) {
  await world.patch(cluster, { spec: { hibernate: true } })
  // The helm run reports a moment after its pods are gone.
  const isHibernated = (object: AnyObject | undefined) =>
    phaseOf(object) === 'Hibernated' && conditionIn(object, 'Reconciling') === undefined
  return world.waitFor(cluster, 'Hibernated', isHibernated, SECONDS)
}

const waits: Scenario = {
  title:
    'spec.hibernate: no pods, the volume stays, and a backup waits until the cluster runs again',
  async run(world, t) {
    const namespace = await world.namespace('hibernates')
    const bucket = await world.bucket(namespace)
    const cluster = await running(world, namespace, 'a')
    await fill(world, namespace, 'docs')
    const claims = await claimsOf(world, namespace)

    const object = await untilHibernated(world, cluster)
    t.strictSame(await podsOf(world, namespace), [])
    t.equal(await currentReplicas(world, namespace), 0)
    t.strictSame(await claimsOf(world, namespace), claims)
    t.equal(statusOf(object).replicas, 1, 'the scale subresource shows spec.replicas')
    t.match(conditionIn(object, 'Ready'), { status: 'False', reason: 'Hibernated' })
    t.equal(conditionIn(object, 'Stalled'), undefined)

    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    const waiting = await untilSaid(world, reference, 'ClusterHibernated')
    t.match(said(waiting)?.message, `cluster ${namespace}/a is hibernated`)

    await world.patch(cluster, { spec: { hibernate: false } })
    await untilApplied(world, cluster, SECONDS)
    t.strictSame(await claimsOf(world, namespace), claims)
    await untilEnded(world, reference)
  },
}

const sameCluster: Scenario = {
  title: 'a hibernated cluster of three nodes wakes with the same peers, volumes and points',
  only: 'cluster',
  async run(world, t) {
    if (!isReal(world)) throw new NotSupported('only the real engine and chart form a cluster')
    const namespace = await world.namespace('wakes')
    const cluster = await running(world, namespace, 'a', THREE_NODES)
    const { upsert } = await fill(world, namespace, 'books', TWO_COPIES)
    await upsert({ points: points(60) })
    const peers = await untilAgreed(world, cluster)
    // The nodes are recorded from a reading of the shards, which is later than that of the members.
    const areRecorded = (found: AnyObject | undefined) => statusOf(found).nodes?.length === 3
    await world.waitFor(cluster, 'nodes recorded', areRecorded, SECONDS)
    const claims = await claimsOf(world, namespace)
    const before = await allPoints(world, namespace)
    t.equal(before.length, 60)

    const object = await untilHibernated(world, cluster)
    t.strictSame(await podsOf(world, namespace), [])
    t.match(conditionIn(object, 'Consensus'), { status: 'Unknown', reason: 'Hibernated' })
    t.match(conditionIn(object, 'ShardsPlaced'), { status: 'Unknown', reason: 'Hibernated' })
    t.equal(statusOf(object).nodes?.length, 3, 'the nodes stay recorded')
    // A lower number of nodes would leave out one that has data.
    await world.patch(cluster, { spec: { hibernate: false, replicas: 2 } })
    const rejected = await world.waitFor(
      cluster,
      'InvalidSpec',
      (found) => conditionIn(found, 'Applied')?.reason === 'InvalidSpec',
      SECONDS,
    )
    t.match(conditionIn(rejected, 'Applied')?.message, /has 3 nodes: set spec\.replicas to 3/)
    t.strictSame(await podsOf(world, namespace), [])

    await world.patch(cluster, { spec: { replicas: 3 } })
    await untilApplied(world, cluster, SECONDS)
    t.strictSame(await untilAgreed(world, cluster), peers)
    t.strictSame(await claimsOf(world, namespace), claims)
    t.strictSame(await allPoints(world, namespace), before)
    await world.waitFor(
      cluster,
      'Placed',
      (found) => conditionIn(found, 'ShardsPlaced')?.status === 'True',
      SECONDS,
    )
  },
}

/** A schedule that no slot is due for: what it creates was asked for by the cluster. */
const SUSPENDED = { schedule: '0 3 * * *', suspend: true }
const AFTER_BACKUP = { hibernate: true, hibernation: { backupScheduleRef: { name: 's' } } }

function backupReference(namespace: string, name: string): Reference {
  return { apiVersion: API_VERSION, kind: 'VecBackup', namespace, name }
}

/** Waits until the cluster has asked for a backup that is not this one, and returns its name. */
async function requestedBackup(world: World, cluster: Reference, but?: string): Promise<string> {
  const nameIn = (object: AnyObject | undefined) => statusOf(object).hibernationBackup?.name
  const isRequested = (object: AnyObject | undefined) =>
    nameIn(object) !== undefined && nameIn(object) !== but
  return nameIn(await world.waitFor(cluster, 'backup requested', isRequested, SECONDS)) ?? ''
}

const backsUp: Scenario = {
  title:
    'spec.hibernation: a backup is created first, and the pods are stopped once it is Completed; spec.hibernate false goes back',
  async run(world, t) {
    const { namespace, bucket, cluster } = await filledCluster(world, 'backs-up-first')
    const claims = await claimsOf(world, namespace)
    const schedule = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    await world.apply(schedule.of(SUSPENDED))
    const held = heldUpload(bucket)
    await world.patch(cluster, { spec: AFTER_BACKUP })
    await eventually(world, 'the backup is being uploaded', held.begun)
    const waiting = await world.waitFor(
      cluster,
      'waiting for the backup',
      (found) =>
        conditionIn(found, 'Applied')?.message.startsWith('waiting for VecBackup s-') === true,
      SECONDS,
    )
    const first = await requestedBackup(world, cluster)
    t.match(conditionIn(waiting, 'Applied'), {
      reason: 'AwaitingBackup',
      message: `waiting for VecBackup ${first} before the pods are stopped`,
    })
    t.equal(await currentReplicas(world, namespace), 1)

    await world.patch(cluster, { spec: { hibernate: false } })
    const isTakenBack = (found: AnyObject | undefined) =>
      statusOf(found).hibernationBackup === undefined
    await world.waitFor(cluster, 'no backup awaited', isTakenBack, SECONDS)
    held.release()
    await untilEnded(world, backupReference(namespace, first))
    await untilApplied(world, cluster, SECONDS)
    t.strictSame(await podsOf(world, namespace), ['vec-a-0'])

    const object = await untilHibernated(world, cluster)
    const second = await requestedBackup(world, cluster, first)
    t.type(statusOf(object).hibernationBackup?.completionTime, 'string')
    t.match(backupStatus(await world.get(backupReference(namespace, second))), {
      phase: 'Completed',
    })
    t.equal((await verify(bucket, second)).code, 0, 'the backup is whole in the bucket')
    const made = await backupsOf(world, schedule.reference)
    t.strictSame(
      made.map(({ metadata }) => metadata.name),
      [first, second],
    )
    t.strictSame(await podsOf(world, namespace), [])
    t.strictSame(await claimsOf(world, namespace), claims)
    t.equal(conditionIn(object, 'Applied')?.status, 'True')
  },
}

const backupFails: Scenario = {
  title:
    'spec.hibernation: a failed backup keeps the pods; after it was deleted another one is created',
  async run(world, t) {
    const { namespace, bucket, cluster } = await filledCluster(world, 'fails-first')
    const schedule = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    await world.apply(schedule.of({ ...SUSPENDED, collections: ['missing'] }))
    await world.patch(cluster, { spec: AFTER_BACKUP })
    const blocked = await untilReason(world, cluster, 'HibernationBackupFailed', SECONDS)
    const failed = await requestedBackup(world, cluster)
    const { message = '' } = conditionIn(blocked, 'Applied') ?? {}
    t.match(message, new RegExp(`^VecBackup ${failed} failed: .*missing.*no pod was stopped`))
    t.match(conditionIn(blocked, 'Stalled'), { reason: 'HibernationBackupFailed' })
    t.equal(await currentReplicas(world, namespace), 1)

    await world.apply(schedule.of({ ...SUSPENDED, collections: ['docs'] }))
    await deleted(world, backupReference(namespace, failed))
    const another = await requestedBackup(world, cluster, failed)
    await untilHibernated(world, cluster)
    t.match(backupStatus(await world.get(backupReference(namespace, another))), {
      phase: 'Completed',
    })
  },
}

const withoutBackup: Scenario = {
  title: 'spec.hibernation without its schedule keeps the pods, unless an annotation accepts it',
  async run(world, t) {
    const namespace = await world.namespace('no-backup')
    const cluster = await running(world, namespace, 'a')
    await world.patch(cluster, { spec: AFTER_BACKUP })
    const blocked = await untilReason(world, cluster, 'BackupScheduleInvalid', SECONDS)
    t.match(conditionIn(blocked, 'Applied')?.message, /^VecBackupSchedule s of spec.hibernation /)
    t.equal(await currentReplicas(world, namespace), 1)
    const annotations = { [ANNOTATIONS.acceptRisk]: 'no-backup' }
    await world.patch(cluster, { metadata: { annotations } })
    const object = await untilHibernated(world, cluster)
    t.equal(statusOf(object).hibernationBackup, undefined)
  },
}

/** Whole points, as each node reads them; all nodes must read the same. */
async function allPoints(world: World, namespace: string): Promise<unknown[]> {
  const body = { limit: 1000, with_payload: true, with_vector: true }
  const path = '/collections/books/points/scroll'
  const read = async (node: number) => {
    const answer = await world.engine({ namespace, name: `vec-a-${node}` }, 'POST', path, body)
    return (answer as { result: { points: unknown[] } }).result.points
  }
  const [first = [], ...others] = await Promise.all([0, 1, 2].map(read))
  for (const other of others) {
    if (JSON.stringify(other) !== JSON.stringify(first)) throw new Error('the nodes differ')
  }
  return first
}

export const hibernation: Scenario[] = [waits, backsUp, backupFails, withoutBackup, sameCluster]

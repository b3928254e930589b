/** The life of a VecCluster: its helm Jobs install a release with a StatefulSet, whose pods start and fail. */
import { decodePlan, JOB_ENV, UpgradePlan } from '../../crds/contract/job.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { ShardsPlan } from '../../crds/contract/shards-job.ts'
import type { Job, StatefulSet } from '../../crds/kubernetes.ts'
import { LABELS, releaseName } from '../../crds/contract/names.ts'
import { clusterHooks } from '../../hooks/cluster/index.ts'
import { runNumber } from '../../hooks/request.ts'
import { planHash } from '../../hooks/job-watch.ts'
import { timestamp } from '../../hooks/conditions.ts'
import { statefulSet } from '../builders.ts'
import type { Static, TSchema } from '@sinclair/typebox'
import type { Step } from './explore.ts'
import type { Work } from './jobs.ts'
import type { Life } from './life.ts'
import { anotherWith } from './others.ts'
import { CLIENT_SERVICE, portsOver } from './ports.ts'
import { CONTENT, stored } from './resources.ts'
import {
  at,
  create,
  edit,
  objects,
  remove,
  smallWorld,
  type Small,
  type SmallWorld,
} from './small-world.ts'
import { comes, edited, goes, namespaceEnds, striking } from './steps.ts'

const PARENT = 'VecCluster/a'
const SERVICE = { apiVersion: 'v1', kind: 'Service', metadata: { name: releaseName('a') } }
const SET = `StatefulSet/${releaseName('a')}`
/** The Secret in which helm stores a release, from the start of its first run. */
const RELEASE = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'release' } }
const VERSION = '1.18.3'

export function clusters(): Record<string, Life> {
  const life = (
    left: Record<string, number>,
    more: NonNullable<Life['more']> = () => [],
    spec: object = {},
    others: object[] = [],
  ): Life => ({
    start: smallWorld([stored('VecCluster', 'a', { version: VERSION, ...spec }), ...others], left),
    parent: PARENT,
    hooks: (world) => clusterHooks(portsOver(world)),
    rest: ['Running', 'Hibernated'],
    work: helmWork,
    wrong: (before, after) => [
      ...releaseIsLeft(before, after),
      ...undrained(before, after),
      ...readyWithoutService(before, after),
      ...stoppedWithoutBackup(before, after),
    ],
    more: (world) => [...podsCome(world), ...more(world)],
  })
  return {
    'one life': life({}),
    deletion: life({ deletions: 1 }),
    'its Job fails': life({ failures: 1, crashes: 1 }),
    'Jobs that stop': life({ stops: 1, silences: 1 }),
    'its Job refuses': life({ rejections: 1 }),
    'lost answers': life({ 'lost answers': 1 }),
    'a slow answer': life({ 'slow answers': 1 }),
    'another spec': life({ changes: 1 }, changes),
    'two services': life({ 'slow services': 1 }),
    'two services, and a restore': life(
      { 'slow services': 1, starts: 1 },
      anotherWith(['backup', 'write'], 'VecRestore'),
    ),
    'two services, and its deletion': life({ 'slow services': 1, deletions: 1 }),
    'a restore in progress': life({ starts: 1 }, anotherWith(['backup', 'write'], 'VecRestore')),
    'a backup in progress': life({ starts: 1, changes: 1 }, (world) => [
      ...anotherWith(['backup'], 'VecBackup')(world),
      ...changes(world),
    ]),
    'its pods fail': life({ pods: 1 }, podsFail),
    'its Service is deleted': life({ losses: 2, failures: 1 }, (world) =>
      goes(world, CLIENT_SERVICE),
    ),
    'its Secret comes late': life({ losses: 1 }, secretSteps, KEY_SPEC),
    'a replica is lost': life({ defects: 1, failures: 1 }, defects),
    'a node is removed': life({ changes: 1 }, removals, { replicas: 2 }),
    'a node is removed, and a backup is in progress': life(
      { changes: 1, starts: 1 },
      (world) => [...anotherWith(['backup'], 'VecBackup')(world), ...removals(world)],
      { replicas: 2 },
    ),
    'it hibernates after a backup': life(
      { changes: 1, failures: 1 },
      hibernations,
      HIBERNATION_SPEC,
      [SCHEDULE],
    ),
    'its namespace ends': life({ ends: 1 }, (world) => namespaceEnds(world, PARENT)),
  }
}

const KEY_SPEC = { apiKey: { secretRef: { name: 'key', key: 'api-key' } } }
const KEY = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'key' },
  data: { 'api-key': 'a2V5a2V5a2V5' },
} as const

function secretSteps(world: SmallWorld): Step<SmallWorld>[] {
  const change = (data: Record<string, string>) => async (to: SmallWorld) =>
    edit(to, 'Secret/key', (found) => ({ ...found, data }))
  return [
    ...comes(world, KEY),
    ...goes(world, 'Secret/key'),
    ...('Secret/key' in world.live
      ? striking(world, 'changes', {
          name: 'the API key changes',
          take: change({ 'api-key': 'b3RoZXI=' }),
        })
      : []),
  ]
}

function changes(world: SmallWorld): Step<SmallWorld>[] {
  if (world.live[PARENT] === undefined) return []
  return striking(
    world,
    'changes',
    edited('the version changes', PARENT, { spec: { version: '1.18.4' } }),
    edited('replicas becomes two', PARENT, { spec: { replicas: 2 } }),
  )
}

/** A replica is not Active any more: the Job on the shards repairs it. */
function defects(world: SmallWorld): Step<SmallWorld>[] {
  if (!(SET in world.live) || world.engine.isDefective === true) return []
  const take = async (to: SmallWorld) => void (to.engine.isDefective = true)
  return striking(world, 'defects', { name: 'a replica is lost', take })
}

const HIBERNATION_SPEC = { hibernation: { backupScheduleRef: { name: 'nightly' } } }
const SCHEDULE = stored('VecBackupSchedule', 'nightly', { ...CONTENT, schedule: '0 3 * * *' })
const SCHEDULE_KEY = 'VecBackupSchedule/nightly'

/** The cluster is hibernated and woken, and its schedule creates the backup that it asks for. */
function hibernations(world: SmallWorld): Step<SmallWorld>[] {
  const parent = world.live[PARENT]
  if (parent === undefined) return []
  const { hibernate = false } = parent.spec as VecCluster['spec']
  return [
    ...striking(
      world,
      'changes',
      edited(`hibernate becomes ${!hibernate}`, PARENT, { spec: { hibernate: !hibernate } }),
    ),
    ...backupIsCreated(world),
    ...backupsEnd(world),
  ]
}

function backupIsCreated(world: SmallWorld): Step<SmallWorld>[] {
  const schedule = world.live[SCHEDULE_KEY]
  const request = requestIn(world)
  if (schedule === undefined || request === undefined) return []
  const { lastScheduleTime = '' } = (schedule.status ?? {}) as { lastScheduleTime?: string }
  if (request.completionTime !== undefined || lastScheduleTime >= request.requestTime) return []
  const { apiVersion, kind, metadata } = schedule
  const owner = { apiVersion, kind, name: metadata.name, uid: metadata.uid ?? '', controller: true }
  const take = async (to: SmallWorld) => {
    create(to, stored('VecBackup', request.name, CONTENT), owner)
    const status = { lastScheduleTime: request.requestTime }
    edit(to, SCHEDULE_KEY, (found) => ({ ...found, status }))
  }
  return [{ name: 'the schedule creates the backup', take }]
}

/** A backup completes or fails; a user deletes a failed one. */
function backupsEnd(world: SmallWorld): Step<SmallWorld>[] {
  return objects<Small>(world.live, 'VecBackup').flatMap(({ metadata: { name }, status }) => {
    const key = `VecBackup/${name}`
    const { phase } = (status ?? {}) as { phase?: string }
    const end = (ended: string): Step<SmallWorld> => ({
      name: `the backup is ${ended}`,
      async take(to) {
        if (ended === 'Completed') to.engine.isBackedUp = true
        const status = { phase: ended, completionTime: timestamp(new Date(to.now)) }
        edit(to, key, (found) => ({ ...found, status }))
      },
    })
    if (phase === undefined)
      return [end('Completed'), ...striking(world, 'failures', end('Failed'))]
    return [{ name: `the ${phase} backup is deleted`, take: async (to) => remove(to, key) }]
  })
}

function requestIn({ live }: SmallWorld) {
  return (live[PARENT] as unknown as VecCluster | undefined)?.status?.hibernationBackup
}

/** The pods are stopped only after a backup that was completed after it was requested. */
function stoppedWithoutBackup(before: SmallWorld, after: SmallWorld): string[] {
  const replicasIn = ({ live }: SmallWorld) =>
    (live[SET] as unknown as StatefulSet | undefined)?.spec.replicas ?? 0
  if (replicasIn(before) === 0 || replicasIn(after) > 0 || !(SET in after.live)) return []
  return before.engine.isBackedUp === true ? [] : ['the pods were stopped without a backup']
}

function removals(world: SmallWorld): Step<SmallWorld>[] {
  if (world.live[PARENT] === undefined) return []
  return striking(
    world,
    'changes',
    edited('replicas becomes one', PARENT, { spec: { replicas: 1 } }),
  )
}

/** The Job on the shards repairs replicas, and removes the nodes that its plan does not have. */
function shardsWork(world: SmallWorld, job: Job, state: Parameters<Work>[2]): ReturnType<Work> {
  const shards = {
    ...{ startedAt: at(world), stepsDone: 1, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0 },
    moves: [],
  }
  if (state === 'Failed') return { reason: 'TransferFailed', message: 'no copy', shards }
  if (state === 'Refused') return { reason: 'NoCapacity', message: 'no space', shards }
  if (state === 'Started') return { shards }
  const { nodes } = planIn(job, ShardsPlan)
  const before = world.live[SET] as unknown as StatefulSet | undefined
  world.engine.isDefective = false
  if (before !== undefined && nodes < (before.spec.replicas ?? 1)) {
    const generation = (before.metadata.generation ?? 0) + 1
    const annotations = { ...before.metadata.annotations, drained: String(nodes) }
    edit(world, SET, () => merged(before, setOf(nodes, generation, annotations)))
  }
  return { shards }
}

/** helm creates or deletes the StatefulSet, and the report says what was applied. */
function helmWork(...[world, job, state]: Parameters<Work>): ReturnType<Work> {
  if (job.metadata.labels?.[LABELS.verb] === 'shards') return shardsWork(world, job, state)
  const isUninstall = job.metadata.labels?.[LABELS.verb] === 'uninstall'
  switch (state) {
    case 'Started':
      if (!isUninstall) create(world, RELEASE)
      return {}
    case 'Failed':
      return { reason: 'HelmFailed', message: 'helm said no' }
    case 'Refused':
      return { reason: 'ShardsWouldBeLost', message: 'a node holds shards' }
    case 'Done':
      return isUninstall ? uninstalled(world) : upgraded(world, job)
  }
}

function uninstalled(world: SmallWorld): ReturnType<Work> {
  remove(world, SET)
  remove(world, CLIENT_SERVICE)
  remove(world, 'Secret/release')
  return {}
}

function upgraded(world: SmallWorld, job: Job): ReturnType<Work> {
  const plan = planIn(job, UpgradePlan)
  const { replicaCount: replicas } = plan.values as { replicaCount: number }
  const before = world.live[SET] as unknown as StatefulSet | undefined
  const { drained } = before?.metadata.annotations ?? {}
  const annotations = { version: plan.version, ...(drained !== undefined && { drained }) }
  if (replicas === 0) world.engine.isBackedUp = false
  const isSame =
    before?.spec.replicas === replicas && before.metadata.annotations?.['version'] === plan.version
  const generation = (before?.metadata.generation ?? 0) + (isSame ? 0 : 1)
  if (!(CLIENT_SERVICE in world.live)) create(world, SERVICE)
  if (before === undefined) create(world, setOf(replicas, 1, annotations))
  else if (!isSame) edit(world, SET, () => merged(before, setOf(replicas, generation, annotations)))
  return {
    applied: {
      planHash: planHash(job) ?? '',
      generation: plan.generation,
      secretFingerprints: plan.secretFingerprints,
      ...(plan.defaultAffinity !== undefined && { defaultAffinity: plan.defaultAffinity }),
      version: plan.version,
      run: runNumber(job),
      at: at(world),
      statefulSetGeneration: generation,
      ...(plan.recreatesObjects === true && { recreatedObjects: true }),
    },
  }
}

function planIn<Schema extends TSchema>(job: Job, schema: Schema): Static<Schema> {
  const { containers } = job.spec?.template.spec ?? { containers: [] }
  const [{ env = [] } = {}] = containers as { env?: { name: string; value?: string }[] }[]
  return decodePlan(schema, env.find(({ name }) => name === JOB_ENV.plan)?.value ?? '')
}

/** The StatefulSet as helm writes it, before its controller has observed it. */
function setOf(replicas: number, generation: number, annotations: Record<string, string>): Small {
  const set = statefulSet(replicas, { observedGeneration: generation - 1, readyReplicas: 0 })
  return { ...set, metadata: { ...set.metadata, generation, annotations } }
}

function merged({ metadata }: Pick<StatefulSet, 'metadata'>, set: Small): Small {
  return { ...set, metadata: { ...metadata, ...set.metadata } }
}

function podsCome(world: SmallWorld): Step<SmallWorld>[] {
  const set = world.live[SET] as unknown as StatefulSet | undefined
  const { generation } = set?.metadata ?? {}
  const { replicas } = set?.spec ?? {}
  if (set === undefined) return []
  if (set.status?.observedGeneration === generation && set.status?.readyReplicas === replicas) {
    return []
  }
  const status = { observedGeneration: generation, readyReplicas: replicas }
  return [edited('its pods are ready', SET, { status })]
}

function podsFail(world: SmallWorld): Step<SmallWorld>[] {
  const set = world.live[SET] as unknown as StatefulSet | undefined
  if (set === undefined) return []
  const consensus = (name: string) => ({
    name,
    take: async (to: SmallWorld) => void (to.engine.isReady = !to.engine.isReady),
  })
  return [
    ...((set.status?.readyReplicas ?? 0) > 0
      ? striking(world, 'pods', edited('a pod is lost', SET, { status: { readyReplicas: 0 } }))
      : []),
    ...(world.engine.isReady
      ? striking(world, 'pods', consensus('consensus stops'))
      : [consensus('consensus works again')]),
  ]
}

/** A status that is written while the Service is missing does not say that clients can use the cluster. */
function readyWithoutService(before: SmallWorld, after: SmallWorld): string[] {
  const readyIn = ({ live }: SmallWorld) =>
    (live[PARENT] as unknown as VecCluster | undefined)?.status?.conditions?.find(
      ({ type }) => type === 'Ready',
    )?.status
  if (CLIENT_SERVICE in before.live || readyIn(before) === 'True') return []
  return readyIn(after) === 'True' ? ['Ready became True without the client Service'] : []
}

/** No node is removed by helm: the Job on the shards has removed it before. */
function undrained(before: SmallWorld, after: SmallWorld): string[] {
  const replicasIn = ({ live }: SmallWorld) =>
    (live[SET] as unknown as StatefulSet | undefined)?.spec.replicas
  const [from, to] = [replicasIn(before), replicasIn(after)]
  // No pods run then, and no node is removed.
  if (to === 0) return []
  if (from === undefined || to === undefined || to >= from) return []
  const isDrained = after.live[SET]?.metadata.annotations?.['drained'] === String(to)
  return isDrained ? [] : ['a node was removed that was not drained']
}

/** The release is deleted before the resource, unless the whole namespace is deleted. */
function releaseIsLeft(before: SmallWorld, after: SmallWorld): string[] {
  const isGone = before.live[PARENT] !== undefined && after.live[PARENT] === undefined
  const isLeft = SET in after.live || 'Secret/release' in after.live
  return isGone && isLeft && !after.namespaceEnds
    ? ['the cluster is gone and its release remains']
    : []
}

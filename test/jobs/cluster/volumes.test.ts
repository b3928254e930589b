/**
 * `cluster upgrade` with volumes that grow: through the real CLI, an API server with its garbage
 * collector and StatefulSet controller, and a helm on PATH.
 */
import t, { type Test } from 'tap'
import type { PlannedVolume, UpgradePlan } from '../../../crds/contract/job.ts'
import { EXIT } from '../../../crds/contract/job.ts'
import { EVERY, isFull } from '../../depth.ts'
import { clusterSpec } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { ApiFailure } from '../../world/api/failure.ts'
import { ManualClock } from '../../world/clock.ts'
import type { ApiObject } from '../../world/client.ts'
import { garbageCollector } from '../../world/controllers/garbage.ts'
import { run } from '../../world/controllers/queue.ts'
import { statefulSetController } from '../../world/controllers/stateful-sets.ts'
import { START } from '../job-fixture.ts'
import { instantClock, jobWorld, type JobWorld, type RunOptions } from '../job-world.ts'

const NODES = 3
const CLAIM = { apiVersion: 'v1', kind: 'PersistentVolumeClaim' }

/** A cluster of three nodes with data volumes of 10Gi and, if asked for, snapshot volumes of 5Gi. */
async function volumesWorld(t: Test, { expandable = true, snapshots = false } = {}) {
  const world = await jobWorld(t)
  const { api, resources } = world
  const clock = new ManualClock(START)
  const controllers = [garbageCollector(resources), statefulSetController(resources)]
  const running = controllers.map((controller) => run(resources, clock, controller))
  t.teardown(() => {
    for (const controller of running) controller.stop()
  })
  await api.create({
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name: 'fast' },
    provisioner: 'test',
    allowVolumeExpansion: expandable,
  })
  const claimAt = (name: string) => ({ ...CLAIM, namespace: 'ns', name })
  const list = async (kind: string) => (await api.list('v1', kind, { namespace: 'ns' })).items
  const idle = async () => {
    do await new Promise((resolve) => setImmediate(resolve))
    while (running.some((controller) => controller.busy()))
  }
  const plan = (run: number, sizes: Sizes, parts: Partial<UpgradePlan> = {}) => {
    const spec = clusterSpec({ replicas: NODES })
    const volume = { storageClassName: 'fast', accessModes: ['ReadWriteOnce'] }
    const volumes: PlannedVolume[] = [
      { field: 'persistence', size: sizes.data },
      ...(snapshots
        ? [{ field: 'snapshotPersistence' as const, size: sizes.snapshots ?? '5Gi' }]
        : []),
    ]
    return world.plan({
      run,
      hash: `hash-${run}`,
      generation: run,
      spec,
      volumes,
      values: {
        fullnameOverride: 'vec-a',
        replicaCount: NODES,
        persistence: { ...volume, size: sizes.data },
        snapshotPersistence: { ...volume, enabled: snapshots, size: sizes.snapshots ?? '5Gi' },
      },
      ...parts,
    })
  }
  await world.run('upgrade', plan(1, { data: '10Gi' }))
  await idle()
  const before = await list('Pod')
  return {
    ...world,
    plan,
    idle,
    claimAt,
    /** What the storage driver and the kubelet do. */
    resize: async () => {
      for (const claim of await list(CLAIM.kind)) {
        const { resources, volumeAttributesClassName } = claim.spec as {
          resources: { requests: { storage: string } }
          volumeAttributesClassName?: string
        }
        const status = {
          capacity: { ...resources.requests },
          currentVolumeAttributesClassName: volumeAttributesClassName,
        }
        await api.patch(claimAt(claim.metadata.name), { status }, { subresource: 'status' })
      }
    },
    state: async () => {
      await idle()
      const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
      const pods = await list('Pod')
      const owned = (pod: ApiObject) =>
        pod.metadata.ownerReferences?.some(
          ({ uid, controller }) => uid === set?.metadata.uid && controller === true,
        )
      return {
        pods: pods.map(({ metadata: { name, uid } }) => `${name} ${uid ?? ''}`),
        areOwned: pods.every(owned),
        templates: templatesOf(set),
        claims: Object.fromEntries(
          (await list(CLAIM.kind)).map((claim) => [claim.metadata.name, capacityOf(claim)]),
        ),
        records: (await list('Secret'))
          .map(({ metadata }) => metadata.name)
          .filter((name) => !name.startsWith('sh.helm')),
      }
    },
    /** The pods of the first install, by name and uid. */
    before: before.map(({ metadata: { name, uid } }) => `${name} ${uid ?? ''}`),
    uidOfSet: async () => (await world.object('apps/v1', 'StatefulSet', 'vec-a'))?.metadata.uid,
  }
}

interface Sizes {
  data: string
  snapshots?: string
}

function templatesOf(set: ApiObject | undefined): Record<string, string> {
  const spec = set?.spec as
    | {
        volumeClaimTemplates: {
          metadata: { name: string }
          spec: { resources: { requests: { storage: string } } }
        }[]
      }
    | undefined
  return Object.fromEntries(
    (spec?.volumeClaimTemplates ?? []).map(({ metadata, spec: { resources } }) => [
      metadata.name,
      resources.requests.storage,
    ]),
  )
}

/** Requested size and capacity. */
function capacityOf({ spec, status }: ApiObject): string {
  const { resources } = spec as { resources: { requests: { storage: string } } }
  const { capacity } = status as { capacity: { storage: string } }
  return `${resources.requests.storage} ${capacity.storage}`
}

function claimsOf(volume: string, sizes: string): Record<string, string> {
  return Object.fromEntries([0, 1, 2].map((ordinal) => [`${volume}-vec-a-${ordinal}`, sizes]))
}

t.test('volumes grow, and the pods keep running', async (t) => {
  const world = await volumesWorld(t, { snapshots: true })
  const uid = await world.uidOfSet()
  t.equal(world.before.length, NODES)
  const plan = world.plan(2, { data: '20Gi', snapshots: '8Gi' })
  const { code, log } = await world.run('upgrade', plan, { time: instantClock(world.resize) })
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.state(), {
    pods: world.before,
    areOwned: true,
    templates: { 'qdrant-storage': '20Gi', 'qdrant-snapshots': '8Gi' },
    claims: {
      ...claimsOf('qdrant-snapshots', '8Gi 8Gi'),
      ...claimsOf('qdrant-storage', '20Gi 20Gi'),
    },
    records: [],
  })
  t.not(await world.uidOfSet(), uid)
  const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  const { currentRevision, updateRevision } = set?.status as Record<string, unknown>
  t.equal(currentRevision, updateRevision)
  t.match(await world.progress(), {
    state: 'Done',
    applied: { run: 2, statefulSetGeneration: set?.metadata.generation },
  })
})

t.test('a plan with the sizes of the StatefulSet leaves it alone', async (t) => {
  const world = await volumesWorld(t)
  const uid = await world.uidOfSet()
  const { code, log } = await world.run('upgrade', world.plan(2, { data: '10Gi' }))
  t.equal(code, EXIT.done, log)
  t.equal(await world.uidOfSet(), uid)
  t.notMatch(log, /growing a volume|replacing the StatefulSet/)
})

t.test('volumes of a StatefulSet of another owner are left alone', async (t) => {
  const world = await volumesWorld(t)
  const [state, uid] = [await world.state(), await world.uidOfSet()]
  const reference = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: 'ns', name: 'vec-a' }
  const { items } = await world.api.list('v1', 'Secret', { labelSelector: 'owner=helm' })
  for (const { metadata } of items) {
    await world.api.delete({ ...reference, apiVersion: 'v1', kind: 'Secret', name: metadata.name })
  }
  for (const owner of [
    { 'meta.helm.sh/release-name': 'other' },
    { 'meta.helm.sh/release-name': 'vec-a', 'meta.helm.sh/release-namespace': 'other' },
    { 'meta.helm.sh/release-name': null, 'meta.helm.sh/release-namespace': null },
  ]) {
    await world.api.patch(reference, { metadata: { annotations: owner } })
    const plan = world.plan(2, { data: '20Gi' })
    const { code, log } = await world.run('upgrade', plan, { time: instantClock(world.resize) })
    t.equal(code, EXIT.failed, log)
    const message = /cannot be imported into the current release: invalid ownership metadata/
    t.match(await world.progress(), { state: 'Failed', reason: 'HelmFailed', message })
    t.strictSame(await world.state(), state)
    t.equal(await world.uidOfSet(), uid)
  }
})

t.test('the volumes of a hibernated cluster grow when their pods start', async (t) => {
  const world = await volumesWorld(t)
  const scale = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: 'ns', name: 'vec-a' }
  await world.api.patch(scale, { spec: { replicas: 0 } })
  const plan = world.plan(
    2,
    { data: '20Gi' },
    { spec: clusterSpec({ hibernate: true, replicas: 4 }) },
  )
  const values = { ...plan.values, replicaCount: 0 }
  const { code, log } = await world.run('upgrade', { ...plan, values })
  t.equal(code, EXIT.done, log)
  t.match(await world.state(), {
    templates: { 'qdrant-storage': '20Gi' },
    claims: claimsOf('qdrant-storage', '20Gi 10Gi'),
  })
})

const BLOCKED = {
  'a StorageClass that does not allow it': {
    sizes: { data: '20Gi' },
    expandable: false,
    message:
      'spec.persistence.size: 10Gi -> 20Gi: PersistentVolumeClaim qdrant-storage-vec-a-0 with StorageClass fast cannot grow: persistentvolumeclaims "qdrant-storage-vec-a-0" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize; set allowVolumeExpansion: true on the StorageClass if its driver can expand volumes, or set spec.persistence.size to 10Gi',
  },
  'a smaller size': {
    sizes: { data: '5Gi' },
    expandable: true,
    message:
      'spec.persistence.size: 10Gi -> 5Gi: a volume cannot be made smaller: set spec.persistence.size to 10Gi',
  },
  'a smaller size of the snapshot volumes and a larger one of the data volumes': {
    sizes: { data: '20Gi', snapshots: '1Gi' },
    expandable: true,
    message:
      'spec.snapshotPersistence.size: 5Gi -> 1Gi: a volume cannot be made smaller: set spec.snapshotPersistence.size to 5Gi',
  },
} as const
for (const [what, { sizes, expandable, message }] of Object.entries(BLOCKED)) {
  t.test(`${what} is refused before anything is changed`, async (t) => {
    const world = await volumesWorld(t, { expandable, snapshots: true })
    const [state, uid] = [await world.state(), await world.uidOfSet()]
    const { code, log } = await world.run('upgrade', world.plan(2, sizes))
    t.equal(code, EXIT.failed, log)
    t.match(await world.progress(), { state: 'Refused', reason: 'VolumeNotExpandable', message })
    t.strictSame(await world.state(), state)
    t.equal(await world.uidOfSet(), uid)
    t.notMatch(log, /running helm upgrade --install.*run=2/)
  })
}

t.test('growth by autoGrow is recorded, and refused with the way back', async (t) => {
  const volumes: PlannedVolume[] = [{ field: 'persistence', size: '20Gi', isAutoGrown: true }]
  const world = await volumesWorld(t)
  const options = { time: instantClock(world.resize) }
  await world.run('upgrade', world.plan(2, { data: '20Gi' }, { volumes }), options)
  t.match(await world.progress(), { state: 'Done', applied: { grownSize: '20Gi' } })
  await world.run('upgrade', world.plan(3, { data: '20Gi' }))
  t.notOk('grownSize' in ((await world.progress())?.applied ?? {}), 'the spec has the size now')

  const fixed = await volumesWorld(t, { expandable: false })
  await fixed.run('upgrade', fixed.plan(2, { data: '20Gi' }, { volumes }))
  t.match(await fixed.progress(), {
    state: 'Refused',
    reason: 'VolumeNotExpandable',
    message:
      /^spec\.persistence\.autoGrow: 10Gi -> 20Gi: .*, or remove spec\.persistence\.autoGrow$/,
  })
})

/** A plan whose data volumes have a size and a VolumeAttributesClass. */
function classPlan(world: Awaited<ReturnType<typeof volumesWorld>>, run: number, volume: Classed) {
  const { values } = world.plan(run, { data: volume.size })
  const persistence = values['persistence'] as object
  return world.plan(
    run,
    { data: volume.size },
    {
      volumes: [{ field: 'persistence', ...volume }],
      values: {
        ...values,
        persistence: { ...persistence, volumeAttributesClassName: volume.attributesClass },
      },
    },
  )
}

type Classed = Required<Pick<PlannedVolume, 'size' | 'attributesClass'>>

/** The class that each claim, and the claim template, asks for. */
async function classesIn(world: Awaited<ReturnType<typeof volumesWorld>>) {
  const { items } = await world.api.list('v1', 'PersistentVolumeClaim', { namespace: 'ns' })
  const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  const { volumeClaimTemplates } = set?.spec as { volumeClaimTemplates: ApiObject[] }
  return [...items, ...volumeClaimTemplates].map(
    ({ spec }) => (spec as { volumeAttributesClassName?: string }).volumeAttributesClassName,
  )
}

/** What the API server does with each change of a claim from now on. */
function onClaims(
  { resources }: Pick<JobWorld, 'resources'>,
  admit: (claim: ApiObject) => ApiObject,
): void {
  const preview = resources.preview.bind(resources)
  resources.preview = (kind, at, change, part) => {
    const isClaim = kind.kind === CLAIM.kind
    return preview(kind, at, (old) => (isClaim ? admit(change(old)) : change(old)), part)
  }
}

t.test('volumes get another VolumeAttributesClass, and the pods keep running', async (t) => {
  const world = await volumesWorld(t)
  const options = { time: instantClock(world.resize) }
  const gold = await world.run(
    'upgrade',
    classPlan(world, 2, { size: '10Gi', attributesClass: 'gold' }),
    options,
  )
  t.equal(gold.code, EXIT.done, gold.log)
  t.strictSame(await classesIn(world), Array(NODES + 1).fill('gold'))
  const state = await world.state()
  t.match(state, { pods: world.before, areOwned: true, templates: { 'qdrant-storage': '10Gi' } })
  const uid = await world.uidOfSet()

  const unchanged = await world.run(
    'upgrade',
    classPlan(world, 3, { size: '10Gi', attributesClass: 'gold' }),
  )
  t.equal(unchanged.code, EXIT.done, unchanged.log)
  t.equal(await world.uidOfSet(), uid, 'nothing differs')

  const both = classPlan(world, 4, { size: '20Gi', attributesClass: 'silver' })
  const larger = await world.run('upgrade', both, options)
  t.equal(larger.code, EXIT.done, larger.log)
  t.strictSame(await classesIn(world), Array(NODES + 1).fill('silver'))
  t.match(await world.state(), {
    pods: world.before,
    templates: { 'qdrant-storage': '20Gi' },
    claims: claimsOf('qdrant-storage', '20Gi 20Gi'),
  })
})

t.test('a claim that a user has made larger keeps its size', async (t) => {
  const world = await volumesWorld(t)
  const larger = { spec: { resources: { requests: { storage: '15Gi' } } } }
  await world.api.patch(world.claimAt('qdrant-storage-vec-a-1'), larger)
  const plan = classPlan(world, 2, { size: '10Gi', attributesClass: 'gold' })
  const { code, log } = await world.run('upgrade', plan, { time: instantClock(world.resize) })
  t.equal(code, EXIT.done, log)
  t.strictSame(await classesIn(world), Array(NODES + 1).fill('gold'))
  t.match(await world.state(), { claims: { 'qdrant-storage-vec-a-1': '15Gi 15Gi' } })
})

t.test('a class that the driver does not apply is reported with its state', async (t) => {
  const world = await volumesWorld(t)
  const uid = await world.uidOfSet()
  const name = 'qdrant-storage-vec-a-0'
  const modifyVolumeStatus = { status: 'Infeasible', targetVolumeAttributesClassName: 'gold' }
  await world.api.patch(
    world.claimAt(name),
    { status: { modifyVolumeStatus } },
    { subresource: 'status' },
  )
  const plan = classPlan(world, 2, { size: '10Gi', attributesClass: 'gold' })
  const { code } = await world.run('upgrade', plan)
  t.equal(code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'VolumesNotGrown',
    message: `spec.persistence.volumeAttributesClassName: none -> gold: PersistentVolumeClaim ${name} still has no VolumeAttributesClass after 10 minutes (modification Infeasible); check the storage driver`,
  })
  t.equal(await world.uidOfSet(), uid)
})

t.test('an API server that ignores the class of a volume is named before a change', async (t) => {
  const world = await volumesWorld(t)
  onClaims(world, (claim) => {
    const { volumeAttributesClassName: _, ...known } = claim['spec'] as Record<string, unknown>
    return { ...claim, spec: known }
  })
  const [state, uid] = [await world.state(), await world.uidOfSet()]
  const plan = classPlan(world, 2, { size: '10Gi', attributesClass: 'gold' })
  t.equal((await world.run('upgrade', plan)).code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'VolumeNotModifiable',
    message:
      'spec.persistence.volumeAttributesClassName: none -> gold: the API server ignores the class of a volume: this needs Kubernetes 1.34, or 1.31 with the feature gate VolumeAttributesClass; remove spec.persistence.volumeAttributesClassName',
  })
  t.strictSame(await world.state(), state)
  t.equal(await world.uidOfSet(), uid)
})

t.test('a class that the API server refuses is reported with the way back', async (t) => {
  const world = await volumesWorld(t)
  const options = { time: instantClock(world.resize) }
  await world.run(
    'upgrade',
    classPlan(world, 2, { size: '10Gi', attributesClass: 'gold' }),
    options,
  )
  onClaims(world, () => {
    throw new ApiFailure(403, 'Forbidden', 'exceeded quota')
  })
  await world.run(
    'upgrade',
    classPlan(world, 3, { size: '10Gi', attributesClass: 'silver' }),
    options,
  )
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'VolumeNotModifiable',
    message:
      'spec.persistence.volumeAttributesClassName: gold -> silver: exceeded quota; set spec.persistence.volumeAttributesClassName to gold',
  })
  t.strictSame(await classesIn(world), Array(NODES + 1).fill('gold'))
})

t.test('one claim that cannot grow keeps all others from growing', async (t) => {
  const world = await volumesWorld(t)
  const name = 'qdrant-storage-vec-a-2'
  const claim = await world.api.get(world.claimAt(name))
  await world.api.delete(world.claimAt(name))
  const slow = { ...(claim?.spec as Record<string, unknown>), storageClassName: 'slow' }
  await world.api.create({ ...CLAIM, metadata: { name, namespace: 'ns' }, spec: slow })
  const status = { phase: 'Bound', capacity: { storage: '10Gi' } }
  await world.api.patch(world.claimAt(name), { status }, { subresource: 'status' })
  const state = await world.state()
  await world.run('upgrade', world.plan(2, { data: '20Gi' }))
  t.match(await world.progress(), {
    state: 'Refused',
    message: /PersistentVolumeClaim qdrant-storage-vec-a-2 with StorageClass slow cannot grow/,
  })
  t.strictSame(await world.state(), state)
})

t.test('a claim without a volume is waited for, with nothing changed', async (t) => {
  const world = await volumesWorld(t)
  const name = 'qdrant-storage-vec-a-1'
  const state = await world.state()
  await world.api.patch(
    world.claimAt(name),
    { status: { phase: 'Pending' } },
    { subresource: 'status' },
  )
  await world.run('upgrade', world.plan(2, { data: '20Gi' }))
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'VolumesNotGrown',
    message: `spec.persistence.size: 10Gi -> 20Gi: PersistentVolumeClaim ${name} is not bound to a volume; the volumes change once every pod has its volume`,
  })
  t.strictSame(await world.state(), state)
  await world.api.delete(world.claimAt(name))
  await world.run('upgrade', world.plan(3, { data: '20Gi' }))
  t.match(await world.progress(), { run: 3, message: /vec-a-1 does not exist; the volumes change/ })
})

t.test(
  'a driver that does not finish is reported with its message, and waited for again',
  async (t) => {
    const world = await volumesWorld(t)
    const uid = await world.uidOfSet()
    const name = 'qdrant-storage-vec-a-2'
    const conditions = [{ type: 'FileSystemResizePending', message: 'waiting for the pod' }]
    await world.api.patch(
      world.claimAt(name),
      { status: { conditions } },
      { subresource: 'status' },
    )
    const onSleep = async () => {
      for (const ordinal of [0, 1]) {
        const status = { capacity: { storage: '20Gi' } }
        const claim = world.claimAt(`qdrant-storage-vec-a-${ordinal}`)
        await world.api.patch(claim, { status }, { subresource: 'status' })
      }
    }
    const options: RunOptions = { time: instantClock(onSleep) }
    const { code } = await world.run('upgrade', world.plan(2, { data: '20Gi' }), options)
    t.equal(code, EXIT.failed)
    t.match(await world.progress(), {
      state: 'Failed',
      reason: 'VolumesNotGrown',
      message: `spec.persistence.size: 10Gi -> 20Gi: PersistentVolumeClaim ${name} still has 10Gi after 10 minutes (FileSystemResizePending: waiting for the pod); check the storage driver`,
    })
    t.equal(await world.uidOfSet(), uid)
    t.match(await world.state(), { pods: world.before, templates: { 'qdrant-storage': '10Gi' } })
    await world.resize()
    t.equal((await world.run('upgrade', world.plan(3, { data: '20Gi' }))).code, EXIT.done)
    t.match(await world.state(), { pods: world.before, templates: { 'qdrant-storage': '20Gi' } })
  },
)

t.test('a Secret of another owner under the name of the record is not touched', async (t) => {
  const world = await volumesWorld(t)
  const uid = await world.uidOfSet()
  const metadata = { name: 'vec-a.statefulset', namespace: 'ns' }
  await world.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: {} })
  const options = { time: instantClock(world.resize) }
  await world.run('upgrade', world.plan(2, { data: '20Gi' }), options)
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'VolumesNotGrown',
    message:
      'Secret vec-a.statefulset already exists and is not a record of this operator: delete it',
  })
  t.equal(await world.uidOfSet(), uid)
  matchWhole(t, await world.state(), { records: ['vec-a.statefulset'] })
})

/** Runs the Job until its log says that it must be killed; false if it ended before. */
async function killWhen(
  world: Awaited<ReturnType<typeof volumesWorld>>,
  isDue: (line: string) => boolean,
): Promise<boolean> {
  let isKilled = false
  // The log is written right after the answer to a call: a killed pod does nothing after it.
  const onLine = (line: string) => {
    isKilled ||= isDue(line)
    if (isKilled) throw new Error('killed')
  }
  const options = { onLine, time: instantClock(world.resize) }
  await world.run('upgrade', world.plan(2, { data: '20Gi' }), options).catch(() => undefined)
  await world.idle()
  return isKilled
}

/** A write other than a dry run. */
const WRITE = /api call method=(POST|PATCH|DELETE) path=[^ ?]+ /

/** The state in which a Job that was killed leaves no StatefulSet. */
async function killWithoutSet(world: Awaited<ReturnType<typeof volumesWorld>>): Promise<void> {
  await killWhen(world, (line) => /method=DELETE path=\S+\/statefulsets\//.test(line))
  if ((await world.uidOfSet()) !== undefined) throw new Error('the StatefulSet still exists')
}

const KILLS = { timeout: 300_000 }
t.test('a Job that is killed after any call is continued by the next one', KILLS, async (t) => {
  let isComplete = false
  let withoutSet = 0
  for (let calls = 1; !isComplete; calls += EVERY) {
    const world = await volumesWorld(t)
    let seen = 0
    const isKilled = await killWhen(world, (line) => {
      if (WRITE.test(line)) seen += 1
      return seen >= calls
    })
    isComplete = !isKilled
    if ((await world.uidOfSet()) === undefined) withoutSet += 1
    const options = { time: instantClock(world.resize) }
    const { code, log } = await world.run('upgrade', world.plan(3, { data: '20Gi' }), options)
    t.equal(code, EXIT.done, `after ${calls} calls`)
    if (code !== EXIT.done) t.comment(log)
    t.strictSame(
      await world.state(),
      {
        pods: world.before,
        areOwned: true,
        templates: { 'qdrant-storage': '20Gi' },
        claims: claimsOf('qdrant-storage', '20Gi 20Gi'),
        records: [],
      },
      `after ${calls} calls`,
    )
    if (isComplete) t.ok(calls > 10, `${calls} calls`)
  }
  // A part of the calls may miss that moment.
  if (isFull) t.ok(withoutSet > 0, 'killed while there was no StatefulSet')
})

t.test('checks compare with the StatefulSet that a killed Job has not recreated', async (t) => {
  const world = await volumesWorld(t)
  await killWithoutSet(world)
  const spec = clusterSpec({ version: '1.17.0', replicas: NODES })
  const plan = world.plan(3, { data: '20Gi' }, { spec, version: '1.17.0' })
  await world.run('upgrade', plan)
  t.match(await world.progress(), { state: 'Refused', reason: 'VersionDowngraded' })
  matchWhole(t, await world.state(), { pods: world.before, areOwned: true, records: [] })
})

t.test('an uninstall leaves no pod of a StatefulSet that was not recreated', async (t) => {
  const world = await volumesWorld(t)
  await killWithoutSet(world)
  t.equal((await world.state()).pods.length, NODES)
  const { resource, namespace, name, uid, release } = world.plan(4, { data: '20Gi' })
  const plan = { resource, namespace, name, uid, release, run: 4, hash: 'uninstall' }
  const { code, log } = await world.run('uninstall', plan)
  t.equal(code, EXIT.done, log)
  matchWhole(t, await world.state(), { templates: {}, records: [] })
  await world.idle()
  const { items } = await world.api.list('v1', 'Pod', { namespace: 'ns' })
  t.ok(
    items.every(({ metadata }) => metadata.deletionTimestamp !== undefined),
    JSON.stringify(items.map(({ metadata }) => metadata)),
  )
})

/** Growth of the data volumes by spec.persistence.autoGrow: when, by how much, and what stays. */
import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import { dataVolumeSize } from '../../../hooks/cluster/volumes.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import { volumeBytesOf } from '../../../hooks/cluster/shards/job.ts'
import {
  applied,
  cluster,
  context,
  helmJob,
  progress,
  settings,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { condition, running, sync } from './decisions.ts'
import { observedShards, threeNodes } from './shards.ts'

const GIB = 2 ** 30
type Persistence = VecCluster['spec']['persistence']
const QUARTER = { above: 70, by: '25%', max: '100Gi' }

function persistence(autoGrow?: Persistence['autoGrow'], size = '10Gi'): Persistence {
  return {
    ...cluster().spec.persistence,
    size,
    ...(autoGrow !== undefined && { autoGrow }),
  }
}

/** Three nodes, of which the second has this percent of its volume in use. */
function nodesWith(percent: number, gib: number) {
  return [0, 1, 2].map((ordinal) => ({
    ordinal,
    volume: `volume-${ordinal}`,
    volumeBytes: gib * GIB,
    dataBytes: ordinal === 1 ? (percent / 100) * gib * GIB : 0,
  }))
}

interface Case {
  autoGrow?: Persistence['autoGrow']
  size?: string
  /** What the status has planned, and what was applied. */
  planned?: string
  grown?: string
  percent?: number
  /** Capacity of the volumes. */
  gib?: number
  parts?: Partial<Observed>
}

/** A cluster on which the helm run for this size is applied. */
function observedWith({ autoGrow, size, planned, grown, percent = 75, gib = 10, parts }: Case) {
  const status = planned === undefined ? {} : { volumeSize: planned }
  const resource = threeNodes({ spec: { persistence: persistence(autoGrow, size) }, status })
  const report = applied(grown === undefined ? {} : { grownSize: grown })
  const before = observedShards({ cluster: resource, progress: progress({ applied: report }) })
  const { hash: planHash, podsHash = '' } = desiredRun(before, settings)
  return observedShards(
    {
      cluster: resource,
      progress: progress({ applied: { ...report, planHash, podsHash } }),
      ...parts,
    },
    { nodes: nodesWith(percent, gib) },
  )
}

function plannedSize(part: Case): string | undefined {
  return sync(observedWith(part), context).status.volumeSize
}

t.test(
  'volumes grow from the percentage on, by percent or by a quantity, up to the maximum',
  async (t) => {
    t.equal(plannedSize({ autoGrow: QUARTER }), '13Gi')
    t.equal(plannedSize({ autoGrow: { ...QUARTER, by: '5Gi' } }), '15Gi')
    t.equal(plannedSize({ autoGrow: { ...QUARTER, max: '12Gi' } }), '12Gi')
    t.equal(plannedSize({ autoGrow: { ...QUARTER, above: 80 } }), undefined)
    t.equal(plannedSize({ autoGrow: QUARTER, percent: 69.9 }), undefined)
    t.equal(plannedSize({ percent: 95 }), undefined, 'without autoGrow')
    t.equal(plannedSize({ autoGrow: { ...QUARTER, max: '10Gi' }, percent: 95 }), undefined)
    t.equal(plannedSize({ autoGrow: { ...QUARTER, max: '5Gi' }, percent: 95 }), undefined)
    const small = { autoGrow: { ...QUARTER, by: '10%' }, size: '64Mi', gib: 1 / 16 }
    t.equal(plannedSize(small), '71Mi')
  },
)

t.test('one step at a time: the next one follows when every volume has grown', async (t) => {
  t.equal(plannedSize({ autoGrow: QUARTER, planned: '13Gi', grown: '13Gi' }), '13Gi')
  t.equal(plannedSize({ autoGrow: QUARTER, planned: '13Gi', grown: '13Gi', gib: 13 }), '17Gi')
  t.equal(
    plannedSize({ autoGrow: QUARTER, planned: '13Gi', grown: '13Gi', gib: 13, percent: 60 }),
    '13Gi',
  )
  const jobs = [helmJob({ run: 2 })]
  t.equal(plannedSize({ autoGrow: QUARTER, parts: { jobs } }), undefined, 'not while a Job runs')
  const { shards: _, ...unasked } = observedWith({ autoGrow: QUARTER, planned: '13Gi' })
  t.equal(sync(unasked, context).status.volumeSize, '13Gi')
})

t.test(
  'the size that is planned is that of the next helm run, and of every sync meanwhile',
  async (t) => {
    const observed = observedWith({ autoGrow: QUARTER })
    t.equal(desiredRun(observed, settings).volumes?.[0]?.size, '10Gi')
    const { status } = sync(observed, context)
    const planned = { ...observed, cluster: { ...observed.cluster, status } }
    const run = desiredRun(planned, settings)
    t.strictSame(run.volumes, [{ field: 'persistence', size: '13Gi', isAutoGrown: true }])
    t.match(run.values, { persistence: { size: '13Gi' } })
    t.notOk('autoGrow' in (run.values['persistence'] as object))
    t.equal(run.spec.persistence.size, '10Gi', 'the spec stays as it is')
    t.not(run.hash, desiredRun(observed, settings).hash)
    const { shards: _, ...withoutAnswer } = planned
    t.equal(desiredRun({ ...withoutAnswer, jobs: [helmJob()] }, settings).hash, run.hash)
    t.ok(sync(planned, context).children.some(({ kind }) => kind === 'Job'))
  },
)

t.test(
  'what has grown stays: without autoGrow, with a lower maximum, and without a status',
  async (t) => {
    const sizeOf = (part: Case) => dataVolumeSize(observedWith(part))
    t.equal(sizeOf({ grown: '13Gi' }), '13Gi')
    t.equal(
      sizeOf({ autoGrow: { ...QUARTER, max: '11Gi' }, planned: '13Gi', grown: '13Gi' }),
      '13Gi',
    )
    t.equal(sizeOf({ autoGrow: QUARTER, grown: '13Gi' }), '13Gi')
    t.equal(plannedSize({ grown: '13Gi', percent: 10 }), '13Gi')
    t.equal(sizeOf({ planned: '13Gi' }), '10Gi', 'planned, never applied, and given up')
    t.equal(sizeOf({ autoGrow: { ...QUARTER, max: '12Gi' }, planned: '13Gi' }), '12Gi')
  },
)

t.test('a larger size in the spec is used; one below the grown size is no error', async (t) => {
  t.equal(
    plannedSize({ autoGrow: QUARTER, size: '50Gi', planned: '13Gi', gib: 50, percent: 1 }),
    undefined,
  )
  t.equal(dataVolumeSize(observedWith({ autoGrow: QUARTER, size: '50Gi', grown: '13Gi' })), '50Gi')
  const live = statefulSet(3)
  const resources = { requests: { storage: '13Gi' } }
  live.spec.volumeClaimTemplates = [{ metadata: { name: 'qdrant-storage' }, spec: { resources } }]
  const due = { ...observedWith({ autoGrow: QUARTER, grown: '13Gi', gib: 13 }), statefulSet: live }
  const report = { ...due.progress, applied: applied({ grownSize: '13Gi', planHash: 'other' }) }
  const reasonWith = (grown: typeof report) =>
    condition(sync({ ...due, progress: progress(grown) }, context), 'Applied')?.[1]
  t.not(reasonWith(report), 'InvalidSpec')
  const { grownSize: _, ...unknown } = report.applied
  t.equal(reasonWith({ ...report, applied: unknown }), 'InvalidSpec', 'nothing says it has grown')
})

t.test('the message of Capacity says what happens, or what to raise', async (t) => {
  const message = (part: Case) => condition(sync(observedWith(part), context), 'Capacity')?.[2]
  t.match(message({ autoGrow: QUARTER }), /: spec\.persistence\.autoGrow enlarges the volumes$/)
  const atMaximum = {
    autoGrow: { ...QUARTER, max: '13Gi' },
    planned: '13Gi',
    grown: '13Gi',
    gib: 13,
  }
  t.match(message(atMaximum), /: raise spec\.persistence\.autoGrow\.max$/)
  t.match(message({}), /: raise spec\.persistence\.size$/)
})

/** A helm run with this spec is due as well. */
function withPendingRun(spec: ClusterOverrides['spec'], parts: Partial<Observed> = {}): Observed {
  const { cluster, ...known } = observedWith({ autoGrow: QUARTER })
  const metadata = { ...cluster.metadata, generation: 2 }
  const resource = { ...cluster, metadata, spec: { ...cluster.spec, ...spec } }
  return { ...known, cluster: resource, liveJobs: [], unfinishedHelmJobs: 0, ...parts }
}

/** On a Sunday; the window begins on Saturday. */
const WINDOWS = { maintenanceWindows: [{ schedule: '0 2 * * 6', duration: '3h' }] }

t.test('a run that does not start does not keep the growth from being planned', async (t) => {
  const version = { version: '1.19.0' }
  const planned = (observed: Observed) => sync(observed, context).status.volumeSize
  t.equal(planned(withPendingRun({ ...WINDOWS, ...version })), '13Gi')
  t.equal(planned(withPendingRun({ ...WINDOWS, ...version, hibernate: true })), undefined)
  t.equal(
    planned(withPendingRun({ maintenanceWindows: [{ schedule: 'x', duration: '3h' }] })),
    '13Gi',
  )
  const tls = { enabled: true, secretRef: { name: 'absent' } }
  t.equal(planned(withPendingRun({ tls })), '13Gi', 'a Secret is missing')
  t.equal(planned(withPendingRun(version)), undefined, 'a run that starts')
  // One run applies both.
  const held = withPendingRun({ ...WINDOWS, ...version })
  const { status } = sync(held, context)
  const run = desiredRun({ ...held, cluster: { ...held.cluster, status } }, settings)
  t.equal(run.version, '1.19.0')
  t.strictSame(run.volumes, [{ field: 'persistence', size: '13Gi', isAutoGrown: true }])
})

t.test('the message of Capacity says what the growth waits for', async (t) => {
  const capacity = (observed: Observed) => condition(sync(observed, context), 'Capacity')?.[2]
  const version = { version: '1.19.0' }
  const grows = /: spec\.persistence\.autoGrow enlarges the volumes$/
  t.match(
    capacity(withPendingRun({ ...WINDOWS, ...version })),
    /: spec\.persistence\.autoGrow enlarges the volumes with the next helm run, which waits for the maintenance window that begins at 2026-03-07T02:00:00Z: to start it now, set the annotation vec-operator\.dev\/maintenance: now$/,
  )
  t.match(
    capacity(withPendingRun({ maintenanceWindows: [{ schedule: 'x', duration: '3h' }] })),
    /: spec\.persistence\.autoGrow enlarges the volumes with the next helm run, once it can start \(InvalidSpec\): see the condition Applied$/,
  )
  t.match(capacity(withPendingRun(version)), grows, 'a run that starts')
  t.match(capacity(withPendingRun(WINDOWS)), grows, 'no pod changes')
})

t.test('shards are planned with the size of the StatefulSet once it has grown', async (t) => {
  const live = statefulSet(3)
  const resources = { requests: { storage: '13Gi' } }
  live.spec.volumeClaimTemplates = [{ metadata: { name: 'qdrant-storage' }, spec: { resources } }]
  const { cluster: grown } = observedWith({ autoGrow: QUARTER, planned: '13Gi', grown: '13Gi' })
  t.equal(volumeBytesOf(grown, live), 13 * GIB)
  t.equal(volumeBytesOf(grown, statefulSet(3)), 10 * GIB)
  t.equal(volumeBytesOf(running().cluster, live), 10 * GIB)
})

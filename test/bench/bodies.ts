/**
 * Sync requests as Metacontroller sends them: whole objects as the API server stores them, with
 * managedFields, owner references and all that defaulting adds. Each is of a settled, Running cluster.
 */
import type { ClusterStatus, VecCluster } from '../../crds/cluster.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { Job, StatefulSet } from '../../crds/kubernetes.ts'
import { clusterRbac, desiredRun, upgradeJob } from '../../hooks/cluster/job.ts'
import { clusterStatus } from '../../hooks/cluster/status.ts'
import type { HookRequest, Settings } from '../../hooks/protocol.ts'
import { applied, cluster, clusterSpec, observed, progress } from '../builders.ts'
import { renderChart } from '../doubles/chart-objects.ts'
import { groupObjects } from '../hooks/request.ts'
import { secretOf } from './api.ts'
import { CREATED, stored, uidOf } from './objects.ts'

/** Finished Jobs are kept for a day: that of the install, and one of an upgrade. */
const RUNS = 2
const NAMESPACES = 100
const CONTROLLERS = { status: 'kube-controller-manager' }

const SPEC = clusterSpec({
  replicas: 3,
  resources: { requests: { cpu: '2', memory: '8Gi' }, limits: { memory: '16Gi' } },
  persistence: {
    size: '100Gi',
    storageClassName: 'fast',
    accessModes: ['ReadWriteOnce'],
    onScaleIn: 'Delete',
  },
  apiKey: { secretRef: { name: 'engine-key', key: 'api' }, autoGenerate: false, jwtRbac: true },
  tolerations: [{ key: 'dedicated', operator: 'Equal', value: 'vec', effect: 'NoSchedule' }],
  affinity: {
    podAntiAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {
          labelSelector: { matchLabels: { app: 'qdrant' } },
          topologyKey: 'topology.kubernetes.io/zone',
        },
      ],
    },
  },
  config: {
    storage: { performance: { max_search_threads: 8 }, on_disk_payload: true },
    service: { max_request_size_mb: 64 },
  },
})

/** The request about the n-th cluster. `now` is close to the service's clock: no Job has outlived its time. */
function syncRequest(n: number, settings: Settings, now: Date): HookRequest<VecCluster> {
  const bare = bareCluster(n)
  const jobs = Array.from({ length: RUNS }, (_, index) => jobOf(bare, index + 1, settings, now))
  const rbac = clusterRbac(bare).map((child) => stored(child, { object: 'metacontroller' }, bare))
  const statefulSet = statefulSetOf(bare, settings)
  return {
    parent: runningCluster(bare, { jobs, statefulSet, settings, now }),
    children: groupObjects([...jobs, ...rbac]),
    related: groupObjects([statefulSet]),
    finalizing: false,
  }
}

/**
 * The same as text, made from one by putting in what differs: making ten thousand whole ones would
 * take longer than answering them. Names of children keep the first one's hash; none is looked at.
 */
export function syncBodies(settings: Settings, now: Date): (n: number) => Buffer {
  const template = JSON.stringify(syncRequest(0, settings, now))
  const tokens = (n: number) => {
    const bare = bareCluster(n)
    const { name, namespace, uid } = bare.metadata
    return [desired(bare, settings).hash, uid, name, namespace]
  }
  const first = tokens(0)
  return (n) => {
    const mine = tokens(n)
    const text = first.reduce(
      (all, token, index) => all.replaceAll(token, mine[index] ?? ''),
      template,
    )
    return Buffer.from(text)
  }
}

function bareCluster(n: number): VecCluster {
  // Of one length, and none a part of another.
  const name = `vectors-${String(n).padStart(5, '0')}`
  const namespace = `team-${String(n % NAMESPACES).padStart(3, '0')}`
  const { metadata, ...rest } = cluster({ name, spec: SPEC })
  return {
    ...rest,
    metadata: { ...metadata, namespace, uid: uidOf('VecCluster', namespace, name) },
  }
}

function desired(bare: VecCluster, settings: Settings) {
  const secrets = new Map([['engine-key', secretOf(bare.metadata.namespace, 'engine-key')]])
  return desiredRun(observed({ cluster: bare, secrets }), settings)
}

interface Surroundings {
  jobs: Job[]
  statefulSet: StatefulSet
  settings: Settings
  now: Date
}

function runningCluster(bare: VecCluster, around: Surroundings): VecCluster {
  const { jobs, statefulSet, settings, now } = around
  const { uid } = bare.metadata
  const at = now.toISOString()
  const { hash, version, secretFingerprints } = desired(bare, settings)
  const report = progress({
    ...{ uid, run: RUNS, at, startedAt: at, plan: hash },
    job: jobs.at(-1)?.metadata.uid ?? '',
    applied: applied({ planHash: hash, secretFingerprints, version, run: RUNS, at }),
  })
  const initialStatus: ClusterStatus = { phase: 'Running', appliedRun: RUNS, observedGeneration: 1 }
  const status = clusterStatus(
    observed({
      ...{ cluster: { ...bare, status: initialStatus }, jobs, statefulSet, progress: report },
      consensus: [0, 1, 2].map((ordinal) => ({ ordinal, state: 'working' as const })),
    }),
    undefined,
    { now: new Date(CREATED), settings },
  )
  const annotations = {
    [ANNOTATIONS.progress]: JSON.stringify(report),
    [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(bare.spec),
    'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(bare),
  }
  const written = {
    ...bare,
    status: { ...status, observedGeneration: 1 },
    metadata: { ...bare.metadata, annotations },
  }
  return stored(written, {
    object: 'kubectl-client-side-apply',
    status: 'metacontroller',
  }) as VecCluster
}

function jobOf(bare: VecCluster, run: number, settings: Settings, now: Date): Job {
  const plan = { ...desired(bare, settings), run }
  const job = upgradeJob(bare, plan, clusterRbac(bare), settings)
  const at = now.toISOString()
  const status = {
    startTime: at,
    completionTime: at,
    succeeded: 1,
    ready: 0,
    terminating: 0,
    uncountedTerminatedPods: {},
    conditions: ['SuccessCriteriaMet', 'Complete'].map((type) => ({
      ...{ type, status: 'True', reason: 'CompletionsReached' },
      message: 'Reached expected number of succeeded pods',
      lastProbeTime: at,
      lastTransitionTime: at,
    })),
  }
  const writers = { object: 'metacontroller', ...CONTROLLERS }
  return stored({ ...job, status }, writers, bare) as Job
}

function statefulSetOf(bare: VecCluster, settings: Settings): StatefulSet {
  const { values, version, release } = desired(bare, settings)
  const { namespace } = bare.metadata
  const rendered = renderChart(values, { release, namespace, version }).find(
    ({ kind }) => kind === 'StatefulSet',
  )
  if (rendered === undefined) throw new Error('the chart renders no StatefulSet')
  const revision = `${release}-6c9f7d5b48`
  const status = {
    observedGeneration: 1,
    replicas: 3,
    readyReplicas: 3,
    availableReplicas: 3,
    currentReplicas: 3,
    updatedReplicas: 3,
    currentRevision: revision,
    updateRevision: revision,
    collisionCount: 0,
  }
  const { metadata } = rendered
  return stored(
    { ...rendered, metadata: { ...metadata, namespace }, status },
    { object: 'helm', ...CONTROLLERS },
  ) as StatefulSet
}

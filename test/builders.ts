/** Objects for tests: a test states only what it is about, the rest comes from here. */
import { keyVariables } from '../crds/contract/api-keys.ts'
import type { AppliedRelease, Progress } from '../crds/contract/job.ts'
import type { VecCluster } from '../crds/cluster.ts'
import type { ConfigMap, Job, Secret, StatefulSet } from '../crds/kubernetes.ts'
import { ANNOTATIONS, API_VERSION, LABELS, jobName } from '../crds/contract/names.ts'
import type { BlockingRules } from '../hooks/cross-namespace.ts'
import type { Observed } from '../hooks/cluster/ports.ts'
import type { Context, Settings } from '../hooks/protocol.ts'
import { signJob } from '../hooks/request.ts'

export const NOW = new Date('2026-03-01T12:00:00Z')

/** An instant so many seconds before NOW. */
export function ago(seconds: number): string {
  return new Date(NOW.getTime() - seconds * 1000).toISOString()
}

export const settings: Settings = {
  clusterDomain: 'cluster.local',
  image: 'vec-operator:test',
  imagePullPolicy: 'IfNotPresent',
  imagePullSecrets: [],
  version: '0.1.0',
  crossNamespace: 'open',
  jobKeys: ['test-key'],
  namespaces: [],
  logLevel: 'INFO',
  logFormat: 'json',
  chart: { name: 'qdrant', repository: 'https://charts.example/engine' },
  stepVersions: [],
  maxHelmJobs: 10,
  historySeconds: 86_400,
  jobResources: {
    helm: { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '256Mi' } },
    data: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
  },
  jobPods: { helm: {}, data: {} },
}

export const context: Context = { now: NOW, settings }

/** Of a cluster, or a backup, that allows every namespace. */
export const allAllowed: BlockingRules = {
  isAllowed: () => true,
  isWatched: () => true,
  jobKeys: settings.jobKeys,
  now: NOW,
}

type Spec = VecCluster['spec']

/** The spec of a VecCluster as the API server stores it: with every default. */
export function clusterSpec(spec: Partial<Spec> = {}): Spec {
  return {
    version: '1.18.3',
    replicas: 1,
    image: { repository: 'docker.io/qdrant/qdrant', pullPolicy: 'IfNotPresent' },
    resources: {},
    persistence: { size: '10Gi', accessModes: ['ReadWriteOnce'], onScaleIn: 'Delete' },
    shards: { balance: 'OnScale', maxTransfers: 1 },
    podDisruptionBudget: { maxUnavailable: 1 },
    healing: { replicas: true, lostNodes: 'Manual' },
    update: { singleCopies: 'Restart' },
    snapshotPersistence: { enabled: false, size: '10Gi' },
    cluster: { enabled: true, p2p: { port: 6335, enableTls: false } },
    service: { type: 'ClusterIP', annotations: {} },
    tls: { enabled: false },
    metrics: {
      enabled: false,
      serviceMonitor: { enabled: false, interval: '30s', labels: {} },
    },
    config: {},
    ...spec,
  }
}

/** What differs between resources of one kind. */
export interface ResourceOverrides<Spec, Status extends object> {
  name?: string
  namespace?: string
  spec?: Partial<Spec>
  status?: Status | undefined
  generation?: number
  annotations?: Record<string, string>
  deletionTimestamp?: string
}

export type ClusterOverrides = ResourceOverrides<Spec, NonNullable<VecCluster['status']>>

export function cluster({ name = 'a', spec, ...overrides }: ClusterOverrides = {}): VecCluster {
  return resource('VecCluster', clusterSpec(spec), { name, ...overrides })
}

/** One of our resources, made an hour ago. */
export function resource<Kind extends string, Spec, Status extends object>(
  kind: Kind,
  spec: Spec,
  overrides: Omit<ResourceOverrides<Spec, Status>, 'spec'> & { name: string },
) {
  const {
    name,
    namespace = 'ns',
    status,
    generation = 1,
    annotations,
    deletionTimestamp,
  } = overrides
  return {
    apiVersion: API_VERSION as typeof API_VERSION,
    kind,
    metadata: {
      name,
      namespace,
      uid: `uid-${name}`,
      generation,
      creationTimestamp: ago(3600),
      ...(annotations !== undefined && { annotations }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec,
    ...(status !== undefined && { status }),
  }
}

/** A StatefulSet that is rolled out, unless its status says otherwise. */
/** The StatefulSet with a template that accepts these API keys; one key alone needs no variables. */
export function acceptingKeys(set: StatefulSet, accepted: string[]): StatefulSet {
  const template = { spec: { containers: [{ env: keyVariables('a', { accepted }) }] } }
  return { ...set, spec: { ...set.spec, template } }
}

export function statefulSet(
  replicas = 1,
  status: StatefulSet['status'] = {},
  snapshots?: string,
): StatefulSet {
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'vec-a', namespace: 'ns', generation: 1 },
    spec: {
      replicas,
      volumeClaimTemplates: [
        { metadata: { name: 'qdrant-storage' }, spec: {} },
        ...(snapshots === undefined
          ? []
          : [
              {
                metadata: { name: 'qdrant-snapshots' },
                spec: { resources: { requests: { storage: snapshots } } },
              },
            ]),
      ],
    },
    status: {
      observedGeneration: 1,
      replicas,
      readyReplicas: replicas,
      updatedReplicas: replicas,
      currentRevision: 'r1',
      updateRevision: 'r1',
      ...status,
    },
  }
}

export interface JobOverrides {
  /** The name that a Job of an earlier release has. */
  name?: string
  namespace?: string
  run?: number
  /** Type of the condition it ended with, and how many seconds ago. */
  ended?: ['Complete' | 'Failed', number]
  plan?: string
  image?: string
  createdAgo?: number
  failed?: number
  deletionTimestamp?: string
}

export function helmJob({
  verb = 'upgrade',
  ...overrides
}: JobOverrides & { verb?: string } = {}): Job {
  return newJob({ kind: 'cluster', verb, resource: 'a', uid: 'uid-a' }, overrides)
}

/** A Job of the resource with this name and uid. */
export function newJob(
  { kind, verb, resource, uid }: { kind: string; verb: string; resource: string; uid: string },
  overrides: JobOverrides,
): Job {
  const { namespace = 'ns', run = 1, ended, plan, createdAgo = 60, failed } = overrides
  const { name = jobName({ resource, uid, kind, verb, run }) } = overrides
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      namespace,
      uid: `job-${run}`,
      creationTimestamp: ago(createdAgo),
      labels: { [LABELS.parent]: uid, [LABELS.verb]: verb },
      annotations: {
        [ANNOTATIONS.signature]: signJob({ namespace, name, parentUid: uid }, settings.jobKeys),
        ...(plan !== undefined && { [ANNOTATIONS.plan]: plan }),
      },
      ...(overrides.deletionTimestamp !== undefined && {
        deletionTimestamp: overrides.deletionTimestamp,
      }),
    },
    spec: { template: { spec: { containers: [{ image: overrides.image ?? settings.image }] } } },
    status: {
      ...(failed !== undefined && { failed }),
      ...(ended !== undefined && {
        conditions: [{ type: ended[0], status: 'True', lastTransitionTime: ago(ended[1]) }],
      }),
    },
  }
}

export function applied(overrides: Partial<AppliedRelease> = {}): AppliedRelease {
  return {
    planHash: 'other',
    defaultAffinity: true,
    generation: 1,
    secretFingerprints: {},
    version: '1.18.3',
    run: 1,
    at: ago(60),
    statefulSetGeneration: 1,
    ...overrides,
  }
}

/** A report of the Job with the same run. */
export function progress(overrides: Partial<Progress> = {}): Progress {
  const run = overrides.run ?? 1
  return {
    uid: 'uid-a',
    verb: 'upgrade',
    run,
    job: `job-${run}`,
    runner: 'pod-1',
    plan: 'other',
    state: 'Done',
    at: ago(50),
    startedAt: ago(60),
    ...overrides,
  }
}

export function secret(data: Record<string, string>, type = 'Opaque'): Secret {
  const encoded = Object.entries(data).map(
    ([key, value]) => [key, Buffer.from(value).toString('base64')] as const,
  )
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'key', namespace: 'ns' },
    type,
    data: Object.fromEntries(encoded),
  }
}

export function configMap(data: Record<string, string>): ConfigMap {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'ca', namespace: 'ns' }, data }
}

/** What is observed of a cluster that was just created. */
export function observed(overrides: Partial<Observed> = {}): Observed {
  const jobs = overrides.jobs ?? []
  return {
    cluster: cluster(),
    jobs,
    secrets: new Map(),
    ...overrides,
    children: [...(overrides.children ?? []), ...jobs],
  }
}

/** Jobs: how they are created, retained for their logs and deleted, and how their state is read. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { encodePlan, JOB_ENV } from '../crds/contract/job.ts'
import {
  ANNOTATIONS,
  CREDENTIALS_FOLDER,
  jobName,
  LABELS,
  MANAGED_BY,
  pullSecretCredential,
  secretCopyName,
  trailingNumber,
} from '../crds/contract/names.ts'
import { finishedCondition, type AnyObject, type Job } from '../crds/kubernetes.ts'
import { BUCKET_CA, type CaRef } from '../crds/certificates.ts'
import { secondsSince } from './conditions.ts'
import { SCRATCH_FOLDER, type JobVolume } from './job-volumes.ts'
import type {
  ChartSource,
  Child,
  Context,
  Desired,
  JobPod,
  JobResources,
  PrunedChild,
  Settings,
} from './protocol.ts'

/** helm needs time to mark its release as failed. */
const GRACE_SECONDS = 60
const BACKOFF_LIMIT = 6
const USER_ID = 1000

/** What the Pod Security Standard `restricted` requires; also the defaults of the chart. */
const POD_SECURITY_CONTEXT = {
  runAsNonRoot: true,
  runAsUser: USER_ID,
  runAsGroup: USER_ID,
  fsGroup: USER_ID,
  seccompProfile: { type: 'RuntimeDefault' },
}
const CONTAINER_SECURITY_CONTEXT = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}

export interface JobOptions {
  /** Command of the job image: `<kind> <verb>`. */
  kind: string
  verb: string
  plan: { namespace: string; name: string; uid: string; run: number; hash: string }
  /** Field that makes the plan large, named in the error if the plan is too large. */
  largeField: string
  serviceAccount: string
  resources: JobResources
  /** Helm release that the Job changes. */
  release?: string
  /** Chart that the Job downloads. */
  chart?: ChartSource
  /** A user named `serviceAccount` for its cloud identity. */
  hasIdentity?: boolean
  /** Secrets to mount, by credential name; a missing Secret is an empty folder. */
  credentials: Partial<Record<JobVolume, string>>
  /** The certificate authority of a bucket: its key is mounted, and nothing else of the object. */
  bucketCa?: CaRef | undefined
  /**
   * Credentials of another namespace: the service copies them once the Job exists, and its pods
   * wait for them.
   */
  secretCopies?: readonly JobVolume[]
}

/**
 * Builds a new Job. The image, the plan and the ServiceAccount are all that the operator gives it.
 */
export function newJob(options: JobOptions, settings: Settings): Child {
  const { kind, verb, plan, release } = options
  const name = jobName({ resource: plan.name, uid: plan.uid, kind, verb, run: plan.run })
  const pod = settings.jobPods[release === undefined ? 'data' : 'helm']
  const labels = {
    [LABELS.managedBy]: MANAGED_BY,
    [LABELS.component]: release === undefined ? 'transfer' : 'helm',
    [LABELS.parent]: plan.uid,
    [LABELS.verb]: verb,
    ...(release !== undefined && { [LABELS.release]: release }),
  }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      namespace: plan.namespace,
      labels,
      annotations: {
        [ANNOTATIONS.plan]: plan.hash,
        [ANNOTATIONS.image]: settings.image,
        [ANNOTATIONS.signature]: signJob(
          { namespace: plan.namespace, name, parentUid: plan.uid },
          settings.jobKeys,
        ),
      },
    },
    spec: {
      backoffLimit: BACKOFF_LIMIT,
      podFailurePolicy: {
        rules: [
          // The Job controller does not retry an attempt that failed and was reported.
          { action: 'FailJob', onExitCodes: { containerName: kind, operator: 'In', values: [1] } },
          // A node drain does not count as an attempt.
          { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
        ],
      },
      template: {
        metadata: {
          labels: { ...pod.labels, ...labels },
          ...(!isEmpty(pod.annotations) && { annotations: pod.annotations }),
        },
        spec: podSpec(name, options, settings, pod),
      },
    },
  }
}

function podSpec(job: string, options: JobOptions, settings: Settings, pod: JobPod) {
  const { kind, verb, plan, serviceAccount } = options
  const { nodeSelector, tolerations = [], affinity, priorityClassName = '' } = pod
  const volumes = [
    ...Object.entries(options.credentials).map(([name, secretName]) => ({
      name,
      // Optional: the pod must start and report a deleted Secret.
      secret: { secretName, optional: true },
    })),
    ...(options.secretCopies ?? []).map((name) => ({
      name,
      secret: { secretName: secretCopyName(job, name) },
    })),
    ...(options.bucketCa === undefined ? [] : [caVolume(options.bucketCa)]),
    ...(options.chart?.pullSecret === undefined
      ? []
      : [registryVolume(job, options.chart.pullSecret)]),
    ...(options.chart?.credentialsSecret === undefined
      ? []
      : [chartCredentialsVolume(job, options.chart.credentialsSecret)]),
  ]
  return {
    restartPolicy: 'Never',
    serviceAccountName: serviceAccount,
    automountServiceAccountToken: true,
    enableServiceLinks: false,
    ...(settings.imagePullSecrets.length > 0 && {
      imagePullSecrets: settings.imagePullSecrets.map((name) => ({
        name: secretCopyName(job, pullSecretCredential(name)),
      })),
    }),
    ...(!isEmpty(nodeSelector) && { nodeSelector }),
    ...(tolerations.length > 0 && { tolerations }),
    ...(!isEmpty(affinity) && { affinity }),
    ...(priorityClassName !== '' && { priorityClassName }),
    terminationGracePeriodSeconds: GRACE_SECONDS,
    securityContext: pod.podSecurityContext ?? POD_SECURITY_CONTEXT,
    containers: [
      {
        name: kind,
        image: settings.image,
        imagePullPolicy: settings.imagePullPolicy,
        args: ['jobs/main.js', kind, verb, `${plan.namespace}/${plan.name}`],
        env: environment(options, settings, pod),
        resources: options.resources,
        securityContext: pod.securityContext ?? CONTAINER_SECURITY_CONTEXT,
        volumeMounts: [
          { name: SCRATCH, mountPath: SCRATCH_FOLDER },
          ...volumes.map(({ name }) => ({
            name,
            mountPath: `${CREDENTIALS_FOLDER}/${name}`,
            readOnly: true,
          })),
          ...(pod.volumeMounts ?? []),
        ],
      },
    ],
    volumes: [{ name: SCRATCH, emptyDir: {} }, ...volumes, ...(pod.volumes ?? [])],
  }
}

const SCRATCH = 'tmp' satisfies JobVolume
const REGISTRY = 'chart-registry' satisfies JobVolume
const REGISTRY_FILE = 'config.json'
const CHART_CREDENTIALS = 'chart-credentials' satisfies JobVolume

/** A copy that the service writes once the Job exists: its pods wait for it. */
function registryVolume(job: string, pullSecret: string) {
  const items = [{ key: '.dockerconfigjson', path: REGISTRY_FILE }]
  const secretName = secretCopyName(job, pullSecretCredential(pullSecret))
  return { name: REGISTRY, secret: { secretName, items } }
}

/** A copy as well. A missing key does not keep the pod from starting: the Job reports it. */
function chartCredentialsVolume(job: string, secret: string) {
  const secretName = secretCopyName(job, pullSecretCredential(secret))
  return { name: CHART_CREDENTIALS, secret: { secretName } }
}

/** Optional, like the credentials. */
function caVolume({ kind, name, key }: CaRef) {
  const source = { items: [{ key, path: key }], optional: true }
  return kind === 'Secret'
    ? { name: BUCKET_CA, secret: { secretName: name, ...source } }
    : { name: BUCKET_CA, configMap: { name, ...source } }
}

function isEmpty(map: object | undefined): boolean {
  return map === undefined || Object.keys(map).length === 0
}

/** Credentials that the chart gives to all Jobs: the SDK would prefer them to the identity. */
const CREDENTIAL_VARIABLES = new Set([
  ...['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'],
  ...['AWS_PROFILE', 'AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE'],
])

function environment(
  { plan, largeField, hasIdentity = false, chart }: JobOptions,
  { logLevel, logFormat, clusterDomain }: Settings,
  { env: extra = [] }: JobPod,
) {
  const field = (name: string, fieldPath: string) => ({
    name,
    valueFrom: { fieldRef: { fieldPath } },
  })
  const own = [
    { name: JOB_ENV.plan, value: encodePlan(plan, largeField) },
    field(JOB_ENV.podUid, 'metadata.uid'),
    // The older of the two labels: Kubernetes 1.26 has no other, and newer versions still set it.
    field(JOB_ENV.jobUid, "metadata.labels['controller-uid']"),
    { name: JOB_ENV.clusterDomain, value: clusterDomain },
    // Streamed data passes through young space and malloc: with both limited, memory does not grow
    // with the data.
    { name: 'NODE_OPTIONS', value: '--use-system-ca --max-semi-space-size=1' },
    { name: 'MALLOC_ARENA_MAX', value: '2' },
    { name: 'LOG_LEVEL', value: logLevel },
    { name: 'LOG_FORMAT', value: logFormat },
    // Without an identity, the SDK would use the role of the node.
    ...(hasIdentity ? [{ name: 'AWS_EC2_METADATA_DISABLED', value: 'true' }] : []),
    ...(chart?.pullSecret === undefined
      ? []
      : [
          {
            name: 'HELM_REGISTRY_CONFIG',
            value: `${CREDENTIALS_FOLDER}/${REGISTRY}/${REGISTRY_FILE}`,
          },
        ]),
    ...(chart?.credentialsSecret === undefined
      ? []
      : [{ name: JOB_ENV.chartCredentials, value: CHART_CREDENTIALS }]),
    ...(chart?.caBundle === undefined ? [] : [{ name: JOB_ENV.chartCa, value: chart.caBundle }]),
    { name: 'HELM_CACHE_HOME', value: '/tmp/helm/cache' },
    { name: 'HELM_CONFIG_HOME', value: '/tmp/helm/config' },
    { name: 'HELM_DATA_HOME', value: '/tmp/helm/data' },
  ]
  const ownNames = new Set(own.map(({ name }) => name))
  const isReplaced = (name: string) =>
    ownNames.has(name) || (hasIdentity && CREDENTIAL_VARIABLES.has(name))
  return [...extra.filter(({ name }) => !isReplaced(name)), ...own]
}

/**
 * An unchanged observed child. Only its identity is returned: an observed child is never created
 * or, under OnDelete, changed, and the observed object may contain nulls.
 */
export function unchanged({ apiVersion, kind, metadata }: AnyObject): Child {
  const { name, namespace } = metadata
  return { apiVersion, kind, metadata: namespace === undefined ? { name } : { name, namespace } }
}

/**
 * The children of an answer: every observed child except the pruned ones, unchanged, and of those
 * to create, the ones that do not exist yet.
 */
export function childrenAfter(
  children: AnyObject[],
  { created = [], pruned = [] }: { created?: Child[]; pruned?: PrunedChild[] } = {},
): Child[] {
  const prunedIds = new Set(pruned.map(({ kind, name }) => `${kind}/${name}`))
  const remaining = children.filter((child) => !prunedIds.has(childId(child))).map(unchanged)
  const remainingIds = new Set(remaining.map(childId))
  return [...remaining, ...created.filter((child) => !remainingIds.has(childId(child)))]
}

/** The Jobs to delete: those that are unfinished and not being deleted already. */
export function jobsToDelete(jobs: Job[]): NonNullable<Desired<unknown>['deleteJobs']> {
  return jobs
    .filter((job) => isUnfinished(job) && job.metadata.deletionTimestamp === undefined)
    .map(({ metadata: { namespace = '', name, uid = '' } }) => ({ namespace, name, uid }))
}

/**
 * A Job is unfinished until it is finished or gone; its pods may still work during its deletion.
 */
export function isUnfinished(job: Job): boolean {
  return finishedCondition(job) === undefined
}

/** The number at the end of a Job's name. */
export function runNumber({ metadata }: Pick<Job, 'metadata'>): number {
  return trailingNumber(metadata.name)
}

/** Number of the next Job: above that of every existing Job and of the last one that reported. */
export function nextRunNumber(jobs: Job[], reportedRun: number | undefined): number {
  return 1 + Math.max(0, reportedRun ?? 0, ...jobs.map(runNumber))
}

export function latestJob(jobs: Job[]): Job | undefined {
  return jobs.toSorted((a, b) => runNumber(b) - runNumber(a))[0]
}

/** Status field: the Job of the current attempt, while it exists. */
export function jobNameField({ jobs, liveJobs = [] }: { jobs: Job[]; liveJobs?: Job[] }): {
  jobName?: string
} {
  const latest = latestJob([...jobs, ...liveJobs])
  return latest === undefined ? {} : { jobName: latest.metadata.name }
}

/** Hash of the plan that a Job was created with. */
export function planHash({ metadata }: Job): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.plan]
}

/**
 * Image that the Job was created with. Admission may rewrite the image of the pods (a mirror, a
 * digest), so the pod template is used only for Jobs of releases that did not record it.
 */
export function jobImage(job: Job): string | undefined {
  return (
    job.metadata.annotations?.[ANNOTATIONS.image] ?? job.spec?.template.spec.containers[0]?.image
  )
}

function childId({ kind, metadata }: AnyObject | Child): string {
  return `${kind}/${metadata.name}`
}

/** Number of finished runs retained per outcome. */
const MAX_RETAINED_RUNS = 3

/**
 * The Jobs to prune: each is finished, its result is recorded in the parent's status, and it is
 * expired or beyond the limit. Until then it is retained for its log.
 */
export function expiredJobs(
  jobs: Job[],
  isRecorded: (job: Job) => boolean,
  { now, settings }: Context,
): PrunedChild[] {
  const recorded = jobs.filter(isRecorded)
  const beyondLimit = new Set([
    ...jobsBeyondLimit(recorded, 'Failed'),
    ...jobsBeyondLimit(recorded, 'Complete'),
  ])
  // The age of a Job that is unfinished, or has no finish time, is unknown.
  const isExpired = (job: Job) =>
    secondsSince(finishedCondition(job)?.lastTransitionTime ?? '', now) > settings.historySeconds
  return recorded
    .filter((job) => isExpired(job) || beyondLimit.has(job))
    .map((job) => ({
      kind: 'Job',
      name: job.metadata.name,
      reason: isExpired(job) ? 'its history time is over' : 'newer runs are kept',
    }))
}

/** All but the newest Jobs with this outcome. */
function jobsBeyondLimit(jobs: Job[], outcome: 'Complete' | 'Failed'): Job[] {
  return jobs
    .filter((job) => finishedCondition(job)?.type === outcome)
    .toSorted((a, b) => runNumber(b) - runNumber(a))
    .slice(MAX_RETAINED_RUNS)
}

export interface JobIdentity {
  namespace: string
  name: string
  /** Uid of the resource that the Job belongs to. */
  parentUid: string
}

/**
 * Proves that this operator created a Job. A user who may create Jobs in a namespace can copy our
 * labels, and Metacontroller adopts the Job as a child; the signature cannot be made without the
 * key of the installation. It covers the identity of the Job, not its pods, which admission may
 * change. Returns the hex HMAC-SHA256 with the first key; with the empty key if hooks need no token.
 */
export function signJob(job: JobIdentity, keys: readonly string[]): string {
  return hmac(job, keys[0] ?? '').toString('hex')
}

/** Whether the Job has a signature by one of the keys for exactly this Job. */
export function isSigned({ metadata }: Job, keys: readonly string[]): boolean {
  const actual = Buffer.from(metadata.annotations?.[ANNOTATIONS.signature] ?? '', 'hex')
  const identity = {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    parentUid: metadata.labels?.[LABELS.parent] ?? '',
  }
  return (keys.length === 0 ? [''] : keys).some((key) => {
    const expected = hmac(identity, key)
    return actual.length === expected.length && timingSafeEqual(actual, expected)
  })
}

function hmac({ namespace, name, parentUid }: JobIdentity, key: string): Buffer {
  const text = JSON.stringify(['vec-operator job', namespace, name, parentUid])
  return createHmac('sha256', key).update(text).digest()
}

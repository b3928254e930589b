/** Jobs: how one is made, how one is kept, and how to tell in which state it is. */
import { encodePlan, JOB_ENV } from '../crds/contract/job.ts'
import {
  ANNOTATIONS,
  jobName,
  LABELS,
  MANAGED_BY,
  pullSecretCredential,
  secretCopyName,
} from '../crds/contract/names.ts'
import { finishedCondition, type AnyObject, type Job } from '../crds/kubernetes.ts'
import { secondsSince } from './conditions.ts'
import { signJob } from './job-signature.ts'
import type { Child, Context, Desired, JobResources, PrunedChild, Settings } from './protocol.ts'

/** Where a Secret is mounted for a Job, one folder per credential. */
const CREDENTIALS_DIRECTORY = '/var/run/vec'
/** helm needs some time to mark its release as failed. */
const GRACE_SECONDS = 60
const BACKOFF_LIMIT = 6
const USER_ID = 1000

export interface JobOptions {
  /** Command of the companion CLI: `<kind> <verb>`. */
  kind: string
  verb: string
  plan: { namespace: string; name: string; uid: string; run: number; hash: string }
  /** Field that makes the plan large, for the message when it is too large. */
  largeField: string
  serviceAccount: string
  resources: JobResources
  /** Helm release it works on. */
  release?: string
  /** Secrets to mount, by the name of the credential; one that is missing is an empty folder. */
  credentials: Record<string, string>
  /** Credentials of another namespace: the service copies them once the Job exists, its pods wait. */
  secretCopies?: readonly string[]
}

/** A new Job. The image, the plan and the account are all it has from us. */
export function newJob(options: JobOptions, settings: Settings): Child {
  const { kind, verb, plan, release } = options
  const name = jobName(kind, verb, plan.uid, plan.run)
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
          // An attempt that is over and reported is not tried again by the Job controller.
          { action: 'FailJob', onExitCodes: { containerName: kind, operator: 'In', values: [1] } },
          // A drained node costs no attempt.
          { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
        ],
      },
      template: { metadata: { labels }, spec: podSpec(options, settings) },
    },
  }
}

function podSpec(options: JobOptions, settings: Settings) {
  const { kind, verb, plan, serviceAccount } = options
  const job = jobName(kind, verb, plan.uid, plan.run)
  const volumes = [
    ...Object.entries(options.credentials).map(([name, secretName]) => ({
      name,
      // Optional: a Secret that went away must not keep the pod from starting and saying so.
      secret: { secretName, optional: true },
    })),
    ...(options.secretCopies ?? []).map((name) => ({
      name,
      secret: { secretName: secretCopyName(job, name) },
    })),
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
    terminationGracePeriodSeconds: GRACE_SECONDS,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER_ID,
      runAsGroup: USER_ID,
      fsGroup: USER_ID,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [
      {
        name: kind,
        image: settings.image,
        imagePullPolicy: settings.imagePullPolicy,
        args: ['jobs/main.js', kind, verb, `${plan.namespace}/${plan.name}`],
        env: environment(options, settings),
        resources: options.resources,
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        volumeMounts: [
          { name: 'tmp', mountPath: '/tmp' },
          ...volumes.map(({ name }) => ({
            name,
            mountPath: `${CREDENTIALS_DIRECTORY}/${name}`,
            readOnly: true,
          })),
        ],
      },
    ],
    volumes: [{ name: 'tmp', emptyDir: {} }, ...volumes],
  }
}

function environment({ plan, largeField }: JobOptions, { logLevel, logFormat }: Settings) {
  const field = (name: string, fieldPath: string) => ({
    name,
    valueFrom: { fieldRef: { fieldPath } },
  })
  return [
    { name: JOB_ENV.plan, value: encodePlan(plan, largeField) },
    field(JOB_ENV.podUid, 'metadata.uid'),
    // The older of the two labels: Kubernetes 1.26 has no other, and newer ones still set it.
    field(JOB_ENV.jobUid, "metadata.labels['controller-uid']"),
    // What streams passes through young space and malloc: kept small, a Job of any size stays small.
    { name: 'NODE_OPTIONS', value: '--use-system-ca --max-semi-space-size=1' },
    { name: 'MALLOC_ARENA_MAX', value: '2' },
    { name: 'LOG_LEVEL', value: logLevel },
    { name: 'LOG_FORMAT', value: logFormat },
    { name: 'HELM_CACHE_HOME', value: '/tmp/helm/cache' },
    { name: 'HELM_CONFIG_HOME', value: '/tmp/helm/config' },
    { name: 'HELM_DATA_HOME', value: '/tmp/helm/data' },
  ]
}

/**
 * An observed child that stays as it is. Only its identity is returned: an observed child is never
 * created or, under OnDelete, changed, and what was observed may hold nulls.
 */
export function unchanged({ apiVersion, kind, metadata }: AnyObject): Child {
  const { name, namespace } = metadata
  return { apiVersion, kind, metadata: namespace === undefined ? { name } : { name, namespace } }
}

/**
 * The children of an answer: every one that was observed stays as it is, but what is dropped, and of
 * those to be made, the ones that are not there.
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

/** The Jobs that are to be deleted: those that have not ended and are not on their way out. */
export function jobsToDelete(jobs: Job[]): NonNullable<Desired<unknown>['deleteJobs']> {
  return jobs
    .filter((job) => isUnfinished(job) && job.metadata.deletionTimestamp === undefined)
    .map(({ metadata: { namespace = '', name, uid = '' } }) => ({ namespace, name, uid }))
}

/** A Job runs until it is gone or has ended; while it is being deleted its pods may still work. */
export function isUnfinished(job: Job): boolean {
  return finishedCondition(job) === undefined
}

/** n of a Job's name `<kind>-<verb>-<hash>-<n>`. */
export function runNumber({ metadata }: Pick<Job, 'metadata'>): number {
  return Number(metadata.name.slice(metadata.name.lastIndexOf('-') + 1))
}

/** Number for the next Job: above that of every Job that is there, and of the last that reported. */
export function nextRunNumber(jobs: Job[], reportedRun: number | undefined): number {
  return 1 + Math.max(0, reportedRun ?? 0, ...jobs.map(runNumber))
}

export function latestJob(jobs: Job[]): Job | undefined {
  return jobs.toSorted((a, b) => runNumber(b) - runNumber(a))[0]
}

/** Hash of the plan a Job was made with. */
export function planHash({ metadata }: Job): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.plan]
}

/**
 * Image the Job was created with. Admission may rewrite that of the pods (a mirror, a digest), so only
 * Jobs of releases that did not record it are judged by their pods.
 */
export function jobImage(job: Job): string | undefined {
  return (
    job.metadata.annotations?.[ANNOTATIONS.image] ?? job.spec?.template.spec.containers[0]?.image
  )
}

function childId({ kind, metadata }: AnyObject | Child): string {
  return `${kind}/${metadata.name}`
}

/** So many runs of each outcome stay readable. */
const MAX_RETAINED_RUNS = 3

/** The Jobs to drop: each has ended, its result is in the parent's status, and its time is over. */
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
  // Of one that has not ended, or not said when, nobody knows how old it is.
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

/** All but the newest that ended so. */
function jobsBeyondLimit(jobs: Job[], outcome: 'Complete' | 'Failed'): Job[] {
  return jobs
    .filter((job) => finishedCondition(job)?.type === outcome)
    .toSorted((a, b) => runNumber(b) - runNumber(a))
    .slice(MAX_RETAINED_RUNS)
}

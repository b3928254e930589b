/** Jobs: how one is made, how one is kept, and how to tell in which state it is. */
import { JOB_ENV, encodePlan } from '../crds/command.ts'
import { endOf, type AnyObject, type Job } from '../crds/kubernetes.ts'
import {
  ANNOTATIONS,
  LABELS,
  MANAGED_BY,
  copyName,
  jobName,
  pullCredential,
} from '../crds/names.ts'
import type { Child, Desired, Dropped, JobResources, Settings } from './protocol.ts'
import { signatureOf } from './signature.ts'

/** Where a Secret is mounted for a Job, one folder per credential. */
const CREDENTIALS = '/var/run/vec'
/** helm needs some time to mark its release as failed. */
const GRACE_SECONDS = 60
const BACKOFF_LIMIT = 6
const USER = 1000

export interface JobWanted {
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
  copies?: readonly string[]
}

/** A new Job. The image, the plan and the account are all it has from us. */
export function newJob(wanted: JobWanted, settings: Settings): Child {
  const { kind, verb, plan, release } = wanted
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
        [ANNOTATIONS.signature]: signatureOf(
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
      template: { metadata: { labels }, spec: podOf(wanted, settings) },
    },
  }
}

function podOf(wanted: JobWanted, settings: Settings) {
  const { kind, verb, plan, serviceAccount } = wanted
  const job = jobName(kind, verb, plan.uid, plan.run)
  const volumes = [
    ...Object.entries(wanted.credentials).map(([name, secretName]) => ({
      name,
      // Optional: a Secret that went away must not keep the pod from starting and saying so.
      secret: { secretName, optional: true },
    })),
    ...(wanted.copies ?? []).map((name) => ({ name, secret: { secretName: copyName(job, name) } })),
  ]
  return {
    restartPolicy: 'Never',
    serviceAccountName: serviceAccount,
    automountServiceAccountToken: true,
    enableServiceLinks: false,
    ...(settings.imagePullSecrets.length > 0 && {
      imagePullSecrets: settings.imagePullSecrets.map((name) => ({
        name: copyName(job, pullCredential(name)),
      })),
    }),
    terminationGracePeriodSeconds: GRACE_SECONDS,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      fsGroup: USER,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [
      {
        name: kind,
        image: settings.image,
        imagePullPolicy: settings.imagePullPolicy,
        args: ['jobs/cli.js', kind, verb, `${plan.namespace}/${plan.name}`],
        env: environment(wanted, settings),
        resources: wanted.resources,
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        },
        volumeMounts: [
          { name: 'tmp', mountPath: '/tmp' },
          ...volumes.map(({ name }) => ({
            name,
            mountPath: `${CREDENTIALS}/${name}`,
            readOnly: true,
          })),
        ],
      },
    ],
    volumes: [{ name: 'tmp', emptyDir: {} }, ...volumes],
  }
}

function environment({ plan, largeField }: JobWanted, { logLevel, logFormat }: Settings) {
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
export function kept({ apiVersion, kind, metadata }: AnyObject): Child {
  const { name, namespace } = metadata
  return { apiVersion, kind, metadata: namespace === undefined ? { name } : { name, namespace } }
}

/**
 * The children of an answer: every one that was observed stays as it is, but what is dropped, and of
 * those to be made, the ones that are not there.
 */
export function staying(
  children: AnyObject[],
  { more = [], dropped = [] }: { more?: Child[]; dropped?: Dropped[] } = {},
): Child[] {
  const gone = new Set(dropped.map(({ kind, name }) => `${kind}/${name}`))
  const stay = children.filter((child) => !gone.has(identityOf(child))).map(kept)
  const names = new Set(stay.map(identityOf))
  return [...stay, ...more.filter((child) => !names.has(identityOf(child)))]
}

/** The Jobs that are to be deleted: those that have not ended and are not on their way out. */
export function toStop(jobs: Job[]): NonNullable<Desired<unknown>['stop']> {
  return jobs
    .filter((job) => isUnfinished(job) && job.metadata.deletionTimestamp === undefined)
    .map(({ metadata: { namespace = '', name, uid = '' } }) => ({ namespace, name, uid }))
}

/** A Job runs until it is gone or has ended; while it is being deleted its pods may still work. */
export function isUnfinished(job: Job): boolean {
  return endOf(job) === undefined
}

/** n of a Job's name `<kind>-<verb>-<hash>-<n>`. */
export function runOf({ metadata }: Pick<Job, 'metadata'>): number {
  return Number(metadata.name.slice(metadata.name.lastIndexOf('-') + 1))
}

/** Number for the next Job: above that of every Job that is there, and of the last that reported. */
export function nextRun(jobs: Job[], reported: number | undefined): number {
  return 1 + Math.max(0, reported ?? 0, ...jobs.map(runOf))
}

export function newestOf(jobs: Job[]): Job | undefined {
  return jobs.toSorted((one, other) => runOf(other) - runOf(one))[0]
}

/** Hash of the plan a Job was made with. */
export function planOf({ metadata }: Job): string | undefined {
  return metadata.annotations?.[ANNOTATIONS.plan]
}

/**
 * Image the Job was created with. Admission may rewrite that of the pods (a mirror, a digest), so only
 * Jobs of releases that did not record it are judged by their pods.
 */
export function imageOf(job: Job): string | undefined {
  return (
    job.metadata.annotations?.[ANNOTATIONS.image] ?? job.spec?.template.spec.containers[0]?.image
  )
}

function identityOf({ kind, metadata }: AnyObject | Child): string {
  return `${kind}/${metadata.name}`
}

/**
 * What is created for a Job: its RBAC, without which it must not start because it could not report, and
 * the Job with its pod. The RBAC is a ServiceAccount (or the one that a user named for its cloud
 * identity), a Role for the one resource that it reports on, and bindings to ClusterRoles of the chart.
 */
import type { CaRef } from '../crds/certificates.ts'
import { encodePlan, JOB_ENV } from '../crds/contract/job.ts'
import {
  ANNOTATIONS,
  API_GROUP,
  CREDENTIALS_FOLDER,
  HELM_CLUSTER_ROLE,
  jobName,
  LABELS,
  MANAGED_BY,
  pullSecretCredential,
  secretCopyName,
  SHARDS_CLUSTER_ROLE,
  shortHash,
} from '../crds/contract/names.ts'
import type { AnyObject } from '../crds/kubernetes.ts'
import {
  caVolume,
  CHART_CREDENTIALS,
  chartCredentialsVolume,
  CONTAINER_SECURITY_CONTEXT,
  CREDENTIAL_VARIABLES,
  type JobVolume,
  POD_SECURITY_CONTEXT,
  REGISTRY,
  REGISTRY_FILE,
  registryVolume,
  SCRATCH,
  SCRATCH_FOLDER,
} from './job-pod.ts'
import type { ChartSource, Child, JobPod, JobResources, Settings } from './protocol.ts'
import { signJob } from './request.ts'

const HELM_SUFFIX = '-helm'
const SHARDS_SUFFIX = '-shards'

interface Parent {
  kind: string
  metadata: { name: string; namespace: string; uid: string }
}

export interface RbacOptions {
  /** Short form of the kind in names, such as `cluster`. */
  kind: string
  plural: string
  /** Also permits what the engine's chart renders, in this namespace. */
  helm: boolean
  /** Also permits what the removal of a node needs, in this namespace; with an account of its own. */
  shards?: boolean
  /**
   * Name of an existing ServiceAccount that the Job runs under. The Role is bound to it as long as the
   * Job needs it, and no account is created.
   */
  account?: string | undefined
}

export type JobRbac = [Child, ...Child[]]

/** The objects, in order of creation; first the ServiceAccount, unless one is given. */
export function jobRbac(
  parent: Parent,
  { kind, plural, helm, shards = false, account }: RbacOptions,
): JobRbac {
  const rules = [
    {
      apiGroups: [API_GROUP],
      resources: [plural],
      resourceNames: [parent.metadata.name],
      verbs: ['get', 'patch'],
    },
  ]
  // The rules are part of the name: RBAC objects are never updated in place; a new release creates
  // new ones.
  const identity = { helm, ...(shards && { shards }), ...(account !== undefined && { account }) }
  const name = `${kind}-${shortHash(parent.metadata.uid, JSON.stringify({ rules, ...identity }))}`
  const labels = { [LABELS.managedBy]: MANAGED_BY, [LABELS.component]: 'job' }
  const { namespace } = parent.metadata
  const metadata = { name, namespace, labels }
  const subjects = [{ kind: 'ServiceAccount', name: account ?? name, namespace }]
  const roleBinding = (bindingName: string, roleKind: string, roleName: string): Child => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { ...metadata, name: bindingName },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: roleKind, name: roleName },
    subjects,
  })
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata, rules }
  const bindings = [
    roleBinding(name, 'Role', name),
    ...(helm ? [roleBinding(`${name}${HELM_SUFFIX}`, 'ClusterRole', HELM_CLUSTER_ROLE)] : []),
    ...(shards ? [roleBinding(`${name}${SHARDS_SUFFIX}`, 'ClusterRole', SHARDS_CLUSTER_ROLE)] : []),
  ]
  if (account !== undefined) return [role, ...bindings]
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false },
    role,
    ...bindings,
  ]
}

/** The RoleBinding that lets a Job manage what the engine's chart renders. */
export function isHelmBinding({ kind, metadata }: AnyObject): boolean {
  return kind === 'RoleBinding' && metadata.name.endsWith(HELM_SUFFIX)
}

/** helm needs time to mark its release as failed. */
const GRACE_SECONDS = 60
const BACKOFF_LIMIT = 6

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

function isEmpty(map: object | undefined): boolean {
  return map === undefined || Object.keys(map).length === 0
}

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

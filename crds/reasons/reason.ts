/** Documentation of a reason: its condition, its messages, their cause and the fix. */

export interface Reason {
  reason: string
  /** The condition with this reason; absent when only an Event, or `status.error`, reports it. */
  condition?: { type: string; status: 'True' | 'False' | 'Unknown' }
  /** The Event with the same reason, which reports it once. */
  event?: 'Normal' | 'Warning'
  /** Patterns of its messages; `<...>` is a variable part. */
  messages: readonly string[]
  cause: string
  fix: string
}

/**
 * A text of `status.error` of a Failed backup, restore or migration. The page of each kind has the
 * same table; `vec-operator explain` finds the row by its patterns.
 */
export interface KnownFailure {
  /** Fixed parts of the text; `...`, and a single letter instead of a number, are variable parts. */
  patterns: readonly string[]
  cause: string
  fix: string
}

export const JOB_CRASHED: KnownFailure = {
  patterns: ['Job crashed n times'],
  cause: 'pods of the Job crashed: out of memory, or a lost node',
  fix: 'check `kubectl describe` and `kubectl logs` of its pods',
}

/** The fix of reasons that need none: the state is normal, or the operator continues by itself. */
export const NOTHING_TO_DO = 'Nothing.'

/** The cluster is in a namespace where the service has no permissions. */
export const NOT_WATCHED =
  'cluster <namespace>/<name> is in a namespace that this operator does not watch'

/**
 * The number of letters in the fixed parts of a pattern if the text matches it, else 0. A pattern of only
 * placeholders and punctuation would match every text, so it scores 0.
 */
export function matchScore(template: string, text: string): number {
  const parts = template.split(/<[^<>]+>/)
  const pattern = new RegExp(`^${parts.map(escapeRegExp).join('.+?')}$`, 's')
  return pattern.test(text.trim()) ? parts.join('').replaceAll(/\P{L}/gu, '').length : 0
}

function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

/** The number of letters of the fixed parts that are in the text; 0 without a match. */
export function failureMatchScore({ patterns }: KnownFailure, text: string): number {
  const matching = patterns.filter((pattern) =>
    new RegExp(toRegExpSource(pattern), 'su').test(text),
  )
  return Math.max(0, ...matching.map((pattern) => pattern.replaceAll(/\P{L}/gu, '').length))
}

function toRegExpSource(pattern: string): string {
  const parts = pattern.split(/\.\.\.|\b[nmk]\b/u)
  return parts.map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|/]/g, '\\$&')).join('.+?')
}

export const NOT_COMPLETE = { type: 'Complete', status: 'False' } as const

/** A Job that does not exist, or has no running pod. */
export const JOB_NOT_STARTED_MESSAGES = [
  'Job <name> could not be created: kubectl describe <kind> <name> -n <namespace> shows the cause in an Event, such as a quota or an admission webhook',
  'Job <name> has no pod: kubectl describe job <name> -n <namespace> shows the cause in an Event, such as a quota or an admission webhook',
  'the pod of Job <name> does not run: kubectl describe pods -l job-name=<name> -n <namespace> shows the cause',
  'the pods of Job <name> have failed before their first report: kubectl describe pods -l job-name=<name> -n <namespace> shows the cause',
  'Job <name> is suspended: it gets a pod once its spec.suspend is false',
] as const

/** What a resource that is being deleted waits for. */
export const STOPPING_JOB = {
  message: 'waiting for Job <name> to stop',
  fix: 'Nothing. If the node of its pod does not answer, the Job stops once the node is back or is removed from the Kubernetes cluster.',
} as const

interface DataJobTerms {
  kind: string
  /** The kind in lower case, as in messages: `backup`. */
  noun: string
  /** The field of the spec that names the cluster. */
  clusterField: string
}

function copiedResource(kind: string): Reason {
  return {
    reason: 'CopyOfEnded',
    messages: [
      'this is a copy of a <kind> (uid <uid>) that finished as <state> at <time>, and is not run again; to run it, create another <kind> without the annotation vec-operator.dev/progress',
    ],
    cause:
      kind === 'VecBackup'
        ? 'A backup tool or kubectl created it from a manifest that has the report of the first one. Running it would store the data of today under the name of an older backup.'
        : 'A backup tool or kubectl created it from a manifest that has the report of the first one. Running it would overwrite current data with old data.',
    fix:
      kind === 'VecBackup'
        ? 'Nothing. To restore the objects of the first one, name their folder in spec.source of a VecRestore. Deleting the copy deletes no objects.'
        : `Nothing. To run it, create another ${kind} without that annotation.`,
  }
}

function stoppingJob(noun: string): Reason {
  return {
    reason: 'StoppingJob',
    condition: NOT_COMPLETE,
    messages: [STOPPING_JOB.message],
    cause: `The ${noun} is being deleted while its Job is running.`,
    fix: STOPPING_JOB.fix,
  }
}

const invalidEndpoint: Reason = {
  reason: 'EndpointNotUsable',
  messages: ['<field> is not a valid address: "<address>"'],
  cause:
    'The address has a character that is not valid in a host name, for example a pasted space.',
  fix: 'Create another resource with the correct address. The message shows the invalid characters escaped.',
}

const MIXED_VERSIONS = [
  'cluster <namespace>/<name>: the pods have the versions <versions>',
  'cluster <namespace>/<name>: the pods have the versions <versions>; <message of its condition Progressing>',
]

export function dataJobReasons({ kind, noun, clusterField }: DataJobTerms): Reason[] {
  const hasBucket = kind !== 'VecMigration'
  return [
    invalidEndpoint,
    // That of a VecBackup is a reason of its condition Purged.
    ...(kind === 'VecBackup' ? [] : [stoppingJob(noun)]),
    {
      reason: 'ClusterBusy',
      condition: NOT_COMPLETE,
      messages: ['waiting for <kind> <namespace>/<name>'],
      cause: 'Another resource is working on this cluster, and the two must not overlap.',
      fix: 'Wait until the named resource has finished.',
    },
    {
      reason: 'ClusterNotFound',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> not found',
        'cluster <namespace>/<name> is being deleted',
      ],
      cause: `The VecCluster in ${clusterField} does not exist or is being deleted.`,
      fix: `Create the cluster, or delete this ${kind}: its spec is immutable.`,
    },
    {
      reason: 'ClusterNotReady',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> is <phase>, not Running',
        'cluster <namespace>/<name>: <message of its condition Consensus>',
        ...(kind === 'VecMigration' ? [] : MIXED_VERSIONS),
      ],
      cause:
        kind === 'VecMigration'
          ? `A ${noun} needs every node of the cluster.`
          : `A ${noun} needs every node of the cluster, and one version on all of them${kind === 'VecRestore' ? ', unless it has spec.shards' : ''}.`,
      fix: `Check the conditions of the VecCluster. The ${noun} starts once the cluster is Running.`,
    },
    {
      reason: 'ClusterHibernated',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> is hibernated: no pods run until its spec.hibernate is false',
      ],
      cause: `A ${noun} needs every node of the cluster, and spec.hibernate of the VecCluster is true.`,
      fix: `Set spec.hibernate: false in the VecCluster. The ${noun} starts once the cluster is Running.`,
    },
    {
      reason: 'RefNotPermitted',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster',
        'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster, or set the chart value crossNamespace to open',
      ],
      cause: 'The cluster is in another namespace and does not allow this one to use it.',
      fix: `Add this namespace to the annotation vec-operator.dev/allowed-namespaces of the VecCluster, or install with crossNamespace: open; the ${noun} then starts automatically. A Job that was running is stopped, and another one continues.`,
    },
    copiedResource(kind),
    {
      reason: 'SecretNotFound',
      condition: NOT_COMPLETE,
      messages: [
        'Secret <namespace>/<name> not found',
        ...(hasBucket ? ['<field>.caSecretRef: Secret <namespace>/<name> not found'] : []),
      ],
      cause: hasBucket
        ? 'The Secret with the credentials or the certificate authority of a bucket or the API key of an engine does not exist.'
        : 'The Secret with the API key or the certificate authority of the source, or the API key of a VecCluster, does not exist.',
      fix: 'Create the Secret.',
    },
    {
      reason: 'InvalidSecret',
      condition: NOT_COMPLETE,
      messages: [
        'Secret <namespace>/<name> has no value in key <key>',
        'Secret <namespace>/<name> is of type <type>, which cannot hold credentials; use a Secret of type Opaque',
        ...(hasBucket
          ? [
              '<field>.caSecretRef: Secret <namespace>/<name> has no value in key <key>',
              '<field>.caSecretRef: Secret <namespace>/<name> is of type <type>, which cannot hold credentials; use a Secret of type Opaque',
            ]
          : []),
      ],
      cause:
        'A key of the Secret is missing or empty, or the Secret has a type that Kubernetes or Helm use for other purposes.',
      fix: `Add the key, or name another Secret in a new ${kind}.`,
    },
    ...(hasBucket ? [...accountReasons(noun), ...authorityReasons()] : []),
    {
      reason: 'JobSilent',
      condition: NOT_COMPLETE,
      event: 'Warning',
      messages: [
        'Job <name> has not reported for more than 10 minutes: check its pods and their nodes',
      ],
      cause:
        'A Job reports every minute. Its pod hangs, cannot reach the API server, or is on a lost node.',
      fix: 'Check the pods of the Job. If the node is lost permanently, delete the Node object (or the pod with --force once it is certain that it no longer runs): another pod continues.',
    },
    {
      reason: 'JobNotStarted',
      condition: NOT_COMPLETE,
      event: 'Warning',
      messages: [
        'Job <name> has an outdated image; recreating it',
        'Job <name> lost its Lease; recreating it',
        'Job <name> has an outdated plan; recreating it',
        'Job <name> has not reported for 600 s; recreating it',
        'Job <name> is suspended; recreating it',
        ...JOB_NOT_STARTED_MESSAGES,
      ],
      cause:
        'The API server refuses the Job, or the Job has no running pod (wrong image, quota, an admission webhook, a missing PriorityClass, not enough capacity), or its plan, its image or its Lease is out of date.',
      fix: 'Read the Events that the message names, and fix the cause. The Job, or the next one, then starts automatically.',
    },
  ]
}

/** Reasons about the ServiceAccount that a bucket is accessed with. */
function accountReasons(noun: string): Reason[] {
  return [
    {
      reason: 'InvalidAccess',
      messages: [
        'exactly one of <field>.credentialsSecretRef and <field>.serviceAccountName is required',
        'at most one of <field>.caSecretRef and <field>.caConfigMapRef is allowed',
      ],
      cause: 'The API server has a CRD of another release, which does not check this.',
      fix: 'Create another resource with one of the two fields, and update the CRDs.',
    },
    {
      reason: 'ServiceAccountNotFound',
      condition: NOT_COMPLETE,
      messages: ['ServiceAccount <namespace>/<name> not found'],
      cause: 'The ServiceAccount in serviceAccountName of the bucket does not exist.',
      fix: 'Create the ServiceAccount.',
    },
    {
      reason: 'ServiceAccountNotAllowed',
      condition: NOT_COMPLETE,
      messages: [
        'ServiceAccount <namespace>/<name> does not allow data Jobs: set its annotation vec-operator.dev/data-jobs to allow',
      ],
      cause:
        'Jobs run under a ServiceAccount only if it has the annotation: a user who may create backups may not be allowed to use its identity.',
      fix: `Run \`kubectl annotate serviceaccount <name> vec-operator.dev/data-jobs=allow\`; the ${noun} then starts automatically. A Job that was running is stopped, and another one continues.`,
    },
  ]
}

/** Reasons about the certificate authority that a bucket names. */
function authorityReasons(): Reason[] {
  return [
    {
      reason: 'ConfigMapNotFound',
      condition: NOT_COMPLETE,
      messages: ['<field>.caConfigMapRef: ConfigMap <namespace>/<name> not found'],
      cause: 'The ConfigMap with the certificate authority of the bucket does not exist.',
      fix: 'Create the ConfigMap.',
    },
    {
      reason: 'InvalidConfigMap',
      condition: NOT_COMPLETE,
      messages: ['<field>.caConfigMapRef: ConfigMap <namespace>/<name> has no value in key <key>'],
      cause: 'The key of the ConfigMap is missing or empty.',
      fix: 'Add the key.',
    },
    {
      reason: 'InvalidCertificate',
      condition: NOT_COMPLETE,
      messages: [
        '<field>.caSecretRef: Secret <namespace>/<name> has no valid certificate (PEM) in key <key>',
        '<field>.caConfigMapRef: ConfigMap <namespace>/<name> has no valid certificate (PEM) in key <key>',
      ],
      cause: 'The value is not a PEM certificate, or one of its certificates is damaged.',
      fix: 'Write the certificate of the authority, or several one after another, into the key.',
    },
  ]
}

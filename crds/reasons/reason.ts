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

export const NOT_COMPLETE = { type: 'Complete', status: 'False' } as const

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
      'this is a copy of a <kind> (uid <uid>) that ended as <state> at <time>, and is not run again: to run it, create another <kind> without the annotation vec-operator.dev/progress',
    ],
    cause:
      'A backup tool, or kubectl, created it again from a manifest with the report of the first one. It would put data of that day over those of today.',
    fix: `Nothing; or create another ${kind} without that annotation, if it shall run.`,
  }
}

const invalidEndpoint: Reason = {
  reason: 'EndpointNotUsable',
  messages: ['<field> is not an address: "<address>"'],
  cause:
    'The address has a character that no host name has, such as a space that was pasted with it.',
  fix: 'Create another resource with the right address; the escaped characters in the message are the wrong ones.',
}

export function dataJobReasons({ kind, noun, clusterField }: DataJobTerms): Reason[] {
  return [
    invalidEndpoint,
    {
      reason: 'ClusterBusy',
      condition: NOT_COMPLETE,
      messages: ['waits for <kind> <namespace>/<name>'],
      cause: 'Another resource works on this cluster, and the two must not overlap.',
      fix: 'Wait until the named resource has finished.',
    },
    {
      reason: 'ClusterNotFound',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> not found',
        'cluster <namespace>/<name> is being deleted',
      ],
      cause: `There is no VecCluster that ${clusterField} names.`,
      fix: `Make the cluster, or delete this ${kind}: its spec is immutable.`,
    },
    {
      reason: 'ClusterNotReady',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> is <phase>, not Running',
        'cluster <namespace>/<name>: <message of its condition Consensus>',
      ],
      cause: `A ${noun} needs every node of the cluster.`,
      fix: `Look at the VecCluster; the ${noun} goes on by itself.`,
    },
    {
      reason: 'RefNotPermitted',
      condition: NOT_COMPLETE,
      messages: [
        'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the cluster',
        'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the cluster, or set the chart value crossNamespace to open',
      ],
      cause: 'The cluster is in another namespace and does not allow this one to use it.',
      fix: `Add this namespace to the annotation vec-operator.dev/allow-from of the VecCluster, or install with crossNamespace: open; the ${noun} then starts by itself. A Job that was running is stopped, and another continues.`,
    },
    ...(kind === 'VecBackup' ? [] : [copiedResource(kind)]),
    {
      reason: 'SecretNotFound',
      condition: NOT_COMPLETE,
      messages: ['Secret <namespace>/<name> not found'],
      cause: 'Credentials of a bucket, or the key of an engine, are not there.',
      fix: 'Make the Secret that it names.',
    },
    {
      reason: 'InvalidSecret',
      condition: NOT_COMPLETE,
      messages: [
        'Secret <namespace>/<name> has no value in key <key>',
        'Secret <namespace>/<name> is of type <type>, which is not used as credentials: put them into a Secret of type Opaque',
      ],
      cause:
        'The Secret lacks a key, the key is empty, or the Secret is of a type that Kubernetes or Helm use for other purposes.',
      fix: `Write the key, or name another Secret in a new ${kind}.`,
    },
    {
      reason: 'JobSilent',
      condition: NOT_COMPLETE,
      event: 'Warning',
      messages: [
        'Job <name> has not reported for more than 10 minutes: check its pods and their nodes',
      ],
      cause:
        'A Job repeats its report every minute. Its pod hangs, cannot reach the API server, or is on a node that is lost.',
      fix: 'Look at the pods of the Job. Where the node is gone for good, delete the Node object (or the pod with --force once you know that it no longer runs): another pod goes on.',
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
      ],
      cause:
        'No pod of the Job came to work: a wrong image, a quota, a node that is full; or it is out of date.',
      fix: 'Look at the pods and Events of the Job; once mended, the next Job starts by itself.',
    },
  ]
}

/**
 * Every derived name: API group, annotations, releases, pods, Services, Secrets. No name is random. Also
 * hashes of collection names.
 */
import { hash } from 'node:crypto'

export const API_GROUP = 'vec-operator.dev'
export const API_VERSION = `${API_GROUP}/v1alpha1`

/** The chart's ClusterRole that allows a helm Job to manage the objects of the engine's chart. */
export const HELM_CLUSTER_ROLE = 'vec-operator-helm'

export const ANNOTATIONS = {
  /** Report of a Job (crds/contract/job.ts). */
  progress: `${API_GROUP}/progress`,
  /** The spec that the last successful helm run applied, as JSON. */
  lastAppliedSpec: `${API_GROUP}/last-applied-spec`,
  /** The service sets it on each VecCluster after startup: requests one helm run. */
  startMark: `${API_GROUP}/start-mark`,
  /** Comma-separated list of accepted risks: shard-loss, version-skip, downgrade. */
  acceptRisk: `${API_GROUP}/accept-risk`,
  /** On a CRD: the release of the operator it belongs to. */
  version: `${API_GROUP}/version`,
  /** On a Job: hash of its plan at creation. */
  plan: `${API_GROUP}/plan`,
  /** On a Job: its image at creation; admission may rewrite the image of its pods. */
  image: `${API_GROUP}/image`,
  /** On a Job: proof that this operator created it (hooks/job-signature.ts). */
  signature: `${API_GROUP}/signature`,
  /** `true`: any deletion of the resource, also by retention, retains the objects in the bucket. */
  retainObjects: `${API_GROUP}/retain-objects`,
  /** On a VecBackup that its schedule is about to delete: the reason. Its objects are deleted in any case. */
  pruned: `${API_GROUP}/pruned`,
  allowFrom: `${API_GROUP}/allow-from`,
  /** On a Lease: the queue of waiting resources (hooks/lease-queue.ts). */
  waiters: `${API_GROUP}/waiters`,
  /** On a Lease that a VecCluster holds: the number of its helm run. */
  run: `${API_GROUP}/run`,
  /** `manual` on a VecBackup that a user created from a schedule. */
  instantiate: `${API_GROUP}/instantiate`,
} as const

export const LABELS = {
  /** On a Job: the uid of the resource it works for. */
  parent: `${API_GROUP}/parent`,
  /** On a Job: the verb of its command. */
  verb: `${API_GROUP}/verb`,
  /** On a Job and its pods: the Helm release it works on. */
  release: `${API_GROUP}/release`,
  schedule: `${API_GROUP}/schedule`,
  managedBy: 'app.kubernetes.io/managed-by',
  component: 'app.kubernetes.io/component',
} as const

export const MANAGED_BY = 'vec-operator'

export const HTTP_PORT = 6333

/** First twelve hex digits of a SHA-256: enough to distinguish the names of one parent. */
export function shortHash(...parts: string[]): string {
  return hash('sha256', JSON.stringify(parts)).slice(0, 12)
}

/** Helm release, StatefulSet and client Service of a cluster. */
export function releaseName(cluster: string): string {
  return `vec-${cluster}`
}

/** Secret with the API key that the pods use; the engine's chart creates it. */
export function apiKeySecretName(cluster: string): string {
  return `${releaseName(cluster)}-apikey`
}

export const API_KEY_SECRET_KEY = 'api-key'

/** Host name of the client Service inside the Kubernetes cluster. */
export function serviceHost(cluster: string, namespace: string): string {
  return `${releaseName(cluster)}.${namespace}.svc.cluster.local`
}

/** Host name of one pod, by its ordinal. */
export function podHost(cluster: string, namespace: string, ordinal: number): string {
  const release = releaseName(cluster)
  return `${release}-${ordinal}.${release}-headless.${namespace}.svc.cluster.local`
}

/** Name of the n-th Job that runs `<kind> <verb>` for a resource. */
export function jobName(kind: string, verb: string, uid: string, run: number): string {
  return `${kind}-${verb}-${shortHash(uid, verb)}-${run}`
}

/** Lease of a cluster: `write` to rewrite collections, `backup` to take or read snapshots. */
export function leaseName(cluster: string, lease: 'write' | 'backup'): string {
  return `${releaseName(cluster)}-${lease}`
}

/** Copy of a Secret from another namespace, for one Job. */
export function secretCopyName(job: string, credential: string): string {
  return `${job}-${credential}`
}

/** Name of an image pull Secret among the credentials of a Job: its original name may already have the maximum length. */
export function pullSecretCredential(secret: string): string {
  return `pull-${shortHash(secret)}`
}

/** The text without any of these characters at its end. */
export function trimTrailing(text: string, characters: string): string {
  let end = text.length
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1
  return text.slice(0, end)
}

/** Six bytes of a SHA-256: eight letters of base64. */
const NAME_HASH_LENGTH = 8
/** Maximum number of names whose hashes fit. */
const MAX_HASHED_NAMES = 1000

export function nameHash(name: string): string {
  return hash('sha256', name, 'base64').slice(0, NAME_HASH_LENGTH)
}

/** Undefined for too many names. */
export function hashNames(names: readonly string[]): string | undefined {
  return names.length > MAX_HASHED_NAMES ? undefined : names.map(nameHash).join('')
}

/** Splits the hashes; an incomplete hash at the end is dropped. */
export function splitHashes(text = ''): string[] {
  return text.match(new RegExp(`.{${NAME_HASH_LENGTH}}`, 'g')) ?? []
}

/** Every name that is derived: API group, annotations, releases, pods, Services, Secrets. Nothing is random. */
import { hash } from 'node:crypto'

export const API_GROUP = 'vec-operator.dev'
export const API_VERSION = `${API_GROUP}/v1alpha1`

/** The chart's ClusterRole that lets a helm Job manage what the engine's chart renders. */
export const HELM_CLUSTER_ROLE = 'vec-operator-helm'

export const ANNOTATIONS = {
  /** What a Job reports (crds/contract/job.ts). */
  progress: `${API_GROUP}/progress`,
  /** The spec the last successful helm run applied, as JSON. */
  lastAppliedSpec: `${API_GROUP}/last-applied-spec`,
  /** Set by the service on each VecCluster after it starts: asks for one helm run. */
  startMark: `${API_GROUP}/start-mark`,
  /** A comma-separated list of the risks a person accepts: shard-loss, version-skip, downgrade. */
  acceptRisk: `${API_GROUP}/accept-risk`,
  /** On a CRD: the release of the operator it was made for. */
  version: `${API_GROUP}/version`,
  /** On a Job: hash of the plan it was made with. */
  plan: `${API_GROUP}/plan`,
  /** On a Job: the image it was created with; admission may have rewritten that of its pods. */
  image: `${API_GROUP}/image`,
  /** On a Job: proof that this operator created it (hooks/job-signature.ts). */
  signature: `${API_GROUP}/signature`,
  /** `true`: objects stay in the bucket whatever deletes the resource, retention included. */
  retainObjects: `${API_GROUP}/retain-objects`,
  /** On a VecBackup that its schedule is about to delete, and why: its objects go in any case. */
  pruned: `${API_GROUP}/pruned`,
  allowFrom: `${API_GROUP}/allow-from`,
  /** On a Lease: who waits for it, in order (hooks/lease-queue.ts). */
  waiters: `${API_GROUP}/waiters`,
  /** On a Lease that a VecCluster holds: number of the helm run it is held for. */
  run: `${API_GROUP}/run`,
  /** `manual` on a VecBackup that a person had made from a schedule. */
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

/** First twelve hex digits of a SHA-256: enough to keep the names of one parent apart. */
export function shortHash(...parts: string[]): string {
  return hash('sha256', JSON.stringify(parts)).slice(0, 12)
}

/** Helm release, StatefulSet and client Service of a cluster. */
export function releaseName(cluster: string): string {
  return `vec-${cluster}`
}

/** Secret with the key the pods run, made by the engine's chart. */
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

/** Lease of a cluster: `write` for who rewrites collections, `backup` for who takes or reads snapshots. */
export function leaseName(cluster: string, lease: 'write' | 'backup'): string {
  return `${releaseName(cluster)}-${lease}`
}

/** Copy of another namespace's Secret, made for one Job. */
export function secretCopyName(job: string, credential: string): string {
  return `${job}-${credential}`
}

/** Name of an image pull Secret among the credentials of a Job: its own may be as long as a name can be. */
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
/** Past so many names there is no room for their hashes. */
const MAX_HASHED_NAMES = 1000

export function nameHash(name: string): string {
  return hash('sha256', name, 'base64').slice(0, NAME_HASH_LENGTH)
}

/** Undefined where there are too many. */
export function hashNames(names: readonly string[]): string | undefined {
  return names.length > MAX_HASHED_NAMES ? undefined : names.map(nameHash).join('')
}

/** Each of them; what is cut at the end is left out. */
export function splitHashes(text = ''): string[] {
  return text.match(new RegExp(`.{${NAME_HASH_LENGTH}}`, 'g')) ?? []
}

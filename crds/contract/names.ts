/**
 * Every derived name: API group, annotations, releases, pods, Services, Secrets. No name is random. Also
 * hashes of collection names.
 */
import { hash } from 'node:crypto'

export const API_GROUP = 'vec-operator.dev'
export const API_VERSION = `${API_GROUP}/v1alpha1`

/** The chart's ClusterRole that allows a helm Job to manage the objects of the engine's chart. */
export const HELM_CLUSTER_ROLE = 'vec-operator-helm'

/** The chart's ClusterRole that allows a Job to remove the node of a lowered StatefulSet. */
export const SHARDS_CLUSTER_ROLE = 'vec-operator-shards'

export const ANNOTATIONS = {
  /** Report of a Job (crds/contract/job.ts). */
  progress: `${API_GROUP}/progress`,
  /** The spec that the last successful helm run applied, as JSON; without `config` if it is large. */
  lastAppliedSpec: `${API_GROUP}/last-applied-spec`,
  /** The service sets it on each VecCluster after startup: requests one helm run. */
  restartedAt: `${API_GROUP}/restarted-at`,
  /** Comma-separated list of accepted risks: shard-loss, fewer-replicas, last-copy, version-skip, downgrade, no-backup, split-brain. */
  acceptRisk: `${API_GROUP}/accept-risk`,
  /** `now` on a VecCluster: its maintenance windows do not count while it has the annotation. */
  maintenance: `${API_GROUP}/maintenance`,
  /** Another value restarts the nodes of a VecCluster one by one. */
  restart: `${API_GROUP}/restart`,
  /** On pods: they were restarted after this helm run to read their API keys again. */
  keysRead: `${API_GROUP}/keys-read-after-run`,
  /** On pods: hash of the certificate for which they were last restarted (hooks/cluster/certificate.ts). */
  certificate: `${API_GROUP}/certificate`,
  /** Comma-separated ordinals of nodes whose data is lost: they are replaced. */
  replace: `${API_GROUP}/replace`,
  /** On a CRD: the release of the operator it belongs to. */
  version: `${API_GROUP}/version`,
  /** On a Job: hash of its plan at creation. */
  plan: `${API_GROUP}/plan`,
  /** On a Job: its image at creation; admission may rewrite the image of its pods. */
  image: `${API_GROUP}/image`,
  /** On a Job: proof that this operator created it (hooks/request.ts). */
  signature: `${API_GROUP}/signature`,
  /** `true`: any deletion of the resource, also by retention, retains the objects in the bucket. */
  retainObjects: `${API_GROUP}/retain-objects`,
  /** On a VecBackup that its schedule is about to delete: the reason. Its objects are deleted in any case. */
  pruned: `${API_GROUP}/pruned`,
  /** Comma-separated namespaces, `*` for all: access to a VecCluster or a VecBackup (hooks/cross-namespace.ts). */
  allowedNamespaces: `${API_GROUP}/allowed-namespaces`,
  /** `allow` on a ServiceAccount: backups and restores of its namespace may run Jobs under it. */
  dataJobs: `${API_GROUP}/data-jobs`,
  /** On a Lease: the queue of waiting resources (hooks/lease.ts). */
  waiters: `${API_GROUP}/waiters`,
  /** On a Lease that a VecCluster holds: the number of its helm run. */
  run: `${API_GROUP}/run`,
  /** On the objects of a restore drill: `<VecBackup> <slot>`. */
  drill: `${API_GROUP}/drill`,
  /** `manual` on a VecBackup that a user created from a schedule. */
  instantiate: `${API_GROUP}/instantiate`,
} as const

/**
 * Annotations of the previous release that existing objects have. Each counts only if the object
 * does not have the annotation that replaces it. Remove with the next release.
 */
export const FORMER_ANNOTATIONS: Record<string, string> = {
  [ANNOTATIONS.allowedNamespaces]: `${API_GROUP}/allow-from`,
  [ANNOTATIONS.restartedAt]: `${API_GROUP}/start-mark`,
}

/** The value of an annotation, under its name or under the one that it had in the previous release. */
export function readAnnotation(
  annotations: Record<string, string> | undefined,
  name: string,
): string | undefined {
  const formerName = FORMER_ANNOTATIONS[name]
  return annotations?.[name] ?? (formerName === undefined ? undefined : annotations?.[formerName])
}

export const LABELS = {
  /** On a Job: the uid of the resource it works for. */
  parent: `${API_GROUP}/parent`,
  /** On a Job: the verb of its command. */
  verb: `${API_GROUP}/verb`,
  /** On a Job and its pods: the Helm release it works on. */
  release: `${API_GROUP}/release`,
  schedule: `${API_GROUP}/schedule`,
  /** On a volume claim: the ordinal of a pod whose peer was removed; its data must not start again. */
  removedPeer: `${API_GROUP}/removed-peer`,
  managedBy: 'app.kubernetes.io/managed-by',
  component: 'app.kubernetes.io/component',
} as const

/** On a pod of a StatefulSet, set by Kubernetes: the revision of its template. */
export const REVISION_LABEL = 'controller-revision-hash'

export const MANAGED_BY = 'vec-operator'

/** The Service of several replicas of the operator that leads to the one that answers hooks, and its Lease. */
export const LEADER_SUFFIX = '-leader'

export const HTTP_PORT = 6333

/** A DNS label, of at most 63 characters: the pattern does not limit the length. */
export const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
/** A DNS name, of at most 253 characters. */
export const DNS_NAME = `${DNS_LABEL}(\\.${DNS_LABEL})*`

const MAX_DNS_LABEL = 63
const MAX_DNS_NAME = 253

export function isDnsLabel(text: string): boolean {
  return text.length <= MAX_DNS_LABEL && new RegExp(`^${DNS_LABEL}$`).test(text)
}

export function isDnsName(text: string): boolean {
  return text.length <= MAX_DNS_NAME && new RegExp(`^${DNS_NAME}$`).test(text)
}

/** The number at the end of a name, such as the ordinal of a pod or the run of a Job. */
export function trailingNumber(name: string): number {
  return Number(name.slice(name.lastIndexOf('-') + 1))
}

/** Whether a pod of the StatefulSet of a release has this name. Other pods may have its labels. */
export function isPodOfRelease(name: string, release: string): boolean {
  return name === `${release}-${trailingNumber(name)}`
}

/** First twelve hex digits of a SHA-256: enough to distinguish the names of one parent. */
export function shortHash(...parts: string[]): string {
  return hash('sha256', JSON.stringify(parts)).slice(0, 12)
}

/** Helm release, StatefulSet and client Service of a cluster. */
export function releaseName(cluster: string): string {
  return `vec-${cluster}`
}

/** The cluster of a helm release; empty for a name that is none. */
export function clusterOfRelease(release: string): string {
  const prefix = releaseName('')
  return release.startsWith(prefix) ? release.slice(prefix.length) : ''
}

/** Where Jobs find mounted credentials: one folder for each. */
export const CREDENTIALS_FOLDER = '/var/run/vec'

/** Secret with the API key that the pods use; the engine's chart creates it. */
export function apiKeySecretName(cluster: string): string {
  return `${releaseName(cluster)}-apikey`
}

/**
 * ConfigMap that records that the cluster was formed. The dot keeps it apart from the ConfigMap of any
 * release: the names of clusters have none.
 */
export function formationConfigMapName(cluster: string): string {
  return `${releaseName(cluster)}.formed`
}

/** Secret with the successor of a StatefulSet that is being replaced; named like the ConfigMap above. */
export function statefulSetRecordName(cluster: string): string {
  return `${releaseName(cluster)}.statefulset`
}

/** Secret with the keys that nodes accept during a rotation; named like the ConfigMap above. */
export function keysSecretName(cluster: string): string {
  return `${releaseName(cluster)}.keys`
}

/** Key of the ConfigMap: the number of nodes. */
export const FORMATION_NODES_KEY = 'nodes'

/** The chart's annotation of pods: the checksum of the Secret with the API key. */
export const SECRET_CHECKSUM = 'checksum/secret'

export const API_KEY_SECRET_KEY = 'api-key'

/** DNS domain of most Kubernetes clusters. */
export const DEFAULT_CLUSTER_DOMAIN = 'cluster.local'

interface ClusterName {
  name: string
  namespace: string
}

/** Host name of the client Service inside the Kubernetes cluster with this DNS domain. */
export function serviceHost({ name, namespace }: ClusterName, domain: string): string {
  return `${releaseName(name)}.${namespace}.svc.${domain}`
}

/** Host name of one pod, by its ordinal. */
export function podHost({ name, namespace }: ClusterName, ordinal: number, domain: string): string {
  const release = releaseName(name)
  return `${release}-${ordinal}.${release}-headless.${namespace}.svc.${domain}`
}

/** PersistentVolumeClaim of one pod, as the StatefulSet controller names it. */
export function claimName(template: string, release: string, ordinal: number): string {
  return `${template}-${release}-${ordinal}`
}

/** A name that is also the value of a label. */
const MAX_NAME = 63
/**
 * What is left of it for the name of the resource: a Job name ends in `-migration-` and up to six
 * digits with the hash of the uid between them, and the Job controller appends six characters for each
 * pod.
 */
const MAX_JOB_STEM = 34
const UID_HASH_LENGTH = 5

export interface JobNameParts {
  /** Name of the resource that the Job works for. */
  resource: string
  uid: string
  /** Command of the job image: `<kind> <verb>`. */
  kind: string
  verb: string
  run: number
}

/**
 * Name of the n-th Job of a resource: `docs-before-upgrade-backup-5f6bd-1`, `docs-upgrade-0c2b9-2`. The
 * hash of the uid keeps it apart from the Jobs of a former resource of that name, which may still exist:
 * Metacontroller does not create a child whose name is taken, and does not report it.
 *
 * Jobs of earlier releases are named `<kind>-<verb>-<hash of the uid>-<n>`. Existing Jobs are found
 * by their labels, and both names end in the number, so a release continues the Jobs of the one
 * before it.
 */
export function jobName({ resource, uid, kind, verb, run }: JobNameParts): string {
  const command = verb === 'run' ? kind : verb
  const hash = shortHash(uid).slice(0, UID_HASH_LENGTH)
  return `${shortened(resource, MAX_JOB_STEM)}-${command}-${hash}-${run}`
}

/**
 * Cuts a name of this length or more to exactly this length, with a hash of the whole name at the
 * end. A name that is not cut is shorter, so it never equals one that is.
 */
function shortened(name: string, length: number): string {
  if (name.length < length) return name
  const end = `-${shortHash(name)}`
  // The cut may be next to a dot, which no other part of a name may follow.
  return name.slice(0, length - end.length).replaceAll('.', '-') + end
}

/** Lease of a cluster: `write` to rewrite collections, `backup` to take or read snapshots. */
export function leaseName(cluster: string, lease: 'write' | 'backup'): string {
  return `${releaseName(cluster)}-${lease}`
}

/** Copy of a Secret from another namespace, for one Job. */
export function secretCopyName(job: string, credential: string): string {
  const end = `-${credential}`
  return shortened(job, MAX_NAME - end.length) + end
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
export const MAX_HASHED_NAMES = 1000

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

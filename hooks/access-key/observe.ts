/**
 * Reads the state a decision about a VecAccessKey is based on. Also the key that signs tokens: the one in the Secret that
 * the pods of a cluster read, if a helm run has put it there. Nodes refuse the tokens of a key that another writer has
 * left in that Secret.
 */
import type { VecAccessKey } from '../../crds/access-key.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { type KubernetesEvent, type Secret, secretValue } from '../../crds/kubernetes.ts'
import { isNamespaceWatched } from '../cross-namespace.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { objectsOf, relatedClusters } from '../request.ts'
import { keyFingerprint } from '../../crds/contract/api-keys.ts'
import { requiresApiKey } from '../../crds/contract/connection.ts'
import { type AppliedRelease, parseProgress } from '../../crds/contract/job.ts'
import { ANNOTATIONS, API_KEY_SECRET_KEY, apiKeySecretName } from '../../crds/contract/names.ts'

export interface Observed extends SigningKey {
  accessKey: VecAccessKey
  cluster?: VecCluster
  /** The owned Secrets in Metacontroller's cache. */
  children: Secret[]
  /** A Secret with the desired name that is not among the children, read live. */
  liveSecret?: Secret
}

export async function observe(
  request: HookRequest<VecAccessKey>,
  ports: AccessKeyPorts,
  { settings }: Context,
): Promise<Observed> {
  const accessKey = request.parent
  const children = objectsOf<Secret>(request.children, 'Secret.v1')
  const [cluster] = relatedClusters(request.related)
  const isWatched =
    cluster !== undefined && isNamespaceWatched(settings, cluster.metadata.namespace)
  const key = isWatched ? await readSigningKey(cluster, ports) : {}
  const name = secretNameOf(accessKey)
  const isCached = children.some(({ metadata }) => metadata.name === name)
  const liveSecret = isCached
    ? undefined
    : await ports.liveSecret(accessKey.metadata.namespace, name)
  return {
    accessKey,
    children,
    ...(cluster !== undefined && { cluster }),
    ...key,
    ...(liveSecret !== undefined && { liveSecret }),
  }
}

export function secretNameOf({ metadata, spec }: VecAccessKey): string {
  return spec.secretName ?? metadata.name
}

/** Secrets are also read live: one of another owner is never changed. */
export interface AccessKeyPorts extends SigningKeyPorts {
  /** Writes an Event; an Event that exists or cannot be written is not an error. */
  writeEvent(event: KubernetesEvent): Promise<void>
}

interface SigningKey {
  /** Absent until helm has run. */
  signingKey?: string
  /** Why the key that there is does not sign. */
  unusableKey?: 'unreported' | 'unaccepted' | 'foreign'
}

interface SigningKeyPorts {
  /** A Secret, at most 60 s old; undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** A Secret, read live. */
  liveSecret(namespace: string, name: string): Promise<Secret | undefined>
}

export async function readSigningKey(
  cluster: VecCluster,
  ports: SigningKeyPorts,
): Promise<SigningKey> {
  const { metadata, spec } = cluster
  if (!requiresApiKey(spec)) return {}
  const { namespace, name } = metadata
  const progress = parseProgress(metadata.annotations?.[ANNOTATIONS.progress], metadata.uid)
  const applied = progress?.applied
  const secretName = apiKeySecretName(name)
  const cached = secretValue(await ports.secret(namespace, secretName), API_KEY_SECRET_KEY)
  if (cached === undefined) return {}
  if (applied === undefined) return { unusableKey: 'unreported' }
  // The spec may ask for tokens, and the nodes not accept them yet.
  if (applied.jwtRbac === false) return { unusableKey: 'unaccepted' }
  if (isReported(cached, applied)) return { signingKey: cached }
  // A helm run may have written the Secret since it was cached.
  const live = secretValue(await ports.liveSecret(namespace, secretName), API_KEY_SECRET_KEY)
  if (live === undefined) return {}
  if (isReported(live, applied)) return { signingKey: live }
  // A run that was killed has published the key of the spec, and leaves no report.
  if (live === (await keyOfSpec(cluster, ports))) return { signingKey: live }
  return { unusableKey: progress?.state === 'Started' ? 'unreported' : 'foreign' }
}

/** Nodes accept every key of a rotation, also one that a run published before it was killed. */
function isReported(key: string, { publishedKey, keys }: AppliedRelease): boolean {
  // Runs of an earlier release of the operator did not report it.
  if (publishedKey === undefined && keys === undefined) return true
  const fingerprint = keyFingerprint(key)
  return [publishedKey, keys?.published, keys?.former, ...(keys?.accepted ?? [])].includes(
    fingerprint,
  )
}

async function keyOfSpec(
  { metadata, spec }: VecCluster,
  ports: SigningKeyPorts,
): Promise<string | undefined> {
  const source = spec.apiKey?.secretRef
  return source && secretValue(await ports.secret(metadata.namespace, source.name), source.key)
}

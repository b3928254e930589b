/** Reads the state a decision about a VecAccessKey is based on. */
import type { VecAccessKey } from '../../crds/access-key.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { requiresApiKey } from '../../crds/contract/connection.ts'
import { API_KEY_SECRET_KEY, apiKeySecretName } from '../../crds/contract/names.ts'
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import { isNamespaceWatched } from '../cross-namespace.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { objectsOf, relatedClusters } from '../request.ts'

export interface Observed {
  accessKey: VecAccessKey
  cluster?: VecCluster
  /** The signing key, as the pods use it; absent until helm has run. */
  signingKey?: string
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
  const signingKey = isWatched ? await readSigningKey(cluster, ports) : undefined
  const name = secretNameOf(accessKey)
  const isCached = children.some(({ metadata }) => metadata.name === name)
  const liveSecret = isCached
    ? undefined
    : await ports.liveSecret(accessKey.metadata.namespace, name)
  return {
    accessKey,
    children,
    ...(cluster !== undefined && { cluster }),
    ...(signingKey !== undefined && { signingKey }),
    ...(liveSecret !== undefined && { liveSecret }),
  }
}

export function secretNameOf({ metadata, spec }: VecAccessKey): string {
  return spec.secretName ?? metadata.name
}

async function readSigningKey(
  { metadata, spec }: VecCluster,
  ports: AccessKeyPorts,
): Promise<string | undefined> {
  if (!requiresApiKey(spec)) return undefined
  const secret = await ports.secret(metadata.namespace, apiKeySecretName(metadata.name))
  const encoded = secret?.data?.[API_KEY_SECRET_KEY]
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString()
}

export interface AccessKeyPorts {
  /** A Secret, at most 60 s old; undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** A Secret, read live: a Secret of another owner is never changed. */
  liveSecret(namespace: string, name: string): Promise<Secret | undefined>
  /** Writes an Event; an Event that exists or cannot be written is not an error. */
  writeEvent(event: KubernetesEvent): Promise<void>
}

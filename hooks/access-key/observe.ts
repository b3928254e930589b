/** Reads the state a decision about a VecAccessKey is based on. */
import type { VecAccessKey } from '../../crds/access-key.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import { isNamespaceWatched } from '../cross-namespace.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { objectsOf, relatedClusters } from '../request.ts'
import { readSigningKey, type SigningKey, type SigningKeyPorts } from './signing-key.ts'

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

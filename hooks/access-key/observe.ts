/** Reads what a decision about a VecAccessKey may know. */
import type { VecAccessKey } from '../../crds/access-key.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { hasKey } from '../../crds/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { KEY_SECRET_KEY, keySecretName } from '../../crds/names.ts'
import { clustersIn, objectsOf } from '../observations.ts'
import type { Context, HookRequest } from '../protocol.ts'
import { serves } from '../served.ts'
import type { AccessKeyPorts } from './ports.ts'

export interface Observed {
  accessKey: VecAccessKey
  cluster?: VecCluster
  /** The key the pods run, which signs; absent until helm has run. */
  signingKey?: string
  /** Our Secrets as Metacontroller shows them. */
  children: Secret[]
  /** A Secret of the wanted name that is not among the children, read live. */
  other?: Secret
}

export async function observe(
  request: HookRequest<VecAccessKey>,
  ports: AccessKeyPorts,
  { settings }: Context,
): Promise<Observed> {
  const accessKey = request.parent
  const children = objectsOf<Secret>(request.children, 'Secret.v1')
  const [cluster] = clustersIn(request.related)
  const isReachable = cluster !== undefined && serves(settings, cluster.metadata.namespace)
  const signingKey = isReachable ? await signingKeyOf(cluster, ports) : undefined
  const name = secretNameOf(accessKey)
  const isThere = children.some(({ metadata }) => metadata.name === name)
  const other = isThere ? undefined : await ports.liveSecret(accessKey.metadata.namespace, name)
  return {
    accessKey,
    children,
    ...(cluster !== undefined && { cluster }),
    ...(signingKey !== undefined && { signingKey }),
    ...(other !== undefined && { other }),
  }
}

export function secretNameOf({ metadata, spec }: VecAccessKey): string {
  return spec.secretName ?? metadata.name
}

async function signingKeyOf(
  { metadata, spec }: VecCluster,
  ports: AccessKeyPorts,
): Promise<string | undefined> {
  if (!hasKey(spec)) return undefined
  const secret = await ports.secret(metadata.namespace, keySecretName(metadata.name))
  const encoded = secret?.data?.[KEY_SECRET_KEY]
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString()
}

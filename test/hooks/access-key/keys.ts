/** Access keys and what is observed of them; a test states only what it is about. */
import type { AccessKeySpec, VecAccessKey } from '../../../crds/access-key.ts'
import type { ClusterSpec, VecCluster } from '../../../crds/cluster.ts'
import { keyFingerprint } from '../../../crds/contract/api-keys.ts'
import type { AppliedRelease, Progress } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Secret } from '../../../crds/kubernetes.ts'
import type { Observed } from '../../../hooks/access-key/observe.ts'
import { sync } from '../../../hooks/access-key/sync.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { applied, cluster, context, NOW, progress, resource } from '../../builders.ts'

type ApiKeySpec = NonNullable<ClusterSpec['apiKey']>

export const KEY = 'a-signing-key-of-thirty-two-bytes'

export function accessKey(spec: Partial<AccessKeySpec> = { access: 'r' }): VecAccessKey {
  return resource('VecAccessKey', { clusterRef: { name: 'a' }, ...spec }, { name: 'reader' })
}

/** The last helm run of this cluster has reported this. */
export function reportedCluster(
  release: Partial<AppliedRelease> | undefined,
  apiKey: ApiKeySpec = { autoGenerate: true, jwtRbac: true },
  state: Progress['state'] = 'Done',
): VecCluster {
  const report = progress({ state, ...(release && { applied: applied(release) }) })
  return cluster({
    spec: { apiKey },
    annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) },
  })
}

export const jwtCluster = reportedCluster({ publishedKey: keyFingerprint(KEY) })

export function observed(overrides: Partial<Observed> = {}): Observed {
  return {
    accessKey: accessKey(),
    cluster: jwtCluster,
    signingKey: KEY,
    children: [],
    ...overrides,
  }
}

/** The Secret of an answer, as the API server shows it afterwards. */
export function storedSecret(desired: Desired<unknown>): Secret {
  const [child] = desired.children
  return { ...child, metadata: { ...child?.metadata, namespace: 'ns' } } as Secret
}

export function readToken({ data }: Secret): string {
  return Buffer.from(data?.['token'] ?? '', 'base64').toString()
}

export async function syncTwice(overrides: Partial<Observed> = {}, now = NOW) {
  const first = await sync(observed(overrides), { ...context, now })
  return sync(observed({ ...overrides, children: [storedSecret(first)] }), { ...context, now })
}

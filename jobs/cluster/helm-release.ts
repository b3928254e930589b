/**
 * A Helm release between two runs: waits for other pods that work on it, and repairs what a killed
 * helm has left behind.
 */
import { Type, type Static } from '@sinclair/typebox'
import { AnyObject, type StatefulSet } from '../../crds/kubernetes.ts'
import { LABELS } from '../../crds/contract/names.ts'
import { pods, secrets } from '../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../dependencies.ts'
import { poll } from '../retry.ts'

/** How long another pod may take to end: helm's own timeout plus the grace period of its pod. */
const OTHER_PODS_TIMEOUT_MS = 900_000
const OTHER_PODS_POLL_MS = 5_000

const Pod = Type.Composite([
  AnyObject,
  Type.Object({ status: Type.Optional(Type.Object({ phase: Type.Optional(Type.String()) })) }),
])

/** Other pods still work on the release after the longest time they could need. */
export class ReleaseInUse extends Error {
  readonly code = 'ReleaseBusy'
}

/**
 * Waits until no other pod works on the release. Two helm processes would write the same revision,
 * and a pending release may be repaired only if no pod is about to finish it.
 */
export async function waitForOtherPods(release: string, namespace: string, tools: Dependencies) {
  const { time, log, signal } = tools
  const deadline = time.monotonicMs() + OTHER_PODS_TIMEOUT_MS
  await poll({ time, signal, pauseMs: OTHER_PODS_POLL_MS }, async () => {
    const otherPods = await activePods(release, namespace, tools)
    if (otherPods.length === 0) return true
    if (time.monotonicMs() > deadline) {
      throw new ReleaseInUse(`${otherPods.join(', ')} still works on release ${release}`)
    }
    log.info({ release, pods: otherPods }, 'waiting for other pods of this release')
    return undefined
  })
}

/**
 * A killed helm leaves its release pending, and helm then refuses every further run. Once the
 * record of that revision is deleted, helm continues from the last complete revision.
 */
export async function clearPendingRelease(
  release: string,
  namespace: string,
  { kubernetes, log }: Dependencies,
) {
  const apiResource = secrets(namespace)
  const labelSelector = `owner=helm,name=${release},status in (${PENDING_STATUSES.join(',')})`
  for (const { metadata } of await kubernetes.list(apiResource, AnyObject, { labelSelector })) {
    log.warn(
      { release, secret: metadata.name, status: metadata.labels?.['status'] },
      'deleting the pending revision of a killed helm',
    )
    await kubernetes.delete(apiResource, metadata.name, uidPrecondition(metadata))
  }
}

/** helm marks the objects of a release, and imports none without these marks. */
export function isOfRelease(
  { metadata: { annotations = {} } }: Pick<StatefulSet, 'metadata'>,
  { release, namespace }: { release: string; namespace: string },
): boolean {
  return (
    annotations['meta.helm.sh/release-name'] === release &&
    annotations['meta.helm.sh/release-namespace'] === namespace
  )
}

/**
 * A release of this name that was not installed for this VecCluster: it is deployed, no helm run has been reported as
 * applied, and there is no StatefulSet. helm would remove all objects of that release.
 */
export async function isForeignRelease(
  { release, namespace }: { release: string; namespace: string },
  live: object | undefined,
  { kubernetes, reporter }: Pick<Dependencies, 'kubernetes' | 'reporter'>,
): Promise<boolean> {
  if (live !== undefined || reporter.previous?.applied !== undefined) return false
  const labelSelector = `owner=helm,name=${release},status=deployed`
  const found = await kubernetes.list(secrets(namespace), AnyObject, { labelSelector })
  return found.length > 0
}

const PENDING_STATUSES = ['pending-install', 'pending-upgrade', 'pending-rollback']

async function activePods(
  release: string,
  namespace: string,
  { kubernetes, podUid: runner }: Dependencies,
) {
  const found = await kubernetes.list(pods(namespace), Pod, {
    labelSelector: `${LABELS.release}=${release}`,
  })
  return found
    .filter(({ metadata, status }) => metadata.uid !== runner && !isFinished(status?.phase))
    .map(({ metadata }) => metadata.name)
}

function isFinished(phase: string | undefined): boolean {
  return phase === 'Succeeded' || phase === 'Failed'
}

function uidPrecondition({ uid }: Static<typeof AnyObject>['metadata']) {
  return uid === undefined ? {} : { uid }
}

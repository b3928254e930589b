/**
 * Checks an installation, for `helm test`: the CompositeControllers and the hooks that they name
 * (hook-check.ts), and that Metacontroller reconciles and deletes a resource with them. The
 * arguments are the plurals of the installed kinds.
 */
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Type } from '@sinclair/typebox'
import { VecCollection } from '../crds/collection.ts'
import { API_VERSION } from '../crds/contract/names.ts'
import type { NamespacedName } from '../crds/schema.ts'
import { errorMessage } from '../jobs/clients/http/request.ts'
import { collections } from '../jobs/clients/kubernetes/api-resources.ts'
import { Kubernetes, inClusterAccess } from '../jobs/clients/kubernetes/client.ts'
import { systemClock } from '../jobs/clock.ts'
import { jobLog } from '../jobs/log.ts'
import { poll } from '../jobs/retry.ts'
import { hookErrors, type HookCheck } from './hook-check.ts'

/** Longer than the name of a VecCluster may be (48 characters): such a cluster cannot exist. */
export const IMPOSSIBLE_CLUSTER =
  'helm-test-names-a-cluster-that-cannot-exist-as-its-name-is-too-long'

const LiveCollection = Type.Object({
  metadata: Type.Object({
    generation: Type.Integer(),
    finalizers: Type.Optional(Type.Array(Type.String())),
  }),
  status: Type.Optional(
    Type.Object({
      phase: Type.Optional(Type.String()),
      observedGeneration: Type.Optional(Type.Integer()),
    }),
  ),
})

/** Together with that of the hooks less than the deadline of the pod (chart/templates/install-check.yaml). */
const RECONCILE_TIMEOUT_MS = 90_000
const DELETION_TIMEOUT_MS = 60_000
const POLL_MS = 1_000

export interface InstallCheck extends HookCheck {
  kubernetes: Pick<Kubernetes, 'get' | 'create' | 'delete'>
}

export interface Installation {
  /** Where Metacontroller calls the hooks of this release. */
  url: string
  /** Plurals of the installed kinds. */
  kinds: readonly string[]
  /** A namespace that the operator watches; undefined if VecCollection is not installed. */
  namespace?: string | undefined
}

/** Whether the installation works, and the report for the user. */
export async function checkInstallation(
  check: InstallCheck,
  { url, kinds, namespace }: Installation,
): Promise<{ passed: boolean; report: string }> {
  const errors = await hookErrors(check, { url, kinds }).catch((error: unknown) => [
    errorMessage(error),
  ])
  // Without hooks the resource would only wait.
  if (errors.length === 0 && namespace !== undefined)
    errors.push(...(await reconcileErrors(check, namespace)))
  if (errors.length > 0) return { passed: false, report: `${errors.join('\n')}\n` }
  const lines = [
    `${kinds.length} CompositeControllers call the hooks at ${url}, which reject a wrong token`,
    namespace === undefined
      ? 'not checked: whether Metacontroller calls the hooks, because "kinds" has no veccollections'
      : `Metacontroller reconciled and deleted a VecCollection in the namespace ${namespace}`,
  ]
  return { passed: true, report: `${lines.join('\n')}\n` }
}

/** Creates a VecCollection that changes nothing, waits for its status, and deletes it in any case. */
export async function reconcileErrors(check: InstallCheck, namespace: string): Promise<string[]> {
  const name = `helm-test-${randomBytes(6).toString('hex')}`
  const object = { namespace, name }
  const errors: string[] = []
  try {
    await check.kubernetes.create(collections(namespace), waitingCollection(object))
    await waitForStatus(check, object)
  } catch (error) {
    errors.push(errorMessage(error))
  }
  // Also if the answer to the creation was lost: the name is random, so the resource is ours.
  await remove(check, object).catch((error: unknown) => errors.push(errorMessage(error)))
  return errors.map((error) => `VecCollection ${namespace}/${name}: ${error}`)
}

async function waitForStatus(
  { kubernetes, time, signal }: InstallCheck,
  { namespace, name }: NamespacedName,
): Promise<void> {
  await poll({ time, signal, pauseMs: POLL_MS }, async ({ waitedMs }) => {
    const live = await kubernetes.get(collections(namespace), name, LiveCollection)
    if (live === undefined) throw new Error('it was deleted by another client during the check')
    const { phase, observedGeneration } = live.status ?? {}
    if (phase !== undefined && observedGeneration === live.metadata.generation) return true
    if (waitedMs() < RECONCILE_TIMEOUT_MS) return undefined
    const missing = phase === undefined ? 'status.phase' : 'status.observedGeneration'
    throw new Error(
      `no ${missing} of its generation after ${RECONCILE_TIMEOUT_MS / 1000} s: Metacontroller does not run, does not call the hooks, or rejects their answers; see its log`,
    )
  })
}

/** Without the signal: a process that was asked to end deletes what it created. */
async function remove(
  { kubernetes, time }: InstallCheck,
  { namespace, name }: NamespacedName,
): Promise<void> {
  await kubernetes.delete(collections(namespace), name)
  await poll({ time, pauseMs: POLL_MS }, async ({ waitedMs }) => {
    const live = await kubernetes.get(collections(namespace), name, LiveCollection)
    if (live === undefined) return true
    if (waitedMs() < DELETION_TIMEOUT_MS) return undefined
    const { finalizers = [] } = live.metadata
    throw new Error(
      `it still exists ${DELETION_TIMEOUT_MS / 1000} s after its deletion, with the finalizers [${finalizers.join(', ')}], which only the running operator removes`,
    )
  })
}

/** It waits for its cluster; `Retain` because nothing may be deleted in any engine. */
function waitingCollection(metadata: NamespacedName): object {
  return {
    apiVersion: API_VERSION,
    kind: VecCollection.kind,
    metadata,
    spec: {
      clusterRef: { name: IMPOSSIBLE_CLUSTER },
      vectors: [{ size: 1, distance: 'Dot' }],
      deletionPolicy: 'Retain',
    },
  }
}

if (import.meta.main) {
  const options = { url: { type: 'string' }, namespace: { type: 'string' } } as const
  const { values, positionals: kinds } = parseArgs({ options, allowPositionals: true })
  const { url = '', namespace } = values
  const stop = new AbortController()
  process.once('SIGTERM', () => stop.abort(new Error('stopped by SIGTERM')))
  const kubernetes = new Kubernetes(inClusterAccess(), jobLog())
  const { passed, report } = await checkInstallation(
    { kubernetes, time: systemClock, signal: stop.signal },
    { url, kinds, namespace },
  )
  process.stdout.write(report)
  process.exitCode = passed ? 0 : 1
}

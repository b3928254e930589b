/**
 * Checks whether the operator can be uninstalled or can stop serving some kinds: lists the
 * resources whose finalizer nothing else would remove. The chart runs it before `helm uninstall`
 * deletes anything, and before an upgrade that removes kinds from the value `kinds`. The arguments
 * are the plurals of the kinds to check; the default is all.
 */
import { Type, type Static } from '@sinclair/typebox'
import { KubernetesError } from '../crds/contract/errors.ts'
import { API_VERSION } from '../crds/contract/names.ts'
import { RESOURCES } from '../crds/crd.ts'
import { Kubernetes, inClusterAccess } from '../jobs/clients/kubernetes/client.ts'
import { jobLog } from '../jobs/log.ts'
import { finalizerName } from './controllers.ts'

/** Maximum number of resources in the message; there may be thousands. */
const MAX_LISTED = 20

const ResourceWithFinalizers = Type.Object({
  metadata: Type.Object({
    name: Type.String(),
    namespace: Type.String(),
    finalizers: Type.Optional(Type.Array(Type.String())),
  }),
})

/**
 * Resources of these kinds with the finalizer of Metacontroller, as `VecCluster namespace/name`.
 */
export async function resourcesWithFinalizer(
  kubernetes: Pick<Kubernetes, 'list'>,
  plurals: readonly string[] = RESOURCES.map(({ plural }) => plural),
): Promise<string[]> {
  const remaining: string[] = []
  for (const { kind, plural } of RESOURCES) {
    if (!plurals.includes(plural)) continue
    for (const { metadata } of await listAll(kubernetes, plural)) {
      const { namespace, name, finalizers = [] } = metadata
      if (finalizers.includes(finalizerName(plural))) remaining.push(`${kind} ${namespace}/${name}`)
    }
  }
  return remaining
}

/** Message for the user who uninstalls. */
export function uninstallMessage(remaining: readonly string[]): string {
  if (remaining.length === 0) return 'no resource is left that needs the operator\n'
  const omitted = remaining.length - MAX_LISTED
  return [
    `${remaining.length} resources have a finalizer that only the running operator removes:`,
    ...remaining.slice(0, MAX_LISTED).map((name) => `  ${name}`),
    ...(omitted > 0 ? [`  and ${omitted} more`] : []),
    'Delete them first; "--no-hooks" of helm leaves them as they are.',
    '',
  ].join('\n')
}

async function listAll(
  kubernetes: Pick<Kubernetes, 'list'>,
  plural: string,
): Promise<Static<typeof ResourceWithFinalizers>[]> {
  try {
    return await kubernetes.list({ apiVersion: API_VERSION, plural }, ResourceWithFinalizers)
  } catch (error) {
    // The CRD was deleted, and all its resources with it.
    if (error instanceof KubernetesError && error.status === 404) return []
    throw error
  }
}

if (import.meta.main) {
  const plurals = process.argv.slice(2)
  const kubernetes = new Kubernetes(inClusterAccess(), jobLog())
  const remaining = await resourcesWithFinalizer(
    kubernetes,
    plurals.length > 0 ? plurals : undefined,
  )
  process.stdout.write(uninstallMessage(remaining))
  process.exitCode = remaining.length === 0 ? 0 : 1
}

/**
 * Whether the operator may be uninstalled, or stop serving some kinds: lists the resources that would be
 * left with a finalizer that nothing removes. The chart runs it before `helm uninstall` deletes anything,
 * and before an upgrade that takes kinds out of the value `kinds`; their plurals are its arguments.
 */
import { Type, type Static } from '@sinclair/typebox'
import { KubernetesError } from '../crds/errors.ts'
import { API_VERSION } from '../crds/names.ts'
import { RESOURCES } from '../crds/resources.ts'
import { Kubernetes, podAccess } from '../jobs/clients/kubernetes.ts'
import { jobLog } from '../jobs/log.ts'
import { finalizerOf } from './controllers.ts'

/** Of what may be thousands, so many are named. */
const NAMED = 20

const Held = Type.Object({
  metadata: Type.Object({
    name: Type.String(),
    namespace: Type.String(),
    finalizers: Type.Optional(Type.Array(Type.String())),
  }),
})

/** Resources of these kinds that Metacontroller holds for us, as `VecCluster namespace/name`. */
export async function heldResources(
  kubernetes: Pick<Kubernetes, 'list'>,
  plurals: readonly string[] = RESOURCES.map(({ plural }) => plural),
): Promise<string[]> {
  const held: string[] = []
  for (const { kind, plural } of RESOURCES) {
    if (!plurals.includes(plural)) continue
    for (const { metadata } of await everywhere(kubernetes, plural)) {
      const { namespace, name, finalizers = [] } = metadata
      if (finalizers.includes(finalizerOf(plural))) held.push(`${kind} ${namespace}/${name}`)
    }
  }
  return held
}

/** What a person who wants to uninstall is told. */
export function verdict(held: readonly string[]): string {
  if (held.length === 0) return 'no resource is left that needs the operator\n'
  const rest = held.length - NAMED
  return [
    `${held.length} resources have a finalizer that only the running operator takes off:`,
    ...held.slice(0, NAMED).map((name) => `  ${name}`),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
    'Delete them first; "--no-hooks" of helm leaves them as they are.',
    '',
  ].join('\n')
}

async function everywhere(
  kubernetes: Pick<Kubernetes, 'list'>,
  plural: string,
): Promise<Static<typeof Held>[]> {
  try {
    return await kubernetes.list({ apiVersion: API_VERSION, plural }, Held)
  } catch (error) {
    // Its CRD was deleted, and all resources with it.
    if (error instanceof KubernetesError && error.status === 404) return []
    throw error
  }
}

if (import.meta.main) {
  const plurals = process.argv.slice(2)
  const kubernetes = new Kubernetes(podAccess(), jobLog())
  const held = await heldResources(kubernetes, plurals.length > 0 ? plurals : undefined)
  process.stdout.write(verdict(held))
  process.exitCode = held.length === 0 ? 0 : 1
}

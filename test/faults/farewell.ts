/** The end of the load: deletes every resource and waits until nothing that the operator owns remains. */
import { RESOURCES } from '../../crds/crd.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { BOUND_SECONDS, find, until } from './load.ts'
import { COLLECTION, NAMESPACE, reference } from './resources.ts'
import type { FaultWorld } from './world.ts'

/** Clusters last: the deletion of the other resources needs them. */
const DEPARTURES: [string, string][][] = [
  [
    ['VecMigration', 'copy'],
    ['VecRestore', 'back'],
    ['VecRestore', 'again'],
    ['VecBackupSchedule', 'often'],
    ['VecBackup', 'one'],
    ['VecBackup', 'shards'],
    ['VecAccessKey', 'reader'],
    ['VecCollection', COLLECTION],
  ],
  [
    ['VecCluster', 'a'],
    ['VecCluster', 'b'],
  ],
]

export async function sayFarewell(world: FaultWorld): Promise<void> {
  for (const together of DEPARTURES) {
    for (const [kind, name] of together) {
      await world.during(world.client.delete(reference(kind, name)))
    }
    for (const [kind, name] of together) {
      await until(
        world,
        `${kind} ${name} is gone`,
        () => find(world, reference(kind, name)) === undefined,
      )
    }
  }
  await until(world, 'no object of the operator is left', () => remaining(world).length === 0)
}

/** Waits until a deleted namespace is gone, whatever is in it. Returns the objects that block or outlive it. */
export async function awaitEnd(world: FaultWorld): Promise<string[]> {
  const { resources } = world.api
  const isGone = () =>
    resources.find(resources.kinds.of('v1', 'Namespace'), '', NAMESPACE) === undefined
  if (!(await world.until(isGone, BOUND_SECONDS))) {
    return [`the namespace has not ended: ${remaining(world).join(', ')}`]
  }
  return remaining(world).map((name) => `outlives its namespace: ${name}`)
}

/** Custom resources and the objects created for them, as `Kind name`. */
export function remaining({ api: { resources } }: FaultWorld): string[] {
  const ours = RESOURCES.map(({ kind }) => [API_VERSION, kind] as const)
  const kinds = [...ours, ...MADE].map(([version, kind]) => resources.kinds.of(version, kind))
  return kinds.flatMap((kind) =>
    resources.store
      .list(kind, NAMESPACE)
      .filter(({ metadata }) => !NOT_OURS.includes(metadata.name))
      .map(({ metadata }) => `${kind.kind} ${metadata.name}`),
  )
}

const MADE = [
  ['batch/v1', 'Job'],
  ['v1', 'Pod'],
  ['v1', 'Secret'],
  ['v1', 'ServiceAccount'],
  ['v1', 'Service'],
  ['apps/v1', 'StatefulSet'],
  ['rbac.authorization.k8s.io/v1', 'Role'],
  ['rbac.authorization.k8s.io/v1', 'RoleBinding'],
  ['coordination.k8s.io/v1', 'Lease'],
] as const

const NOT_OURS = ['bucket', 'default']

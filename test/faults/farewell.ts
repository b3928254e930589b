/** The end of the load: every resource is deleted, and nothing of it may stay but what should. */
import { RESOURCES } from '../../crds/crd.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { BOUND_SECONDS, find, until } from './load.ts'
import { COLLECTION, NAMESPACE, reference } from './resources.ts'
import type { FaultWorld } from './world.ts'

/** Clusters last: what depends on them goes while they are there. */
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
  await until(world, 'nothing of ours is left', () => remaining(world).length === 0)
}

/** A namespace that is deleted goes, whatever is in it and whatever waits for whom. */
export async function awaitEnd(world: FaultWorld): Promise<string[]> {
  const { resources } = world.api
  const isGone = () =>
    resources.find(resources.kinds.of('v1', 'Namespace'), '', NAMESPACE) === undefined
  if (!(await world.until(isGone, BOUND_SECONDS))) {
    return [`the namespace has not ended: ${remaining(world).join(', ')}`]
  }
  return remaining(world).map((name) => `outlives its namespace: ${name}`)
}

/** Our resources and what they made, by kind and name. */
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

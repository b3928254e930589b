/** Shared by the scenarios of restores and migrations: the resource as a user writes it, and its end. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { MigrationStatus } from '../../crds/migration.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { RestoreStatus } from '../../crds/restore.ts'
import type { Reference, World } from '../world/world.ts'

/** Status of each kind. */
interface Statuses {
  VecRestore: RestoreStatus
  VecMigration: MigrationStatus
}

/** How long in seconds each may take in a world. */
const SECONDS = { VecRestore: 600, VecMigration: 900 }

export function movingResource<Kind extends keyof Statuses>(
  kind: Kind,
  namespace: string,
  name: string,
) {
  const reference: Reference = { apiVersion: API_VERSION, kind, namespace, name }
  const statusOf = (object: AnyObject | undefined): Statuses[Kind] =>
    (object as { status?: Statuses[Kind] } | undefined)?.status ?? {}
  return {
    reference,
    statusOf,
    of: (spec: object): object => ({
      apiVersion: API_VERSION,
      kind,
      metadata: { namespace, name },
      spec,
    }),
    /** Fails as soon as it has ended otherwise. */
    untilCompleted: async (world: World): Promise<Statuses[Kind]> => {
      const isOver = (found: AnyObject | undefined) =>
        ['Completed', 'Failed'].includes(statusOf(found).phase ?? '')
      const status = statusOf(await world.waitFor(reference, 'ended', isOver, SECONDS[kind]))
      if (status.phase !== 'Completed') throw new Error(JSON.stringify(status))
      return status
    },
  }
}

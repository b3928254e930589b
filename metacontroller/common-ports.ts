/** What several rooms read and write outside of Metacontroller's requests, in the same way. */
import type { Static, TSchema } from '@sinclair/typebox'
import { VecBackup } from '../crds/backup.ts'
import { VecCluster } from '../crds/cluster.ts'
import { KubernetesError } from '../crds/errors.ts'
import { AnyObject, StatefulSet } from '../crds/kubernetes.ts'
import { loosened } from '../crds/loosened.ts'
import type { Collection, Kubernetes } from '../jobs/clients/kubernetes.ts'
import { eventWriter } from './events.ts'
import { backups, clusters, jobs, namespaces, statefulSets, type Place } from './places.ts'
import type { Log } from './start-mark.ts'

export interface CommonTools {
  kubernetes: Kubernetes
  /** Those the service may read; empty means all. */
  namespaces: string[]
  log: Log
}

/** As another schema may have admitted them: they can be deleted, and their neighbours go on. */
export const AdmittedCluster = loosened(VecCluster.schema) as typeof VecCluster.schema
export const AdmittedBackup = loosened(VecBackup.schema) as typeof VecBackup.schema

/** All of it live; what is gone, or whose kind is gone, is undefined. */
export function commonPorts({ kubernetes, namespaces: known, log }: CommonTools) {
  // What stands where we may not read is not there for us: who names it waits, and says for what.
  const read =
    <Schema extends TSchema>(kind: Place, schema: Schema) =>
    async (namespace: string, name: string): Promise<Static<Schema> | undefined> =>
      known.length === 0 || known.includes(namespace)
        ? kubernetes.get(kind(namespace), name, schema)
        : undefined
  return {
    cluster: read(clusters, AdmittedCluster),
    statefulSet: read(statefulSets, StatefulSet),
    backup: read(backups, AdmittedBackup),
    namespaceEnds: async (name: string) => {
      const found = await kubernetes.get(namespaces(), name, AnyObject)
      return found === undefined || found.metadata.deletionTimestamp !== undefined
    },
    // Foreground: the Job stays until its pods have ended, so that nothing starts beside them.
    deleteJob: ({ namespace, name, uid }: { namespace: string; name: string; uid: string }) =>
      kubernetes.delete(jobs(namespace), name, { uid, propagation: 'Foreground' }),
    writeEvent: eventWriter({ kubernetes, log }),
  }
}

/** Objects of several places; none where the kind is not installed, or gone. */
export async function listed<Schema extends TSchema>(
  kubernetes: Kubernetes,
  places: Collection[],
  schema: Schema,
  selection: { labelSelector?: string } = {},
): Promise<Static<Schema>[]> {
  try {
    const lists = places.map((place) => kubernetes.list(place, schema, selection))
    return (await Promise.all(lists)).flat()
  } catch (error) {
    if (hasStatus(error, 404)) return []
    throw error
  }
}

/** Whether the API refused a call with one of these. */
export function hasStatus(error: unknown, ...statuses: number[]): boolean {
  return error instanceof KubernetesError && statuses.includes(error.status ?? 0)
}

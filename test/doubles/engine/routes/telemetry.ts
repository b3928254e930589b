/** GET /telemetry: the disk, each collection with its identity, and snapshots being made. */
import { ok, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'
import { snapshotTelemetry } from '../running.ts'
import { pointsIn } from '../shard-points.ts'
import { startOf, vectorBytes } from '../snapshots.ts'
import { isUnreadable } from './collections.ts'

const CORES = 2
const DISK_KIB = 100 * 1024 * 1024

export function telemetryRoutes(
  { method, path, query }: EngineRequest,
  cluster: EngineCluster,
  ordinal: number,
): EngineAnswer | undefined {
  if (method !== 'GET' || path.join('/') !== 'telemetry') return undefined
  const level = Number(query['details_level'] ?? 0)
  const names = cluster.namesOn(ordinal)
  const snapshots = snapshotTelemetry(cluster, ordinal)
  return ok({
    app: {
      name: 'qdrant',
      version: cluster.version,
      startup: startOf(cluster, ordinal),
      system: { disk_size: DISK_KIB, cores: CORES },
    },
    memory: { resident_bytes: cluster.residentBytes },
    collections: {
      number_of_collections: names.length,
      ...(level >= 2 && {
        collections: names.map((name) => collection(cluster, { ordinal, name, level })),
        ...(snapshots !== undefined && { snapshots }),
      }),
    },
  })
}

function collection(
  cluster: EngineCluster,
  { ordinal, name, level }: { ordinal: number; name: string; level: number },
): object {
  const found = cluster.findOn(ordinal, name)
  if (found === undefined) return { id: name }
  const { id: peer } = cluster.peer(ordinal)
  return {
    id: name,
    config: { ...found.config, uuid: found.uuid ?? null },
    // The real engine lists no shards below level 3.
    ...(level >= 3 && {
      shards: found.shards.map((shard) => ({
        id: shard.id,
        key: shard.key ?? null,
        local:
          cluster.enabled && !shard.peers.includes(peer)
            ? null
            : {
                // A replica that cannot be read has no sizes.
                ...(!isUnreadable(shard, ordinal) && {
                  num_points: pointsIn(found, shard).length,
                  vectors_size_bytes: shard.vectorBytes ?? vectorBytes(cluster),
                  payloads_size_bytes: 0,
                }),
                update_queue: { length: 0, op_num: shard.operations ?? 0 },
              },
        remote: [],
        replicate_states: {},
      })),
    }),
  }
}

/** What a node reports about its disks and about the snapshots that it recovers, whichever client asked for it. */
import type { Engine } from './client.ts'
import { NodeTelemetry } from './responses.ts'

/** After this time the engine answers with an error; the client must still be waiting then. */
const TELEMETRY_SECONDS = 10

export function readNodeTelemetry(engine: Engine, signal?: AbortSignal): Promise<NodeTelemetry> {
  const path = `/telemetry?details_level=2&timeout=${TELEMETRY_SECONDS}`
  const options = { timeoutMs: (TELEMETRY_SECONDS + 5) * 1000, signal }
  return engine.call('GET', path, NodeTelemetry, options)
}

/** Number of snapshots that the node recovers, by collection; undefined before 1.16, which does not report it. */
export async function readRecoveries(
  engine: Engine,
  signal?: AbortSignal,
): Promise<ReadonlyMap<string, number> | undefined> {
  const { snapshots } = (await readNodeTelemetry(engine, signal)).collections
  return (
    snapshots &&
    new Map(snapshots.map(({ id, running_snapshot_recovery: running }) => [id, running ?? 0]))
  )
}

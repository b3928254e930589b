/**
 * Recoveries that nodes are at. A recovery goes on when its client has gone away, and telemetry counts
 * it only from some moment on: that of a collection from its first byte, that of a shard once all bytes
 * are there and, where the call has a checksum, compared with it.
 */
import type { EngineCluster } from './cluster.ts'
import { creationsOf } from './snapshots.ts'

/** `fetch`: bytes come from an address. `hash`: bytes that were sent are compared. `apply`: they replace data. */
export type Stage = 'fetch' | 'hash' | 'apply'

export interface RecoveryStage {
  ordinal: number
  collection: string
  shard?: number | undefined
  stage: Stage
}

/** Holds a stage until its promise is over. */
export type Gate = (at: RecoveryStage) => Promise<unknown> | undefined

interface State {
  gate: Gate
  /** Recoveries that telemetry counts, by `<ordinal>/<collection>`. */
  counted: Map<string, number>
  /** Recoveries that hold a collection: it cannot be deleted before they end. */
  holding: Map<string, number>
  /** Every stage that was begun, in order. */
  begun: RecoveryStage[]
  /** Collections whose deletion waits, and with it every other change. */
  stuck: Set<string>
}

const states = new WeakMap<EngineCluster, State>()

/** What recoveries wait for from now on. */
export function holdRecoveries(cluster: EngineCluster, gate: Gate = () => undefined): void {
  stateOf(cluster).gate = gate
}

export function recoveriesBegun(cluster: EngineCluster): readonly RecoveryStage[] {
  return stateOf(cluster).begun
}

/** One stage of a recovery: waits for the gate, then runs it. */
export async function stage<Result>(
  cluster: EngineCluster,
  at: RecoveryStage,
  act: () => Result | Promise<Result>,
): Promise<Result> {
  const state = stateOf(cluster)
  state.begun.push(at)
  await state.gate(at)
  return act()
}

/** Counted by telemetry for as long as it lasts. */
export function counted<Result>(
  cluster: EngineCluster,
  { ordinal, collection }: Pick<RecoveryStage, 'ordinal' | 'collection'>,
  act: () => Promise<Result>,
): Promise<Result> {
  return within(stateOf(cluster).counted, `${ordinal}/${collection}`, act)
}

/** The collection cannot be deleted for as long as it lasts. */
export function holding<Result>(
  cluster: EngineCluster,
  collection: string,
  act: () => Promise<Result>,
): Promise<Result> {
  const state = stateOf(cluster)
  return within(state.holding, collection, act).finally(() => {
    if (isHeld(cluster, collection) || !state.stuck.delete(collection)) return
    cluster.removeCollection(collection)
  })
}

export function isHeld(cluster: EngineCluster, collection: string): boolean {
  return (stateOf(cluster).holding.get(collection) ?? 0) > 0
}

/** The deletion is agreed on, and applied once the recovery ends. */
export function deleteLater(cluster: EngineCluster, collection: string): void {
  stateOf(cluster).stuck.add(collection)
}

/** Whether a deletion that waits keeps nodes from applying anything else. */
export function isStuck(cluster: EngineCluster): boolean {
  return stateOf(cluster).stuck.size > 0
}

/** The snapshot telemetry of this node; engines before 1.16 do not report it. */
export function snapshotTelemetry(cluster: EngineCluster, ordinal: number): object[] | undefined {
  const [, minor = 0] = cluster.version.split('.').map(Number)
  if (minor < 16) return undefined
  const { counted } = stateOf(cluster)
  return [...cluster.collections.keys(), ...absent(cluster, ordinal)].map((id) => ({
    id,
    ...creationsOf(cluster, ordinal, id),
    running_snapshot_recovery: counted.get(`${ordinal}/${id}`) ?? 0,
  }))
}

/** Collections that are recovered and not there yet. */
function absent(cluster: EngineCluster, ordinal: number): string[] {
  const prefix = `${ordinal}/`
  return [...stateOf(cluster).counted.keys()]
    .filter((key) => key.startsWith(prefix))
    .map((key) => key.slice(prefix.length))
    .filter((name) => !cluster.collections.has(name))
}

async function within<Result>(
  counts: Map<string, number>,
  key: string,
  act: () => Promise<Result>,
): Promise<Result> {
  counts.set(key, (counts.get(key) ?? 0) + 1)
  try {
    return await act()
  } finally {
    counts.set(key, (counts.get(key) ?? 1) - 1)
  }
}

function stateOf(cluster: EngineCluster): State {
  const known = states.get(cluster)
  if (known !== undefined) return known
  const state: State = {
    gate: () => undefined,
    counted: new Map(),
    holding: new Map(),
    begun: [],
    stuck: new Set(),
  }
  states.set(cluster, state)
  return state
}

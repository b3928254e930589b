/** Options, engine connections and context that all parts of `migration run` share. */
import { Type, type Static } from '@sinclair/typebox'
import type { Connection } from '../../crds/contract/connection.ts'
import { MigrationPlan } from '../../crds/contract/migration-job.ts'
import type { MigrationSpec } from '../../crds/migration.ts'
import { EngineCollections } from '../clients/engine/collections.ts'
import { EnginePoints } from '../clients/engine/points.ts'
import { EngineRecovery } from '../clients/engine/recovery.ts'
import { EngineSnapshots } from '../clients/engine/snapshots.ts'
import type { Engine } from '../clients/engine/client.ts'
import type { RetryBudget } from '../retry.ts'
import type { Dependencies } from '../dependencies.ts'
import type { Progress } from './progress.ts'

/** Fields of the immutable spec that are not in the plan, because they may be long. */
export const MigrationOptions = Type.Object({
  collections: Type.Optional(Type.Array(Type.String())),
  collectionMapping: Type.Record(Type.String(), Type.String()),
  batchSize: Type.Integer({ minimum: 1 }),
  createMissing: Type.Boolean(),
  target: Type.Optional(
    Type.Object({
      shardNumber: Type.Optional(Type.Integer()),
      replicationFactor: Type.Optional(Type.Integer()),
      writeConsistencyFactor: Type.Optional(Type.Integer()),
    }),
  ),
})
export type MigrationOptions = Static<typeof MigrationOptions> &
  Pick<MigrationSpec, 'collectionMapping'>

/** One of the two engines. */
export interface Endpoint {
  /** Names the side in messages. */
  role: 'source' | 'target'
  engine: Engine
  /** The engine of each pod of a managed cluster; else only `engine`. */
  nodes: Engine[]
  collections: EngineCollections
  points: EnginePoints
  /** Creates shard keys. */
  recovery: EngineRecovery
  /** Of each node: they report which collection has a name. */
  snapshots: EngineSnapshots[]
}

/** Asks before a batch of points is written. */
export interface TargetWatch {
  /** Throws `Rejected` if another client has replaced the collection that the current one is copied to. */
  requireSame(name: string, context: RunContext): Promise<void>
}

/** Upserts without an answer, which may still reach the target. */
export interface UpsertWatch {
  /** Number of these upserts so far. */
  readonly count: number
  /** Records one that was sent up to `afterMs` from now. */
  add(afterMs?: number): void
  /** Waits until none of them can reach the target any more. */
  wait(context: Pick<RunContext, 'tools' | 'progress'>): Promise<void>
}

export interface RunContext {
  plan: MigrationPlan
  tools: Dependencies
  options: MigrationOptions
  source: Endpoint
  target: Endpoint
  progress: Progress
  retryBudget: RetryBudget
  targetWatch: TargetWatch
  unansweredUpserts: UpsertWatch
}

/** The name of a collection at the target. */
export function resolveTargetName(name: string, { collectionMapping }: MigrationOptions): string {
  return Object.hasOwn(collectionMapping, name) ? (collectionMapping[name] ?? name) : name
}

export function connectEndpoints(
  plan: MigrationPlan,
  tools: Dependencies,
): Pick<RunContext, 'source' | 'target'> {
  const { source } = plan
  const clusterEngine = (address: Connection, ordinal?: number) =>
    tools.engineForAddress({
      ...{ address, key: SOURCE_KEY, ca: SOURCE_CA },
      ...(ordinal !== undefined && { ordinal }),
    })
  const sourceEngine =
    'cluster' in source
      ? clusterEngine(source.cluster)
      : tools.engineForAddress({
          address: source.url,
          key: source.apiKey === undefined ? undefined : { ...SOURCE_KEY, file: source.apiKey },
          ca: source.ca === undefined ? undefined : { ...SOURCE_CA, file: source.ca },
        })
  const sourceNodes =
    'cluster' in source
      ? Array.from({ length: source.cluster.replicas }, (_, ordinal) =>
          clusterEngine(source.cluster, ordinal),
        )
      : [sourceEngine]
  const targetNodes = Array.from({ length: plan.target.replicas }, (_, ordinal) => ordinal)
  return {
    source: newEndpoint('source', sourceEngine, sourceNodes),
    target: newEndpoint(
      'target',
      tools.engineForPod(plan.target),
      targetNodes.map((ordinal) => tools.engineForPod(plan.target, ordinal)),
    ),
  }
}

/** Credentials of the source that the hook mounts, by the names in hooks/migration/endpoints.ts. */
const SOURCE_KEY = { credential: 'source-engine', file: 'api-key' }
const SOURCE_CA = { credential: 'source-tls', file: 'ca.crt' }

function newEndpoint(role: Endpoint['role'], engine: Engine, nodes: Engine[]): Endpoint {
  return {
    role,
    engine,
    nodes,
    collections: new EngineCollections(engine, { exactNumbers: true }),
    points: new EnginePoints(engine),
    recovery: new EngineRecovery(engine),
    snapshots: nodes.map((node) => new EngineSnapshots(node)),
  }
}

/** What the parts of one run of `migration run` share. */
import { Type, type Static } from '@sinclair/typebox'
import { MigrationPlan } from '../../crds/migration-command.ts'
import type { MigrationSpec } from '../../crds/migration.ts'
import { EngineCollections } from '../clients/engine-collections.ts'
import { EnginePoints } from '../clients/engine-points.ts'
import { EngineRecovery } from '../clients/engine-recovery.ts'
import type { Engine } from '../clients/engine.ts'
import type { Patience } from '../patience.ts'
import type { Tools } from '../tools.ts'
import type { Tally } from './tally.ts'

/** What of the immutable spec is not in the plan: it may be long. */
export const Order = Type.Object({
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
export type Order = Static<typeof Order> & Pick<MigrationSpec, 'collectionMapping'>

/** One of the two engines. */
export interface Side {
  /** `source` or `target`, for people. */
  called: 'source' | 'target'
  engine: Engine
  collections: EngineCollections
  points: EnginePoints
  /** For its shard keys. */
  recovery: EngineRecovery
}

export interface Work {
  plan: MigrationPlan
  tools: Tools
  order: Order
  source: Side
  target: Side
  tally: Tally
  patience: Patience
}

/** What a collection is called at the target. */
export function targetNameOf(name: string, { collectionMapping }: Order): string {
  return Object.hasOwn(collectionMapping, name) ? (collectionMapping[name] ?? name) : name
}

export function sidesOf(plan: MigrationPlan, tools: Tools): Pick<Work, 'source' | 'target'> {
  const { source } = plan
  const from =
    'cluster' in source
      ? tools.engineAt({ at: source.cluster, key: SOURCE_KEY, ca: SOURCE_CA })
      : tools.engineAt({
          at: source.url,
          key: source.apiKey === undefined ? undefined : { ...SOURCE_KEY, file: source.apiKey },
          ca: source.ca === undefined ? undefined : { ...SOURCE_CA, file: source.ca },
        })
  return { source: side('source', from), target: side('target', tools.engineOn(plan.target)) }
}

/** Where the hook has them mounted; hooks/migration/credentials.ts gives the names. */
const SOURCE_KEY = { credential: 'source-engine', file: 'api-key' }
const SOURCE_CA = { credential: 'source-tls', file: 'ca.crt' }

function side(called: Side['called'], engine: Engine): Side {
  return {
    called,
    engine,
    collections: new EngineCollections(engine),
    points: new EnginePoints(engine),
    recovery: new EngineRecovery(engine),
  }
}

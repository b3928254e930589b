/** Every case of the contract with the engine, in the order of the facts. */
import type { Case } from '../case.ts'
import { ACCESS } from './access.ts'
import { ALIASES } from './aliases.ts'
import { COLLECTIONS } from './collections.ts'
import { INDEXES } from './indexes.ts'
import { LOCAL_POINTS } from './local-points.ts'
import { MIGRATION } from './migration.ts'
import { PATCHES } from './patch.ts'
import { PLACING } from './placing.ts'
import { POINTS_CASES } from './points.ts'
import { RECOVERY } from './recovery.ts'
import { REPLICAS } from './replicas.ts'
import { RESHARDING } from './resharding.ts'
import { ROLE_CASES } from './roles.ts'
import { SERVICE } from './service.ts'
import { SHARD_KEYS } from './shard-keys.ts'
import { SHARD_RECOVERY } from './shard-recovery.ts'
import { SHARD_STREAMS } from './shard-streams.ts'
import { SNAPSHOTS } from './snapshots.ts'

export const CASES: Case[] = [
  ...SERVICE,
  ...COLLECTIONS,
  ...PLACING,
  ...PATCHES,
  ...INDEXES,
  ...ALIASES,
  ...POINTS_CASES,
  ...LOCAL_POINTS,
  ...MIGRATION,
  ...SHARD_KEYS,
  ...RECOVERY,
  ...REPLICAS,
  ...RESHARDING,
  ...SHARD_RECOVERY,
  ...SHARD_STREAMS,
  ...SNAPSHOTS,
  ...ROLE_CASES,
  ...ACCESS,
]

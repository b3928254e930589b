/**
 * The corpus: for each rule, bound and enum of the CRDs an object that must be accepted and one that
 * must be rejected. It runs against the embedded admission and against the real API server.
 */
import { ACCESS_KEY_CASES } from './corpus/access-key.ts'
import { BACKUP_AND_SCHEDULE_CASES } from './corpus/backup.ts'
import { boundCases } from './corpus/bounds.ts'
import type { Case } from './corpus/case.ts'
import { CLUSTER_CASES } from './corpus/cluster.ts'
import { COLLECTION_CASES } from './corpus/collection.ts'
import { RESTORE_AND_MIGRATION_CASES } from './corpus/restore.ts'

export const CORPUS: Case[] = [
  ...CLUSTER_CASES,
  ...COLLECTION_CASES,
  ...ACCESS_KEY_CASES,
  ...BACKUP_AND_SCHEDULE_CASES,
  ...RESTORE_AND_MIGRATION_CASES,
  ...boundCases(),
]

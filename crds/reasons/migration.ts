/** What a VecMigration's conditions and Events say. */
import type { Reason } from './reason.ts'

export const MIGRATION_REASONS: readonly Reason[] = []

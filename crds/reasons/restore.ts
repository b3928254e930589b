/** What a VecRestore's conditions and Events say. */
import type { Reason } from './reason.ts'

export const RESTORE_REASONS: readonly Reason[] = []

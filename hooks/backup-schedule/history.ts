/** How many backups a schedule may have: each call of the operator shows all of them. */
import { LARGE_HISTORY_BYTES, MAX_HISTORY_BYTES } from '../../crds/limits.ts'
import type { Finding } from '../conditions.ts'
import type { Observed } from './observed.ts'

const MIB = 1024 * 1024
const WAY_OUT = 'set spec.retentionPolicy, or delete backups that are not needed'

/** Why no more are created. A request that is refused as too large could not even be pruned any more. */
export function fullHistory({ bytes = 0 }: Observed): Finding | undefined {
  if (bytes <= MAX_HISTORY_BYTES) return undefined
  const message = `no backup is created: the backups of this schedule take more than ${MAX_HISTORY_BYTES / MIB} MiB of a request to the operator; ${WAY_OUT}`
  return { type: 'Ready', status: 'False', reason: 'HistoryTooLarge', message }
}

/** Said long before that. */
export function largeHistory({ bytes = 0 }: Observed): Finding[] {
  if (bytes <= LARGE_HISTORY_BYTES) return []
  const message = `the backups of this schedule take more than ${LARGE_HISTORY_BYTES / MIB} MiB of a request to the operator: above ${MAX_HISTORY_BYTES / MIB} MiB no more are created; ${WAY_OUT}`
  return [{ type: 'HistoryBounded', status: 'False', reason: 'HistoryLarge', message }]
}

/** What tests of the decisions about a backup look at. */
import { backupRights } from '../../../hooks/backup/children.ts'
import { kept } from '../../../hooks/job.ts'
import { backup } from './objects.ts'

export const rights = backupRights(backup())

export const keptRights = rights.map((right) => kept(right as never))

export function complete(
  status: 'True' | 'False',
  reason: string,
  message: string,
  since = '2026-03-01T12:00:00Z',
) {
  return [
    { type: 'Complete', status, reason, message, lastTransitionTime: since, observedGeneration: 1 },
  ]
}

/** Helpers that read decisions about a backup. */
import { backupRbac } from '../../../hooks/backup/job.ts'
import { unchanged } from '../../../hooks/request.ts'
import { backup } from './objects.ts'

export const rbac = backupRbac(backup())

export const unchangedRbac = rbac.map((object) => unchanged(object as never))

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

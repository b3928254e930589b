/** What tests of the decisions about a backup look at. */
import type { Decision } from '../../../hooks/backup/act.ts'
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

export function said({ status }: Decision): (string | undefined)[] {
  const [condition] = status.conditions ?? []
  return [status.phase, condition?.reason, condition?.message]
}

export function jobIn({ children }: Decision) {
  return children.find((child) => child.kind === 'Job' && child['spec'] !== undefined)
}

export function podOf(decision: Decision) {
  const job = jobIn(decision) as unknown as {
    spec: {
      template: {
        spec: {
          volumes: { name: string; secret?: object }[]
          containers: {
            args: string[]
            resources: object
            env: { name: string; value: string }[]
          }[]
        }
      }
    }
  }
  const { volumes, containers } = job.spec.template.spec
  const [container = { args: [], resources: {}, env: [] }] = containers
  return { volumes, container }
}

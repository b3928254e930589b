/**
 * Events about a VecBackup, a VecRestore or a VecMigration: one when it starts, one when it ends, one
 * for each trouble on the way.
 */
import type { KubernetesEvent } from '../crds/kubernetes.ts'
import type { Condition } from '../crds/schema.ts'
import { conditionOf } from './conditions.ts'
import { once, warning, type News, type Subject } from './events.ts'

interface Turn {
  resource: Subject & Parameters<typeof conditionOf>[0]
  /** As it is now. */
  status: { conditions?: Condition[]; error?: string }
  now: Date
}

interface Story {
  /** Only where this is the turn that shows it at work for the first time. */
  started: News | false
  /** Its end, and what is said of it besides the message of its condition. */
  completed: { reason: string; more: string }
  /** Reason of the other end. */
  failed: string
}

export function transferEvents(
  { resource, status, now }: Turn,
  { started, completed, failed }: Story,
): KubernetesEvent[] {
  const complete = status.conditions?.find(({ type }) => type === 'Complete')
  const events = started === false ? [] : [once(resource, started, now)]
  if (complete === undefined || complete.reason === conditionOf(resource, 'Complete')?.reason) {
    return events
  }
  const { reason, message } = complete
  switch (reason) {
    case failed:
    case 'JobSilent':
    case 'JobNotStarted': {
      const { error } = status
      const said = error === undefined || error === message ? message : `${message}: ${error}`
      return [...events, warning(resource, { reason, message: said }, now)]
    }
    case completed.reason:
      return [...events, once(resource, { reason, message: message + completed.more }, now)]
    default:
      return events
  }
}

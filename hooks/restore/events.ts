/** Events about a VecRestore: one when it starts, one when it ends, one for each trouble on the way. */
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import { shortHash } from '../../crds/names.ts'
import type { RestoreStatus, VecRestore } from '../../crds/restore.ts'
import { humanSize } from '../../crds/size.ts'
import { conditionOf } from '../conditions.ts'
import { eventOn } from '../events.ts'
import type { Reported } from './status.ts'

const WARNINGS = new Set(['RestoreFailed', 'JobNotStarted'])

export function eventsOf(
  { restore, progress }: Reported,
  status: RestoreStatus,
  now: Date,
): KubernetesEvent[] {
  const complete = status.conditions?.find(({ type }) => type === 'Complete')
  const before = conditionOf(restore, 'Complete')
  const events: KubernetesEvent[] = []
  if (status.startTime !== undefined && restore.status?.startTime === undefined) {
    const message = `reads ${status.sourceBackup ?? 'the backup'}`
    events.push(normal(restore, { reason: 'RestoreStarted', message }, now))
  }
  if (complete === undefined || complete.reason === before?.reason) return events
  const { reason, message } = complete
  if (WARNINGS.has(reason)) {
    const said = status.error === undefined ? message : `${message}: ${status.error}`
    const transition = shortHash(said)
    events.push(eventOn(restore, { type: 'Warning', reason, message: said, transition }, now))
  } else if (reason === 'RestoreCompleted') {
    const { bytes = 0, notes = [] } = progress?.restore ?? {}
    const said = [`${message}, ${humanSize(bytes)}`, ...notes].join('; ')
    events.push(normal(restore, { reason, message: said }, now))
  }
  return events
}

function normal(
  restore: VecRestore,
  { reason, message }: { reason: string; message: string },
  now: Date,
): KubernetesEvent {
  return eventOn(restore, { type: 'Normal', reason, message, transition: 'once' }, now)
}

/** Events about a VecRestore: one when it starts, one when it ends, one for each trouble on the way. */
import type { KubernetesEvent } from '../../crds/kubernetes.ts'
import type { RestoreStatus } from '../../crds/restore.ts'
import { humanSize } from '../../crds/size.ts'
import { conditionOf } from '../conditions.ts'
import { once, warning } from '../events.ts'
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
    events.push(once(restore, { reason: 'RestoreStarted', message }, now))
  }
  if (complete === undefined || complete.reason === before?.reason) return events
  const { reason, message } = complete
  if (WARNINGS.has(reason)) {
    const said = status.error === undefined ? message : `${message}: ${status.error}`
    events.push(warning(restore, { reason, message: said }, now))
  } else if (reason === 'RestoreCompleted') {
    const { bytes = 0, notes = [] } = progress?.restore ?? {}
    const said = [`${message}, ${humanSize(bytes)}`, ...notes].join('; ')
    events.push(once(restore, { reason, message: said }, now))
  }
  return events
}

/** What a VecRestore should have: its Job, and when (specification: states and transitions). */
import type { VecCluster } from '../../crds/cluster.ts'
import { SECOND_LOOK_SECONDS } from '../../crds/limits.ts'
import type { RestoreStatus, VecRestore } from '../../crds/restore.ts'
import type { Holder } from '../../crds/rules/holder.ts'
import type { Decided } from '../carry-out.ts'
import { isFinal } from '../ending.ts'
import { claim, givenBack, heldSeconds, standsIn, type SeenLease } from '../lease.ts'
import type { Context } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { afterEnd, runAfter } from '../transfer.ts'
import {
  open,
  soon,
  starting,
  waiting,
  waitingFor,
  waitsBehind,
  type Turn,
} from '../transfer-answer.ts'
import { transferSync, type Transfer } from '../transfer-sync.ts'
import { restoreJob, restoreRights, wantedRun } from './children.ts'
import { copied, originalsOf } from './copies.ts'
import { eventsOf } from './events.ts'
import { lackOf } from './needs.ts'
import type { Observed } from './observed.ts'
import { endedStatus, openStatus } from './status.ts'

export type Decision = Decided<RestoreStatus>

export function sync(observed: Observed, context: Context): Decision {
  // A restore that has ended outlives its cluster. Its Job is kept for the log, never made again.
  if (isFinal(observed.restore)) {
    const left = afterEnd(observed, 'the restore has ended', context)
    return { status: observed.restore.status ?? {}, ...left }
  }
  return transferSync({ kind: RESTORE, observed, context })
}

export function asHolder({ metadata: { namespace, name, uid } }: VecRestore): Holder {
  return { kind: 'VecRestore', namespace, name, uid }
}

const RESTORE: Transfer<Observed, RestoreStatus> = {
  ...{ openStatus, endedStatus, eventsOf, lackOf, copied, originalsOf, start },
  starting: { reason: 'RestoreStarting' },
  givenBack: ({ restore, leases }) =>
    leases === undefined ? [] : givenBack(both(leases), asHolder(restore)),
  wantedHash: (observed) =>
    observed.cluster && wantedRun(observed.restore, observed.cluster, observed)?.hash,
  wasStarted: ({ restore }) => restore.status?.startTime !== undefined,
  missedTurn: ({ restore, leases }) =>
    leases !== undefined && !both(leases).every(({ lease }) => standsIn(lease, asHolder(restore))),
}

/** Everything else is there: the rights, then the Leases, then the Job. Each is seen before the next. */
function start(turn: Turn<Observed, RestoreStatus>): Decision {
  const { restore, cluster, leases, others = [], children } = turn.observed
  const { now } = turn.context
  const rights = restoreRights(restore)
  // A Job must not start before it may report.
  if (cluster === undefined || leases === undefined || !areObserved(rights, children)) {
    return soon(turn, 'the rights of the Job are being made', rights)
  }
  const [other] = others
  if (other !== undefined) return waitingFor(turn, other)
  const claimed = claim(both(leases), asHolder(restore), { cluster, now })
  if (claimed.state === 'waiting') return waitsBehind(turn, claimed)
  if (claimed.state === 'taking') {
    const taking = soon(turn, 'the Leases of the cluster are being taken')
    return { ...taking, leases: claimed.writes }
  }
  // Who looked for the Leases just before they were taken is seen at work by then.
  const left = SECOND_LOOK_SECONDS - heldSeconds(both(leases), now)
  if (left > 0) {
    const message = 'the Leases of the cluster are held: looks once more who is at work there'
    return open(turn, { remark: starting(turn, message), again: Math.ceil(left) })
  }
  return withJob(turn, cluster)
}

function withJob(turn: Turn<Observed, RestoreStatus>, cluster: VecCluster): Decision {
  const { observed, context } = turn
  const wanted = wantedRun(observed.restore, cluster, observed)
  if (wanted === undefined) return waiting(turn)
  const plan = { ...wanted, run: runAfter(observed.progress) }
  const job = restoreJob(observed, cluster, plan, context.settings)
  return soon(turn, `Job ${job.metadata.name} was started`, [job])
}

/** In the order they are taken: all compete for the first one, so nobody holds one each. */
function both({ write, backup }: NonNullable<Observed['leases']>): SeenLease[] {
  return [backup, write]
}

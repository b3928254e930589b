/** What a VecMigration should have: its Job, and when (specification: states and transitions). */
import type { MigrationStatus } from '../../crds/migration.ts'
import type { Decided } from '../carry-out.ts'
import { isFinal } from '../ending.ts'
import { called, holderOf } from '../lease.ts'
import type { Context } from '../protocol.ts'
import { areObserved } from '../rights.ts'
import { afterEnd, runAfter } from '../transfer.ts'
import { soon, waiting, waitingFor, type Turn } from '../transfer-answer.ts'
import { transferSync, type Transfer } from '../transfer-sync.ts'
import { migrationJob, migrationRights, wantedRun } from './children.ts'
import { copied, originalsOf } from './credentials.ts'
import { eventsOf } from './events.ts'
import { lackOf } from './needs.ts'
import type { Observed } from './observed.ts'
import { endedStatus, openStatus } from './status.ts'

export type Decision = Decided<MigrationStatus>

export function sync(observed: Observed, context: Context): Decision {
  // A migration that has ended outlives its clusters. Its Job is kept for the log, never made again.
  if (isFinal(observed.migration)) {
    const left = afterEnd(observed, 'the migration has ended', context)
    return { status: observed.migration.status ?? {}, ...left }
  }
  return transferSync({ kind: MIGRATION, observed, context })
}

const MIGRATION: Transfer<Observed, MigrationStatus> = {
  ...{ openStatus, endedStatus, lackOf, start },
  starting: { reason: 'MigrationStarting' },
  eventsOf: ({ migration }, status, now) => eventsOf(migration, status, now),
  copied: ({ migration }) => copied(migration),
  originalsOf: ({ migration, clusters, secrets }, settings) =>
    originalsOf(migration, clusters, secrets, settings),
  wantedHash: ({ migration, clusters }) => wantedRun(migration, clusters)?.hash,
  // It holds no Lease: it only waits for those of others.
  givenBack: () => [],
  wasStarted: ({ migration }) => migration.status?.startTime !== undefined,
  missedTurn: () => false,
}

/** Everything else is there: the rights, then the Job, which is not made while a restore writes. */
function start(turn: Turn<Observed, MigrationStatus>): Decision {
  const { observed, context } = turn
  const { migration, clusters, progress, writers = [] } = observed
  const rights = migrationRights(migration)
  // A Job must not start before it may report.
  if (!areObserved(rights, observed.children)) {
    return soon(turn, 'the rights of the Job are being made', rights)
  }
  for (const lease of writers) {
    const holder = holderOf(lease, context.now)
    if (holder !== undefined) return waitingFor(turn, called(holder))
  }
  const wanted = wantedRun(migration, clusters)
  if (wanted === undefined) return waiting(turn)
  const plan = { ...wanted, run: runAfter(progress) }
  const job = migrationJob(observed, plan, context.settings)
  return soon(turn, `Job ${job.metadata.name} was started`, [job])
}

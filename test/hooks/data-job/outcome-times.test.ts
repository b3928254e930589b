/**
 * The times in the status of a finished VecBackup, VecRestore and VecMigration. The cache of
 * Metacontroller may be older than its last answer, so an outcome can be recorded twice: the second
 * status must equal the first.
 */
import t from 'tap'
import type { Condition } from '../../../crds/schema.ts'
import { sync as syncBackup } from '../../../hooks/backup/sync.ts'
import { timestamp, withKstatus } from '../../../hooks/conditions.ts'
import { sync as syncMigration } from '../../../hooks/migration/sync.ts'
import type { Context } from '../../../hooks/protocol.ts'
import { sync as syncRestore } from '../../../hooks/restore/sync.ts'
import { NOW, ago, context } from '../../builders.ts'
import * as backups from '../backup/objects.ts'
import * as migrations from '../migration/objects.ts'
import * as restores from '../restore/objects.ts'

const AT = ago(30)
/** A finished resource, whose cached status is not finished. */
const FINISHED: Record<string, (state: 'Done' | 'Failed', context: Context) => object> = {
  VecBackup: (state, at) =>
    syncBackup(backups.ready({ progress: backups.report({ state, at: AT }) }), at).status,
  VecRestore: (state, at) =>
    syncRestore(restores.ready({ progress: restores.report({ state, at: AT }) }), at).status,
  VecMigration: (state, at) =>
    syncMigration(migrations.ready({ progress: migrations.report({ state, at: AT }) }), at).status,
}

for (const [kind, statusOf] of Object.entries(FINISHED)) {
  for (const state of ['Done', 'Failed'] as const) {
    t.test(`a ${kind} (${state}) that is recorded again has the same times`, async (t) => {
      const recorded = (now: Date) => {
        const parent = { kind, metadata: { generation: 1 } }
        return withKstatus(parent, statusOf(state, { ...context, now }), now)
      }
      const first = recorded(NOW)
      t.strictSame(recorded(new Date(NOW.getTime() + 9000)), first)
      const { conditions = [] } = first as { conditions?: Condition[] }
      t.strictSame(
        conditions.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
        ['Complete', ...(state === 'Done' ? [] : ['Stalled', 'Failed'])].map((type) => [
          type,
          timestamp(new Date(AT)),
        ]),
        'the time of the outcome',
      )
    })
  }
}

t.test('a backup whose expiry is recorded again has the same times', async (t) => {
  const backup = backups.backup({
    spec: { retentionDays: 1 },
    status: { phase: 'Completed', completionTime: ago(86_500), expiresAt: ago(100) },
  })
  const recorded = (now: Date) => syncBackup(backups.ready({ backup }), { ...context, now }).status
  const { conditions } = recorded(NOW)
  t.strictSame(
    conditions?.map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
    [['Expired', timestamp(new Date(ago(100)))]],
  )
  t.strictSame(recorded(new Date(NOW.getTime() + 9000)).conditions, conditions)
})

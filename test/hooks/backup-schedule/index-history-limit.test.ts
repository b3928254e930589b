/** Schedules whose backups fill a request, through the server. */
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import { buildServer } from '../../../hooks/server.ts'
import { settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, fakePorts, hookRequest, schedule, type ScheduleOverrides } from './stage.ts'

const MIB = 1024 * 1024
const DAY_MS = 86_400_000
const LAST = '2026-02-28T03:00:00Z'
/** A slot is due. */
const now = '2026-03-01T04:00:00Z'

interface Answer {
  status: { conditions?: { type: string; status: string; reason: string; message: string }[] }
  children: { metadata: { name: string } }[]
  finalized?: boolean
}

/** What the schedule is answered with so many bytes of daily backups. */
async function answer(t: Test, bytes: number, parts: ScheduleOverrides = {}) {
  const padding = 'x'.repeat(32 * 1024)
  const children = Array.from({ length: Math.ceil(bytes / padding.length) }, (_, at) => {
    const slot = new Date(Date.parse(LAST) - at * DAY_MS)
    const made = backup(slot.toISOString())
    return { ...made, metadata: { ...made.metadata, annotations: { padding } } }
  })
  const status = { phase: 'Active' as const, lastScheduleTime: LAST }
  const stage = {
    schedule: schedule({ status, createdAt: '2020-01-01T00:00:00Z', ...parts }),
    children,
  }
  const events: { reason: string }[] = []
  const server = buildServer({
    hooks: [
      backupScheduleHooks({
        ...fakePorts(stage),
        writeEvent: async (event) => void events.push(event),
      }),
    ],
    tokens: () => [],
    log: pino({ level: 'silent' }),
    now: () => new Date(now),
    settings,
    metrics: { observe: () => undefined, text: async () => '', contentType: 'text/plain' },
  })
  const hook = parts.deletionTimestamp === undefined ? 'sync' : 'finalize'
  const url = `/vecbackupschedules/${hook}`
  const { statusCode, body } = await server.inject({
    method: 'POST',
    url,
    payload: hookRequest(stage),
  })
  t.equal(statusCode, 200, body.slice(0, 200))
  const { status: said, children: named, finalized } = JSON.parse(body) as Answer
  return {
    ready: said.conditions?.find(({ type }) => type === 'Ready'),
    bounded: said.conditions?.find(({ type }) => type === 'HistoryBounded'),
    stalled: said.conditions?.find(({ type }) => type === 'Stalled'),
    added: named.length - children.length,
    finalized,
    reasons: events.map(({ reason }) => reason),
  }
}

t.test('a short history is no condition', async (t) => {
  t.match(await answer(t, MIB), { ready: { status: 'True' }, bounded: undefined, added: 1 })
})

t.test(
  'a history of more than 4 MiB is a condition and an Event, and backups continue',
  async (t) => {
    matchWhole(t, await answer(t, 5 * MIB), {
      ready: { status: 'True' },
      bounded: { status: 'False', reason: 'HistoryLarge', message: /set spec.retentionPolicy/ },
      stalled: undefined,
      added: 1,
      reasons: ['BackupCreated', 'HistoryLarge'],
    })
  },
)

t.test('past 8 MiB no backup is created, and the schedule says so', async (t) => {
  matchWhole(t, await answer(t, 9 * MIB), {
    ready: { status: 'False', reason: 'HistoryTooLarge', message: /more than 8 MiB/ },
    stalled: { reason: 'HistoryTooLarge' },
    added: 0,
    reasons: ['HistoryTooLarge', 'HistoryLarge'],
  })
})

t.test('retention and deletion continue there', async (t) => {
  const pruned = await answer(t, 9 * MIB, { spec: { retentionPolicy: { keepLast: 10 } } })
  t.equal(pruned.added, 10 - 9 * 32)
  const deletionTimestamp = '2026-03-01T03:59:00Z'
  t.equal((await answer(t, 9 * MIB, { deletionTimestamp })).finalized, true)
})

/** Requests that a tenant has filled, with children that belong to a resource of theirs. */
import { MAX_REQUEST_BYTES } from '../../crds/contract/limits.ts'
import { backup, hookRequest, schedule } from '../hooks/backup-schedule/stage.ts'
import { MAX_REQUEST_VALUES } from '../../hooks/request-bodies.ts'
import type { Attack } from './attack.ts'
import { post } from './calls.ts'
import { TOKEN } from './healthy.ts'

/** As many at once as Metacontroller has workers. */
const WORKERS = 5
const HOUR_MS = 3_600_000
const FIRST = Date.parse('2026-02-28T03:00:00Z')
/** Left free for the rest of a request. */
const MARGIN_BYTES = 64 * 1024
/** Of a backup, at most. */
const VALUES = 35
/** With its namespace, as long as the keys of children. */
const NAME = 'ns/nightly-20260228-030000'
/** Parsed, they take twenty times as much as their text. */
const EMPTY_LISTS = `[${'[],'.repeat(3_000_000)}[]]`

/**
 * Its body did not arrive in time, or it waited too long for memory. Such a request is sent again later; what
 * counts is that the service survives it and answers healthy ones.
 */
const REJECTED = [408, 503]

const filled = (title: string, metadata: object): Attack =>
  sent(`${title}, five at once`, () => filledRequest(metadata), [200, ...REJECTED])

export const REQUEST_ATTACKS: readonly Attack[] = [
  // One character that is not ASCII makes a text twice as large in memory.
  filled('requests full of large backups', { annotations: { note: `€${'x'.repeat(32 * 1024)}` } }),
  filled('requests full of small backups', { managedFields: [{ manager: 'm' }] }),
  sent('requests full of empty lists, five at once', () => `{"parent":${EMPTY_LISTS}}`, [
    413,
    ...REJECTED,
  ]),
  sent(
    'small requests full of empty objects, a hundred at once',
    smallRequest,
    [200, ...REJECTED],
    100,
  ),
  unansweredProbes(),
]

/** Of routes without authentication: what such a request holds must not keep hooks waiting. */
function unansweredProbes(): Attack {
  return {
    title: 'chunked probes whose answers are not read',
    lasts: true,
    async begin({ connect, url }) {
      const probe =
        'GET /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'
      const page = 'GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n'
      const sockets = Array.from({ length: 20 }, connect)
      for (const socket of sockets) socket.pause().write(page.repeat(100) + probe.repeat(1000))
      const body = filledRequest({ annotations: { note: 'x'.repeat(32 * 1024) } })
      const { status, text } = await post(`${url}/vecbackupschedules/sync`, body, TOKEN)
      const isAnswered = [200, ...REJECTED].includes(status)
      const problems = isAnswered ? [] : [`answered with ${status}: ${text.slice(0, 200)}`]
      return { problems, end: async () => sockets.forEach((socket) => socket.destroy()) }
    },
  }
}

function sent(title: string, makeBody: () => string, expected: number[], count = WORKERS): Attack {
  return {
    title,
    async begin({ url }) {
      const body = makeBody()
      const calls = Array.from({ length: count }, () =>
        post(`${url}/vecbackupschedules/sync`, body, TOKEN),
      )
      const answers = await Promise.all(calls)
      const problems = answers
        .filter(({ status }) => !expected.includes(status))
        .map(({ status, text }) => `answered with ${status}: ${text.slice(0, 200)}`)
      return { problems }
    },
  }
}

/** Below the size from which a body waits for others, with many values in a child. */
function smallRequest(): string {
  const noise = Array.from({ length: 20_000 }, () => ({}))
  return JSON.stringify(hookRequest({ schedule: schedule(), children: [hourly(0, { noise })] }))
}

/** Of a schedule with as many backups as fit. */
function filledRequest(metadata: object): string {
  const bytes = Buffer.byteLength(JSON.stringify({ [NAME]: hourly(0, metadata) }))
  const count = Math.min((MAX_REQUEST_BYTES - MARGIN_BYTES) / bytes, MAX_REQUEST_VALUES / VALUES)
  const children = Array.from({ length: count }, (_, at) => hourly(at, metadata))
  return JSON.stringify(hookRequest({ schedule: schedule(), children }))
}

function hourly(at: number, metadata: object) {
  const made = backup(new Date(FIRST - at * HOUR_MS).toISOString())
  return { ...made, metadata: { ...made.metadata, ...metadata } }
}

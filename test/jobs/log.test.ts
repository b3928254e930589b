/** The log of a Job, as `kubectl logs` prints it. */
import t from 'tap'
import { jobLog } from '../../jobs/log.ts'
import { matchWhole } from '../match-whole.ts'

function written(env: NodeJS.ProcessEnv): string[] {
  const lines: string[] = []
  const log = jobLog(env, { write: (line) => lines.push(line) })
  log.debug({ call: 'x' }, 'asked')
  log.info({ release: 'vec-a', pods: ['p'] }, 'waits')
  log.error({ err: new Error('broken') }, 'crashed')
  return lines
}

t.test('LOG_FORMAT json writes one JSON object a line', async (t) => {
  const lines = written({ LOG_FORMAT: 'json' }).map((line) => JSON.parse(line) as unknown)
  matchWhole(t, lines, [
    { level: 'INFO', time: /^\d{4}-.*Z$/, release: 'vec-a', pods: ['p'], msg: 'waits' },
    { level: 'ERROR', err: { message: 'broken' }, msg: 'crashed' },
  ])
})

t.test('LOG_FORMAT text writes readable lines', async (t) => {
  const [waits, crashed] = written({ LOG_FORMAT: 'text' })
  t.match(waits, /^\S+Z INFO waits release=vec-a pods=\["p"\]\n$/)
  t.match(crashed, /^\S+Z ERROR crashed\n {2}Error: broken\n {6}at /)
})

t.test('LOG_LEVEL decides what is written, in any case of letters', async (t) => {
  t.equal(written({ LOG_LEVEL: 'debug' }).length, 3)
  t.equal(written({ LOG_LEVEL: 'ERROR' }).length, 1)
  t.equal(written({ LOG_LEVEL: 'nonsense' }).length, 2)
})

/** A closed loop of requests: so many in flight, each followed by the next, all answers counted and timed. */
import { Pool } from 'undici'
import { monotonic, SENT_AT } from './instants.ts'
import { quantile } from './table.ts'

export interface Load {
  url: string
  path: string
  token: string
  /** The n-th body. */
  body: (n: number) => Buffer
  inFlight: number
  /** Stop after so many seconds, or after so many requests. */
  seconds?: number
  requests?: number
}

export interface Rate {
  answers: number
  perSecond: number
  /** In milliseconds. */
  p50: number
  p99: number
}

export async function run(load: Load): Promise<Rate> {
  const { requests = Infinity, seconds = Infinity, inFlight } = load
  const pool = new Pool(load.url, { connections: inFlight, pipelining: 1 })
  const times: number[] = []
  const started = performance.now()
  let sent = 0
  async function worker(): Promise<void> {
    while (sent < requests && performance.now() - started < seconds * 1000) {
      const before = performance.now()
      await ask(pool, load, sent++)
      times.push(performance.now() - before)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  const took = (performance.now() - started) / 1000
  await pool.close()
  return {
    answers: times.length,
    perSecond: times.length / took,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
  }
}

async function ask(pool: Pool, { path, token, body }: Load, n: number): Promise<void> {
  const text = body(n)
  const answer = await pool.request({
    method: 'POST',
    path,
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${token}`,
      [SENT_AT]: String(monotonic()),
    },
    body: text,
  })
  if (answer.statusCode !== 200) {
    throw new Error(`${path} answered ${answer.statusCode}: ${await answer.body.text()}`)
  }
  await answer.body.dump()
}

/**
 * Worker thread that sends healthy requests one after the other and reports each. A thread of its own: what an
 * attack costs its attacker is not counted as the service's delay.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { requestHealthy, trustService } from '../attacks/healthy.ts'
import { monotonic } from './instants.ts'

export interface Sample {
  /** By the machine's monotonic clock, in nanoseconds. */
  sentAt: number
  ms: number
  /** The error if there was no answer. */
  status: number | string
}

/** The least time between two requests. */
const PAUSE_MS = 10

const { url } = workerData as { url: string }
trustService()
for (;;) {
  const sentAt = monotonic()
  const status = await requestHealthy(url)
  const sample: Sample = { sentAt, ms: (monotonic() - sentAt) / 1e6, status }
  parentPort?.postMessage(sample)
  await sleep(PAUSE_MS)
}

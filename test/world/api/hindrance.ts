/** Bad days of the API server: it is too busy for a caller, or slow. */
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { send } from './calls.ts'
import { ApiFailure } from './failure.ts'

/** `busy`: 429, as priority and fairness answer. */
export type Hindrance = 'busy' | { slowMs: number }

const BUSY = new ApiFailure(429, 'TooManyRequests', 'too many requests, please try again later')

/** Whether the call is answered already; a slow one is only held up. */
export async function hinder(
  hindrance: Hindrance | undefined,
  response: ServerResponse,
): Promise<boolean> {
  if (hindrance === undefined) return false
  if (hindrance !== 'busy') {
    await sleep(hindrance.slowMs)
    return false
  }
  response.setHeader('retry-after', '1')
  send(response, BUSY.code, BUSY.toStatus())
  return true
}

/** Retries of a recovery, and what is done when nobody knows how one ended. */
import { EngineError } from '../../crds/errors.ts'
import { longCallMs } from '../clients/call.ts'
import { isPassing, patiently } from '../patience.ts'
import type { Left, Recovery } from './current.ts'
import { bytesOf, type Wanted } from './wanted.ts'
import { ordinals, recoveryOn, type Work } from './work.ts'

/** A restarted node takes about this long until it serves again. */
const RETRIES_MS = [5_000, 20_000, 60_000]
const POLL_MS = 5_000
/**
 * A request may reach the engine after its client has gone: the kernel goes on sending what the client had
 * written, for about 100 s where the network is down. Past this time of idleness none is on its way.
 */
const IN_TRANSIT_MS = 120_000

export interface Attempt {
  collection: string
  node: number
  shard?: number
  /** Bytes of the snapshot. */
  bytes: number
  act: () => Promise<void>
  /** Whether a recovery whose answer was lost has brought the data back. */
  isDone: () => Promise<boolean>
}

/**
 * Retries for as long as a node may take to restart. No recovery is repeated, and none is given up,
 * while the node may still be at the one before.
 */
export async function attempted(attempt: Attempt, work: Work): Promise<void> {
  const { signal, log, time, reporter } = work.tools
  const { collection, node, shard } = attempt
  const of = { collection, node, ...(shard !== undefined && { shard }) }
  for (const delay of [...RETRIES_MS, undefined]) {
    try {
      await attempt.act()
      return
    } catch (error) {
      signal.throwIfAborted()
      if (await isDoneAfterAll(attempt, work)) {
        log.info(of, 'the recovery whose answer was lost has succeeded')
        return
      }
      if (!isPassing(error) || delay === undefined) throw error
      log.warn({ ...of, reason: error.message, seconds: delay / 1000 }, 'retrying recovery')
      await time.sleep(delay, signal)
      await reporter.confirm()
    }
  }
}

/** Waits for a recovery without an answer, and then looks at what it has left. */
async function isDoneAfterAll(attempt: Attempt, work: Work): Promise<boolean> {
  const { collection, node, shard, bytes, isDone } = attempt
  const recovery = { node, ...(shard !== undefined && { shard }) }
  if (!work.tally.mayBeRunning(recovery)) return false
  await untilOver(collection, recovery, longCallMs(bytes), work)
  return isDone()
}

/**
 * What an earlier pod of this restore may have left running on the nodes is over after this, and so is
 * every other recovery of this collection.
 */
export async function endEarlier(
  wanted: Wanted,
  { running }: Pick<Left, 'running'>,
  work: Work,
): Promise<void> {
  const { name, method } = wanted
  if (running !== 'unknown') {
    const limitMs = longCallMs(bytesOf(wanted.source))
    await Promise.all(running.map((recovery) => untilOver(name, recovery, limitMs, work)))
  }
  const isTold = await untilIdle(wanted, work)
  if (running !== 'unknown' || (method === 'Node' && isTold)) return
  throw new EngineError(
    `an earlier release of the operator began to restore ${name}, and the engine does not tell whether a node is still at it: restart the pods of the target, which ends that, and create the VecRestore again`,
    { status: 409 },
  )
}

/** Waits until no node recovers a snapshot of this collection; false where the engine does not tell. */
export async function untilIdle(
  { name, source }: Pick<Wanted, 'name' | 'source'>,
  work: Work,
  nodes: readonly number[] = ordinals(work),
): Promise<boolean> {
  const limitMs = longCallMs(bytesOf(source))
  const all = nodes.map((node) => nodeIdle({ name, node, limitMs, idleMs: 0 }, work))
  return (await Promise.all(all)).every(Boolean)
}

/** Waits until this recovery, of which no answer has come, cannot change anything any more. */
async function untilOver(
  name: string,
  recovery: Recovery,
  limitMs: number,
  work: Work,
): Promise<void> {
  const { node } = recovery
  if (!(await nodeIdle({ name, node, limitMs, idleMs: IN_TRANSIT_MS }, work))) {
    throw new EngineError(
      `no answer came from node ${node} whether it has recovered its snapshot of ${name}, and engines before 1.16 do not tell whether they are still at it: restart the pod, which ends that, and create the VecRestore again`,
      { status: 409 },
    )
  }
  work.tally.recoveryIsOver(recovery)
}

interface Idleness {
  name: string
  node: number
  /** How long a recovery is waited for. */
  limitMs: number
  /** For how long the node must be seen idle, unless a recovery was seen to end. */
  idleMs: number
}

/** False where the engine does not tell. */
async function nodeIdle({ name, node, limitMs, idleMs }: Idleness, work: Work): Promise<boolean> {
  const { time, log, signal } = work.tools
  const now = () => time.now().getTime()
  const begun = now()
  let idleSince: number | undefined
  for (let wasRunning = false; ;) {
    const ask = () => recoveryOn(work, node).recoveries(name, signal)
    const running = await patiently(work, ask)
    if (running === undefined) return false
    if (running > 0) {
      wasRunning = true
      idleSince = undefined
    } else {
      idleSince ??= now()
      if (wasRunning || now() - idleSince >= idleMs) return true
    }
    if (now() - begun >= limitMs + idleMs) {
      const hours = Math.round((limitMs + idleMs) / 3_600_000)
      throw new EngineError(
        `node ${node} has been recovering a snapshot of ${name} for ${hours} h and is still at it: restart the pod, which ends that, and create the VecRestore again`,
        { status: 409 },
      )
    }
    log.info({ collection: name, node, running }, 'waiting for the recovery on that node')
    work.tally.tell()
    await time.sleep(POLL_MS, signal)
    await work.tally.told()
  }
}

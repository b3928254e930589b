/** Retries recoveries, and waits for recoveries whose outcome is unknown. */
import { EngineError } from '../../crds/contract/errors.ts'
import { longCallTimeoutMs } from '../clients/http/request.ts'
import { IN_TRANSIT_MS, isTransient, poll, retry, retryTransient } from '../retry.ts'
import type { Checkpoint, Recovery } from './checkpoint.ts'
import { snapshotBytes, type RestoreItem } from '../manifest-check.ts'
import { ordinals, recoveryForPod, type RunContext } from './context.ts'

/** A restarted node needs about this long until it serves requests again. */
const RETRIES_MS = [5_000, 20_000, 60_000]
const POLL_MS = 5_000

export interface RecoveryAttempt {
  collection: string
  node: number
  shard?: number
  /** Size of the snapshot. */
  bytes: number
  run: () => Promise<void>
  /** Whether a recovery whose response was lost has restored the data. */
  isDone: () => Promise<boolean>
}

/**
 * Retries for as long as a node may need to restart. Repeats or abandons a recovery only when the
 * node can no longer be working on the previous attempt.
 */
export async function retryRecovery(attempt: RecoveryAttempt, context: RunContext): Promise<void> {
  const { signal, log, time, reporter } = context.tools
  const { collection, node, shard } = attempt
  const fields = { collection, node, ...(shard !== undefined && { shard }) }
  const outcome = { isCompleted: false }
  const pauseMs = async (error: unknown, { retries }: { retries: number }) => {
    signal.throwIfAborted()
    // Here, not in the repeated call: if this check fails, the outcome is unknown, and another recovery
    // must not be sent.
    outcome.isCompleted = await hasCompleted(attempt, context)
    const pause = RETRIES_MS[retries]
    if (outcome.isCompleted || !isTransient(error) || pause === undefined) return undefined
    log.warn({ ...fields, reason: error.message, seconds: pause / 1000 }, 'retrying recovery')
    return pause
  }
  const afterPause = () => reporter.verifyOwnership()
  try {
    await retry({ time, signal, pauseMs, afterPause }, () => attempt.run())
  } catch (error) {
    if (!outcome.isCompleted) throw error
    log.info(fields, 'recovery completed, although its response was lost')
  }
}

/**
 * If the recovery may still be running, waits for its end, then checks whether it restored the
 * data.
 */
async function hasCompleted(attempt: RecoveryAttempt, context: RunContext): Promise<boolean> {
  const { collection, node, shard, bytes, isDone } = attempt
  const recovery = { node, ...(shard !== undefined && { shard }) }
  if (!context.progress.mayBeRunning(recovery)) return false
  await waitForRecoveryEnd(collection, recovery, longCallTimeoutMs(bytes), context)
  return isDone()
}

/**
 * Waits until the recoveries that an earlier pod of this restore may have left on the nodes have
 * ended, and every other recovery of this collection on these nodes too, by default on all. Throws
 * if this cannot be confirmed.
 */
export async function waitForEarlierRecoveries(
  item: RestoreItem,
  { running }: Pick<Checkpoint, 'running'>,
  context: RunContext,
  nodes?: readonly number[],
): Promise<void> {
  const { name, method } = item
  if (running !== 'unknown') {
    const limitMs = longCallTimeoutMs(snapshotBytes(item.source))
    await Promise.all(
      running.map((recovery) => waitForRecoveryEnd(name, recovery, limitMs, context)),
    )
  }
  const isKnown = await waitForIdle(item, context, nodes)
  if (running !== 'unknown' || (method === 'Node' && isKnown)) return
  throw new EngineError(
    `an earlier release of the operator started to restore ${name}, and the engine does not report whether a node is still recovering it: restart the pods of the target and create the VecRestore again`,
    { status: 409 },
  )
}

/**
 * Waits until no node recovers a snapshot of this collection; false if an engine does not report
 * recoveries.
 */
export async function waitForIdle(
  { name, source }: Pick<RestoreItem, 'name' | 'source'>,
  context: RunContext,
  nodes: readonly number[] = ordinals(context),
): Promise<boolean> {
  const limitMs = longCallTimeoutMs(snapshotBytes(source))
  const checks = nodes.map((node) => waitForNodeIdle({ name, node, limitMs, idleMs: 0 }, context))
  return (await Promise.all(checks)).every(Boolean)
}

/** Waits until this recovery, for which no response has arrived, can no longer change anything. */
async function waitForRecoveryEnd(
  name: string,
  recovery: Recovery,
  limitMs: number,
  context: RunContext,
): Promise<void> {
  const { node } = recovery
  if (!(await waitForNodeIdle({ name, node, limitMs, idleMs: IN_TRANSIT_MS }, context))) {
    throw new EngineError(
      `node ${node} did not respond whether it has recovered its snapshot of ${name}, and engines before 1.16 do not report running recoveries: restart the pod and create the VecRestore again`,
      { status: 409 },
    )
  }
  context.progress.recoveryEnded(recovery)
}

interface IdleCheck {
  name: string
  node: number
  /** How long to wait for a recovery. */
  limitMs: number
  /** How long the node must be observed idle, unless a recovery was observed to end. */
  idleMs: number
}

/** False if the engine does not report recoveries. */
async function waitForNodeIdle(
  { name, node, limitMs, idleMs }: IdleCheck,
  context: RunContext,
): Promise<boolean> {
  const { tools, progress } = context
  const { time, log, signal } = tools
  const now = () => time.monotonicMs()
  const startedAt = now()
  let idleSince: number | undefined
  let wasRunning = false
  const readRunning = () => recoveryForPod(context, node).runningRecoveries(name, signal)
  const afterPause = () => progress.reported()
  return poll({ time, signal, pauseMs: POLL_MS, afterPause }, async () => {
    const running = await retryTransient(context, readRunning)
    if (running === undefined) return false
    if (running > 0) {
      wasRunning = true
      idleSince = undefined
    } else {
      idleSince ??= now()
      if (wasRunning || now() - idleSince >= idleMs) return true
    }
    if (now() - startedAt >= limitMs + idleMs) {
      const hours = Math.round((limitMs + idleMs) / 3_600_000)
      throw new EngineError(
        `node ${node} has been recovering a snapshot of ${name} for ${hours} h: restart the pod, which ends the recovery, and create the VecRestore again`,
        { status: 409 },
      )
    }
    log.info({ collection: name, node, running }, 'waiting for the recovery on that node')
    progress.report()
    return undefined
  })
}

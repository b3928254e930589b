/**
 * Completes and verifies a restored collection: read fan-out, green status, point counts,
 * configuration.
 */
import { EngineError, Rejected } from '../../crds/contract/errors.ts'
import { GREEN_POLL_SECONDS, GREEN_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import type { RestoreCollectionInfo } from '../clients/engine/responses.ts'
import { fanOutBody } from '../recreate-collection.ts'
import { isReportable, isTransient, poll, retryTransient } from '../retry.ts'
import { changeCollection, requireStillOurs } from './change-collection.ts'
import { noteDifferences } from './config.ts'
import { findCollection } from './collection-checks.ts'
import { collectionsForPod, ordinals, recoveryForPod, type RunContext } from './context.ts'
import { verifyPointCount, type CountResult } from './point-count.ts'
import type { RestoreItem } from '../manifest-check.ts'
import { collectionDeleted } from './wait-for-shards.ts'

/**
 * Most collections are green at once or almost at once; a full pause would be the longest part of
 * the wait.
 */
const FIRST_PAUSES_MS = [25, 50, 100, 250, 500, 1_000, 2_000]
const PAUSE_MS = GREEN_POLL_SECONDS * 1000
/**
 * With status grey, an empty update is sent each time this many polls have passed: the pending
 * optimization only starts with an update (docs/engine-notes.md, "Collections").
 */
const GREY_POLLS = 3

/** Without waiting for the index, how long a node that does not answer may take to report red replicas. */
const SILENCE_MS = 60_000

export interface VerificationResult {
  points: number | undefined
  /** The collection is gone, or is that of another client by now: no alias may point to it. */
  isLost: boolean
  /**
   * Why the collection is incomplete although every step ran: a failed step does not prevent the
   * next ones.
   */
  failures: string[]
}

/** Throws only if the Job must stop. */
export async function verifyCollection(
  item: RestoreItem,
  context: RunContext,
): Promise<VerificationResult> {
  const { source, name } = item
  const { progress } = context
  const failures: string[] = []
  const body = fanOutBody(source.config)
  await recordFailure(failures, async () => body && patchCollection(name, body, context), context)
  if (context.waitForIndexing) progress.step('waits until it is green')
  await recordFailure(failures, () => waitForGreen(name, context), context)
  progress.step('counts its points')
  const { points, loss } = await countPointsOrNote(item, context)
  if (loss !== undefined) failures.push(loss)
  await recordFailure(failures, () => noteDifferences(item, context), context)
  let isLost = false
  const check = async () => {
    try {
      await requireStillThere(name, context)
    } catch (error) {
      // Any other error says nothing about the collection.
      isLost = error instanceof Rejected
      throw error
    }
  }
  await recordFailure(failures, check, context)
  return { points, failures: [...new Set(failures)], isLost }
}

/** Throws unless the collection exists and is the one that was restored. */
async function requireStillThere(name: string, context: RunContext): Promise<void> {
  const target = await retryTransient(context, () => findCollection(name, context))
  if (target === undefined) throw collectionDeleted(name)
  await retryTransient(context, () => requireStillOurs(name, context))
}

async function recordFailure(
  failures: string[],
  step: () => Promise<unknown>,
  { tools }: RunContext,
): Promise<void> {
  try {
    await step()
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isReportable(error)) throw error
    failures.push(error.message)
  }
}

/** If the points cannot be counted, their number is unknown; this is not a failure. */
async function countPointsOrNote(item: RestoreItem, context: RunContext): Promise<CountResult> {
  try {
    return await verifyPointCount(item, context)
  } catch (error) {
    context.tools.signal.throwIfAborted()
    if (!(error instanceof EngineError)) throw error
    context.progress.note(`points of ${item.name} were not counted: ${error.message}`)
    return { points: undefined }
  }
}

/** On every node: each one describes its own replicas, which are optimized independently of each other. */
async function waitForGreen(name: string, context: RunContext): Promise<void> {
  const { tools, progress } = context
  const { time, signal, log } = tools
  const pauseMs = [...FIRST_PAUSES_MS, PAUSE_MS]
  const afterPause = () => progress.reported()
  await poll({ time, signal, pauseMs, afterPause }, async ({ pauses, waitedMs }) => {
    const live = await readOnAllNodes(name, context)
    if (live.every((info) => info === undefined))
      throw new EngineError(`collection ${name} was deleted during the restore`)
    for (const [node, info] of live.entries()) {
      if (statusOf(info) === 'red')
        throw new EngineError(`${name} is red on node ${node}: ${optimizerError(info)}`)
    }
    const isPending = (info: NodeInfo) => {
      // A node without the collection, which others have, has not applied all changes.
      if (info === undefined) return true
      if (info === 'silent') return context.waitForIndexing || waitedMs() < SILENCE_MS
      return info.status !== 'green' && context.waitForIndexing
    }
    const pending = live.findIndex(isPending)
    if (pending === -1) {
      for (const [node, info] of live.entries()) {
        if (info === 'silent') progress.note(`node ${node} did not report the status of ${name}`)
      }
      return true
    }
    const extraPolls = pauses - FIRST_PAUSES_MS.length
    const isGrey = context.waitForIndexing && live.some((info) => statusOf(info) === 'grey')
    if (isGrey && extraPolls > 0 && extraPolls % GREY_POLLS === 0) {
      log.info({ collection: name }, 'waking the optimizers')
      // All nodes apply it.
      await patchCollection(name, { optimizers_config: {} }, context)
    }
    if (waitedMs() >= GREEN_TIMEOUT_SECONDS * 1000) {
      const reported = statusOf(live[pending])
      throw new EngineError(
        `collection ${name} did not turn green in time: node ${pending} reports ${reported}`,
      )
    }
    progress.report()
    return undefined
  })
}

/** What a node answers; undefined if it does not have the collection. */
type NodeInfo = RestoreCollectionInfo | 'silent' | undefined

function statusOf(info: NodeInfo): string {
  if (info === 'silent') return 'nothing'
  return info?.status ?? 'no such collection'
}

/** By ordinal. At least one node answers. */
async function readOnAllNodes(name: string, context: RunContext): Promise<NodeInfo[]> {
  const { signal } = context.tools
  const read = (node: number) => recoveryForPod(context, node).collection(name, signal)
  return retryTransient(context, async () => {
    let failure: unknown
    const live = await Promise.all(
      ordinals(context).map(async (node) => {
        try {
          return await read(node)
        } catch (error) {
          signal.throwIfAborted()
          if (!isTransient(error)) throw error
          failure = error
          return 'silent' as const
        }
      }),
    )
    if (live.every((info) => info === 'silent')) throw failure
    return live
  })
}

/** The error as the engine reports it. */
function optimizerError(info: NodeInfo): string {
  const status = typeof info === 'object' ? info.optimizer_status : undefined
  const { error } = Object(status) as { error?: unknown }
  return typeof error === 'string' ? error : JSON.stringify(status)
}

async function patchCollection(
  name: string,
  body: Record<string, unknown>,
  context: RunContext,
): Promise<void> {
  await changeCollection(name, context, () =>
    collectionsForPod(context, 0).patchCollection(name, body, context.tools.signal),
  )
}

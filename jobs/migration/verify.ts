/**
 * Verifies a copy: reads every point of the source again and compares it with the target. Points
 * that differ are copied again, in several rounds, to catch up with a source that is written to.
 * Differences that remain are reported by kind and number.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { MigrationCheckpoint } from '../../crds/contract/migration-job.ts'
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import { isTooLarge, withBackoff } from './backoff.ts'
import { Semaphore, writePoints, type CopyContext } from './batch-writer.ts'
import {
  compareScopes,
  differenceKind,
  toArrayPage,
  type Comparison,
  type ReadVolume,
} from './compare-collection.ts'
import { vectorTolerances, Differences } from './compare-points.ts'
import { resolveTargetName, type Endpoint, type RunContext } from './context.ts'
import type { CopiedIds } from './copied-ids.ts'
import { requireSameTarget } from './deleted-collections.ts'
import { confirmSourceReplicas } from './list-collections.ts'
import { ByteBudget, PageSizer, type CopyScope } from './page-reader.ts'
import { copyScopes } from './partitions.ts'
import { addShardKeys } from './prepare-target.ts'
import {
  collectionDeleted,
  readPageLimits,
  readSourceCollection,
  waitForIndexing,
  waitForReadablePoints,
  type PageLimits,
  type SourceCollection,
} from './source-collection.ts'

export interface Verification {
  /** What was compared, for the status. */
  summary: string
  /** What differs between the two sides. */
  difference?: string
}

const MAX_ROUNDS = 5
const PAUSE_MS = 1_000
/** Allows for points that are written or deleted while the two numbers are read. */
const COUNT_MARGIN_RATIO = 0.05
const MIN_COUNT_MARGIN = 100

/** Results of the rounds so far. */
interface VerificationState {
  pending: Differences
  volume: ReadVolume
  /** Number of points that differed at first and were copied again. */
  rewritten: number
  /** Whether the differences were checked again. */
  isRechecked: boolean
  /** Approximate number of points that the source counts. */
  counted: number
  /** Why the next round must read everything again. */
  unreadReason?: string | undefined
}

/** What was copied, and to which target. */
export interface CopyResult {
  position: MigrationCheckpoint
  /** Set if the target had points before. */
  ids: CopiedIds | undefined
}

export async function verifyCopy(
  name: string,
  copyResult: CopyResult,
  context: RunContext,
): Promise<Verification> {
  const { time } = context.tools
  const { unansweredUpserts } = context
  await unansweredUpserts.wait(context)
  const startedAt = await confirmSourceReplicas(name, context)
  const comparedKeys = new Set<ShardKey | undefined>()
  const state: VerificationState = {
    ...{ pending: new Differences(), volume: { points: 0, bytes: 0 } },
    ...{ rewritten: 0, isRechecked: true, counted: 0 },
  }
  const targetName = resolveTargetName(name, context.options)
  for (let round = 1; ; round += 1) {
    await requireSameTarget(copyResult.position, targetName, context)
    const sourceCollection = await rereadSource(name, context)
    const scopes = copyScopes(sourceCollection, context).filter(
      ({ shardKey }) => !comparedKeys.has(shardKey),
    )
    const isDone = scopes.length === 0 && isEqual(state)
    if (isDone || round > MAX_ROUNDS) {
      const uncomparedKeys = scopes.flatMap(({ shardKey }) => shardKey ?? [])
      const differences = await describeDifferences(
        state,
        { sourceCollection, uncomparedKeys, copyResult },
        context,
      )
      return toVerification(state, { startedAt, copyResult, differences }, context)
    }
    if (round > 2) await time.sleep(PAUSE_MS, context.tools.signal)
    // Wait only once: the following rounds show whether it helped.
    if (round === 2 && state.unreadReason !== undefined)
      await waitForIndexing(context.source, name, context)
    await unansweredUpserts.wait(context)
    await runRound({ sourceCollection, scopes, comparedKeys, copyResult }, state, context)
  }
}

interface Round {
  sourceCollection: SourceCollection
  /** Scopes that are not compared yet. */
  scopes: CopyScope[]
  comparedKeys: Set<ShardKey | undefined>
  copyResult: CopyResult
}

/** Checks earlier differences again and compares the scopes that are not compared yet. */
async function runRound(
  round: Round,
  state: VerificationState,
  context: RunContext,
): Promise<void> {
  const { sourceCollection, comparedKeys, copyResult } = round
  const { pending } = state
  const limits = await readPageLimits(sourceCollection, context)
  const isFullRead = state.unreadReason !== undefined || !pending.areListed('missing', 'different')
  const scopes = isFullRead ? copyScopes(sourceCollection, context) : round.scopes
  const comparison = newComparison({ sourceCollection, scopes, limits, copyResult })
  const foundDifferences = isFullRead
    ? new Differences()
    : await recheckUntilAnswered(pending, comparison, context)
  await addShardKeys(
    {
      name: resolveTargetName(sourceCollection.name, context.options),
      uuid: copyResult.position.targetUuid,
    },
    sourceCollection,
    context,
  )
  const foundBefore = foundDifferences.count('missing', 'different')
  const volume = await compareScopes(comparison, foundDifferences, context)
  for (const { shardKey } of scopes) comparedKeys.add(shardKey)
  state.pending = foundDifferences
  state.isRechecked = scopes.length === 0
  state.rewritten += foundDifferences.count('missing', 'different') - foundBefore
  state.volume = isFullRead ? volume : addVolumes(state.volume, volume)
  state.counted = await countSource(sourceCollection, context)
  state.unreadReason = findUnreadPoints(state)
}

/**
 * Checks earlier differences again. Points that were equal are checked once more if an upsert was not answered: it may
 * replace them later.
 */
async function recheckUntilAnswered(
  pending: Differences,
  comparison: Comparison,
  context: RunContext,
): Promise<Differences> {
  const { unansweredUpserts } = context
  for (let attempt = 1; attempt <= MAX_ROUNDS; attempt += 1) {
    const countBefore = unansweredUpserts.count
    const differences = await recheck(pending, comparison, context, attempt > 1)
    if (unansweredUpserts.count === countBefore) return differences
    await unansweredUpserts.wait(context)
  }
  throw new EngineError(
    `the target did not answer upserts in each of ${MAX_ROUNDS} attempts to copy differing points again: whether it has applied them is not known`,
  )
}

/** Points on the target only are checked again and then reported; they are never deleted. */
function isEqual({ pending, unreadReason, isRechecked }: VerificationState): boolean {
  const isCaughtUp = pending.count('missing', 'different') === 0
  return isCaughtUp && unreadReason === undefined && (pending.count('extra') === 0 || isRechecked)
}

function newComparison({
  sourceCollection,
  scopes,
  limits,
  copyResult: { position, ids },
}: Pick<Round, 'sourceCollection' | 'scopes' | 'copyResult'> & { limits: PageLimits }): Comparison {
  const { wait, comparePageSize: pageSize } = limits
  return {
    input: { scopes, points: sourceCollection.info.points_count ?? 0, pageSize, wait },
    tolerances: vectorTolerances(sourceCollection.info.config.params),
    includesExtra: position.before === 0,
    copiedIds: ids,
    wait,
  }
}

/** Reads the source again once all points of both sides are readable. */
async function rereadSource(name: string, context: RunContext): Promise<SourceCollection> {
  const { source, target, options } = context
  if ((await waitForReadablePoints(source, name, context)) === undefined)
    throw collectionDeleted(name, source)
  await waitForReadablePoints(target, resolveTargetName(name, options), context)
  return readSourceCollection(name, context)
}

/** The smaller one of the numbers that the source reports before and after a round. */
async function countSource(
  { name, info: infoBefore }: SourceCollection,
  context: RunContext,
): Promise<number> {
  const { source, tools } = context
  const infoAfter = await withBackoff(context, () =>
    source.collections.collectionInfo(name, tools.signal),
  )
  const counts = [infoBefore, infoAfter].map((info?: CollectionInfo) => info?.points_count ?? 0)
  return Math.min(...counts)
}

/**
 * Checks whether the source counts far more points than it returns. If `prevent_unoptimized` was
 * switched off, hidden points stay hidden until they are indexed, and no engine reports their
 * number. A smaller difference may be an error of the approximate count.
 */
function findUnreadPoints({ counted, volume: { points } }: VerificationState): string | undefined {
  if (counted - points <= Math.max(MIN_COUNT_MARGIN, COUNT_MARGIN_RATIO * counted)) return undefined
  return `the source counts about ${counted} points and shows ${points}: are the others not indexed yet, or is the collection being resharded?`
}

interface FinalInputs {
  sourceCollection: SourceCollection
  /** Shard keys that appeared in the last round. */
  uncomparedKeys: ShardKey[]
  copyResult: CopyResult
}

async function describeDifferences(
  { pending, unreadReason }: VerificationState,
  { sourceCollection, uncomparedKeys, copyResult }: FinalInputs,
  context: RunContext,
): Promise<string[]> {
  const extraKeys = await extraShardKeys(sourceCollection, copyResult, context)
  const hasExtra = pending.count('extra') > 0 || extraKeys.length > 0
  return [
    ...(unreadReason === undefined ? [] : [unreadReason]),
    ...pending.describe(),
    ...(extraKeys.length === 0 ? [] : [`shard keys on the target only: ${extraKeys.join(', ')}`]),
    ...(hasExtra
      ? [
          'what was deleted on the source during the migration stays on the target; if nothing was deleted, the replicas of the source differ',
        ]
      : []),
    ...(uncomparedKeys.length === 0
      ? []
      : [`shard keys not compared: ${uncomparedKeys.join(', ')}`]),
  ]
}

/**
 * Shard keys of the target that the source no longer has. If the target had points before, only
 * keys with copied points are checked.
 */
async function extraShardKeys(
  { name, keys }: SourceCollection,
  { position, ids }: CopyResult,
  context: RunContext,
): Promise<ShardKey[]> {
  const { target, tools, options } = context
  if (keys.length === 0) return []
  const isCopiedKey = (key: ShardKey) =>
    position.before === 0 || ids?.shardKeys.includes(key) === true
  const targetKeys = await withBackoff(context, () =>
    target.points.shardKeys(resolveTargetName(name, options), tools.signal),
  )
  return targetKeys
    .map(({ key }) => key)
    .filter((key) => isCopiedKey(key) && !keys.some((sourceKey) => sourceKey.key === key))
}

interface VerificationEnd {
  startedAt: Date
  copyResult: CopyResult
  differences: string[]
}

function toVerification(
  state: VerificationState,
  { startedAt, copyResult, differences }: VerificationEnd,
  context: RunContext,
): Verification {
  const { volume, rewritten, counted } = state
  const finishedAt = context.tools.time.now()
  const start = startedAt.toISOString()
  const seconds = Math.round((finishedAt.getTime() - startedAt.getTime()) / 1000)
  const cost = `${Math.ceil(volume.bytes / 1e6)} MB in ${seconds} s`
  context.tools.log.info({ ...volume, rewritten, seconds, differences }, 'comparison completed')
  const period = `compared whole from ${start} to ${finishedAt.toISOString()} (${cost})`
  if (differences.length > 0) {
    return {
      summary: period,
      difference: `${differences.join('; ')}; ${volume.points} points ${period}`,
    }
  }
  const { position, ids } = copyResult
  const { before } = position
  const parts = [
    before === 0
      ? `${volume.points} points on both sides, each equal`
      : `${volume.points} points of the source, each equal on the target`,
    period,
    ...(counted <= volume.points
      ? []
      : [
          `the source counts about ${counted} points: the others were written meanwhile, or are hidden until they are indexed`,
        ]),
    ...(rewritten === 0
      ? []
      : [`${rewritten} differed at first and were copied again: the source takes writes`]),
    ...(before === 0
      ? []
      : [`the target had about ${before} points before, and what else it has was not compared`]),
    ...(ids === undefined || ids.isComplete
      ? []
      : ['points that were deleted on the source during the migration may be on the target']),
  ]
  return { summary: parts.join('; ') }
}

function addVolumes(left: ReadVolume, right: ReadVolume): ReadVolume {
  return { points: left.points + right.points, bytes: left.bytes + right.bytes }
}

const MAX_BATCH_POINTS = 100
const MAX_BATCH_BYTES = 8 * 1024 * 1024

/**
 * Copies differing points again and returns what still differs. Points that neither side has any
 * more are not a difference. Points that are equal by now are not copied if it `wasCopied` before:
 * a target that now and then gives no answer to an upsert would never be done.
 */
export async function recheck(
  previous: Differences,
  { input, tolerances, wait }: Comparison,
  context: RunContext,
  wasCopied = false,
): Promise<Differences> {
  const isDue = (id: string, source: Buffer, target: ReadonlyMap<string, Buffer>) =>
    differenceKind({ id, json: source }, toItem(id, target), tolerances) !== undefined
  const stillDifferent = new Differences(previous.unlisted('extra'))
  const size = new PageSizer(input.pageSize)
  const shared: CopyContext = {
    writeSlots: new Semaphore(),
    size,
    budget: new ByteBudget(),
    context,
    wait,
  }
  let batchSize = Math.min(MAX_BATCH_POINTS, input.pageSize)
  for (const [scope, ids] of previous.ids('missing', 'different', 'extra')) {
    for (let index = 0; index < ids.length;) {
      const batch = ids.slice(index, index + batchSize)
      try {
        const selects = wasCopied ? isDue : undefined
        const { source, target } = await recopyPoints({ scope, ids: batch, selects }, shared)
        for (const id of batch) {
          const kind = differenceKind(toItem(id, source), toItem(id, target), tolerances)
          if (kind !== undefined) stillDifferent.add(kind, scope, id)
        }
        index += batch.length
      } catch (error) {
        if (batch.length === 1 || !isTooLarge(error)) throw error
        batchSize = Math.ceil(batch.length / 2)
      }
    }
  }
  return stillDifferent
}

interface Recopied {
  scope: CopyScope
  ids: readonly string[]
  /** Which points of the source are written, by those of the target; all if it is not set. */
  selects:
    ((id: string, source: Buffer, target: ReadonlyMap<string, Buffer>) => boolean) | undefined
}

/** Writes the points of the source to the target, then reads them from both sides. */
async function recopyPoints({ scope, ids, selects }: Recopied, shared: CopyContext) {
  const { source, target } = shared.context
  const sourcePoints = await retrievePoints(source, scope, ids, shared)
  if (selects === undefined) {
    await writePoints(toArrayPage([...sourcePoints.values()]), scope, shared)
  } else {
    const targetPoints = await retrievePoints(target, scope, ids, shared)
    const due = [...sourcePoints].filter(([id, json]) => selects(id, json, targetPoints))
    const points = due.map(([, json]) => json)
    if (points.length > 0) await writePoints(toArrayPage(points), scope, shared)
  }
  return {
    source: await retrievePoints(source, scope, ids, shared),
    target: await retrievePoints(target, scope, ids, shared),
  }
}

function retrievePoints(
  { role, points }: Endpoint,
  { name, targetName, shardKey }: CopyScope,
  ids: readonly string[],
  { context }: CopyContext,
): Promise<Map<string, Buffer>> {
  const collection = role === 'source' ? name : targetName
  const options = { shardKey, maxBytes: ids.length === 1 ? Infinity : MAX_BATCH_BYTES }
  return withBackoff(context, () => points.retrieve(collection, ids, options, context.tools.signal))
}

function toItem(id: string, pointsById: ReadonlyMap<string, Buffer>) {
  const json = pointsById.get(id)
  return json && { id, json }
}

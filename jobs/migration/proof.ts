/**
 * The proof: every point of the source is read again and is equal on the target. What differs is copied
 * again, in rounds: a source that takes writes is caught up with, or the rest is told by kind and number.
 */
import type { ShardKey } from '../../crds/manifest.ts'
import type { MigrationPosition } from '../../crds/migration-command.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import { compareAll, type Amount, type Comparison } from './compare.ts'
import type { CopiedIds } from './copied-ids.ts'
import { untilIndexed, untilReadable } from './deferred.ts'
import { Differences } from './differences.ts'
import { paced } from './pace.ts'
import type { Place } from './pages.ts'
import { recheck } from './recheck.ts'
import { deleted, limitsOf, placesOf, readShape, type Limits, type Shape } from './shape.ts'
import { addShardKeys } from './target.ts'
import { tolerancesOf } from './tolerance.ts'
import { targetNameOf, type Work } from './work.ts'

export interface Proof {
  /** What was compared, for the status. */
  said: string
  /** What is not the same on both sides. */
  difference?: string
}

const MAX_ROUNDS = 5
const PAUSE_MS = 1_000
/** So many points may be written or deleted while both numbers are read. */
const COUNT_MARGIN = 0.05
const LEAST_MARGIN = 100

/** What is known after some rounds. */
interface Findings {
  pending: Differences
  amount: Amount
  /** Differed at first and were copied again. */
  rewritten: number
  /** Whether what differed was looked at again. */
  isRechecked: boolean
  /** Why all is to be read once more. */
  unread?: string | undefined
}

/** What was copied, and into what. */
export interface Copied {
  position: MigrationPosition
  /** Of a target that had points before. */
  ids: CopiedIds | undefined
}

export async function prove(name: string, copied: Copied, work: Work): Promise<Proof> {
  const { time } = work.tools
  const began = time.now()
  const compared = new Set<ShardKey | undefined>()
  const findings: Findings = {
    ...{ pending: new Differences(), amount: { points: 0, bytes: 0 } },
    ...{ rewritten: 0, isRechecked: true },
  }
  for (let round = 1; ; round += 1) {
    const shape = await readAgain(name, work)
    const places = placesOf(shape, work).filter(({ shardKey }) => !compared.has(shardKey))
    const isOver = places.length === 0 && isEqual(findings)
    if (isOver || round > MAX_ROUNDS) {
      const unseen = places.flatMap(({ shardKey }) => shardKey ?? [])
      const differences = await differencesOf(findings, { shape, unseen, copied }, work)
      return proofOf(findings, { began, copied, differences }, work)
    }
    if (round > 2) await time.sleep(PAUSE_MS, work.tools.signal)
    // Once: the rounds after it find out whether it helped.
    if (round === 2 && findings.unread !== undefined) await untilIndexed(work.source, name, work)
    await nextRound({ shape, places, compared, copied }, findings, work)
  }
}

interface Round {
  shape: Shape
  /** Not compared yet. */
  places: Place[]
  compared: Set<ShardKey | undefined>
  copied: Copied
}

/** Looks again at what differed, and compares what was not compared yet. */
async function nextRound(round: Round, findings: Findings, work: Work): Promise<void> {
  const { shape, compared, copied } = round
  const { pending } = findings
  const limits = await limitsOf(shape, work)
  const isAnew = findings.unread !== undefined || !pending.areKnown('missing', 'different')
  const places = isAnew ? placesOf(shape, work) : round.places
  const comparison = comparisonOf({ shape, places, limits, copied })
  const found = isAnew ? new Differences() : await recheck(pending, comparison, work)
  await addShardKeys(targetNameOf(shape.name, work.order), shape, work)
  const again = found.count('missing', 'different')
  const amount = await compareAll(comparison, found, work)
  for (const { shardKey } of places) compared.add(shardKey)
  findings.pending = found
  findings.isRechecked = places.length === 0
  findings.rewritten += found.count('missing', 'different') - again
  findings.amount = isAnew ? amount : sumOf(findings.amount, amount)
  findings.unread = await unreadPoints(shape, findings.amount, work)
}

/** What is on the target only is looked at once more, and then told: it is not taken away. */
function isEqual({ pending, unread, isRechecked }: Findings): boolean {
  const isCaughtUp = pending.count('missing', 'different') === 0
  return isCaughtUp && unread === undefined && (pending.count('extra') === 0 || isRechecked)
}

function comparisonOf({
  shape,
  places,
  limits,
  copied: { position, ids },
}: Pick<Round, 'shape' | 'places' | 'copied'> & { limits: Limits }): Comparison {
  const { wait, compared: most } = limits
  return {
    load: { places, points: shape.info.points_count ?? 0, most, wait },
    tolerances: tolerancesOf(shape.info.config.params),
    isWhole: position.before === 0,
    copied: ids,
    wait,
  }
}

/** The source as it is now, with every point of both sides in the reach of readers. */
async function readAgain(name: string, work: Work): Promise<Shape> {
  const { source, target, order } = work
  if ((await untilReadable(source, name, work)) === undefined) throw deleted(name, source)
  await untilReadable(target, targetNameOf(name, order), work)
  return readShape(name, work)
}

/**
 * Whether the source has far more points than it shows. Those of a collection whose `prevent_unoptimized`
 * was switched off stay hidden until they are indexed, and no engine tells how many they are.
 */
async function unreadPoints(
  { name, info: before }: Shape,
  { points }: Amount,
  work: Work,
): Promise<string | undefined> {
  const { source, tools } = work
  const after = await paced(work, () => source.collections.collectionInfo(name, tools.signal))
  const [one, other] = [before, after].map((info?: CollectionInfo) => info?.points_count ?? 0)
  const counted = Math.min(one ?? 0, other ?? 0)
  if (counted - points <= Math.max(LEAST_MARGIN, COUNT_MARGIN * counted)) return undefined
  return `the source counts about ${counted} points and shows ${points}: are the others not indexed yet, or is the collection being resharded?`
}

interface Remains {
  shape: Shape
  /** Shard keys that appeared in the last round. */
  unseen: ShardKey[]
  copied: Copied
}

async function differencesOf(
  { pending, unread }: Findings,
  { shape, unseen, copied }: Remains,
  work: Work,
): Promise<string[]> {
  const foreign = await foreignKeys(shape, copied, work)
  const extra = pending.count('extra') > 0 || foreign.length > 0
  return [
    ...(unread === undefined ? [] : [unread]),
    ...pending.words(),
    ...(foreign.length === 0 ? [] : [`shard keys on the target only: ${foreign.join(', ')}`]),
    ...(extra ? ['what was deleted on the source during the migration stays on the target'] : []),
    ...(unseen.length === 0 ? [] : [`shard keys not compared: ${unseen.join(', ')}`]),
  ]
}

/** Keys of the target that the source has no more; of a target that had points before, only those that were copied. */
async function foreignKeys(
  { name, keys }: Shape,
  { position, ids }: Copied,
  work: Work,
): Promise<ShardKey[]> {
  const { target, tools, order } = work
  if (keys.length === 0) return []
  const isOurs = (key: ShardKey) => position.before === 0 || ids?.shardKeys.includes(key) === true
  const there = await paced(work, () =>
    target.points.shardKeys(targetNameOf(name, order), tools.signal),
  )
  return there
    .map(({ key }) => key)
    .filter((key) => isOurs(key) && !keys.some((own) => own.key === key))
}

interface End {
  began: Date
  copied: Copied
  differences: string[]
}

function proofOf(findings: Findings, { began, copied, differences }: End, work: Work): Proof {
  const { amount, rewritten } = findings
  const ended = work.tools.time.now()
  const from = began.toISOString()
  const seconds = Math.round((ended.getTime() - began.getTime()) / 1000)
  const cost = `${Math.ceil(amount.bytes / 1e6)} MB in ${seconds} s`
  work.tools.log.info({ ...amount, rewritten, seconds, differences }, 'comparison ended')
  const window = `compared whole from ${from} to ${ended.toISOString()} (${cost})`
  if (differences.length > 0) {
    return {
      said: window,
      difference: `${differences.join('; ')}; ${amount.points} points ${window}`,
    }
  }
  const { position, ids } = copied
  const { before } = position
  const parts = [
    before === 0
      ? `${amount.points} points on both sides, each equal`
      : `${amount.points} points of the source, each equal on the target`,
    window,
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
  return { said: parts.join('; ') }
}

function sumOf(one: Amount, other: Amount): Amount {
  return { points: one.points + other.points, bytes: one.bytes + other.bytes }
}

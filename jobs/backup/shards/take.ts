/** All shards of a collection, so many at once, one from a pod at a time; a stream that broke is fetched again. */
import { EngineError } from '../../../crds/errors.ts'
import type { ShardSnapshot } from '../../../crds/manifest.ts'
import { humanSize } from '../../../crds/size.ts'
import { isPassing } from '../../patience.ts'
import { shardPrint, type Shape } from '../shape.ts'
import { refuseDeleted } from '../source.ts'
import { RETRIES_MS, STALL_EVERY_MS, type Work } from '../work.ts'
import { wholeEarlier } from './part.ts'
import { activeHolders, knows, sightOf, type Sight } from './sight.ts'
import { streamShard } from './stream.ts'
import { Turns, type Turn } from './turns.ts'

const POLL_MS = 5_000

interface Round {
  collection: string
  shape: Shape
  work: Work
  turns: Turns
  /** By shard. */
  taken: Map<number, ShardSnapshot>
  failures: Map<number, number>
  /** Streams that share the memory of the Job. */
  streams: number
}

export interface Taken {
  /** In the order of their ids. */
  snapshots: ShardSnapshot[]
  /** Shards whose snapshot was in the bucket before. */
  earlier: ReadonlySet<number>
}

/** What is in the bucket already is not streamed again. A shard that is no longer in the collection is left out. */
export async function takeShards(collection: string, shape: Shape, work: Work): Promise<Taken> {
  const taken = await takenEarlier(collection, shape, work)
  const earlier = new Set(taken.keys())
  const missing = shape.shards.filter(({ shardId }) => !taken.has(shardId))
  const stop = new AbortController()
  const signal = AbortSignal.any([work.tools.signal, stop.signal])
  const streams = await streamsFor(collection, missing, work)
  const round: Round = {
    ...{ collection, shape, taken, streams, failures: new Map() },
    turns: new Turns(missing.map(({ shardId }) => shardId)),
    work: { ...work, tools: { ...work.tools, signal } },
  }
  const running = Array.from({ length: streams }, () =>
    takeTurns(round).catch((error: unknown) => {
      // Without one of its shards the collection is nothing: the others need not come to their end.
      stop.abort(error)
      throw error
    }),
  )
  const still = setInterval(() => work.tally.still(), STALL_EVERY_MS)
  try {
    await Promise.all(running)
  } finally {
    await Promise.allSettled(running)
    clearInterval(still)
  }
  const snapshots = [...taken.values()].sort((one, other) => one.shardId - other.shardId)
  return { snapshots, earlier }
}

/** As many as the plan says, or as few as the memory of the Job allows: large shards need large parts. */
async function streamsFor(
  collection: string,
  missing: readonly { shardId: number }[],
  work: Work,
): Promise<number> {
  const most = Math.min(work.plan.parallelism, missing.length)
  if (most === 0) return 0
  const expected: (number | undefined)[] = []
  for (const { shardId } of missing) expected.push(await work.sizes.of(collection, shardId, work))
  const streams = work.bucket.memory.streamsFor(expected, most)
  if (streams < most) {
    const memory = humanSize(work.bucket.memory.bytes)
    const fields = { collection, parallelism: most, streams, memory }
    work.tools.log.info(fields, 'fewer streams at once: large shards need large parts in memory')
  }
  return streams
}

async function takenEarlier(
  collection: string,
  shape: Shape,
  work: Work,
): Promise<Map<number, ShardSnapshot>> {
  const taken = new Map<number, ShardSnapshot>()
  for (const shard of shape.shards) {
    const place = { collection, shardId: shard.shardId }
    const found = await wholeEarlier(place, shardPrint(shard, shape), work)
    if (found === undefined) continue
    taken.set(shard.shardId, found)
    work.tally.streamEnded(found)
    work.tools.log.info({ ...place, key: found.key }, 'is in the bucket already')
  }
  return taken
}

async function takeTurns(round: Round): Promise<void> {
  for (;;) {
    const next = await nextTurn(round)
    if (next === undefined) return
    const failure = await takeTurn(next, round)
    if (failure === undefined) continue
    await waitAfter(failure, next.turn, round)
    round.turns.giveBack(next.turn)
  }
}

interface Next {
  turn: Turn
  sight: Sight
}

/** Waits for an idle pod, and, within bounds, for a copy that is Active. Undefined when nothing is left to do. */
async function nextTurn({ collection, turns, work }: Round): Promise<Next | undefined> {
  const { patience, tools } = work
  const limit = patience.share()
  for (let waited = 0; ;) {
    const sight = await sightOf(collection, work)
    // Its key was deleted, perhaps: the collection is looked at anew in the end.
    for (const shardId of turns.waiting()) if (!knows(sight, shardId)) turns.forget(shardId)
    const [first] = turns.waiting()
    if (first === undefined) return undefined
    const turn = turns.take(activeHolders(sight))
    if (turn !== undefined) return { turn, sight }
    if (!turns.isIdle()) {
      await turns.released()
      tools.signal.throwIfAborted()
      continue
    }
    if (waited >= limit) {
      throw new EngineError(`no copy of shard ${first} is Active (waited ${limit / 1000} s)`)
    }
    tools.log.info({ collection, shard: first }, 'waits until a copy is Active')
    await tools.time.sleep(POLL_MS, tools.signal)
    patience.spend(POLL_MS)
    waited += POLL_MS
  }
}

/** Answers with what the stream broke off for, where it did and may not do so again. */
async function takeTurn({ turn, sight }: Next, round: Round): Promise<EngineError | undefined> {
  const { collection, shape, turns, taken, work } = round
  const { shardId, node } = turn
  try {
    const found = shape.shards.find((shard) => shard.shardId === shardId)
    const shard = { shardId, ...(found?.shardKey !== undefined && { shardKey: found.shardKey }) }
    const fingerprint = shardPrint(shard, shape)
    const source = {
      ...{ collection, shard, node, fingerprint, before: sight },
      streams: round.streams,
    }
    const snapshot = await streamShard(source, work)
    taken.set(shardId, snapshot)
    work.tally.streamEnded(snapshot)
    return undefined
  } catch (error) {
    work.tools.signal.throwIfAborted()
    work.tally.streamBroke(shardId)
    if (error instanceof EngineError && error.status === 404) await refuseDeleted(collection, work)
    if (isPassing(error) || isElsewhere(error)) return error
    throw error
  } finally {
    turns.release(turn)
  }
}

/** 400: the shard has left this node since we looked, or is just leaving it. */
function isElsewhere(error: unknown): error is EngineError {
  return error instanceof EngineError && error.status === 400
}

async function waitAfter(
  failure: EngineError,
  { shardId, node }: Turn,
  { collection, failures, work }: Round,
): Promise<void> {
  const { log, signal, time, reporter } = work.tools
  const before = failures.get(shardId) ?? 0
  const delay = RETRIES_MS[before]
  if (delay === undefined) throw failure
  failures.set(shardId, before + 1)
  const fields = { collection, shard: shardId, node, seconds: delay / 1000 }
  log.warn({ ...fields, reason: failure.message }, 'tries again')
  await time.sleep(delay, signal)
  await reporter.confirm()
}

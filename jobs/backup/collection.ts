/** One collection: the snapshots of all its nodes, which must be of one shape. */
import { EngineError } from '../../crds/errors.ts'
import { NodeCollection, type NodeSnapshot } from '../../crds/manifest.ts'
import { countsBetween, readAfter, readBefore, without } from './counting.ts'
import { finish, finishedEarlier } from './finished.ts'
import { backUpNode, removeLeftovers, type Round } from './node.ts'
import { readPart, readParts, writePart, type Part } from './part.ts'
import { look, settledShape } from './shape.ts'
import { refuseUnknown } from './source.ts'
import { ROUNDS, ordinals, type Work } from './work.ts'

export async function backUpCollection(name: string, work: Work): Promise<NodeCollection> {
  const finished = await finishedEarlier(NodeCollection, name, work)
  if (finished !== undefined) return finished
  await refuseUnknown(name, work)
  let left = await readParts(name, work)
  // Where an earlier pod was: all of its snapshots in that round are of one shape.
  const first = Math.max(1, ...left.map((part) => part?.round ?? 1))
  for (let number = first; number < first + ROUNDS; number += 1) {
    const round = { number, shape: await settledShape(name, work) }
    const before = await readBefore(name, round.shape.described, work)
    const snapshots = await takeSnapshots(name, round, left, work)
    if (snapshots !== undefined && (await isStill(round, name, work))) {
      const after = await readAfter(name, round.shape.described, work)
      const known = without(before, takenBefore(left, snapshots))
      const counts = countsBetween(round.shape.described, known, after)
      return finish({ name, snapshots, ...round.shape.described, ...counts }, work)
    }
    work.tools.log.warn({ collection: name, round: number }, 'changed under way: looks again')
    await dropRound(name, number, work)
    left = []
  }
  throw new EngineError(
    `collection ${name}: it was created again, its shards moved, or its configuration or the engine’s version changed ${ROUNDS} times while it was backed up`,
  )
}

/** Undefined as soon as the collection is not what it was, also when an earlier pod began the round. */
async function takeSnapshots(
  name: string,
  round: Round,
  left: (Part | undefined)[],
  work: Work,
): Promise<NodeSnapshot[] | undefined> {
  if (left.some((part) => isOfAnotherShape(part, round))) return undefined
  const snapshots: NodeSnapshot[] = []
  for (const ordinal of ordinals(work)) {
    const place = { collection: name, ordinal }
    const snapshot = await backUpNode(place, { ...round, left: left[ordinal] }, work)
    if (snapshot === undefined) return undefined
    snapshots.push(snapshot)
  }
  return snapshots
}

/** Shards in the snapshots that an earlier pod took. */
function takenBefore(left: (Part | undefined)[], snapshots: NodeSnapshot[]): number[] {
  const earlier = left.flatMap((part) => (part?.state === 'Whole' ? [part.snapshot] : []))
  return snapshots
    .filter((snapshot) => earlier.includes(snapshot))
    .flatMap(({ localShards }) => localShards.map(({ shardId }) => shardId))
}

function isOfAnotherShape(part: Part | undefined, { number, shape }: Round): boolean {
  if (part?.state !== 'Whole' || part.round !== number) return false
  return part.fingerprint !== shape.fingerprint
}

/** A shard that moved between two snapshots may be in none of them. */
async function isStill({ shape }: Round, name: string, work: Work): Promise<boolean> {
  const now = await look(name, work)
  return typeof now !== 'string' && now.fingerprint === shape.fingerprint
}

/** None of its snapshots may be used again, by this pod or by one that comes after it. */
async function dropRound(name: string, number: number, work: Work): Promise<void> {
  for (const ordinal of ordinals(work)) {
    const place = { collection: name, ordinal }
    const part = await readPart(place, work)
    if (part !== undefined) await removeLeftovers(place, part, work)
    await writePart(place, { state: 'Begun', uid: work.plan.uid, round: number + 1 }, work)
  }
}

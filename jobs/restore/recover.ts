/**
 * One node after the other gets its snapshot, by ordinal, and each is settled before the next: the shards
 * of a node move to it with its snapshot (facts 6.4, step 5).
 */
import { EngineError } from '../../crds/errors.ts'
import type { ManifestSnapshot } from '../../crds/manifest.ts'
import { humanSize } from '../../crds/size.ts'
import { isPassing } from '../patience.ts'
import { settled, type Copies } from './settled.ts'
import { bring } from './bring.ts'
import { ordinals, recoveryOn, type Wanted, type Work } from './work.ts'

/** A node that is restarted needs about so long to serve again. */
const RETRIES_MS = [5_000, 20_000, 60_000]
const POLL_MS = 5_000
/** A recovery that nobody waits for any more ends within the hour that a call may take. */
const RUNNING_MS = 3_600_000

/** From the given node on: those before it have their snapshot. */
export async function recoverNodes(
  { source, name }: Wanted,
  work: Work,
  from: number,
): Promise<void> {
  const { tally } = work
  const snapshots = source.snapshots.toSorted((one, other) => one.nodeIndex - other.nodeIndex)
  for (const snapshot of snapshots.slice(from)) {
    await recoverNode(name, snapshot, work)
    await tally.nodeDone(snapshot.sizeBytes)
  }
}

async function recoverNode(name: string, snapshot: ManifestSnapshot, work: Work): Promise<void> {
  const { log, signal, time, reporter } = work.tools
  const { nodeIndex: node, sizeBytes } = snapshot
  for (const delay of [...RETRIES_MS, undefined]) {
    try {
      await untilIdle(name, work)
      work.tally.step(`node ${node + 1}: takes ${humanSize(sizeBytes)}`)
      const begun = time.now().getTime()
      const way = await bring(name, snapshot, work)
      const seconds = (time.now().getTime() - begun) / 1000
      log.info({ collection: name, node, bytes: sizeBytes, seconds, way }, work.tally.line())
      await settled(name, work, (copies) => misplaced(snapshot, copies))
      return
    } catch (error) {
      signal.throwIfAborted()
      if (!isPassing(error) || delay === undefined) throw error
      log.warn(
        { collection: name, node, reason: error.message, seconds: delay / 1000 },
        'tries again',
      )
      await time.sleep(delay, signal)
      await reporter.confirm()
    }
  }
}

/** Each shard of the snapshot is on its node, and there alone. */
export function misplaced(
  { nodeIndex, localShards }: Pick<ManifestSnapshot, 'nodeIndex' | 'localShards'>,
  copies: Copies,
): string | undefined {
  for (const { shardId } of localShards) {
    const holders = [...(copies.get(shardId)?.keys() ?? [])]
    if (holders.length === 1 && holders[0] === nodeIndex) continue
    return `shard ${shardId} is on nodes ${holders.join(', ')}, not on node ${nodeIndex} alone`
  }
  return undefined
}

/** An earlier pod's call may still be at work on any node, and nothing keeps two of them apart. */
async function untilIdle(name: string, work: Work): Promise<void> {
  for (const node of ordinals(work)) await untilNodeIdle(name, node, work)
}

async function untilNodeIdle(name: string, node: number, work: Work): Promise<void> {
  const { time, log, signal } = work.tools
  for (let waited = 0; ; waited += POLL_MS) {
    if (!(await recoveryOn(work, node).isRecovering(name, signal))) return
    if (waited >= RUNNING_MS) {
      throw new EngineError(`node ${node} has been taking a snapshot of ${name} for an hour`, {
        status: 400,
      })
    }
    log.info({ collection: name, node }, 'waits for the recovery that runs there')
    work.tally.tell()
    await time.sleep(POLL_MS, signal)
    await work.tally.told()
  }
}

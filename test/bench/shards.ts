/** A backup by shard, and its restore, next to the same by node: three nodes that hold two copies of each shard. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fill } from './engine-calls.ts'
import type { Part, Plan } from './part.ts'
import { build } from './processes.ts'
import { median, type Figure } from './table.ts'
import { remove, threeNodes, type BackedUp, type ThreeNodes } from './three-nodes.ts'

const COLLECTION = 'docs'
const SHARDS = 6
const COPIES = 2
/** 600 MiB, and as much for the second copies. */
const POINTS = 800
/** Of what the method Node takes. */
const SHARES = { bytes: 0.55, backup: 0.7, restore: 0.8 }
const MAX_RSS = 200

export const shards: Part = {
  name: 'shards',
  title: `Backups by shard, ${COPIES} copies on three nodes`,
  columns: ['by shard', 'by node'],
  usage: `
shards: ENGINE_BIN names the engine, S3_BIN a versitygw; without them nothing is measured.`,
  needs: [
    { variable: 'ENGINE_BIN', rows: 'every row' },
    { variable: 'S3_BIN', rows: 'every row' },
  ],
  targets: () => [
    ...['bytes in the bucket', 'backup, whole', 'restore, whole'],
    ...['backup: RSS, peak', 'restore: RSS, peak'],
  ],
  measure: async ({ pairs }: Plan) => {
    const { ENGINE_BIN: engine, S3_BIN: store } = process.env
    if (engine === undefined || store === undefined) return []
    await build()
    const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
    const nodes = await threeNodes({ engine, store }, folder)
    try {
      const copies = { shard_number: SHARDS, replication_factor: COPIES }
      await fill(nodes.urls[0] ?? '', COLLECTION, { points: POINTS, ...copies })
      return figuresOf(await alternate(nodes, pairs))
    } finally {
      await nodes.close()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

interface Sample {
  backup: BackedUp
  /** Seconds. */
  restored: number
  /** MiB. */
  restorePeak: number
}

async function alternate(
  nodes: ThreeNodes,
  pairs: number,
): Promise<Record<'Node' | 'Shard', Sample[]>> {
  const samples: Record<'Node' | 'Shard', Sample[]> = { Node: [], Shard: [] }
  for (let pair = 0; pair < pairs; pair += 1) {
    for (const method of ['Node', 'Shard'] as const) {
      const backup = await nodes.backUp(method)
      await remove(nodes, COLLECTION)
      const { seconds: restored, peak: restorePeak } = await nodes.restore(backup)
      samples[method].push({ backup, restored, restorePeak })
    }
  }
  return samples
}

function figuresOf({ Node, Shard }: Record<'Node' | 'Shard', Sample[]>): Figure[] {
  const beside = (
    what: string,
    unit: string,
    share: number,
    of: (sample: Sample) => number,
  ): Figure => {
    const [value, yardstick] = [median(Shard.map(of)), median(Node.map(of))]
    const target = Number((share * yardstick).toFixed(1))
    const best = Math.min(...Shard.map(of))
    return { what, unit, value, best, yardstick, target, met: value <= share * yardstick }
  }
  const peak = (what: string, of: (sample: Sample) => number): Figure => {
    const value = Math.max(...Shard.map(of))
    const yardstick = Math.max(...Node.map(of))
    return { what, unit: 'MiB', value, yardstick, target: MAX_RSS, met: value < MAX_RSS }
  }
  return [
    beside('bytes in the bucket', 'MiB', SHARES.bytes, ({ backup }) => backup.bytes / 2 ** 20),
    beside('backup, whole', 's', SHARES.backup, ({ backup }) => backup.seconds),
    beside('restore, whole', 's', SHARES.restore, ({ restored }) => restored),
    peak('backup: RSS, peak', ({ backup }) => backup.peak),
    peak('restore: RSS, peak', ({ restorePeak }) => restorePeak),
  ]
}

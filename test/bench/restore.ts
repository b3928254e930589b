/**
 * A restore into a real engine of three nodes, node by node: the time of the Job from the start of its process
 * to its end in addition to its recover calls, as the engine timed them, and the part of it in which the Job
 * waits for the engine. Alternating with it the same calls are made by hand, one after another. Two sizes,
 * because the additional time hardly depends on the size.
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manifestKey } from '../../crds/contract/backup-keys.ts'
import { isShardManifest, type NodeSnapshot } from '../../crds/contract/manifest.ts'
import { parseManifest } from '../../jobs/manifest-check.ts'
import { Bucket } from '../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../jobs/log.ts'
import { systemClock } from '../../jobs/clock.ts'
import { KEYS } from '../contract/bucket/real.ts'
import { STORAGE } from './bucket.ts'
import { POINTS_OF_A_GIB, call, fill } from './engine-calls.ts'
import type { Part, Plan } from './part.ts'
import { APP, build } from './processes.ts'
import { recoveringOf, waitsIn, type Waits } from './recovering.ts'
import { rest } from './rest.ts'
import { median, type Figure } from './table.ts'
import { remove, threeNodes, type BackedUp, type ThreeNodes } from './three-nodes.ts'

const COLLECTION = 'docs'
const NODES = 3
/** GiB of each node. */
const SIZES = [1, 3]
const MAX_SHARE = 5

export const restore: Part = {
  name: 'restore',
  title: `A VecRestore of ${NODES} nodes, by the GiB that each has`,
  columns: ['Job', 'recover calls by hand'],
  usage: `
restore: ENGINE_BIN names the engine, S3_BIN a versitygw; without them nothing is measured. Needs 45 GiB
of disk.`,
  needs: [
    { variable: 'ENGINE_BIN', rows: 'every row' },
    { variable: 'S3_BIN', rows: 'every row' },
  ],
  targets: () =>
    SIZES.flatMap((gib) => [
      ...[`${gib} GiB: on top of that`, `${gib} GiB: our own, beside the recovering`],
    ]),
  measure: async ({ pairs }: Plan) => {
    const { ENGINE_BIN: engine, S3_BIN: store } = process.env
    if (engine === undefined || store === undefined) return []
    await build()
    const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
    const nodes = await threeNodes({ engine, store }, folder)
    try {
      const figures: Figure[] = []
      for (const gib of SIZES) {
        // As much time for each size.
        figures.push(...(await measure(gib, Math.ceil(pairs / gib), nodes)))
      }
      return figures
    } finally {
      await nodes.close()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

async function measure(gib: number, pairs: number, nodes: ThreeNodes): Promise<Figure[]> {
  const points = gib * NODES * POINTS_OF_A_GIB
  await fill(nodes.urls[0] ?? '', COLLECTION, { points, shard_number: NODES })
  const backup = await nodes.backUp('Node')
  const runs: Run[] = []
  const byHand: number[] = []
  for (let pair = 0; pair < pairs; pair += 1) {
    byHand.push(await recoverByHand(backup, nodes))
    runs.push(await runJob(backup, nodes))
  }
  await remove(nodes, COLLECTION)
  nodes.forget(backup)
  return figuresOf(`${gib} GiB`, runs, byHand)
}

/** In seconds. */
interface Run extends Waits {
  whole: number
  /** Of that, the engine's own time in the calls that recovered a snapshot. */
  recovering: number
}

function figuresOf(size: string, runs: Run[], byHand: number[]): Figure[] {
  const yardstick = median(byHand)
  const seconds = (what: string, of: (run: Run) => number): Figure => {
    return { what: `${size}: ${what}`, unit: 's', value: median(runs.map(of)) }
  }
  return [
    { ...seconds('from start to end', ({ whole }) => whole), yardstick },
    { ...seconds('recovering', ({ recovering }) => recovering), yardstick },
    share(`${size}: on top of that`, runs, ({ whole, recovering }) => whole - recovering),
    seconds('of that, until the collection is made', ({ making }) => making),
    seconds('of that, until the nodes agree', ({ agreeing }) => agreeing),
    seconds('of that, until it is counted and green', ({ proving }) => proving),
    seconds('of that, our own', own),
    share(`${size}: our own, beside the recovering`, runs, own),
  ]
}

/** Its start, the manifest and the checks before any change. */
function own({ whole, recovering, making, agreeing, proving }: Run): number {
  return whole - recovering - making - agreeing - proving
}

/** In percent of what the engine recovered in. */
function share(what: string, runs: Run[], of: (run: Run) => number): Figure {
  const shares = runs.map((run) => (100 * of(run)) / run.recovering)
  const value = median(shares)
  const best = Math.min(...shares)
  return { what, unit: '%', value, best, target: MAX_SHARE, met: value < MAX_SHARE }
}

/**
 * The collection is gone, the engines are at rest, and the program of a Job is in memory: on this one
 * machine their gigabytes would push it out.
 */
async function clear(nodes: ThreeNodes): Promise<void> {
  await remove(nodes, COLLECTION)
  await rest()
  for (const file of globSync('**/*.js', { cwd: APP })) readFileSync(join(APP, file))
}

/** Recovers a missing collection as a user would by hand: the snapshot of each node, by ordinal. */
async function recoverByHand(backup: BackedUp, nodes: ThreeNodes): Promise<number> {
  await clear(nodes)
  const bucket = new Bucket({
    target: { ...STORAGE, endpoint: nodes.endpoint },
    credentials: async () => KEYS,
    time: systemClock,
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  try {
    let seconds = 0
    for (const { key, nodeIndex, sha256 } of await snapshotsOf(backup, bucket)) {
      const location = await bucket.presignedUrl(key)
      const body = { location, priority: 'snapshot', checksum: sha256 }
      const path = `/collections/${COLLECTION}/snapshots/recover?wait=true`
      const began = performance.now()
      await call(nodes.urls[nodeIndex] ?? '', 'PUT', path, body)
      seconds += (performance.now() - began) / 1000
    }
    return seconds
  } finally {
    bucket.close()
  }
}

async function snapshotsOf({ path }: BackedUp, bucket: Bucket): Promise<NodeSnapshot[]> {
  const manifest = parseManifest(await bucket.getJson(manifestKey(`${path}/`)))
  const all = isShardManifest(manifest) ? [] : manifest.collections
  const snapshots = all.flatMap((collection) => collection.snapshots)
  return snapshots.toSorted((one, other) => one.nodeIndex - other.nodeIndex)
}

async function runJob(backup: BackedUp, nodes: ThreeNodes): Promise<Run> {
  await clear(nodes)
  const before = await recoveringOf(nodes.urls)
  const { seconds: whole, output } = await nodes.restore(backup)
  const fetched = output.split('\n').filter((line) => line.includes('"way":"fetch"'))
  if (fetched.length !== NODES) throw new Error(`not every node fetched its snapshot: ${output}`)
  return { whole, recovering: (await recoveringOf(nodes.urls)) - before, ...waitsIn(output) }
}

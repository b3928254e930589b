/**
 * A restore into a real engine of three nodes, node by node: what the Job takes on top of its own recover
 * calls, as the engine timed them, from the start of its process to its end, and what of that is waiting
 * for the engine to make the collection and to agree on it. In turns with it the same calls are made by
 * hand, one after the other. Of two sizes, for what a Job takes hardly depends on them.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VecBackup } from '../../crds/backup.ts'
import { JOB_ENV, encodePlan, type BackupPlan } from '../../crds/command.ts'
import { backupFolder, manifestKey } from '../../crds/layout.ts'
import type { Manifest } from '../../crds/manifest.ts'
import { checkedManifest } from '../../crds/rules/manifest.ts'
import { API_VERSION } from '../../crds/names.ts'
import type { RestorePlan } from '../../crds/restore-command.ts'
import { VecRestore } from '../../crds/restore.ts'
import { Bucket } from '../../jobs/clients/s3.ts'
import { jobLog } from '../../jobs/log.ts'
import { systemTime } from '../../jobs/time.ts'
import { KEYS, realStore } from '../contract/bucket/real.ts'
import { realSubject } from '../contract/engine/real.ts'
import { STORAGE, mountKeys } from './bucket.ts'
import { POINTS_OF_A_GIB, call, fill } from './engine-calls.ts'
import { jobCommand, startJobApi, taken, type JobApi } from './job.ts'
import type { Part, Plan } from './part.ts'
import { build } from './processes.ts'
import { recoveringOf, settlingIn } from './recovering.ts'
import { median, type Figure } from './table.ts'

const COLLECTION = 'docs'
const NODES = 3
/** GiB of each node. */
const SIZES = [1, 2]
const MAX_SHARE = 5
const CLUSTER = { namespace: 'ns', name: 'a', replicas: NODES, tls: false }

export const restore: Part = {
  name: 'restore',
  title: `A VecRestore of ${NODES} nodes, by the GiB that each has`,
  columns: ['Job', 'recover calls by hand'],
  usage: `
ENGINE_BIN names the engine, S3_BIN a versitygw; without them no restore is measured.`,
  measure: async ({ pairs }: Plan) => {
    const { ENGINE_BIN: engine, S3_BIN: store } = process.env
    if (engine === undefined || store === undefined) {
      process.stdout.write('restore: ENGINE_BIN and S3_BIN do not name both: not measured\n')
      return []
    }
    build()
    return measure(pairs, { engine, store })
  },
}

async function measure(pairs: number, bin: { engine: string; store: string }): Promise<Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const closing: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
  const opened = <End extends { close(): unknown }>(end: End): End => {
    closing.unshift(() => end.close())
    return end
  }
  try {
    const store = opened(await realStore(bin.store, folder))
    const { urls } = opened(await realSubject(bin.engine, { size: 'three', service: {} }))
    const world = { folder, urls, endpoint: store.endpoint }
    mountKeys(folder)
    const figures: Figure[] = []
    for (const gib of SIZES) {
      await remove(world)
      const points = gib * NODES * POINTS_OF_A_GIB
      await fill(urls[0] ?? '', COLLECTION, { points, shard_number: NODES })
      const backup = await makeBackup(world, `b${gib}`)
      const runs: Run[] = []
      const byHand: number[] = []
      // As much time for each size.
      for (let pair = 0; pair < Math.ceil(pairs / gib); pair += 1) {
        byHand.push(await recoverByHand(world, backup))
        runs.push(await runJob(world, backup))
      }
      figures.push(...figuresOf(`${gib} GiB`, runs, byHand))
    }
    return figures
  } finally {
    for (const close of closing) await close()
  }
}

/** In seconds. */
interface Run {
  whole: number
  /** Of that, the engine's own time in the calls that recovered a snapshot. */
  recovering: number
  /** Waiting for the engine besides: for the collection to be made, and for its nodes to agree. */
  settling: number
}

function figuresOf(size: string, runs: Run[], byHand: number[]): Figure[] {
  const yardstick = median(byHand)
  const shares = runs.map(({ whole, recovering }) => (100 * (whole - recovering)) / recovering)
  const own = runs.map(
    ({ whole, recovering, settling }) => (100 * (whole - recovering - settling)) / recovering,
  )
  const value = median(shares)
  return [
    {
      what: `${size}: from start to end`,
      unit: 's',
      value: median(runs.map(({ whole }) => whole)),
      yardstick,
    },
    {
      ...{ what: `${size}: recovering`, unit: 's' },
      value: median(runs.map(({ recovering }) => recovering)),
      yardstick,
    },
    {
      ...{
        what: `${size}: on top of its recover calls`,
        unit: '%',
        value,
        best: Math.min(...shares),
      },
      ...{ target: MAX_SHARE, met: value < MAX_SHARE },
    },
    {
      ...{ what: `${size}: of that, not waiting for the engine`, unit: '%' },
      ...{ value: median(own), best: Math.min(...own) },
    },
  ]
}

interface World {
  folder: string
  urls: string[]
  endpoint: string
}

interface Backup {
  name: string
  uid: string
  manifest: Manifest
}

async function makeBackup(world: World, name: string): Promise<Backup> {
  const place = { namespace: 'ns', name }
  const spec = { clusterRef: { name: 'a' }, storage: { s3: STORAGE } }
  const identity = { apiVersion: API_VERSION, kind: 'VecBackup', metadata: place }
  const api = await startJobApi(VecBackup, { ...identity, spec }, world.folder)
  const plan: BackupPlan = {
    ...{ resource: 'vecbackups', ...place, uid: api.uid, run: 1, hash: 'hash', cluster: CLUSTER },
    storage: { ...STORAGE, endpoint: world.endpoint, prefix: '' },
    ...{ method: 'Node', parallelism: 1 },
  }
  await runWith(api, world, ['backup', 'run', `ns/${name}`], encodePlan(plan, ''))
  const bucket = bucketOf(world)
  try {
    const manifest = await bucket.getJson(manifestKey(backupFolder({ prefix: '', name })))
    return { name, uid: api.uid, manifest: checkedManifest(manifest) }
  } finally {
    bucket.close()
  }
}

/** Into an absent collection, as a person would type it: each node its snapshot, by ordinal. */
async function recoverByHand(world: World, { manifest }: Backup): Promise<number> {
  await remove(world)
  const bucket = bucketOf(world)
  let seconds = 0
  for (const snapshot of manifest.collections[0]?.snapshots ?? []) {
    const location = await bucket.presignedUrl(snapshot.key)
    const url = world.urls[snapshot.nodeIndex] ?? ''
    const body = { location, priority: 'snapshot', checksum: snapshot.sha256 }
    const began = performance.now()
    await call(url, 'PUT', `/collections/${COLLECTION}/snapshots/recover?wait=true`, body)
    seconds += (performance.now() - began) / 1000
  }
  bucket.close()
  return seconds
}

let made = 0

async function runJob(world: World, backup: Backup): Promise<Run> {
  await remove(world)
  made += 1
  const place = { namespace: 'ns', name: `r${made}` }
  const spec = { backupRef: { name: backup.name }, targetClusterRef: { name: 'a' } }
  const identity = { apiVersion: API_VERSION, kind: 'VecRestore', metadata: place }
  const api = await startJobApi(VecRestore, { ...identity, spec }, world.folder)
  const plan: RestorePlan = {
    ...{ resource: 'vecrestores', ...place, uid: api.uid, run: 1, hash: 'hash', cluster: CLUSTER },
    source: { ...STORAGE, endpoint: world.endpoint, path: backup.name },
    backup: { name: backup.name, uid: backup.uid },
  }
  const words = ['restore', 'run', `ns/${place.name}`]
  const before = await recoveringOf(world.urls)
  const { seconds, output } = await runWith(api, world, words, encodePlan(plan, 'spec'))
  const fetched = output.split('\n').filter((line) => line.includes('"way":"fetch"'))
  if (fetched.length !== NODES) throw new Error(`not every node fetched its snapshot: ${output}`)
  const recovering = (await recoveringOf(world.urls)) - before
  return { whole: seconds, recovering, settling: settlingIn(output) }
}

async function runWith(api: JobApi, { folder, urls }: World, words: string[], plan: string) {
  await api.showPods(urls.map((url, ordinal) => ({ name: `vec-a-${ordinal}`, url })))
  const env = {
    ...api.env,
    VEC_CREDENTIALS: join(folder, 'credentials'),
    VEC_ENGINE_ROUTE: 'proxy',
    [JOB_ENV.plan]: plan,
  }
  try {
    return await taken(jobCommand(words, env))
  } finally {
    await api.close()
  }
}

function bucketOf({ endpoint }: World): Bucket {
  return new Bucket({
    target: { ...STORAGE, endpoint },
    credentials: async () => KEYS,
    time: systemTime,
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
}

async function remove({ urls }: World): Promise<void> {
  await call(urls[0] ?? '', 'DELETE', `/collections/${COLLECTION}?timeout=60`)
}

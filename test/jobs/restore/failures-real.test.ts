/**
 * Bad days of real engines, which ENGINE_BIN names, while a restore is at work: a node that is killed, a
 * slow one among five, a full disk, and collections that turn red or grey.
 */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock, type Clock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { smallVolume, type Volume } from '../../contract/engine/volume.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const real = { time: systemClock }
const PATH = '/collections/docs'
const DIMENSIONS = 64
const BATCH = 1000
/** No other wait has this pause. */
const FIRST_GREEN_PAUSE_MS = 250
/** Less than the snapshot needs. */
const FREE_BYTES = 3 * 1024 * 1024

if (bin === '') {
  t.pass('ENGINE_BIN names no engine: nothing to restore into', { skip: true })
} else {
  t.setTimeout(900_000)
  suite()
}

interface Setting {
  nodes: number
  points: number
  /** Of the one node. */
  volume?: Volume | undefined
}

/** A collection with a shard for each node, backed up while nothing was indexed. */
async function stage(t: Test, { nodes, points, volume }: Setting) {
  const volumes = volume === undefined ? {} : { volumes: [volume.folder] }
  const engine = await realSubject(bin, { size: 'three', service: {} }, { nodes, ...volumes })
  const s3 = await startBucketServer()
  t.teardown(async () => {
    await engine.close()
    await s3.close()
  })
  const { urls } = engine
  const [url = ''] = urls
  await make(url, { shard_number: nodes, optimizers_config: { indexing_threshold: 0 } })
  for (let from = 0; from < points; from += BATCH) {
    const batch = Array.from({ length: BATCH }, (_, n) => pointOf(from + n))
    await ask(url, 'PUT', `${PATH}/points?wait=true`, { points: batch })
  }
  const ports = urls.map((one) => Number(new URL(one).port))
  const world = await restoreWorld(t, { ports, endpoint: s3.url })
  const before = await readCollectionState(urls, 'docs')
  const backup = await world.run({}, real)
  t.equal(backup.code, EXIT.done, backup.code === EXIT.done ? 'done' : backup.log)
  await ask(url, 'DELETE', `${PATH}?timeout=60`)
  return { engine, s3, urls, url, world, before }
}

function make(url: string, settings: object) {
  const vectors = { size: DIMENSIONS, distance: 'Dot' }
  const body = { vectors, wal_config: { wal_capacity_mb: 1 }, ...settings }
  return ask(url, 'PUT', `${PATH}?timeout=60`, body)
}

function pointOf(id: number): object {
  const vector = Array.from({ length: DIMENSIONS }, (_, n) => Math.sin(id * (n + 1)))
  return { id, vector, payload: { id } }
}

/** Real time; what is waited for the colour of a collection is used for something once. */
function atGreenPoll(act: () => Promise<void>): Clock {
  let isDone = false
  return {
    ...systemClock,
    async sleep(ms, signal) {
      if (ms === FIRST_GREEN_PAUSE_MS && !isDone) {
        isDone = true
        await act()
      }
      await systemClock.sleep(ms, signal)
    },
  }
}

function suite(): void {
  t.test(
    'a target node that is killed during its recovery recovers its snapshot again',
    async (t) => {
      const { engine, s3, urls, world, before } = await stage(t, { nodes: 3, points: 3 * BATCH })
      let restarted: Promise<void> | undefined
      s3.misbehave(({ operation, key }) => {
        if (operation !== 'GetObject' || !key.includes('/node-1/')) return undefined
        if (restarted !== undefined) return undefined
        restarted = engine.restart(1)
        return { cut: 'out' }
      })
      const { code, log } = await (await world.restore()).run(real)
      await restarted
      t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
      t.match(log, /retrying recovery/)
      t.strictSame(await readCollectionState(urls, 'docs'), before)
      t.notMatch(log, /X-Amz-Signature|X-Amz-Credential/)
    },
  )

  t.test(
    'with one slow node of five the restore waits, and every node has its snapshot',
    async (t) => {
      const { engine, urls, world, before } = await stage(t, { nodes: 5, points: 5 * BATCH })
      const slow = engine.pids[3] ?? 0
      let isStopped = false
      const pulse = setInterval(() => {
        process.kill(slow, isStopped ? 'SIGCONT' : 'SIGSTOP')
        isStopped = !isStopped
      }, 150)
      const restore = await world.restore()
      const { code, log } = await restore.run(real).finally(() => {
        clearInterval(pulse)
        process.kill(slow, 'SIGCONT')
      })
      t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
      t.strictSame(await readCollectionState(urls, 'docs'), before)
      matchWhole(t, await restore.result(), { collections: [{ name: 'docs', points: 5 * BATCH }] })
    },
  )

  t.test(
    'a collection that is grey after a restart during optimization is optimized again',
    async (t) => {
      const { engine, url, urls, world } = await stage(t, { nodes: 1, points: 20 * BATCH })
      // An index that is not in the backup is built as soon as the points are restored.
      await make(url, { optimizers_config: { indexing_threshold: 1 } })
      const time = atGreenPoll(() => engine.restart(0))
      const { code, log } = await (await world.restore()).run({ time })
      t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
      t.match(log, /waking the optimizers/)
      t.match(await ask(urls[0] ?? '', 'GET', PATH), { status: 'green', points_count: 20 * BATCH })
    },
  )

  const volume = smallVolume(256)
  t.teardown(() => volume?.close())
  const skip = volume === undefined && 'no volume can be mounted here'
  t.test('red and a full disk fail with the engine’s reason', { skip }, async (t) => {
    const { url, world } = await stage(t, { nodes: 1, points: 20 * BATCH, volume })
    volume?.fill(FREE_BYTES)
    const full = await world.restore()
    t.equal((await full.run(real)).code, EXIT.failed)
    const { error } = await full.result()
    t.match(error, /snapshot does not fit|is the data volume of that node full\?/)
    t.comment(error)
    volume?.empty()
    await ask(url, 'DELETE', `${PATH}?timeout=60`)
    await make(url, { optimizers_config: { indexing_threshold: 1, max_optimization_threads: 0 } })
    const time = atGreenPoll(async () => {
      volume?.fill()
      const optimizers_config = { max_optimization_threads: 1 }
      await ask(url, 'PATCH', PATH, { optimizers_config }).catch(() => undefined)
    })
    const red = await world.restore()
    const { code, log } = await red.run({ time })
    t.equal(code, EXIT.failed, log)
    t.match((await red.result()).error, /docs is red on node \d: /)
    t.comment((await red.result()).error)
  })
}

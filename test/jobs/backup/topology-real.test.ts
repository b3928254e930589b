/**
 * `backup run` from three real engines, which ENGINE_BIN names, while they disagree: a node that is killed
 * under writes, one that lost its volume, and a collection that is dropped, and maybe created again.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock, type Clock } from '../../../jobs/clock.ts'
import { realSubject, type RealSubject } from '../../contract/engine/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask } from '../restore/collection-state.ts'
import { backupWorld, type BackupWorldOptions } from './backup-world.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const PATH = '/collections/docs'
const POINTS = 500

/** Pauses of the Job are short, so that it asks a node while it still catches up. */
const hasty: Clock = {
  ...systemClock,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 100), signal),
}

/** Time passes as if each pause took as long as the Job asks for: its bounds are reached in seconds. */
function skipping(): Clock {
  let skippedMs = 0
  return {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() + skippedMs,
    async sleep(ms, signal) {
      await hasty.sleep(ms, signal)
      skippedMs += ms
    },
  }
}

if (bin === '') {
  t.pass('ENGINE_BIN names no engine: nothing to back up', { skip: true })
} else {
  t.setTimeout(600_000)
  suite()
}

async function stage(t: Test, options: Partial<BackupWorldOptions> = {}) {
  // Not the folder of the test: the world empties that one.
  const folder = mkdtempSync(join(tmpdir(), 'vec-volumes-'))
  const volumes = [0, 1, 2].map((ordinal) => join(folder, String(ordinal)))
  const engine = await realSubject(bin, { size: 'three', service: {} }, { volumes })
  const s3 = await startBucketServer()
  t.teardown(async () => {
    await engine.close()
    await s3.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const ports = engine.urls.map((url) => Number(new URL(url).port))
  const world = await backupWorld(t, { ports, endpoint: s3.url, ...options })
  const store = () => {
    const found = s3.buckets.get('backups')
    if (found === undefined) throw new Error('there is no bucket')
    return found
  }
  return { engine, world, volumes, store }
}

async function make({ urls: [url = ''] }: RealSubject, settings: object): Promise<void> {
  const body = { vectors: { size: 4, distance: 'Dot' }, ...settings }
  await ask(url, 'PUT', `${PATH}?timeout=60`, body)
}

async function write(url: string, ids: number[]): Promise<void> {
  const points = ids.map((id) => ({ id, vector: [id, 1, 2, 3], payload: { id } }))
  await ask(url, 'PUT', `${PATH}/points?wait=true`, { points })
}

const range = (from: number, count: number) => Array.from({ length: count }, (_, n) => from + n)

/** Every id in a snapshot, as a separate engine shows it. */
async function idsIn(t: Test, snapshot: Buffer): Promise<Set<number>> {
  const alone = await realSubject(bin, { size: 'alone', service: {} })
  t.teardown(() => alone.close())
  const [url = ''] = alone.urls
  const form = new FormData()
  form.append('snapshot', new Blob([new Uint8Array(snapshot)]), 'docs.snapshot')
  const path = `${PATH}/snapshots/upload?priority=snapshot`
  const answer = await fetch(url + path, { method: 'POST', body: form })
  t.equal(answer.status, 200, await answer.text())
  const found = await ask(url, 'POST', `${PATH}/points/scroll`, { limit: 100_000 })
  const { points } = found as { points: { id: number }[] }
  return new Set(points.map(({ id }) => id))
}

function suite() {
  t.test(
    'a node killed under writes is asked again once all call it Active: it has every acknowledged point',
    async (t) => {
      const { engine, world, store } = await stage(t)
      const [url = ''] = engine.urls
      await make(engine, { shard_number: 1, replication_factor: 3 })
      await write(url, range(0, POINTS))
      const acknowledged = new Set(range(0, POINTS))
      const stop = new AbortController()
      const writing = (async () => {
        for (let id = POINTS; !stop.signal.aborted; id += 1) {
          await write(url, [id])
          acknowledged.add(id)
        }
      })()
      let restarting: Promise<void> | undefined
      let before: number[] = []
      const { code, log } = await world.run(
        {},
        {
          time: hasty,
          onLine: (line) => {
            if (!line.includes('node 1: creating the snapshot')) return
            before = [...acknowledged]
            restarting ??= engine.restart(1)
          },
        },
      )
      stop.abort()
      await Promise.all([writing, restarting])
      t.equal(code, EXIT.done, log.slice(-3000))
      t.match(log, /retrying snapshot/)
      t.ok(before.length > POINTS, `${before.length} points were acknowledged before it was asked`)
      const [key = ''] = store()
        .keys()
        .filter((one) => /node-1\/.*\.snapshot$/.test(one))
      const ids = await idsIn(t, store().objects.get(key)?.body ?? Buffer.alloc(0))
      t.strictSame(
        before.filter((id) => !ids.has(id)),
        [],
        'none of them is missing',
      )
      for (const one of engine.urls) t.strictSame(await ask(one, 'GET', `${PATH}/snapshots`), [])
    },
  )

  for (const method of ['Node', 'Shard'] as const) {
    t.test(
      `${method}: a node that lost its volume is a separate cluster, and nothing is backed up`,
      async (t) => {
        const { engine, world, volumes, store } = await stage(t, { method })
        await make(engine, { shard_number: 3 })
        rmSync(join(volumes[0] ?? '', 'storage'), { recursive: true, force: true })
        await engine.restart(0)
        t.strictSame(
          await ask(engine.urls[0] ?? '', 'GET', '/collections'),
          { collections: [] },
          'it answers as if all were well',
        )
        t.equal((await world.run({}, { time: skipping() })).code, EXIT.failed)
        t.match(
          (await world.progress())?.message,
          /^the nodes do not see one cluster: node 0 sees /,
        )
        t.notOk(store().keys().includes('nightly/b/manifest.json'))
      },
    )

    t.test(
      `${method}: a collection that is dropped and created again is backed up as the new one`,
      async (t) => {
        const { engine, world, store } = await stage(t, { method, parallelism: 1 })
        const [url = ''] = engine.urls
        await make(engine, { shard_number: 3 })
        await write(url, range(0, POINTS))
        let isDue = false
        let isDone = false
        const recreate = async () => {
          await ask(url, 'DELETE', `${PATH}?timeout=60`)
          await make(engine, { shard_number: 3 })
          await write(url, range(10_000, 30))
        }
        const isMoment = (line: string) =>
          method === 'Node'
            ? line.includes('node 1: creating the snapshot')
            : /uploaded .*shard-\d+/.test(line)
        let recreating: Promise<void> | undefined
        const time: Clock = {
          ...hasty,
          async sleep(ms, signal) {
            if (isDue && !isDone) {
              isDone = true
              await (recreating ??= recreate())
            }
            await hasty.sleep(ms, signal)
          },
        }
        const { code, log } = await world.run(
          {},
          {
            time,
            onLine: (line) => {
              if (!isMoment(line)) return
              isDue = true
              // By shard nothing is waited for between two streams.
              if (method === 'Shard') recreating ??= recreate()
            },
          },
        )
        await recreating
        t.equal(code, EXIT.done, log.slice(-3000))
        t.match(log, /collection changed during the backup, starting over/)
        const manifest = JSON.parse(store().text('nightly/b/manifest.json') ?? '{}') as object
        matchWhole(t, manifest, { collections: [{ name: 'docs', exactPointsCount: 30 }] })
        t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
      },
    )

    t.test(`${method}: a collection that a client deletes meanwhile is left out`, async (t) => {
      const { engine, world, store } = await stage(t, { method, parallelism: 1 })
      const [url = ''] = engine.urls
      await make(engine, { shard_number: 3 })
      await write(url, range(0, POINTS))
      await ask(url, 'PUT', '/collections/other?timeout=60', {
        vectors: { size: 4, distance: 'Dot' },
      })
      let deletion: Promise<unknown> | undefined
      const onLine = (line: string) => {
        if (/node 1: creating the snapshot|uploaded .*shard-\d+/.test(line))
          deletion ??= ask(url, 'DELETE', `${PATH}?timeout=60`)
      }
      const { code, log } = await world.run({}, { time: hasty, onLine })
      t.ok(await deletion, 'it was deleted')
      t.equal(code, EXIT.done, log.slice(-3000))
      const manifest = JSON.parse(store().text('nightly/b/manifest.json') ?? '{}') as object
      matchWhole(t, manifest, { collections: [{ name: 'other', exactPointsCount: 0 }] })
      t.match(
        (await world.progress())?.message,
        'Backed up 1/1 collections; collection docs was deleted during the backup and is not in it',
      )
      const left = store()
        .keys()
        .filter((key) => /docs/.test(key) && !key.endsWith('.json'))
      t.strictSame(left, [], 'none of its data stay')
      t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
    })
  }
}

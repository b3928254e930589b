/**
 * A node of a real engine is lost with the only replicas of some shards; they are restored from a
 * backup by shard while the cluster serves the others. ENGINE_BIN names the engine.
 */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock, type Clock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { ask, placement, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'

const bin = process.env['ENGINE_BIN']
const POINTS = 400
/** The minutes in which lost nodes may return pass in steps of this length. */
const STEP_MS = 5_000

/** Real time, but such a step takes a moment. */
function hastenedClock(): Clock {
  let skippedMs = 0
  return {
    now: () => new Date(Date.now() + skippedMs),
    monotonicMs: () => systemClock.monotonicMs() + skippedMs,
    async sleep(ms, signal) {
      if (ms === STEP_MS) skippedMs += ms
      await systemClock.sleep(ms === STEP_MS ? 10 : ms, signal)
    },
  }
}

const real = { time: hastenedClock() }

interface ClusterInfo {
  peer_id: number
  local_shards: { shard_id: number; shard_key?: string }[]
  remote_shards: { shard_id: number; peer_id: number; state: string }[]
}

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to restore into', { skip: true })
} else {
  t.test('shards whose only replica is lost', { timeout: 300_000 }, async (t) => {
    const s3 = await startBucketServer()
    t.teardown(() => s3.close())
    const engine = await realSubject(bin, { size: 'three', service: {} })
    t.teardown(() => engine.close())
    const { urls, pids } = engine
    const [first = '', , last = ''] = urls
    await fill(first)
    const ports = urls.map((url) => Number(new URL(url).port))
    const world = await restoreWorld(t, { ports, endpoint: s3.url, method: 'Shard' })
    const backup = await world.run({}, real)
    t.equal(backup.code, EXIT.done, backup.code === EXIT.done ? 'backed up' : backup.log)
    const names = ['docs', 'keyed']
    const before = new Map<string, object>()
    for (const name of names) before.set(name, await readCollectionState([first], name))

    const lost = new Map<string, number[]>()
    for (const name of names) {
      const info = (await ask(last, 'GET', `/collections/${name}/cluster`)) as ClusterInfo
      lost.set(
        name,
        info.local_shards.map(({ shard_id }) => shard_id),
      )
    }
    t.ok((lost.get('docs')?.length ?? 0) > 0)
    const { peer_id } = (await ask(last, 'GET', '/cluster')) as { peer_id: number }
    process.kill(pids[2] ?? 0, 'SIGKILL')
    const remaining = urls.slice(0, 2)
    await t.rejects(readCollectionState([first], 'docs'), 'the shards cannot be read')

    const shards = [...lost]
      .filter(([, ids]) => ids.length > 0)
      .map(([collection, ids]) => ({ collection, ids }))
    const restore = await world.restore({ shards })
    const { code, log } = await restore.run(real)
    t.equal(code, EXIT.done, code === EXIT.done ? 'restored' : log)
    for (const name of names) {
      for (const url of remaining) {
        t.strictSame(await readCollectionState([url], name), before.get(name), `${name} on ${url}`)
      }
      const states = (await placement(remaining, name)).map((view) =>
        view.filter((replica) => !replica.includes(' on -1 ')),
      )
      t.strictSame(states[0], states[1])
      t.ok(states[0]?.every((replica) => replica.endsWith(' Active')))
    }

    const again = await world.restore({ shards })
    t.equal((await again.run(real)).code, EXIT.failed)
    t.match((await again.result()).collections?.[0]?.error, /there is nothing to restore/)
    for (const name of names) {
      t.strictSame(await readCollectionState([first], name), before.get(name), 'nothing changed')
    }

    for (const { collection, ids } of shards) {
      for (const shard_id of ids) {
        const body = { drop_replica: { shard_id, peer_id } }
        t.equal(await ask(first, 'POST', `/collections/${collection}/cluster`, body), true)
      }
    }
    t.equal(await ask(first, 'DELETE', `/cluster/peer/${peer_id}`), true, 'the lost node can go')
  })
}

async function fill(url: string) {
  const vectors = { size: 4, distance: 'Dot' }
  const common = { vectors, replication_factor: 1 }
  await ask(url, 'PUT', '/collections/docs?timeout=30', { ...common, shard_number: 6 })
  const keyed = { ...common, shard_number: 1, sharding_method: 'custom' }
  await ask(url, 'PUT', '/collections/keyed?timeout=30', keyed)
  for (const shard_key of ['a', 'b', 'c', 'd']) {
    await ask(url, 'PUT', '/collections/keyed/shards?timeout=30', { shard_key })
  }
  const points = Array.from({ length: POINTS }, (_, id) => ({
    id,
    vector: [id, 1, 2, id / 3],
    payload: { id, text: `point ${id}` },
  }))
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  for (const [index, shard_key] of ['a', 'b', 'c', 'd'].entries()) {
    const own = points.filter(({ id }) => id % 4 === index)
    await ask(url, 'PUT', '/collections/keyed/points?wait=true', { points: own, shard_key })
  }
}

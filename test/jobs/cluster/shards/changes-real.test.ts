/** Changes of a collection while one of its shards is copied, on the real engine, where ENGINE_BIN names it. */
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { EngineError } from '../../../../crds/contract/errors.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { EngineShards } from '../../../../jobs/clients/engine/shards.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { realSubject } from '../../../contract/engine/real.ts'
import { ask, onceElected } from '../../../hard/ask.ts'

const bin = process.env['ENGINE_BIN']
const POINTS = 5000
/** Enough that a copy takes longer than the pause before the write. */
const MANY_POINTS = 30_000
const BATCH = 1000
const SIZE = 64
/** Whether the deletion is agreed on before the copy differs from run to run. */
const DELETIONS = 6
/** Nor is it the same in each run whether a collection is created before a peer is removed. */
const REMOVALS = 10
const APPLIED_MS = 30_000
const SILENT = jobLog({}, { write: () => undefined })

interface View {
  peer_id: number
  local_shards: { shard_id: number; shard_key: string; state: string }[]
  remote_shards: { shard_id: number; shard_key: string; state: string; peer_id: number }[]
  shard_transfers: unknown[]
}

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: no shard to copy', { skip: true })
} else {
  t.setTimeout(300_000)
  t.test(
    'a shard is copied and read while clients create shard keys',
    { timeout: 300_000 },
    async (t) => {
      const { urls, engineAt } = await startEngines(t, bin, 2)
      const [first = '', second = ''] = urls
      const createKey = (url: string, key: string) =>
        ask(url, 'PUT', '/collections/keyed/shards?timeout=10', { shard_key: key })
      const vectors = { size: SIZE, distance: 'Dot' }
      await ask(first, 'PUT', '/collections/keyed?timeout=60', {
        ...{ vectors, sharding_method: 'custom', shard_number: 1 },
      })
      await onceElected(async () => {
        await createKey(first, 'a')
      })
      for (let from = 0; from < POINTS; from += BATCH) {
        const body = { points: pointsFrom(from), shard_key: 'a' }
        await ask(first, 'PUT', '/collections/keyed/points?wait=true', body)
      }
      const viewOf = async (url: string) =>
        (await ask(url, 'GET', '/collections/keyed/cluster')) as View
      const views = [await viewOf(first), await viewOf(second)]
      const source = views.findIndex(({ local_shards: local }) =>
        local.some(({ shard_key: key }) => key === 'a'),
      )
      const [from, to] = source === 0 ? [first, second] : [second, first]
      const [origin, target] = source === 0 ? views : views.toReversed()
      const shard = origin?.local_shards.find(({ shard_key: key }) => key === 'a')?.shard_id ?? -1

      await engineAt(from).replicate({
        ...{ collection: 'keyed', shard, from: origin?.peer_id ?? 0, to: target?.peer_id ?? 0 },
      })
      let keys = 0
      let view: View
      do {
        keys += 1
        t.equal(await createKey(to, `passing ${keys}`), true)
        const body = { ids: [1], shard_key: 'a' }
        const points = (await ask(from, 'POST', '/collections/keyed/points', body)) as object[]
        t.equal(points.length, 1, 'the source answers')
        view = await viewOf(from)
      } while (view.shard_transfers.length > 0)
      t.comment(`${keys} shard keys`)
      const replicas = [...view.local_shards, ...view.remote_shards].filter(
        ({ shard_key: key }) => key === 'a',
      )
      t.strictSame(
        replicas.map(({ state }) => state),
        ['Active', 'Active'],
      )
    },
  )

  t.test(
    'a collection is deleted when its shard is to be copied, and the source applies the next change',
    { timeout: 300_000 },
    async (t) => {
      const { urls, engineAt } = await startEngines(t, bin, 2)
      const [first = '', second = ''] = urls
      for (let attempt = 0; attempt < DELETIONS; attempt += 1) {
        const path = `/collections/docs${attempt}`
        const vectors = { size: SIZE, distance: 'Dot' }
        await onceElected(async () => {
          await ask(first, 'PUT', `${path}?timeout=60`, { vectors, shard_number: 1 })
        })
        for (let from = 0; from < POINTS; from += BATCH) {
          await ask(first, 'PUT', `${path}/points?wait=true`, { points: pointsFrom(from) })
        }
        const views = (await Promise.all(
          [first, second].map((url) => ask(url, 'GET', `${path}/cluster`)),
        )) as View[]
        const source = views.findIndex(({ local_shards: local }) => local.length > 0)
        const [from, to] = source === 0 ? [first, second] : [second, first]
        const [origin, target] = source === 0 ? views : views.toReversed()
        const engine = engineAt(from)
        const peers = { from: origin?.peer_id ?? 0, to: target?.peer_id ?? 0 }
        const replicated = engine
          .replicate({ collection: `docs${attempt}`, shard: 0, ...peers })
          .catch((error: unknown) => {
            if (!(error instanceof EngineError)) throw error
          })
        await pause(attempt * 5)
        t.equal(await ask(to, 'DELETE', `${path}?timeout=10`), true)
        // A change that the source has to apply within ten seconds.
        t.equal(await ask(from, 'PUT', `/collections/next${attempt}?timeout=10`, { vectors }), true)
        await replicated
        const names = await engine.collections()
        t.notOk(names.includes(`docs${attempt}`))
      }
    },
  )

  t.test(
    'replicas on a peer that is removed while their collection is created are removed by force only',
    { timeout: 300_000 },
    async (t) => {
      const connections = new EngineConnections()
      t.teardown(() => connections.close())
      for (let attempt = 0; attempt < REMOVALS; attempt += 1) {
        const subject = await realSubject(bin, { size: 'three', service: {} }, { nodes: 3 })
        try {
          const [first = '', second = '', third = ''] = subject.urls
          const vectors = { size: 4, distance: 'Dot' }
          await onceElected(async () => {
            await ask(first, 'PUT', '/collections/first?timeout=60', { vectors, shard_number: 1 })
          })
          await ask(first, 'DELETE', '/collections/first')
          const { peer_id: peer } = (await ask(third, 'GET', '/cluster')) as View
          const engine = engineOf(first, connections)
          const body = { vectors, shard_number: 3, replication_factor: 3 }
          // The engine waits for replicas that never become Active.
          const created = ask(second, 'PUT', '/collections/docs?timeout=5', body).catch(() => false)
          await Promise.all([engine.removePeer(peer), created])
          const replicas = async (url: string) =>
            ((await ask(url, 'GET', '/collections/docs/cluster')) as View).remote_shards.filter(
              ({ peer_id: holder }) => holder === peer,
            )
          if ((await replicas(first)).length === 0) continue
          await t.rejects(engine.drop('docs', 0, peer), { status: 400, message: /does not exist/ })
          await t.rejects(engine.removePeer(peer), {
            status: 400,
            message: /there are shards on it/,
          })
          await engine.removePeer(peer, { isForced: true })
          for (const url of [first, second]) {
            let left = await replicas(url)
            for (const end = Date.now() + APPLIED_MS; left.length > 0 && Date.now() < end;) {
              await pause(100)
              left = await replicas(url)
            }
            t.strictSame(left, [])
          }
          return
        } finally {
          await subject.close()
        }
      }
      t.fail(`no replica was created on a removed peer in ${REMOVALS} attempts`)
    },
  )

  t.test(
    'a copy of a replica that is a copy itself gets what is written meanwhile',
    { timeout: 300_000 },
    async (t) => {
      const { urls, engineAt } = await startEngines(t, bin, 3)
      const [first = ''] = urls
      const peers = await Promise.all(
        urls.map(async (url) => ((await ask(url, 'GET', '/cluster')) as View).peer_id),
      )
      const vectors = { size: SIZE, distance: 'Dot' }
      await onceElected(async () => {
        await ask(first, 'PUT', '/collections/docs?timeout=60', { vectors, shard_number: 1 })
      })
      for (let from = 0; from < MANY_POINTS; from += BATCH) {
        await ask(first, 'PUT', '/collections/docs/points?wait=true', { points: pointsFrom(from) })
      }
      const viewsOf = () =>
        Promise.all(
          urls.map(async (url) => (await ask(url, 'GET', '/collections/docs/cluster')) as View),
        )
      const [holder = -1] = (await viewsOf()).flatMap(({ local_shards: local }, node) =>
        local.length > 0 ? [node] : [],
      )
      const [middle = -1, last = -1] = [0, 1, 2].filter((node) => node !== holder)
      const replicate = (source: number, target: number) => {
        const [from = 0, to = 0] = [peers[source], peers[target]]
        return engineAt(first).replicate({ collection: 'docs', shard: 0, from, to })
      }
      const untilActive = async (target: number) => {
        const states = (await viewsOf()).map(
          ({ peer_id: own, local_shards: local, remote_shards: remote }) =>
            own === peers[target]
              ? local[0]?.state
              : remote.find(({ peer_id: peer }) => peer === peers[target])?.state,
        )
        if (states.every((state) => state === 'Active')) return
        await pause(50)
        await untilActive(target)
      }
      await replicate(holder, middle)
      await untilActive(middle)
      await replicate(middle, last)
      // Once the source takes writes for the target.
      await pause(150)
      const points = pointsFrom(MANY_POINTS).slice(0, 3)
      await ask(first, 'PUT', '/collections/docs/points?wait=true', { points })
      await untilActive(last)
      const counts = await Promise.all(
        urls.map(async (url) =>
          ask(url, 'POST', '/collections/docs/shards/0/points/count', { exact: true }),
        ),
      )
      t.strictSame(counts, Array(3).fill({ count: MANY_POINTS + points.length }))
    },
  )
}

async function startEngines(t: Test, engineBin: string, nodes: number) {
  const subject = await realSubject(engineBin, { size: 'three', service: {} }, { nodes })
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    await subject.close()
  })
  return { urls: subject.urls, engineAt: (url: string) => engineOf(url, connections) }
}

function engineOf(url: string, connections: EngineConnections): EngineShards {
  const transport = urlTransport(url, connections)
  return new EngineShards(new Engine({ transport, credentials: async () => ({}), log: SILENT }))
}

function pointsFrom(first: number): object[] {
  return Array.from({ length: BATCH }, (_, index) => ({
    id: first + index,
    vector: Array.from({ length: SIZE }, (_value, axis) => (first + index + axis) % 97),
    payload: { text: 'x'.repeat(200) },
  }))
}

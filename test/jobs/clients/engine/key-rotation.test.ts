/** Keys of engines that are rotated while a Job works: of the Secret it has mounted, and of nodes one by one. */
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { EngineSnapshots } from '../../../../jobs/clients/engine/snapshots.ts'
import { EnginePoints } from '../../../../jobs/clients/engine/points.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { KeyRotation } from '../../../../jobs/clients/engine/credentials.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { UNAVAILABLE, type Misbehaviour } from '../../../doubles/engine/misbehaviour.ts'
import { startEngineNode } from '../../../doubles/engine/node.ts'
import { makeSnapshot } from '../../../doubles/engine/snapshots.ts'
import { instantClock } from '../../job-world.ts'

const LIMIT_MS = 90_000

async function stage(t: Test) {
  const cluster = new EngineCluster({ staleMs: 0 })
  const keys = ['old', 'old'].map((api_key) => ({ service: { api_key } }))
  const nodes = await Promise.all(
    keys.map((config, ordinal) => startEngineNode({ ordinal, cluster, config })),
  )
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    await Promise.all(nodes.map((node) => node.close()))
  })
  cluster.createCollection('docs', 2)
  const mounted = { key: 'old' }
  let slept = 0
  let onSleep: (count: number) => unknown = () => undefined
  const read = async () => ({ ...mounted })
  const rotation = new KeyRotation({
    ...{ read, limitMs: LIMIT_MS, signal: new AbortController().signal },
    time: instantClock(() => onSleep((slept += 1))),
    onWaiting: () => undefined,
  })
  const engines = nodes.map(({ port }) => {
    const route = urlTransport(`http://127.0.0.1:${port}`, connections)
    return new Engine({
      transport: route,
      credentials: read,
      rotation,
      log: jobLog({ LOG_LEVEL: 'ERROR' }),
    })
  })
  const engineOn = (ordinal: number) => {
    const engine = engines[ordinal]
    if (engine === undefined) throw new Error('there is no such node')
    return engine
  }
  return {
    cluster,
    engineOn,
    mounted,
    misbehave: (ordinal: number, misbehaviour?: Misbehaviour) =>
      nodes[ordinal]?.misbehave(misbehaviour && (() => misbehaviour)),
    rotate: (ordinal: number, key: string) => {
      const config = keys[ordinal]
      if (config !== undefined) config.service.api_key = key
    },
    slept: () => slept,
    onSleep: (act: (count: number) => unknown) => (onSleep = act),
  }
}

t.test('a node that has the new key before the mounted Secret is waited for', async (t) => {
  const { engineOn, mounted, rotate, slept, onSleep } = await stage(t)
  await engineOn(0).collections()
  rotate(0, 'new')
  onSleep((count) => {
    if (count === 5) mounted.key = 'new'
  })
  t.strictSame(await engineOn(0).collections(), ['docs'])
  t.equal(slept(), 5)
})

t.test('a node that still has the old key is asked with it at once, and each time', async (t) => {
  const { engineOn, mounted, rotate, slept } = await stage(t)
  await engineOn(1).collections()
  mounted.key = 'new'
  rotate(0, 'new')
  t.strictSame(await engineOn(0).collections(), ['docs'])
  t.strictSame(await engineOn(1).collections(), ['docs'])
  rotate(1, 'new')
  t.strictSame(await engineOn(1).collections(), ['docs'])
  t.equal(slept(), 0)
})

t.test('a stream and a call for bytes are repeated with the key that is accepted', async (t) => {
  const { cluster, engineOn, mounted, rotate, onSleep } = await stage(t)
  const snapshots = new EngineSnapshots(engineOn(0))
  const file = makeSnapshot(cluster, 0, 'docs')
  await engineOn(0).collections()
  rotate(0, 'new')
  onSleep(() => (mounted.key = 'new'))
  t.equal((await text(await snapshots.download('docs', file))).length, file.size)
  rotate(0, 'newer')
  onSleep(() => (mounted.key = 'newer'))
  await snapshots.begin('docs')
})

t.test('a write of points is repeated with the key that is accepted', async (t) => {
  const { engineOn, mounted, rotate, slept, onSleep } = await stage(t)
  const points = new EnginePoints(engineOn(0))
  await engineOn(0).collections()
  rotate(0, 'new')
  onSleep(() => (mounted.key = 'new'))
  await points.upsert('docs', [Buffer.from('[{"id":7,"vector":[1,0]}]')])
  t.equal(slept(), 1)
  t.strictSame([...(await points.retrieve('docs', ['7'], { idsOnly: true })).keys()], ['7'])
})

t.test('the wait for a new key ends in time, and is not repeated', async (t) => {
  const { engineOn, rotate, slept } = await stage(t)
  await engineOn(0).collections()
  rotate(0, 'new')
  await t.rejects(engineOn(0).collections(), { code: 'EngineError', status: 401 })
  t.equal(slept(), LIMIT_MS / 5_000)
  await t.rejects(engineOn(0).collections(), { code: 'EngineError', status: 401 })
  t.equal(slept(), LIMIT_MS / 5_000)
})

t.test('a key that never worked is rejected at once', async (t) => {
  const { engineOn, mounted, slept } = await stage(t)
  mounted.key = 'wrong'
  await t.rejects(engineOn(0).collections(), { code: 'EngineError', status: 401 })
  t.equal(slept(), 0)
})

t.test(
  'a key is not taken for one that worked by answers for which no key is needed',
  async (t) => {
    const { engineOn, mounted, misbehave, slept } = await stage(t)
    mounted.key = 'wrong'
    t.equal(await engineOn(0).notReadyReason(), undefined)
    t.equal(await engineOn(0).version(), '1.18.3')
    misbehave(0, UNAVAILABLE)
    await t.rejects(engineOn(0).collections(), { code: 'EngineError', status: 503 })
    misbehave(0)
    await t.rejects(engineOn(0).collections(), { code: 'EngineError', status: 401 })
    t.equal(slept(), 0, 'no other key is waited for')
  },
)

t.test('a rejected call for bytes is repeated as it was', async (t) => {
  const { engineOn, mounted, rotate, onSleep } = await stage(t)
  const points = new EnginePoints(engineOn(0))
  await points.upsert('docs', [Buffer.from('[{"id":7,"vector":[1,0]},{"id":8,"vector":[1,0]}]')])
  rotate(0, 'new')
  onSleep(() => (mounted.key = 'new'))
  t.strictSame([...(await points.retrieve('docs', ['8'])).keys()], ['8'])
  rotate(0, 'newer')
  onSleep(() => (mounted.key = 'newer'))
  await t.rejects(points.scroll('docs', { limit: 10, maxBytes: 60 }), {
    code: 'EngineError',
    status: 413,
  })
  t.equal((await points.scroll('docs', { limit: 10 })).count, 2)
})

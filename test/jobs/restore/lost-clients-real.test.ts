/**
 * Recoveries of a real engine, which ENGINE_BIN names, whose client has gone: none changes the target once
 * a restore is Completed, and none is repeated that has succeeded.
 */
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock, type Clock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { startTcpProxy, isWholeForm } from './tcp-proxy.ts'
import { ask, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const NODES = 2
const POINTS = 4000
const DIMENSIONS = 32
const BATCH = 1000
const WAITING = /waiting for the recovery on that node/

if (bin === '') {
  t.pass('ENGINE_BIN names no engine: nothing to restore into', { skip: true })
} else {
  t.setTimeout(900_000)
  t.test('by shard', async (t) => byShard(t))
  t.test('by node', async (t) => byNode(t))
}

/** Long pauses are short in real time and long on the clock. */
function hurried(): Clock {
  let skew = 0
  return {
    now: () => new Date(Date.now() + skew),
    monotonicMs: () => systemClock.monotonicMs() + skew,
    async sleep(ms, signal) {
      const real = Math.min(ms, 200)
      skew += ms - real
      await systemClock.sleep(real, signal)
    },
  }
}

/** `docs`, backed up and deleted; the Job reaches the nodes through cables. */
async function stage(t: Test, method: 'Node' | 'Shard') {
  const engine = await realSubject(bin, { size: 'three', service: {} }, { nodes: NODES })
  t.teardown(() => engine.close())
  const s3 = await startBucketServer()
  t.teardown(() => s3.close())
  const { urls } = engine
  const [url = ''] = urls
  const body = { vectors: { size: DIMENSIONS, distance: 'Dot' }, shard_number: NODES }
  await ask(url, 'PUT', '/collections/docs?timeout=60', body)
  for (let from = 0; from < POINTS; from += BATCH) {
    const points = Array.from({ length: BATCH }, (_, n) => pointOf(from + n))
    await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  }
  const cables = await Promise.all(urls.map((one) => startTcpProxy(t, one)))
  const ports = cables.map(({ port }) => port)
  const store = await startTcpProxy(t, s3.url)
  const endpoint = `http://127.0.0.1:${store.port}`
  const world = await restoreWorld(t, { ports, endpoint, method })
  const before = await readCollectionState(urls, 'docs')
  const backup = await world.run({}, { time: systemClock })
  t.equal(backup.code, EXIT.done, backup.code === EXIT.done ? 'backed up' : backup.log)
  const lose = () => ask(url, 'DELETE', '/collections/docs?timeout=60')
  await lose()
  return { engine, s3, store, urls, url, cables, world, before, lose }
}

type Staged = Awaited<ReturnType<typeof stage>>

function pointOf(id: number): object {
  const vector = Array.from({ length: DIMENSIONS }, (_, n) => Math.sin(id * (n + 1)))
  return { id, vector, payload: { id } }
}

/** A promise that a test ends. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  return { promise, open: () => resolve(undefined) }
}

/** Requests for a recovery, but for those that ask with the manifest whether a node can download. */
function sent({ cables }: Staged, verb: 'recover' | 'upload'): string[] {
  return cables.flatMap(({ requests }) => requests.filter((line) => line.includes(`/${verb}?`)))
}

/** Points that are acknowledged after the end are all there some seconds later, and nothing else is. */
async function staysSo(t: Test, { urls, url, before }: Staged, later: () => unknown) {
  t.strictSame(await readCollectionState(urls, 'docs'), before)
  const points = Array.from({ length: 100 }, (_, n) => pointOf(POINTS + n))
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  const after = await readCollectionState(urls, 'docs')
  await later()
  // No event marks the absence of a late write: wait as long as an abandoned download took to end.
  await systemClock.sleep(8_000)
  t.strictSame(await readCollectionState(urls, 'docs'), after, 'nothing came later')
}

async function byShard(t: Test) {
  const staged = await stage(t, 'Shard')
  await t.test('killed during the transfer of a shard', async (t) => {
    const { store, cables, world } = staged
    const slow = gate()
    const onItsWay = gate()
    let isOnItsWay = false
    // A downloading node is slowed at the store; an upload to a node is stalled in transit.
    store.watch((text) => {
      if (isOnItsWay || !/^GET \S+\/shard-1\/\S*X-Amz-Signature/.test(text)) return undefined
      isOnItsWay = true
      onItsWay.open()
      return { slowUntil: slow.promise }
    })
    for (const one of cables) {
      one.watch((text) => {
        if (isOnItsWay || !/^POST \S+\/shards\/1\/snapshots\/upload/.test(text)) return undefined
        if (text.length < 65_536) return undefined
        isOnItsWay = true
        onItsWay.open()
        return 'stall'
      })
    }
    const restore = await world.restore()
    const { child } = restore.start()
    await onItsWay.promise
    // With a restored shard the collection is not recreated.
    while (((await restore.result()).current?.shardsDone?.length ?? 0) === 0) {
      await systemClock.sleep(50)
    }
    child.kill('SIGKILL')
    await once(child, 'close')
    for (const one of cables) one.watch()
    const { code, log } = await restore.run({ time: hurried(), pod: 'pod-2' })
    t.equal(code, EXIT.done, code === EXIT.done ? 'resumed' : log)
    await staysSo(t, staged, slow.open)
    store.watch()
  })
  await staged.lose()
  await t.test('cut off after the last byte of each shard', async (t) => {
    const { cables, world } = staged
    for (const one of cables) {
      let cuts = 1
      one.requests.length = 0
      one.watch((text) => (isWholeForm(text) && cuts-- > 0 ? 'cut' : undefined))
    }
    const { code, log } = await (await world.restore()).run({ time: hurried() })
    t.equal(code, EXIT.done, code === EXIT.done ? 'restored' : log)
    t.match(log, /recovery completed, although its response was lost/)
    t.equal(sent(staged, 'upload').length, NODES, 'each is sent once')
    for (const one of cables) one.watch()
    await staysSo(t, staged, () => undefined)
  })
}

async function byNode(t: Test) {
  const staged = await stage(t, 'Node')
  await t.test('cut off while a node downloads', async (t) => {
    const { s3, cables, world } = staged
    const hold = gate()
    let isCut = false
    s3.misbehave(({ operation, key }) =>
      operation === 'GetObject' && key.includes('/node-1/') ? { after: hold.promise } : undefined,
    )
    const calls: string[] = []
    cables[1]?.watch((text) => {
      if (!/^PUT \S+\/snapshots\/recover/.test(text) || !text.includes('/node-1/')) return undefined
      calls.push(text)
      if (isCut) return undefined
      isCut = true
      return 'cut'
    })
    const { code, log } = await (
      await world.restore()
    ).run({ time: hurried(), onLine: (line) => WAITING.test(line) && hold.open() })
    t.equal(code, EXIT.done, code === EXIT.done ? 'restored' : log)
    t.match(log, /recovery completed, although its response was lost/)
    t.equal(calls.length, 1, 'it is not recovered again')
    cables[1]?.watch()
    s3.misbehave()
    await staysSo(t, staged, () => undefined)
  })
  await staged.lose()
  await t.test('killed while the first node downloads', async (t) => {
    const { s3, world } = staged
    const hold = gate()
    const reading = gate()
    s3.misbehave(({ operation, key }) => {
      if (operation !== 'GetObject' || !key.includes('/node-0/')) return undefined
      reading.open()
      return { after: hold.promise }
    })
    const restore = await world.restore()
    const { child } = restore.start()
    await reading.promise
    child.kill('SIGKILL')
    await once(child, 'close')
    const { code, log } = await restore.run({
      ...{ time: hurried(), pod: 'pod-2' },
      onLine: (line) => WAITING.test(line) && hold.open(),
    })
    t.equal(code, EXIT.done, code === EXIT.done ? 'resumed' : log)
    t.notMatch(log, /Waiting for consensus operation commit failed/, 'no change waits for it')
    s3.misbehave()
    await staysSo(t, staged, () => undefined)
  })
}

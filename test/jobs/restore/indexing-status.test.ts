/** The status color of a collection after its points are restored: what a restore waits for, and how long. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'
import { run, runToDone, restoreFixture, type RestoreFixture } from './restore-fixture.ts'

/** The color that the first node reports once the last node has its snapshot. */
function colour(
  { nodes }: RestoreFixture,
  answer: () => object | undefined,
): { patches: () => number } {
  let isBack = false
  let patches = 0
  nodes[2]?.misbehave(({ path }) => {
    if (path.at(-1) === 'recover') isBack = true
    return undefined
  })
  nodes[0]?.misbehave(({ method, path }) => {
    if (method === 'PATCH') patches += 1
    if (!isBack || method !== 'GET' || path.length !== 2 || path[1] !== 'docs') return undefined
    const result = answer()
    if (result === undefined) return undefined
    const body = JSON.stringify({ result: { config: { params: {} }, ...result }, status: 'ok' })
    return { status: 200, body, headers: { 'content-type': 'application/json' } }
  })
  return { patches: () => patches }
}

t.test('red fails with the engine’s reason', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  colour(stood, () => ({ status: 'red', optimizer_status: { error: 'out of space' } }))
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), { error: /^docs is red on node 0: out of space/ })
})

t.test('a grey collection is optimized again', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  const wasRequested = colour(stood, () =>
    wasRequested.patches() > 0 ? undefined : { status: 'grey', optimizer_status: 'ok' },
  )
  const log = await runToDone(t, await stood.world.restore())
  t.match(log, /waking the optimizers/)
})

t.test('a collection that is not green after 3600 s fails by its name', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  colour(stood, () => ({ status: 'yellow', optimizer_status: 'ok' }))
  const restore = await stood.world.restore()
  const instant = instantClock(() => new Promise(setImmediate))
  const pauses: number[] = []
  const sleep = (ms: number, signal?: AbortSignal) => {
    pauses.push(ms)
    return instant.sleep(ms, signal)
  }
  t.equal((await restore.run({ time: { ...instant, sleep } })).code, EXIT.failed)
  t.match(await restore.result(), {
    error: 'collection docs did not turn green in time: node 0 reports yellow',
  })
  t.equal(pauses.filter((ms) => ms === 5_000).length, 720, 'every 5 s')
  const first = [25, 50, 100, 250, 500, 1_000, 2_000]
  t.strictSame(pauses.slice(-727, -720), first, 'the first ones sooner')
})

/** The replicas of node 1 of what node 0 holds, too: node 0 describes its own ones, which are green. */
function colourOnNode1(
  { engine, nodes }: RestoreFixture,
  status: 'yellow' | 'grey' | 'red',
  { polls = Infinity } = {},
): { patches: () => number; polled: () => number } {
  const peer = (ordinal: number) => engine.peers().find((one) => one.ordinal === ordinal)?.id ?? 0
  let [isSet, polled, patches] = [false, 0, 0]
  for (const [ordinal, node] of nodes.entries()) {
    node.misbehave(({ method, path }) => {
      const shards = engine.collections.get('docs')?.shards ?? []
      if (isSet && method === 'PATCH') patches += 1
      if (method !== 'GET' || path.join('/') !== 'collections/docs') return undefined
      const shared = shards.filter(({ peers }) => [0, 1].every((one) => peers.includes(peer(one))))
      const isCopied = shards.length === 3 && shards.every(({ peers }) => peers.length === 2)
      if (!isSet && isCopied) for (const shard of shared) shard.statusOn = { 1: status }
      isSet ||= isCopied
      if (isSet && ordinal === 1 && (polled += 1) > polls)
        for (const shard of shared) delete shard.statusOn
      return undefined
    })
  }
  return { patches: () => patches, polled: () => polled }
}

t.test('red replicas of any node fail, also without waiting for the index', async (t) => {
  for (const waitForIndexing of [true, false]) {
    const stood = await restoreFixture(t)
    stood.deleteCollections('docs')
    colourOnNode1(stood, 'red')
    const restore = await stood.world.restore({ waitForIndexing })
    t.equal((await run(restore)).code, EXIT.failed)
    matchWhole(t, await restore.result(), {
      error: /^docs is red on node 1: No space left on device/,
      collections: [{ status: 'Failed', isInPlace: true, points: 10 }],
    })
  }
})

/** Node 1 does not describe the collection any more once its points are restored, or not for a number of calls. */
function silenceNode1({ engine, nodes }: RestoreFixture, calls = Infinity): void {
  let left = calls
  nodes[1]?.misbehave(({ method, path }) => {
    if (method !== 'GET' || path.join('/') !== 'collections/docs') return undefined
    const shards = engine.collections.get('docs')?.shards ?? []
    const isCopied = shards.length === 3 && shards.every(({ peers }) => peers.length === 2)
    return isCopied && (left -= 1) >= 0 ? { cut: 'before' } : undefined
  })
}

t.test('without waiting for the index, a node that does not answer is noted', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  silenceNode1(stood)
  const restore = await stood.world.restore({ waitForIndexing: false })
  await runToDone(t, restore)
  t.match((await restore.progress())?.message, /node 1 did not report the status of docs/)
})

t.test('a node that does not answer for a while is asked again', async (t) => {
  for (const waitForIndexing of [true, false]) {
    const stood = await restoreFixture(t)
    stood.deleteCollections('docs')
    silenceNode1(stood, 6)
    const restore = await stood.world.restore({ waitForIndexing })
    await runToDone(t, restore)
    t.notMatch((await restore.progress())?.message ?? '', /did not report/)
  }
})

t.test('a node that does not answer for an hour is not green', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  silenceNode1(stood)
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  matchWhole(t, await restore.result(), {
    error: 'collection docs did not turn green in time: node 1 reports nothing',
    collections: [{ status: 'Failed', isInPlace: true }],
  })
})

t.test('the index of every node is waited for', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  const { polled } = colourOnNode1(stood, 'yellow', { polls: 20 })
  await runToDone(t, await stood.world.restore())
  t.ok(polled() > 20)
})

t.test('a node whose replicas are not green after an hour is in the message', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  colourOnNode1(stood, 'yellow')
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), {
    error: 'collection docs did not turn green in time: node 1 reports yellow',
  })
})

t.test('grey replicas of any node are optimized again', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  const { patches } = colourOnNode1(stood, 'grey')
  const log = await runToDone(t, await stood.world.restore())
  t.match(log, /waking the optimizers/)
  t.ok(patches() > 0)
})

t.test('a node that does not have the collection yet is waited for', async (t) => {
  for (const waitForIndexing of [true, false]) {
    const stood = await restoreFixture(t)
    stood.deleteCollections('docs')
    let asked = 0
    stood.nodes[1]?.misbehave(({ method, path }) => {
      if (method !== 'GET' || path.join('/') !== 'collections/docs') return undefined
      if ((asked += 1) > 3) return undefined
      const body = JSON.stringify({ status: { error: 'Not found: Collection `docs`' } })
      return { status: 404, body, headers: { 'content-type': 'application/json' } }
    })
    await runToDone(t, await stood.world.restore({ waitForIndexing }))
    t.ok(asked > 3)
  }
})

t.test('`waitForIndexing: false` skips only that wait', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  colour(stood, () => ({ status: 'yellow', optimizer_status: 'ok' }))
  const restore = await stood.world.restore({ waitForIndexing: false })
  t.equal((await run(restore)).code, EXIT.done)
  matchWhole(t, await restore.result(), { collections: [{ points: 10 }] })
})

/** Copies to a node that has no space for them: each fails, and the engine repeats it without end. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { startTransfer } from '../../../doubles/engine/transfers.ts'
import { matchWhole } from '../../../match-whole.ts'
import { shardsWorld, startedSteps, type WorldOptions } from './shards-world.ts'

const FAILED = /^docs\/\d: replicating from node \d to node 2 failed 3 times: it ended without an /

/** No copy to node 2 succeeds. */
async function fullNode(t: Test, options: WorldOptions) {
  const world = await shardsWorld(t, options)
  const full = world.peer(2)
  world.engine.transferOutcome = ({ to }) => (to === full ? 'fail' : 'complete')
  /** What the engine does with Dead replicas. */
  const repeatCopies = () => {
    for (const shard of world.engine.find('docs')?.shards ?? []) {
      const [from] = shard.peers.filter((peer) => (shard.states?.[peer] ?? 'Active') === 'Active')
      const isDead = shard.states?.[full] === 'Dead' && (shard.arriving ?? []).length === 0
      if (!isDead || from === undefined) continue
      startTransfer(world.engine, shard, { from, to: full, state: 'Recovery', sync: true })
    }
  }
  return { ...world, full, repeatCopies }
}

const onNode2 = (shards: Record<string, string[]>) =>
  Object.values(shards)
    .flat()
    .filter((replica) => replica.startsWith('2 '))

t.test('a move that fails is undone, and named', async (t) => {
  const world = await fullNode(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const before = await world.state()
  const { code, log } = await world.run({ balance: true })
  t.equal(code, EXIT.failed, log.slice(-2000))
  matchWhole(t, await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: FAILED,
    shards: { bytesMoved: 0, moves: [] },
  })
  const step = [/^docs\/\d: replicating from node \d to node 2$/, /^docs\/\d: dropping .* node 2$/]
  matchWhole(t, startedSteps(log), [...step, ...step, ...step])
  t.strictSame(await world.state(), before, 'no replica is left that the engine would copy again')
})

t.test('copies that the engine repeats are not waited for without end', async (t) => {
  const world = await fullNode(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const before = await world.state()
  // Between two copies there are moments without one.
  let isCopying = false
  const onSleep = () => {
    world.finishTransfers()
    isCopying = !isCopying
    if (isCopying) world.repeatCopies()
  }
  const { code, log } = await world.run({ balance: true }, { onSleep })
  t.equal(code, EXIT.failed, log.slice(-2000))
  matchWhole(t, await world.progress(), { reason: 'TransferFailed', message: FAILED })
  t.strictSame(await world.state(), before)
})

t.test('other nodes get the shards that one has no space for', async (t) => {
  const world = await fullNode(t, { nodes: 4, spread: 2, shards: 6, factor: 1 })
  const { code, log } = await world.run({ balance: true })
  // The node without space has fewer than its part.
  t.equal(code, EXIT.failed, log.slice(-2000))
  matchWhole(t, await world.progress(), { reason: 'TransferFailed', message: FAILED })
  const { shards } = await world.state()
  t.strictSame(onNode2(shards), [])
  const replicas = Object.values(shards).flat().toSorted()
  t.strictSame(replicas, [
    ...['0 Active', '0 Active', '1 Active', '1 Active', '3 Active', '3 Active'],
  ])
})

t.test('a node is drained to another one than that without space', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 6, factor: 1 })
  // The least data: the first choice for each shard.
  for (const shard of world.engine.find('docs')?.shards ?? []) {
    if (shard.peers.includes(world.full)) shard.vectorBytes = 1
  }
  const original = onNode2((await world.state()).shards).length
  await world.setReplicas(3)
  const { code, log } = await world.run({ nodes: 3 })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /to node 2 failed failures=3 /)
  const { shards, replicas } = await world.state()
  t.equal(replicas, 3)
  t.equal(onNode2(shards).length, original)
  t.strictSame(
    Object.values(shards).map((found) => found.length),
    Object.values(shards).map(() => 1),
  )
})

t.test('without another node, a drain names the one without space', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 4, factor: 3 })
  for (const shard of world.engine.find('docs')?.shards ?? []) {
    shard.peers = [0, 1, 3].map((ordinal) => world.peer(ordinal))
  }
  const before = await world.state()
  await world.setReplicas(3)
  const { code, log } = await world.run({ nodes: 3 })
  t.equal(code, EXIT.failed, log.slice(-2000))
  matchWhole(t, await world.progress(), { reason: 'TransferFailed', message: FAILED })
  t.strictSame(await world.state(), before)
})

t.test('a missing replica is created on another node than that without space', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 4, factor: 2 })
  for (const shard of world.engine.find('docs')?.shards ?? []) {
    shard.peers = [0, 1].map((ordinal) => world.peer(ordinal))
  }
  // Node 2 has the least data, and is the first choice.
  world.shard(1).peers = [world.peer(0)]
  world.shard(2).peers = [world.peer(1)]
  world.shard(2).key = 'tenant'
  const before = (await world.state()).shards
  const first = await world.run({})
  t.equal(first.code, EXIT.failed, first.log.slice(-2000))
  const message = /^docs\/\d: replicating from node \d to node 2 failed once: /
  matchWhole(t, await world.progress(), { state: 'Failed', reason: 'TransferFailed', message })
  const ids = Object.entries((await world.state()).shards).flatMap(([id, replicas]) =>
    replicas.includes('2 Dead') ? [id] : [],
  )
  t.ok(ids.length > 0)

  const defects = Object.fromEntries(ids.map((id) => [`docs/${id}/${world.full}`, 600]))
  const second = await world.run({ run: 2, hash: 'hash-2', defects }, { pod: 'pod-2' })
  t.equal(second.code, EXIT.done, second.log.slice(-2000))
  const { shards } = await world.state()
  t.strictSame(onNode2(shards), [], 'nothing is left that the engine would copy again')
  t.strictSame(shards, {
    ...before,
    1: ['0 Active', '3 Active'],
    2: ['1 Active', '3 Active'],
  })
  t.equal((await world.progress())?.shards?.failed, undefined)
})

t.test(
  'a replica that may have points is dropped once another node has one in its place',
  async (t) => {
    const world = await fullNode(t, { nodes: 4, shards: 1, factor: 2 })
    world.shard(0).peers = [0, 2].map((ordinal) => world.peer(ordinal))
    world.shard(0).states = { [world.full]: 'Dead' }
    const { code, log } = await world.run({ defects: { [`docs/0/${world.full}`]: 600 } })
    t.equal(code, EXIT.done, log.slice(-2000))
    matchWhole(t, startedSteps(log), [
      ...Array.from({ length: 3 }, () => 'docs/0: repairing the replica on node 2 from node 0'),
      'docs/0: replicating from node 0 to node 1',
      'docs/0: dropping the replica on node 2',
    ])
    t.strictSame((await world.state()).shards[0], ['0 Active', '1 Active'])
  },
)

t.test(
  'a replica that the engine fills while another one takes its place leaves none too many',
  async (t) => {
    for (const key of [undefined, 'tenant']) {
      const world = await fullNode(t, { nodes: 4, shards: 1, factor: 2 })
      world.shard(0).peers = [0, 2].map((ordinal) => world.peer(ordinal))
      world.shard(0).states = { [world.full]: 'Dead' }
      if (key !== undefined) world.shard(0).key = key
      const onLine = (line: string) => {
        if (/step started .*replicating from node 0 to node 1/.test(line)) {
          delete world.shard(0).states?.[world.full]
        }
      }
      const defects = { [`docs/0/${world.full}`]: 600 }
      const { code, log } = await world.run({ defects }, { onLine })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.strictSame((await world.state()).shards[0], ['0 Active', '1 Active'])
      t.strictSame((await world.progress())?.shards?.moves, [])
    }
  },
)

t.test('a replica that a user adds while the Job works stays', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 2, factor: 2 })
  for (const shard of world.engine.find('docs')?.shards ?? []) {
    shard.peers = [0, 1].map((ordinal) => world.peer(ordinal))
  }
  world.shard(0).peers = [world.peer(0)]
  const onLine = (line: string) => {
    if (/step started .*docs\/0: replicating/.test(line)) {
      world.shard(1).peers = [0, 1, 3].map((ordinal) => world.peer(ordinal))
    }
  }
  world.engine.transferOutcome = () => 'complete'
  const { code, log } = await world.run({}, { onLine })
  t.equal(code, EXIT.done, log.slice(-2000))
  const { shards } = await world.state()
  t.equal(shards[0]?.length, 2)
  t.strictSame(shards[1], ['0 Active', '1 Active', '3 Active'])
})

t.test('without another node, a replica that may have points stays', async (t) => {
  const world = await fullNode(t, { nodes: 3, shards: 1, factor: 3 })
  world.shard(0).states = { [world.full]: 'Dead' }
  const before = await world.state()
  for (const run of [1, 2]) {
    const plan = { run, hash: `hash-${run}`, defects: { [`docs/0/${world.full}`]: 600 } }
    const { code, log } = await world.run(plan, { pod: `pod-${run}` })
    t.equal(code, EXIT.failed, log.slice(-2000))
    matchWhole(t, await world.progress(), {
      reason: 'TransferFailed',
      message: / failed 3 times: /,
    })
    t.equal(startedSteps(log).length, 3)
  }
  t.strictSame(await world.state(), before)
})

t.test('copies that fail everywhere do not keep a node from being removed', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 2, factor: 2 })
  world.shard(0).peers = [0, 2].map((ordinal) => world.peer(ordinal))
  world.shard(0).states = { [world.full]: 'Dead' }
  world.shard(1).peers = [0, 1].map((ordinal) => world.peer(ordinal))
  world.engine.transferOutcome = () => 'fail'
  await world.setReplicas(3)
  for (const run of [1, 2]) {
    const defects = Object.fromEntries([1, 2].map((n) => [`docs/0/${world.peer(n)}`, 600]))
    const plan = { run, hash: `hash-${run}`, nodes: 3, defects }
    const { code, log } = await world.run(plan, { pod: `pod-${run}` })
    t.equal(code, EXIT.failed, log.slice(-2000))
    const copies = startedSteps(log).filter((step) => step.includes('replicating'))
    t.ok(copies.length <= 6, `${copies.length} copies`)
  }
  t.equal((await world.state()).replicas, 3)
})

t.test(
  'a full node gets new replicas of few shards, and the others go elsewhere at once',
  async (t) => {
    const world = await fullNode(t, { nodes: 4, shards: 24, factor: 2 })
    for (const shard of world.engine.find('docs')?.shards ?? []) shard.peers = [world.peer(0)]
    const docs = world.engine.find('docs')?.shards ?? []
    await world.run({})
    const created = onNode2((await world.state()).shards).length
    t.ok(created > 0)
    t.ok(created <= 4, `${created} replicas on the full node`)
    for (const run of [2, 3]) {
      const ids = docs.flatMap(({ id, states }) => (states?.[world.full] === 'Dead' ? [id] : []))
      const defects = Object.fromEntries(ids.map((id) => [`docs/${id}/${world.full}`, 600]))
      await world.run({ run, hash: `hash-${run}`, defects }, { pod: `pod-${run}` })
    }
    const { shards } = await world.state()
    t.strictSame(onNode2(shards), [])
    for (const replicas of Object.values(shards)) matchWhole(t, replicas, [/ Active$/, / Active$/])
  },
)

t.test('the next pod knows of a replica whose copy was begun by a killed one', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 3, factor: 2 })
  world.shard(0).peers = [world.peer(0)]
  // Node 2 has the least data, and is the first choice.
  for (const ordinal of [1, 3]) {
    world.shard(ordinal === 1 ? 1 : 2).peers = [0, ordinal].map((one) => world.peer(one))
  }
  const controller = new AbortController()
  const onSleep = () => {
    world.finishTransfers()
    controller.abort(new Error('killed'))
  }
  await world.run({}, { onSleep, signal: controller.signal })
  t.strictSame((await world.state()).shards[0], ['0 Active', '2 Dead'])
  const defects = { [`docs/0/${world.full}`]: 600 }
  const { code, log } = await world.run({ defects }, { pod: 'pod-2' })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(onNode2((await world.state()).shards), [])
})

t.test('a replica that no node has space for is tried on each, and left on one', async (t) => {
  const world = await fullNode(t, { nodes: 4, shards: 1, factor: 2 })
  world.engine.transferOutcome = () => 'fail'
  world.shard(0).peers = [world.peer(0)]
  const created = new Set<string | undefined>()
  for (const run of [1, 2, 3, 4, 5]) {
    const states = world.shard(0).states ?? {}
    const dead = Object.keys(states).filter((peer) => states[Number(peer)] === 'Dead')
    const defects = Object.fromEntries(dead.map((peer) => [`docs/0/${peer}`, 600]))
    const plan = { run, hash: `hash-${run}`, defects }
    const { code, log } = await world.run(plan, { pod: `pod-${run}` })
    t.equal(code, EXIT.failed, log.slice(-2000))
    matchWhole(t, await world.progress(), { state: 'Failed', reason: 'TransferFailed' })
    const { shards } = await world.state()
    t.equal(shards[0]?.[0], '0 Active')
    t.equal(shards[0]?.length, 2, 'the one before it was dropped')
    created.add(shards[0]?.[1])
  }
  t.strictSame([...created].toSorted(), ['1 Dead', '2 Dead', '3 Dead'])
})

t.test('a Job that ends before the third copy says that one has failed', async (t) => {
  const world = await fullNode(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const before = await world.state()
  const { code, log } = await world.run({ balance: true }, { speed: 10_000 })
  t.equal(code, EXIT.failed, log.slice(-2000))
  matchWhole(t, await world.progress(), {
    reason: 'TransferFailed',
    message: /^docs\/\d: replicating from node \d to node 2 failed once: /,
  })
  t.strictSame(await world.state(), before)
})

t.test('the next Job undoes a move that has failed, whatever it is for', async (t) => {
  const world = await fullNode(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const before = await world.state()
  const controller = new AbortController()
  const onSleep = () => {
    world.finishTransfers()
    controller.abort(new Error('killed'))
  }
  await world.run({ balance: true }, { onSleep, signal: controller.signal })
  t.not(onNode2((await world.state()).shards).length, 0)
  const next = { run: 2, hash: 'hash-2', repair: false }
  const { code, log } = await world.run(next, { pod: 'pod-2' })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(await world.state(), before)
})

t.test(
  'a surplus replica whose copies fail is dropped, and one of a shard key stays',
  async (t) => {
    const world = await fullNode(t, { nodes: 3, shards: 2, factor: 2 })
    const docs = world.engine.find('docs')
    const defects: Record<string, number> = {}
    for (const shard of docs?.shards ?? []) {
      shard.peers = [0, 1, 2].map((ordinal) => world.peer(ordinal))
      shard.states = { [world.full]: 'Dead' }
      defects[`docs/${shard.id}/${world.full}`] = 600
    }
    world.shard(1).key = 'tenant'
    const { code, log } = await world.run({ defects })
    t.equal(code, EXIT.failed, log.slice(-2000))
    matchWhole(t, await world.progress(), {
      reason: 'TransferFailed',
      message: /^docs\/1: replicating from node \d to node 2 failed 3 times: /,
    })
    const { shards } = await world.state()
    t.strictSame(shards[0], ['0 Active', '1 Active'])
    t.strictSame(shards[1], ['0 Active', '1 Active', '2 Dead'])
  },
)

/** `cluster shards` during an update: through the real CLI, an API server and engine doubles. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { EVERY } from '../../../depth.ts'
import { matchWhole } from '../../../match-whole.ts'
import { killAfter, shardsWorld, startedSteps } from './shards-world.ts'

t.setTimeout(600_000)

const UPDATE: Partial<ShardsPlan> = {
  update: { revision: 'rev-2', singleCopies: 'Restart', allowsLastCopy: false },
}

t.test('the nodes are updated one by one, from the highest down', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  const partitions: number[] = []
  const onSleep = async () => {
    const { partition, revisions } = await world.rollout()
    partitions.push(partition)
    // No pod below the partition is replaced, and no two are at once.
    for (const [ordinal, revision] of revisions.entries()) {
      if (ordinal < partition) t.equal(revision, 'rev-1')
    }
  }
  const { code, log } = await world.run(UPDATE, { onSleep })
  t.equal(code, EXIT.done, log)
  t.strictSame(startedSteps(log), ['updating node 2', 'updating node 1', 'updating node 0'])
  t.strictSame([...new Set(partitions)], [2, 1, 0])
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
  t.match(await world.progress(), { state: 'Done', shards: { stepsDone: 3, stepsLeft: 0 } })
  t.notOk('blocked' in ((await world.progress())?.shards ?? {}))
})

t.test('nothing is released for a repair', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.rollout(), { partition: 3, revisions: Array(3).fill('rev-1') })
})

t.test('a node with the last Active replica is not released', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const shard = world.shard(1)
  const dead = shard.peers.find((peer) => peer !== world.peer(2)) ?? 0
  t.ok(shard.peers.includes(world.peer(2)))
  shard.states = { [dead]: 'Dead' }
  await world.changeTemplate('rev-2')
  const { code, log } = await world.run({ ...UPDATE, repair: false })
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.rollout(), { partition: 3, revisions: Array(3).fill('rev-1') })
  const message = /^docs\/1 is Active only on node 2, which is updated next: repair the other/
  t.match(await world.progress(), {
    state: 'Done',
    shards: { isYielded: true, stepsDone: 0, blocked: { reason: 'LastCopy', message } },
  })

  // A user accepts it.
  const accepted: ShardsPlan['update'] = {
    ...{ revision: 'rev-2', singleCopies: 'Restart', allowsLastCopy: true },
  }
  const second = await world.run(
    {
      ...{ update: accepted, repair: false, run: 2, hash: 'hash-2' },
      defects: { [`docs/1/${dead}`]: 600 },
    },
    { pod: 'pod-2' },
  )
  t.equal(second.code, EXIT.done, second.log)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('a Dead replica is waited for and repaired, and then the update continues', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const shard = world.shard(1)
  const dead = shard.peers.find((peer) => peer !== world.peer(2)) ?? 0
  shard.states = { [dead]: 'Dead' }
  await world.changeTemplate('rev-2')
  const messages = new Set<string>()
  const onSleep = async () => {
    world.finishTransfers()
    const blocked = (await world.progress())?.shards?.blocked
    if (blocked !== undefined) messages.add(`${blocked.reason}: ${blocked.message}`)
    if (shard.states?.[dead] === 'Dead') t.equal((await world.rollout()).partition, 3)
  }
  const { code, log } = await world.run(
    { ...UPDATE, defects: { [`docs/1/${dead}`]: 300 } },
    { onSleep },
  )
  t.equal(code, EXIT.done, log)
  matchWhole(t, [...messages], [/^LastCopy: docs\/1 is Active only on node 2/])
  const [first, ...others] = startedSteps(log)
  t.match(first, /^docs\/1: repairing the replica on node \d from node 2$/)
  t.strictSame(others, ['updating node 2', 'updating node 1', 'updating node 0'])
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('collections that are not available meanwhile are named', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3, factor: 1 })
  await world.changeTemplate('rev-2')
  const { code, log } = await world.run(UPDATE)
  t.equal(code, EXIT.done, log)
  t.strictSame(
    startedSteps(log),
    [2, 1, 0].map(
      (node) => `updating node ${node}; shards of docs are not available until it is ready`,
    ),
  )
})

t.test('single replicas do not restart if the spec refuses it', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3, factor: 1 })
  await world.changeTemplate('rev-2')
  const update: ShardsPlan['update'] = {
    ...{ revision: 'rev-2', singleCopies: 'Refuse', allowsLastCopy: false },
  }
  const { code, log } = await world.run({ update })
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.rollout(), { partition: 3, revisions: Array(3).fill('rev-1') })
  t.match((await world.progress())?.shards?.blocked, { reason: 'SingleCopies', message: /^"docs"/ })
})

const JSON_TYPE = { 'content-type': 'application/json' }

t.test('replicas with different numbers of points are waited for', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  let counts = 0
  const node = world.nodes.get(2)
  node?.misbehave(({ method, path }) => {
    if (method !== 'POST' || path.at(-1) !== 'count') return undefined
    counts += 1
    return counts > 40
      ? undefined
      : {
          status: 200,
          body: '{"result":{"count":7},"status":"ok","time":0}',
          headers: { 'content-type': 'application/json' },
        }
  })
  let waited = false
  const onSleep = async () => {
    const message = (await world.progress())?.message ?? ''
    if (!/have different numbers of points: .*7 on node 2/.test(message)) return
    waited = true
    t.equal((await world.rollout()).partition, 3)
  }
  const { code, log } = await world.run(UPDATE, { onSleep })
  t.equal(code, EXIT.done, log)
  t.ok(waited)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('replicas that differ for good end the Job, with their numbers', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  world.nodes
    .get(2)
    ?.misbehave(({ method, path }) =>
      method === 'POST' && path.at(-1) === 'count'
        ? { status: 200, body: '{"result":{"count":7},"status":"ok","time":0}', headers: JSON_TYPE }
        : undefined,
    )
  let endedAt = 0
  const onSleep = (seconds: number) => {
    endedAt = seconds
  }
  const { code, log } = await world.run(UPDATE, { onSleep })
  t.equal(code, EXIT.done, log)
  t.ok(endedAt > 290 && endedAt < 360, `after ${endedAt} s`)
  t.strictSame(await world.rollout(), { partition: 3, revisions: Array(3).fill('rev-1') })
  const message =
    /^the replicas of docs\/\d have different numbers of points: 0 on node \d, 7 on node 2, and node 2 is updated next: if clients add or delete /
  matchWhole(t, await world.progress(), {
    state: 'Done',
    shards: { isYielded: true, stepsDone: 0, blocked: { reason: 'ReplicasDiffer', message } },
  })

  world.nodes.get(2)?.misbehave(() => undefined)
  const second = await world.run({ ...UPDATE, run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
  t.equal(second.code, EXIT.done, second.log)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('a collection that forbids exact counts does not stop the update', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const strict = { enabled: true, search_allow_exact: false }
  Object.assign(world.engine.find('docs')?.config ?? {}, { strict_mode_config: strict })
  await world.changeTemplate('rev-2')
  const { code, log } = await world.run(UPDATE)
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('an updated node that has fewer points than before is waited for', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  let waits = 0
  const onSleep = async () => {
    // The pod was replaced between two observations of the Job.
    if ((await world.rollout()).revisions[2] !== 'rev-2') return
    world.nodes.get(2)?.misbehave(({ method, path }) =>
      method === 'POST' && path.at(-1) === 'count' && waits < 10
        ? {
            status: 200,
            body: '{"result":{"count":7},"status":"ok","time":0}',
            headers: JSON_TYPE,
          }
        : undefined,
    )
    const message = (await world.progress())?.message ?? ''
    if (!/have different numbers of points: .*7 on node 2/.test(message)) return
    waits += 1
    t.equal((await world.rollout()).partition, 2)
  }
  const { code, log } = await world.run(UPDATE, { onSleep })
  t.equal(code, EXIT.done, log)
  t.equal(waits, 10)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('a node that does not become ready stops the update; a new spec ends the Job', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  let sleeps = 0
  const onSleep = async () => {
    sleeps += 1
    const { revisions } = await world.rollout()
    if (revisions[2] === 'rev-2') await world.setReady(2, false)
    if (sleeps === 20) {
      t.match((await world.progress())?.message, 'node 2 is not ready yet')
      await world.setReplicas(4)
    }
  }
  const { code, log } = await world.run(UPDATE, { onSleep })
  t.equal(code, EXIT.done, log)
  t.ok(sleeps >= 20 && sleeps < 30, `${sleeps} sleeps`)
  t.strictSame(await world.rollout(), { partition: 2, revisions: ['rev-1', 'rev-1', 'rev-2'] })
  t.match(await world.progress(), { state: 'Done', shards: { isYielded: true } })
})

t.test('a node is not released when another pod fails in that moment', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  let [sleeps, hasFailed] = [0, false]
  const onLine = (line: string) => {
    if (hasFailed || !/step started .*updating node 2/.test(line)) return
    hasFailed = true
    world.failPod(0)
  }
  const onSleep = async () => {
    sleeps += 1
    if (sleeps > 5) return
    t.equal((await world.rollout()).partition, 3)
    const { step = '' } = (await world.progress())?.shards ?? {}
    t.notMatch(step, /updating/, 'no node is announced that is not updated')
    if (sleeps === 5) await world.setReady(0, true)
  }
  const { code, log } = await world.run(UPDATE, { onLine, onSleep })
  t.ok(hasFailed)
  t.equal(code, EXIT.done, log)
  t.ok(sleeps > 5, `${sleeps} sleeps`)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

t.test('a replica that dies while points are counted keeps the other one running', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const shard = world.shard(1)
  const [other = 0] = shard.peers.filter((peer) => peer !== world.peer(2))
  t.ok(shard.peers.includes(world.peer(2)))
  await world.changeTemplate('rev-2')
  world.nodes.get(0)?.misbehave(({ method, path }) => {
    const isLastCount = method === 'POST' && path.at(-1) === 'count' && path[3] === '2'
    if (!isLastCount || shard.states !== undefined) return undefined
    shard.states = { [other]: 'Dead' }
    world.engine.changes += 1
    return undefined
  })
  const { code, log } = await world.run({ ...UPDATE, repair: false })
  t.equal(code, EXIT.done, log)
  t.strictSame(shard.states, { [other]: 'Dead' })
  t.strictSame(await world.rollout(), { partition: 3, revisions: Array(3).fill('rev-1') })
  t.match((await world.progress())?.shards?.blocked, { reason: 'LastCopy' })
})

t.test('a partition that someone else has set to 0 is left alone', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await world.changeTemplate('rev-2')
  await world.setPartition(0)
  const { code, log } = await world.run(UPDATE)
  t.equal(code, EXIT.done, log)
  t.notMatch(log, /released a node/)
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

const KILLS = { timeout: 300_000 }
t.test('a pod that is killed after any call is continued by the next pod', KILLS, async (t) => {
  let isComplete = false
  for (let last = 1; !isComplete; last += EVERY) {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    await world.changeTemplate('rev-2')
    const { isKilled, onLine } = killAfter(last, /api call method=PATCH /)
    await world.run(UPDATE, { onLine }).catch(() => undefined)
    isComplete = !isKilled()
    const { code, log } = await world.run(UPDATE, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log)
    const expected = { partition: 0, revisions: Array(3).fill('rev-2') }
    t.strictSame(await world.rollout(), expected, `after ${last} calls`)
    if (isComplete) t.ok(last > 5, `${last} calls`)
  }
})

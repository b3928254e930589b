/** Before one of two replicas is dropped, the other one has as many points. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { MAX_EXACT_POINTS } from '../../../../crds/contract/limits.ts'
import { matchWhole } from '../../../match-whole.ts'
import { shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

/** More than the engine may count exactly. */
const LARGE = MAX_EXACT_POINTS + 10
const HEADERS = { 'content-type': 'application/json' }
/** Node 1 is removed, and the replicas of node 0 are the only ones then. */
const PLAN = { nodes: 1, allowsFewerReplicas: true }

/** What this node answers when it is asked for the number of points of a replica. */
function answerCount(world: ShardsWorld, ordinal: number, count: () => number | undefined) {
  world.nodes.get(ordinal)?.misbehave(({ method, path, body }) => {
    if (method !== 'POST' || path.at(-1) !== 'count' || !isExact(body)) return undefined
    const points = count()
    return points === undefined
      ? { status: 500, body: '{"status":{"error":"busy"},"time":0}', headers: HEADERS }
      : { status: 200, body: `{"result":{"count":${points}},"time":0}`, headers: HEADERS }
  })
}

/** Others are asked for whether a replica can be read. */
function isExact(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'exact' in body && body.exact === true
}

async function twoNodes(t: Parameters<typeof shardsWorld>[0]) {
  const world = await shardsWorld(t, { nodes: 2, shards: 2 })
  await world.setReplicas(1)
  return world
}

t.test('H23: the replica with more points is kept, and named after five minutes', async (t) => {
  const world = await twoNodes(t)
  const before = await world.state()
  answerCount(world, 0, () => 7)
  answerCount(world, 1, () => 9)
  let endedAt = 0
  const onSleep = (seconds: number) => {
    endedAt = seconds
  }
  const { code, log } = await world.run(PLAN, { onSleep })
  t.equal(code, EXIT.failed, log)
  t.ok(endedAt > 290 && endedAt < 360, `after ${endedAt} s`)
  t.match(await world.progress(), {
    ...{ state: 'Refused', reason: 'PointsMissing' },
    message:
      /^docs\/\d on node 1 is kept: it has 9 points, and the only other Active replica, on node 0, has 7$/,
  })
  t.strictSame(await world.state(), before)
  t.strictSame(startedSteps(log), [])
})

t.test('it is dropped once the other one has them', async (t) => {
  const world = await twoNodes(t)
  let found = 7
  answerCount(world, 0, () => found)
  answerCount(world, 1, () => 9)
  const onSleep = (seconds: number) => {
    if (seconds > 60) found = 9
  }
  const { code, log } = await world.run(PLAN, { onSleep })
  t.equal(code, EXIT.done, log)
  t.strictSame((await world.state()).shards, { 0: ['0 Active'], 1: ['0 Active'] })
})

t.test('points that clients add or delete meanwhile make no difference', async (t) => {
  for (const change of [1, -1]) {
    const world = await twoNodes(t)
    let points = 1000
    const next = () => (points += change)
    answerCount(world, 0, next)
    answerCount(world, 1, next)
    const { code, log } = await world.run(PLAN)
    t.equal(code, EXIT.done, log)
    t.notMatch(log, /is kept/)
  }
})

t.test('a replica is kept while one of them is not counted', async (t) => {
  for (const ordinal of [0, 1]) {
    const world = await twoNodes(t)
    const before = await world.state()
    answerCount(world, ordinal, () => undefined)
    const { code, log } = await world.run(PLAN)
    t.equal(code, EXIT.failed, log)
    t.match(await world.progress(), {
      ...{ state: 'Refused', reason: 'PointsMissing' },
      message:
        /^docs\/\d on node 1 is kept: its points or those of the only other Active replica, on node 0, are not counted$/,
    })
    t.strictSame(await world.state(), before)
  }
})

t.test('the source of a move is kept in the same way', async (t) => {
  const world = await shardsWorld(t, { nodes: 2, spread: 1, shards: 2, factor: 1 })
  answerCount(world, 1, () => 3)
  answerCount(world, 0, () => 5)
  const { code, log } = await world.run({ balance: true })
  t.equal(code, EXIT.failed, log)
  t.match(await world.progress(), {
    ...{ state: 'Refused', reason: 'PointsMissing' },
    message: /^docs\/\d on node 0 is kept: it has 5 points, .* on node 1, has 3$/,
  })
  t.ok(Object.values((await world.state()).shards).flat().length > 2, 'both are there')
})

t.test('other work is done while a replica is kept', async (t) => {
  const world = await shardsWorld(t, { nodes: 2, spread: 1, shards: 2, factor: 1 })
  answerCount(world, 1, () => 3)
  answerCount(world, 0, () => 5)
  let isPostponed = false
  const other = () => world.engine.find('other')?.shards[0]
  const onSleep = async () => {
    world.finishTransfers()
    if (isPostponed || !/is kept: it has 5 points/.test((await world.progress())?.message ?? ''))
      return
    isPostponed = true
    world.engine.createCollection('other', 1, 2)
    const [peer = 0] = other()?.peers ?? []
    Object.assign(other() ?? {}, { states: { [peer]: 'ManualRecovery' } })
  }
  const { log } = await world.run({ balance: true }, { onSleep })
  t.match(await world.progress(), { state: 'Refused', reason: 'PointsMissing' })
  t.ok(isPostponed)
  matchWhole(
    t,
    startedSteps(log).filter((step) => step.startsWith('other/')),
    [/^other\/0: repairing the replica on node \d/],
  )
})

t.test('of a large shard, the estimates are compared', async (t) => {
  const world = await twoNodes(t)
  let exact = 0
  for (const ordinal of [0, 1]) {
    world.nodes.get(ordinal)?.misbehave(({ method, path, body }) => {
      if (method !== 'POST' || path.at(-1) !== 'count') return undefined
      if (isExact(body)) exact += 1
      return {
        status: 200,
        body: `{"result":{"count":${LARGE - 5 * ordinal}},"time":0}`,
        headers: HEADERS,
      }
    })
  }
  const { code, log } = await world.run(PLAN)
  t.equal(code, EXIT.done, log)
  t.equal(exact, 0)
})

/** Before a replica is dropped, another one has as many points. */
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

interface Counts {
  exact?: number | undefined
  estimate?: number | undefined
}

/** What this node answers when it is asked for the number of points of a replica; nothing of what is undefined. */
function answerCounts(world: ShardsWorld, ordinal: number, counts: (shard: number) => Counts) {
  world.nodes.get(ordinal)?.misbehave(({ method, path, body }) => {
    if (method !== 'POST' || path.at(-1) !== 'count') return undefined
    const kind = isExact(body) ? 'exact' : 'estimate'
    const given = counts(Number(path[3]))
    if (!(kind in given)) return undefined
    const points = given[kind]
    return points === undefined
      ? { status: 503, body: '{"status":{"error":"busy"},"time":0}', headers: HEADERS }
      : { status: 200, body: `{"result":{"count":${points}},"time":0}`, headers: HEADERS }
  })
}

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
  answerCounts(world, 0, () => ({ exact: 7 }))
  answerCounts(world, 1, () => ({ exact: 9 }))
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
      /^docs\/\d on node 1 is kept: it has 9 points, and those that would take its place have fewer: 7 on node 0$/,
  })
  t.strictSame(await world.state(), before)
  t.strictSame(startedSteps(log), [])
})

t.test('it is dropped once the other one has them', async (t) => {
  const world = await twoNodes(t)
  let found = 7
  answerCounts(world, 0, () => ({ exact: found }))
  answerCounts(world, 1, () => ({ exact: 9 }))
  const onSleep = (seconds: number) => {
    if (seconds > 60) found = 9
  }
  const { code, log } = await world.run(PLAN, { onSleep })
  t.equal(code, EXIT.done, log)
  t.strictSame((await world.state()).shards, { 0: ['0 Active'], 1: ['0 Active'] })
})

t.test('points that clients add or delete between the counts make no difference', async (t) => {
  for (const change of [1, -1]) {
    const world = await twoNodes(t)
    let points = 1000
    const next = () => ({ exact: (points += change) })
    answerCounts(world, 0, next)
    answerCounts(world, 1, next)
    const { code, log } = await world.run(PLAN)
    t.equal(code, EXIT.done, log)
    t.notMatch(log, /is kept/)
  }
})

t.test('a replica is kept while the points of one are not known', async (t) => {
  for (const ordinal of [0, 1]) {
    const world = await twoNodes(t)
    const before = await world.state()
    answerCounts(world, ordinal, () => ({ exact: undefined, estimate: undefined }))
    const { code, log } = await world.run(PLAN)
    t.equal(code, EXIT.failed, log)
    t.match(await world.progress(), {
      ...{ state: 'Refused', reason: 'PointsMissing' },
      message:
        /^docs\/\d on node 1 is kept: its points or those of the replicas that would take its place are not counted$/,
    })
    t.strictSame(await world.state(), before)
  }
})

for (const [title, given] of [
  ['of a large shard', (points: number) => ({ exact: 0, estimate: LARGE + points })],
  ['of one that is not counted', (points: number) => ({ exact: undefined, estimate: points })],
] as const) {
  t.test(`the estimates ${title} are compared`, async (t) => {
    for (const [own, other, expected] of [
      [5, 3, EXIT.failed],
      [5, 5, EXIT.done],
    ] as const) {
      const world = await twoNodes(t)
      answerCounts(world, 0, () => given(other))
      answerCounts(world, 1, () => given(own))
      const { code, log } = await world.run(PLAN)
      t.equal(code, expected, log)
    }
  })
}

t.test('a move whose target has fewer points is undone, and other work is done', async (t) => {
  const world = await shardsWorld(t, { nodes: 2, spread: 1, shards: 2, factor: 1 })
  answerCounts(world, 1, () => ({ exact: 3 }))
  answerCounts(world, 0, () => ({ exact: 5 }))
  let isObstructed = false
  const other = () => world.engine.find('other')?.shards[0]
  const onSleep = async () => {
    world.finishTransfers()
    if (isObstructed || !/is kept: it has 5 points/.test((await world.progress())?.message ?? ''))
      return
    isObstructed = true
    world.engine.createCollection('other', 1, 2)
    const [peer = 0] = other()?.peers ?? []
    Object.assign(other() ?? {}, { states: { [peer]: 'ManualRecovery' } })
  }
  const { code, log } = await world.run({ balance: true }, { onSleep })
  t.equal(code, EXIT.failed, log)
  t.ok(isObstructed)
  const steps = startedSteps(log)
  matchWhole(
    t,
    steps.filter((step) => step.startsWith('other/')),
    [/^other\/0: repairing the replica on node \d/],
  )
  const [first = '', second = ''] = steps.filter((step) => step.startsWith('docs/'))
  t.match(first, /^docs\/\d: replicating from node 0 to node 1$/)
  t.equal(second, `${first.slice(0, 6)}: dropping the replica on node 1`)
  t.match(await world.progress(), {
    reason: 'TransferFailed',
    message:
      /^the move of docs\/\d was undone: docs\/\d on node 0 is kept: it has 5 points, and those that would take its place have fewer: 3 on node 1$/,
  })
  const { shards } = await world.state()
  for (const replicas of Object.values(shards)) t.ok(replicas.includes('0 Active'))
})

t.test(
  'a new replica that misses points takes the place of no better one, whatever a third has',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 3 })
    await world.setReplicas(2)
    const lost = world.peer(2)
    const held = () => [0, 1, 2].filter((id) => world.shard(id).peers.includes(lost))
    const before = held()
    const holders = [0, 1, 2].map((id) => world.shard(id).peers.slice())
    for (const ordinal of [0, 1, 2]) {
      const peer = world.peer(ordinal)
      answerCounts(world, ordinal, (id) => ({
        exact: holders[id]?.includes(peer) === true ? 5 : 3,
      }))
    }
    const { code, log } = await world.run({ nodes: 2 })
    t.equal(code, EXIT.failed, log)
    t.match(await world.progress(), {
      reason: 'TransferFailed',
      message: /^the move of docs\/\d was undone: .* have fewer: 3 on node \d$/,
    })
    t.strictSame(held(), before)
  },
)

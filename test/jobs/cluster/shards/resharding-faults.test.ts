/** What happens to a collection while its number of shards changes, on engine doubles. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { EVERY } from '../../../depth.ts'
import { killReplica } from '../../../doubles/engine/resharding.ts'
import { contents, fill, numbers, POINTS } from './resharding-contents.ts'
import { shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

const SOURCE = { namespace: 'ns', name: 'docs' }

async function stagesOf(world: ShardsWorld) {
  const { reshardings = [] } = (await world.progress())?.shards ?? {}
  return reshardings.map(({ direction, shard, stage }) => `${direction} ${shard} ${stage}`)
}

const stageOf = async (world: ShardsWorld) => (await world.progress())?.shards?.resharding?.stage

/** Replicas that were called Dead ten minutes ago: the engine has not repaired them. */
function deadFor({ shard, peer }: { shard: number; peer: number }): Partial<ShardsPlan> {
  return { defects: { [`docs/${shard}/${peer}`]: 600 } }
}

for (const [from, to, shard] of [
  [2, 3, 0],
  [3, 2, 1],
] as const) {
  t.test(`${from} -> ${to}: a replica of a former shard that dies is repaired first`, async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 2 })
    fill(world)
    const [peer = 0] = world.shard(shard).peers
    let hasDied = false
    const { code, log } = await world.run(
      { ...numbers(to), ...deadFor({ shard, peer }) },
      {
        async onSleep() {
          const collection = world.engine.find('docs')
          if (!hasDied && collection?.resharding !== undefined) {
            hasDied = true
            // What it missed while it was away.
            const copies = collection.copies ?? {}
            copies[`${shard}/${peer}`] = (copies[`${shard}/${peer}`] ?? []).slice(1)
            killReplica(world.engine, collection, { shard, peer })
          }
          world.finishTransfers()
        },
      },
    )
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(hasDied)
    t.match(log, new RegExp(`docs/${shard}: repairing the replica on node`))
    t.strictSame(contents(world), { shards: to, ids: POINTS, twice: 0, wrong: [] })
    t.match((await stagesOf(world)).at(-1), / completed$/)
    const { shards } = await world.state()
    t.ok(
      Object.values(shards)
        .flat()
        .every((replica) => replica.endsWith('Active')),
    )
  })
}

t.test(
  'a replica of the added shard that dies makes the engine abort, and it is begun again',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
    fill(world)
    let hasDied = false
    const { code, log } = await world.run(numbers(3), {
      async onSleep() {
        const collection = world.engine.find('docs')
        const added = collection?.shards.find(({ id }) => id === 2)
        const peer = added?.peers[0]
        if (!hasDied && collection !== undefined && peer !== undefined) {
          hasDied = true
          killReplica(world.engine, collection, { shard: 2, peer })
          t.equal(collection.resharding, undefined)
        }
        world.finishTransfers()
      },
    })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(hasDied)
    t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
    t.strictSame(await stagesOf(world), ['up 2 aborted', 'up 2 completed'])
  },
)

t.test(
  'after reads use the new shard, a replica that dies is repaired before it is completed',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 2 })
    fill(world)
    const killed = new AbortController()
    const onLine = (line: string) => {
      if (line.includes('step started') && line.includes('deleting the points')) killed.abort()
    }
    await world.run(numbers(3), { signal: killed.signal, onLine })
    t.equal(await stageOf(world), 'commit')
    const collection = world.engine.find('docs')
    if (collection === undefined) throw new Error('there is no collection')
    const [peer = 0] = world.shard(1).peers
    killReplica(world.engine, collection, { shard: 1, peer })
    const { code, log } = await world.run(
      { ...numbers(3), ...deadFor({ shard: 1, peer }) },
      { pod: 'pod-2' },
    )
    t.equal(code, EXIT.done, log.slice(-2000))
    const steps = startedSteps(log).map((step) => step.replace(/ on node .*/, ''))
    t.ok(
      steps.indexOf('docs/1: repairing the replica') <
        steps.indexOf('docs: writing to the new shards only'),
      String(steps),
    )
    t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
    t.strictSame(await stagesOf(world), ['up 2 completed'])
  },
)

for (const [from, to] of [
  [2, 3],
  [3, 2],
] as const) {
  t.test(`${from} -> ${to}: a collection that is deleted at any call ends it`, async (t) => {
    const ends = new Set<string>()
    for (let call = 1; ; call += EVERY) {
      const world = await shardsWorld(t, { nodes: 2, shards: from, factor: 1 })
      fill(world)
      let calls = 0
      const onLine = (line: string) => {
        if (!/engine call .*call=POST/.test(line)) return
        calls += 1
        if (calls === call) world.engine.removeCollection('docs')
      }
      const { code, log } = await world.run(numbers(to), { onLine })
      if (calls < call) break
      t.equal(code, EXIT.done, `deleted at call ${call}: ${log.slice(-2000)}`)
      t.equal(await stageOf(world), undefined)
      for (const stage of await stagesOf(world)) ends.add(stage)
    }
    const change = from < to ? 'up 2' : 'down 2'
    t.strictSame([...ends], [`${change} gone`])
  })
}

t.test('a number that is set back aborts it, as long as reads use the former shards', async (t) => {
  for (const [from, to] of [
    [2, 3],
    [3, 2],
  ] as const) {
    const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 2 })
    fill(world)
    await world.declareCollection(to)
    let isSet = false
    const { code, log } = await world.run(numbers(to, SOURCE), {
      async onSleep() {
        world.finishTransfers()
        if (isSet || (await stageOf(world)) !== 'migrate') return
        isSet = true
        await world.setShardNumber(from)
      },
    })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(isSet)
    t.match(startedSteps(log).at(-1), 'docs: aborting the resharding')
    t.strictSame(contents(world), { shards: from, ids: POINTS, twice: 0, wrong: [] })
    t.strictSame(await stagesOf(world), [`${from < to ? 'up' : 'down'} 2 aborted`])
    t.equal(world.engine.find('docs')?.config.params['shard_number'], from)
    t.equal(await stageOf(world), undefined)
  }
})

t.test('a number that is set back later is another change, after this one', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  await world.declareCollection(3)
  const set: Promise<unknown>[] = []
  const { code } = await world.run(numbers(3, SOURCE), {
    onLine(line) {
      const isCleaning = line.includes('step started') && line.includes('deleting the points')
      if (isCleaning && set.length === 0) set.push(world.setShardNumber(2))
    },
  })
  await Promise.all(set)
  t.equal(set.length, 1)
  t.equal(code, EXIT.done)
  t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
  const next = await world.run({ ...numbers(2, SOURCE), run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
  t.equal(next.code, EXIT.done)
  t.strictSame(contents(world), { shards: 2, ids: POINTS, twice: 0, wrong: [] })
  t.strictSame(await stagesOf(world), ['up 2 completed', 'down 2 completed'])
})

t.test('without a number, or in another namespace, the number of the plan counts', async (t) => {
  for (const source of [SOURCE, { namespace: 'other', name: 'docs' }]) {
    const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
    fill(world)
    await world.declareCollection(source === SOURCE ? 3 : 2)
    if (source === SOURCE) await world.setShardNumber(null)
    const { code } = await world.run(numbers(3, source))
    t.equal(code, EXIT.done)
    t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
  }
})

const UPDATE: Partial<ShardsPlan> = {
  update: { revision: 'rev-2', singleCopies: 'Restart', allowsLastCopy: false },
}
const UPDATES = ['updating node 2', 'updating node 1', 'updating node 0']

t.test('pods with the former template are updated before a number of shards changes', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 2 })
  fill(world)
  await world.changeTemplate('rev-2')
  const { code, log } = await world.run({ ...UPDATE, ...numbers(3) })
  t.equal(code, EXIT.done, log.slice(-2000))
  const steps = startedSteps(log)
  t.strictSame(steps.slice(0, 3), UPDATES)
  t.match(steps[3], 'docs: adding shard 2 on')
  t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
  t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
})

for (const last of ['copying points', 'deleting the points']) {
  t.test(`an update that comes in the middle waits until it is complete: ${last}`, async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 2 })
    fill(world)
    const killed = new AbortController()
    const onLine = (line: string) => {
      if (line.includes('step started') && line.includes(last)) killed.abort()
    }
    await world.run(numbers(3), { signal: killed.signal, onLine })
    await world.changeTemplate('rev-2')
    const { code, log } = await world.run({ ...UPDATE, ...numbers(3) }, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log.slice(-2000))
    const steps = startedSteps(log)
    t.strictSame(
      steps.filter((step) => step.startsWith('updating')),
      UPDATES,
    )
    t.ok(steps.indexOf('docs: completing the resharding') < steps.indexOf('updating node 2'))
    t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
    t.strictSame(await stagesOf(world), ['up 2 completed'])
  })
}

t.test(
  'a node that does not start with the former template is updated in the middle',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
    fill(world)
    const killed = new AbortController()
    const onLine = (line: string) => {
      if (line.includes('step started') && line.includes('deleting the points')) killed.abort()
    }
    await world.run(numbers(3), { signal: killed.signal, onLine })
    await world.changeTemplate('rev-2')
    await world.nodes.get(2)?.close()
    world.nodes.delete(2)
    await world.setReady(2, false)
    const { code, log } = await world.run({ ...UPDATE, ...numbers(3) }, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log.slice(-2000))
    const [first, ...others] = startedSteps(log)
    t.match(first, 'updating node 2')
    t.ok(others.indexOf('docs: completing the resharding') < others.length - 2, String(others))
    t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
    t.strictSame(await world.rollout(), { partition: 0, revisions: Array(3).fill('rev-2') })
  },
)

/** What becomes of writes while a node is killed and the number of shards of a collection changes, on engine doubles. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { EVERY, isFull } from '../../../depth.ts'
import { copyReplica, killReplica } from '../../../doubles/engine/resharding.ts'
import { fill, flaws, numbers, outcomesOf, pointOf, stateOf } from './resharding-contents.ts'
import {
  Client,
  DIRECTIONS,
  failTransfers,
  isStep,
  killNode,
  restartNode,
  type Change,
} from './resharding-users.ts'
import { shardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

const NODES = 3
const FACTOR = 2
/** How often the Job looks while the node is down. */
const SLEEPS = 3

/** Points of all shards, some of them new. */
const WRITTEN: Change = {
  points: [
    ...Array.from({ length: 20 }, (_, id) => pointOf(id, `second ${id}`)),
    ...Array.from({ length: 20 }, (_, index) => pointOf(1000 + index)),
  ],
}
const DELETED: Change = { deleted: Array.from({ length: 20 }, (_, index) => 20 + index) }

interface Killed {
  from: number
  to: number
  /** The node is killed when the Job starts this step. */
  step: number
  node: number
  wait: boolean
}

async function runWithKill(t: Test, { from, to, node, step, wait }: Killed) {
  const world = await shardsWorld(t, { nodes: NODES, shards: from, factor: FACTOR })
  const client = new Client(world, fill(world))
  const work: Promise<unknown>[] = []
  let steps = 0
  let sleeps = 0
  const restart = async () => {
    await Promise.all(work)
    await restartNode(world, node)
    await client.repeatFailed()
  }
  const { code, log } = await world.run(numbers(to), {
    onLine(line) {
      if (!isStep(line)) return
      steps += 1
      if (steps !== step) return
      work.push(killNode(world, node))
      const change = step % 2 === 0 ? WRITTEN : DELETED
      work.push(client.write(change, { wait, node: (node + 1) % NODES }))
    },
    async onSleep() {
      if (world.engine.away.has(node)) {
        failTransfers(world, node)
        sleeps += 1
        if (sleeps === SLEEPS) await restart()
      }
      world.finishTransfers()
    },
  })
  if (world.engine.away.has(node)) await restart()
  return { world, client, code, log, steps }
}

for (const wait of [false, true]) {
  for (const [from, to] of DIRECTIONS) {
    const change = `docs ${from < to ? 'up' : 'down'} 2`
    const title = `a node is killed at any step and misses a write with wait=${String(wait)}`

    t.test(`${from} -> ${to}: ${title}`, async (t) => {
      const outcomes = new Set<string>()
      for (let step = 1; ; step += EVERY) {
        // So that the node of the added shard is met, and one on which two shards get the points of the removed one.
        const node = (step + 1) % NODES
        const run = await runWithKill(t, { from, to, node, step, wait })
        if (run.steps < step) break
        const { world, client, code, log } = run
        const at = `node ${node} at step ${step}`
        t.equal(code, EXIT.done, `${at}: ${log.slice(-2000)}`)
        const ended = await outcomesOf(world)
        for (const outcome of ended) outcomes.add(outcome)
        t.equal(ended.at(-1), `${change} completed`, at)
        t.ok(
          ended.slice(0, -1).every((outcome) => outcome === `${change} aborted`),
          `${at}: ${ended.join()}`,
        )
        const progress = await world.progress()
        t.equal(progress?.state, 'Done', at)
        t.equal(progress?.shards?.resharding, undefined, at)

        const goal = { shards: to, factor: FACTOR, points: client.points }
        t.strictSame(flaws(world, goal), [], at)
      }
      // Only at some of the steps.
      if (isFull) t.ok(outcomes.has(`${change} aborted`), 'the engine has ended one of them')
    })
  }
}

t.test('a replica that is repaired while a shard is removed gets its points again', async (t) => {
  const world = await shardsWorld(t, { nodes: NODES, shards: 3, factor: FACTOR })
  const points = fill(world)
  const { engine } = world
  let steps = 0
  let sleeps = 0
  let isKilled = false
  const { code, log } = await world.run(numbers(2), {
    onLine(line) {
      if (!isStep(line)) return
      steps += 1
      const collection = engine.find('docs')
      const [shard] = collection?.shards ?? []
      if (steps !== 4 || collection === undefined || shard === undefined) return
      // The first replica has got its points, the second one is about to: that the first is copied from it removes them.
      const [to = 0, from = 0] = shard.peers.toSorted((a, b) => a - b)
      t.equal(stateOf(shard, to), 'Active')
      killReplica(engine, collection, { shard: shard.id, peer: to })
      copyReplica(collection, shard, { from, to, state: 'Recovery', sync: true, until: 0 })
      isKilled = true
    },
    async onSleep() {
      const shard = engine.find('docs')?.shards.find(({ id }) => id === 0)
      const dead = Object.entries(shard?.states ?? {}).find(([, state]) => state === 'Dead')
      if (shard?.states === undefined || dead === undefined) {
        world.finishTransfers()
        return
      }
      sleeps += 1
      // The Job has seen that it is Dead.
      if (sleeps < 3) return
      shard.states = Object.fromEntries(
        Object.entries(shard.states).filter(([peer]) => peer !== dead[0]),
      )
      engine.changes += 1
    },
  })
  t.ok(isKilled)
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(await outcomesOf(world), ['docs down 2 completed'])
  t.strictSame(flaws(world, { shards: 2, factor: FACTOR, points }), [])
})

/** What becomes of writes while a node is killed and the number of shards of a collection changes, on engine doubles. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
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
import { shardsWorld, type ShardsWorld } from './shards-world.ts'

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

/** Replicas of the node that have missed a write and are not Dead: the engine does not repair them. */
function staleOn(world: ShardsWorld, node: number): number[] {
  const peer = world.peer(node)
  const shards = world.engine.find('docs')?.shards ?? []
  return shards
    .filter((shard) => shard.peers.includes(peer) && stateOf(shard, peer) !== 'Dead')
    .map(({ id }) => id)
}

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
  let stale: number[] = []
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
      stale = staleOn(world, node)
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
  return { world, client, code, log, steps, stale }
}

for (const wait of [false, true]) {
  for (const [from, to] of DIRECTIONS) {
    const change = `docs ${from < to ? 'up' : 'down'} 2`
    const title = `a node is killed at any step and misses a write with wait=${String(wait)}`

    t.test(`${from} -> ${to}: ${title}`, async (t) => {
      const outcomes = new Set<string>()
      const stale: string[] = []
      for (let step = 1; ; step += 1) {
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
        const found = flaws(world, goal)
        const isStale = (flaw: string) =>
          run.stale.some((id) => flaw.startsWith(`shard ${id} on node ${node} `))
        const known = found.filter(isStale)
        stale.push(...known.map((flaw) => `${at}: ${flaw}`))
        // A read may ask the stale replica. The other ones have what the engine has acknowledged.
        const others = found.filter(
          (flaw) => !isStale(flaw) && !(known.length > 0 && flaw.startsWith('a read ')),
        )
        t.strictSame(others, [], at)
        // As docs/kinds/collection.md advises.
        await client.repeatAll()
        t.strictSame(flaws(world, goal), [], `${at}, written again`)
      }
      t.ok(outcomes.has(`${change} aborted`), 'the engine has ended one of them')
      // A write that is acknowledged at once, and two replicas on the node that get points of the removed shard.
      t.equal(stale.length > 0, !wait && from > to, stale.join('; '))
    })
  }
}

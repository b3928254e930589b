/**
 * Jobs on shards that are killed after the first change that they ask for, or a later one: the next pod completes what the
 * first one has begun. Removals of nodes are in run.test.ts, updates in update-run.test.ts and changes of the number of
 * shards in resharding-run.test.ts.
 */
import t from 'tap'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { EXIT } from '../../../../crds/contract/job.ts'
import { EVERY } from '../../../depth.ts'
import { matchWhole } from '../../../match-whole.ts'
import { killAfter, shardsWorld, type ShardsWorld } from './shards-world.ts'

type Prepare = (world: ShardsWorld) => Promise<Partial<ShardsPlan>>

const CASES: [title: string, prepare: Prepare, spread: number][] = [
  ['balances', () => Promise.resolve({ balance: true }), 2],
  [
    'repairs',
    (world) => {
      const shard = world.shard(0)
      const [peer = 0] = shard.peers
      shard.states = { [peer]: 'Dead' }
      world.shard(1).peers.pop()
      return Promise.resolve({ defects: { [`docs/0/${peer}`]: 3600 } })
    },
    3,
  ],
  [
    'replaces a lost node',
    async (world) => {
      const peer = world.peer(2)
      await world.loseVolume(2)
      const claim = 'qdrant-storage-vec-a-2'
      return { lost: [peer], losses: [{ peer, ordinal: 2, claim, volume: 'former' }] }
    },
    3,
  ],
]

for (const [title, prepare, spread] of CASES) {
  const name = `a Job that ${title} is killed after a change that it asks for, and the next pod continues`
  t.test(name, { timeout: 300_000 }, async (t) => {
    let isComplete = false
    for (let last = 1; !isComplete; last += EVERY) {
      const world = await shardsWorld(t, { nodes: 3, spread, shards: 4 })
      const plan = await prepare(world)
      const { isKilled, onLine } = killAfter(last, /api call method=(POST|PATCH|PUT|DELETE) /)
      await world.run(plan, { onLine }).catch(() => undefined)
      isComplete = !isKilled()
      const { code, log } = await world.run(plan, { pod: 'pod-2' })
      t.equal(code, EXIT.done, log)
      await world.settle()
      // As the service does it when a node has joined afterwards.
      const after = await world.run({ ...plan, run: 2, lost: [], losses: [] }, { pod: 'pod-3' })
      t.equal(after.code, EXIT.done, after.log)
      const { shards, ...rest } = await world.state()
      for (const replicas of Object.values(shards)) {
        matchWhole(t, replicas, [/ Active$/, / Active$/])
      }
      matchWhole(t, rest, {
        ...{ peers: [0, 1, 2], replicas: 3, pods: ['vec-a-0', 'vec-a-1', 'vec-a-2'] },
        claims: {
          'qdrant-storage-vec-a-0': 'in use',
          'qdrant-storage-vec-a-1': 'in use',
          'qdrant-storage-vec-a-2': 'in use',
        },
      })
      const held = [0, 1, 2].map((node) => heldBy(shards, node))
      // A copy that was never started counts as failed, so that another node gets the replica.
      const least = plan.balance === true ? 2 : 1
      t.ok(Math.min(...held) >= least, `after ${last} calls: ${held.join(' ')}`)
      if (isComplete) t.ok(last > 5, `${last} calls`)
    }
  })
}

function heldBy(shards: Record<string, string[]>, node: number): number {
  return Object.values(shards).filter((replicas) => replicas.includes(`${node} Active`)).length
}

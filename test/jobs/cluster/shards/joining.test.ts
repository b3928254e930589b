/** Replicas of which a node that has joined reports another state than the others (docs/engine-notes.md). */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { matchWhole } from '../../../match-whole.ts'
import { shardsWorld, startedSteps } from './shards-world.ts'

for (const version of ['1.16.3', '1.18.3']) {
  t.test(
    `${version}: a node that joins after drops knows the same states of replicas`,
    async (t) => {
      const world = await shardsWorld(t, { nodes: 3, spread: 1, shards: 6, factor: 1, version })
      const messages = new Set<string | undefined>()
      const onSleep = async () => {
        messages.add((await world.progress())?.message)
        // Copies end one after the other.
        const { shards = [] } = world.engine.find('docs') ?? {}
        const [first] = shards.flatMap(({ arriving = [] }) => arriving)
        if (first !== undefined) first.until = 0
      }
      const plan = { balance: true, maxTransfers: 2 }
      t.equal((await world.run(plan, { onSleep })).code, EXIT.done)
      await world.scale(4)
      const { code, log } = await world.run(
        { ...plan, nodes: 4, run: 2, hash: 'hash-2' },
        { onSleep },
      )
      t.equal(code, EXIT.done, log.slice(-2000))
      matchWhole(t, await world.progress(), { state: 'Done', shards: { balancedNodes: 4 } })
      t.notOk([...messages].some((message) => /different states/.test(message ?? '')))
    },
  )
}

t.test('a replica that a node which has joined calls Dead is replaced', async (t) => {
  const world = await shardsWorld(t, { nodes: 4, spread: 3, shards: 4 })
  const victim = world.peer(0)
  const shard = [0, 1, 2, 3]
    .map((id) => world.shard(id))
    .find(({ peers }) => peers.includes(victim))
  if (shard === undefined) throw new Error('node 0 holds no shard')
  // A user has dropped a replica while this one was copied, and node 3 has joined since.
  shard.reportedStates = { 3: { [victim]: 'Dead' } }
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  const steps = startedSteps(log)
  t.match(steps[0], new RegExp(`docs/${shard.id}: replicating from node [12] to node 3`))
  t.match(steps[1], new RegExp(`docs/${shard.id}: dropping the replica on node 0`))
  t.equal(steps.length, 2)
  t.strictSame(Object.keys(shard.reportedStates[3] ?? {}), [])
  matchWhole(t, (await world.state()).shards[shard.id] ?? [], [/ Active$/, / Active$/])
})

t.test('it is kept while the pod with the other replica is not ready', async (t) => {
  const world = await shardsWorld(t, { nodes: 2, shards: 1 })
  const shard = world.shard(0)
  shard.reportedStates = { 1: { [world.peer(0)]: 'Dead' } }
  await world.setReady(1, false)
  const messages = new Set<string | undefined>()
  const { code, log } = await world.run(
    {},
    {
      async onSleep(seconds) {
        world.finishTransfers()
        messages.add((await world.progress())?.message)
        if (seconds > 120) await world.setReady(1, true)
        else t.ok(shard.peers.includes(world.peer(0)))
      },
    },
  )
  t.equal(code, EXIT.done, log.slice(-2000))
  const expected = /^docs\/0 on node 0 is kept until node 1, which has the other replica, is ready$/
  t.ok([...messages].some((message) => expected.test(message ?? '')))
  matchWhole(t, startedSteps(log), [
    /: dropping the replica on node 0/,
    /: replicating from node 1/,
  ])
})

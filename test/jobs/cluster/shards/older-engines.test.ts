/** Work on the shards of engines that answer as older versions do. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { matchWhole } from '../../../match-whole.ts'
import { shardsWorld, startedSteps } from './shards-world.ts'

for (const version of ['1.16.2', '1.16.3']) {
  t.test(`${version}: a drop aborts no copy of another shard`, async (t) => {
    const world = await shardsWorld(t, { nodes: 3, spread: 1, shards: 6, factor: 1, version })
    const { code, log } = await world.run(
      { balance: true, maxTransfers: 2 },
      {
        onSleep() {
          // Copies end one after the other.
          const { shards = [] } = world.engine.find('docs') ?? {}
          const [first] = shards.flatMap(({ arriving = [] }) => arriving)
          if (first !== undefined) first.until = 0
        },
      },
    )
    t.equal(code, EXIT.done, log.slice(-2000))
    t.notMatch(log, / failed failures=/)
    t.equal(startedSteps(log).length, 8, 'each of four shards is copied once')
    matchWhole(t, await world.progress(), { state: 'Done', shards: { balancedNodes: 3 } })
    t.equal(Object.values((await world.state()).shards).flat().length, 6)
  })
}

for (const version of ['1.16.3', '1.19.0']) {
  t.test(`${version}: an empty node takes the place of its former peer`, async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 3, version })
    const former = world.peer(2)
    await world.loseVolume(2)
    const { code, log } = await world.run({ lost: [former] })
    t.equal(code, EXIT.done, log.slice(-2000))
    const { shards, peers, pods } = await world.state()
    t.strictSame(peers, [0, 1, 2])
    t.strictSame(pods, ['vec-a-0', 'vec-a-1', 'vec-a-2'])
    t.not(world.peer(2), former)
    for (const replicas of Object.values(shards)) {
      matchWhole(t, replicas, [/ Active$/, / Active$/])
    }
  })
}

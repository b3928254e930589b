/** `cluster shards` and replicas that are called Active although their node cannot read them, for a moment or for good. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { matchWhole } from '../../../match-whole.ts'
import { shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

const TWO_NODES = ['0 Active', '1 Active']

function ordinalOf(world: ShardsWorld, id: number | undefined): number {
  return world.engine.peers().find((peer) => peer.id === id)?.ordinal ?? -1
}

t.test('a replica that cannot be read is replaced, although nothing else is due', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 1 })
  const shard = world.shard(0)
  const ordinal = ordinalOf(world, shard.peers[0])
  shard.unreadableOn = [ordinal]
  let seconds = 0
  const onSleep = (now: number) => {
    world.finishTransfers()
    if (shard.unreadableOn?.length === 1) seconds = now
  }
  const { code, log } = await world.run({}, { onSleep })
  t.equal(code, EXIT.done, log)
  matchWhole(t, startedSteps(log), [
    `docs/0: dropping the replica on node ${ordinal}`,
    /^docs\/0: replicating from node \d to node \d$/,
  ])
  t.ok(seconds >= 30 && seconds < 120, `after ${seconds} s`)
  t.strictSame(shard.unreadableOn, [])
  t.equal((await world.state()).shards[0]?.length, 2)
})

for (const repair of [true, false]) {
  t.test(`a drain drops no replica because of a pause, repair: ${repair}`, async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 3 })
    await world.setReplicas(2)
    const shard = world.shard(2)
    t.ok(shard.peers.includes(world.peer(2)))
    let looks = 0
    const onSleep = (now: number) => {
      // While another shard is copied, node 2 cannot read its replica in many looks one after the other.
      const isPaused = now < 25
      looks += isPaused ? 1 : 0
      shard.unreadableOn = isPaused ? [2] : []
      if (!isPaused) world.finishTransfers()
    }
    const { code, log } = await world.run({ nodes: 2, repair }, { onSleep })
    t.equal(code, EXIT.done, log)
    t.ok(looks > 5, `${looks} looks`)
    t.strictSame((await world.state()).shards, { 0: TWO_NODES, 1: TWO_NODES, 2: TWO_NODES })
    const steps = startedSteps(log).filter((step) => step.startsWith('docs/2'))
    matchWhole(t, steps, [
      /^docs\/2: replicating from node \d to node 1$/,
      'docs/2: dropping the replica on node 2',
    ])
  })
}

t.test('the source of a move stays while its copy cannot be read', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const collection = world.engine.find('docs')
  let broken = 0
  const onSleep = () => {
    for (const shard of collection?.shards ?? []) {
      const [transfer] = shard.arriving ?? []
      if (broken === 0 && transfer !== undefined) {
        broken += 1
        shard.unreadableOn = [ordinalOf(world, transfer.to)]
      }
      const readable = shard.peers.filter(
        (peer) => shard.unreadableOn?.includes(ordinalOf(world, peer)) !== true,
      )
      t.ok(readable.length > 0, `docs/${shard.id} can be read`)
    }
    world.finishTransfers()
  }
  const { code, log } = await world.run({ balance: true }, { onSleep })
  t.equal(code, EXIT.done, log)
  t.equal(broken, 1)
  t.strictSame(
    Object.values((await world.state()).shards)
      .flat()
      .toSorted(),
    [...['0 Active', '0 Active', '1 Active', '1 Active', '2 Active', '2 Active']],
  )
})

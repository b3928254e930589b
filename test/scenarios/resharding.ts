/** The number of shards of a collection changes while it is used. */
import type { Test } from 'tap'
import type { Reference, World } from '../world/world.ts'
import { backupResource, points, untilEnded } from './backup-parts.ts'
import { engineIn, inside, resource, untilPhase } from './inside.ts'
import { movingResource } from './moving-parts.ts'
import { eventsIn, running, untilApplied, UPGRADES_SECONDS, type Scenario } from './scenario.ts'
import { startCalls } from './volumes.ts'

const NODES = 3
const COPIES = 2
const FIRST_SHARDS = 2
const NUMBERS = [3, 2]
const POINTS = 200
const DONE_SECONDS = 600

interface Placed {
  shard_id: number
  state: string
}

/** State of each replica by shard, as a node reports them. */
async function replicasOn(world: World, namespace: string, node: number) {
  const pod = { namespace, name: `vec-a-${node}` }
  const { result } = (await world.engine(pod, 'GET', '/collections/docs/cluster')) as {
    result: { local_shards: Placed[]; remote_shards: Placed[] }
  }
  const states: Record<number, string[]> = {}
  for (const { shard_id: shard, state } of [...result.local_shards, ...result.remote_shards]) {
    states[shard] = [...(states[shard] ?? []), state]
  }
  return states
}

async function allIds(world: World, namespace: string, node: number): Promise<number[]> {
  const pod = { namespace, name: `vec-a-${node}` }
  const body = { limit: 1_000_000, with_payload: false }
  const { result } = (await world.engine(pod, 'POST', '/collections/docs/points/scroll', body)) as {
    result: { points: { id: number }[] }
  }
  return result.points.map(({ id }) => id).toSorted((one, other) => one - other)
}

async function untilShards(world: World, reference: Reference, shards: number): Promise<void> {
  await world.waitFor(
    reference,
    `${shards} shards`,
    (object) =>
      inside(object).conditions?.some(
        ({ type, reason, message }) =>
          type === 'Resharding' &&
          reason === 'ShardNumberReached' &&
          message.startsWith(`${shards} `),
      ) === true,
    DONE_SECONDS,
  )
}

/** One that a node has ended was begun again. */
async function checkEvents(world: World, t: Test, namespace: string): Promise<void> {
  const all = await eventsIn(world, namespace)
  const messages = (kind: string) =>
    all.filter(({ reason }) => reason === kind).map(({ message }) => message)
  t.strictSame(messages('ReshardingCompleted').toSorted(), [
    'docs: adding shard 2 is complete',
    'docs: removing shard 2 is complete',
  ])
  t.equal(messages('ReshardingCommitted').length, NUMBERS.length)
  const begun = NUMBERS.length + messages('ReshardingAborted').length
  t.equal(messages('ReshardingStarted').length, begun)
}

const resharded: Scenario = {
  title:
    'spec.shardNumber of a collection goes from 2 to 3 to 2 under writes, with an Event for each stage, and then each node returns every id once',
  async run(world, t) {
    const namespace = await world.namespace('resharded')
    const cluster = await running(world, namespace, 'a', {
      replicas: NODES,
      cluster: { enabled: true },
    })
    const { reference, of } = resource('VecCollection', namespace, 'docs')
    const vectors = [{ size: 4, distance: 'Dot' }]
    await world.apply(of({ vectors, shardNumber: FIRST_SHARDS, replicationFactor: COPIES }))
    await untilPhase(world, reference, 'Ready')
    // What came before has as many Events as there may be in a minute.
    await world.advance(60)
    await world.patch(cluster, { spec: { resharding: true } })
    await untilApplied(world, cluster, UPGRADES_SECONDS)

    const engine = engineIn(world, namespace)
    const upsert = (some: object[]) =>
      engine.call('PUT', '/collections/docs/points?wait=true', { points: some })
    await upsert(points(POINTS))
    for (const [index, shards] of NUMBERS.entries()) {
      await world.advance(60)
      const first = 100_000 * (index + 1)
      const before = await allIds(world, namespace, 0)
      const writer = startCalls(t, (id) => upsert(points(1, id)), first)
      await world.patch(reference, { spec: { shardNumber: shards } })
      await untilShards(world, reference, shards)
      const written = await writer.stop()
      t.strictSame(writer.failures, [], 'no write failed')
      t.ok(written > 0, `${written} points were written meanwhile`)
      const expected = [...before, ...Array.from({ length: written }, (_, id) => first + id)]
      for (let node = 0; node < NODES; node += 1) {
        t.strictSame(await allIds(world, namespace, node), expected, `read from node ${node}`)
        const states = Array.from({ length: shards }, (_, shard) => [
          String(shard),
          Array.from({ length: COPIES }, () => 'Active'),
        ])
        const found = await replicasOn(world, namespace, node)
        t.strictSame(Object.entries(found), states, `${COPIES} replicas of ${shards} shards`)
      }
      await untilPhase(world, reference, 'Ready')
    }
    await checkEvents(world, t, namespace)
  },
}

const restored = (method: 'Node' | 'Shard'): Scenario => ({
  title: `a backup by ${method.toLowerCase()} from before another number of shards is restored under another name and refused over the collection, one from after is restored over it`,
  async run(world, t) {
    const namespace = await world.namespace(`resharded-by-${method.toLowerCase()}`)
    const bucket = await world.bucket(namespace)
    await running(world, namespace, 'a', {
      ...{ replicas: NODES, resharding: true },
      cluster: { enabled: true },
    })
    const { reference, of } = resource('VecCollection', namespace, 'docs')
    const vectors = [{ size: 4, distance: 'Dot' }]
    await world.apply(of({ vectors, shardNumber: FIRST_SHARDS, replicationFactor: COPIES }))
    await untilPhase(world, reference, 'Ready')
    const engine = engineIn(world, namespace)
    const upsert = (some: object[]) =>
      engine.call('PUT', '/collections/docs/points?wait=true', { points: some })
    const backUp = async (name: string) => {
      const backup = backupResource('VecBackup', { namespace, name }, bucket)
      await world.apply(backup.of({ method }))
      await untilEnded(world, backup.reference)
    }
    const restoreOf = async (name: string, backup: string, spec: object = {}) => {
      const restore = movingResource('VecRestore', namespace, name)
      const refs = { backupRef: { name: backup }, targetClusterRef: { name: 'a' } }
      await world.apply(restore.of({ ...refs, ...spec }))
      return restore
    }
    const idsIn = async (collection: string) => {
      const body = { limit: 1_000_000, with_payload: false }
      const path = `/collections/${collection}/points/scroll`
      const { result } = (await engine.call('POST', path, body)) as {
        result: { points: { id: number }[] }
      }
      return result.points.map(({ id }) => id).toSorted((one, other) => one - other)
    }

    await upsert(points(POINTS))
    const first = await idsIn('docs')
    await backUp('before')
    await world.patch(reference, { spec: { shardNumber: 3 } })
    await untilShards(world, reference, 3)
    await untilPhase(world, reference, 'Ready')
    await upsert(points(10, 1000))
    const all = await idsIn('docs')
    await backUp('after')
    await upsert(points(10, 2000))

    const former = await restoreOf('former', 'before', { collectionMapping: { docs: 'former' } })
    await former.untilCompleted(world)
    t.strictSame(await idsIn('former'), first)

    const refused = await restoreOf('refused', 'before')
    const failed = await world.waitFor(
      refused.reference,
      'Failed',
      (object) => refused.statusOf(object).phase === 'Failed',
      300,
    )
    t.match(
      refused.statusOf(failed).error,
      /other shard_number than in the backup: 3 instead of 2: .* set spec\.shardNumber of its VecCollection to 2/,
    )
    t.equal((await idsIn('docs')).length, all.length + 10, 'nothing was changed')

    const again = await restoreOf('again', 'after')
    await again.untilCompleted(world)
    t.strictSame(await idsIn('docs'), all)

    await world.patch(reference, { spec: { shardNumber: FIRST_SHARDS } })
    await untilShards(world, reference, FIRST_SHARDS)
    const back = await restoreOf('back', 'before')
    await back.untilCompleted(world)
    t.strictSame(await idsIn('docs'), first, 'with the number of the backup, over the collection')
  },
})

export const reshardingScenarios: readonly Scenario[] = [
  resharded,
  restored('Shard'),
  restored('Node'),
]

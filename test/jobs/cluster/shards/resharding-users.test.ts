/** What users do while the number of shards of a collection changes, on engine doubles. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { EVERY, isFull } from '../../../depth.ts'
import { fill, flaws, numbers, outcomesOf, pointOf } from './resharding-contents.ts'
import { ask, DIRECTIONS, isCall, isStep } from './resharding-users.ts'
import { shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

const changeOf = (from: number, to: number) => (from < to ? 'up 2' : 'down 2')

/** A collection with custom sharding that has one shard key. */
async function createKeyed(world: ShardsWorld): Promise<void> {
  const vectors = { size: 1, distance: 'Dot' }
  const body = { vectors, sharding_method: 'custom', shard_number: 1, replication_factor: 2 }
  await ask(world, 'PUT /collections/keyed', body)
  await ask(world, 'PUT /collections/keyed/shards', { shard_key: 'first' })
  await writeKeyed(world, 'first', 1)
}

function writeKeyed(world: ShardsWorld, key: string, id: number) {
  const body = { points: [pointOf(id)], shard_key: key }
  return ask(world, 'PUT /collections/keyed/points?wait=true', body)
}

/** Shard keys, and the ids of the points of each. */
function keysOf({ engine }: ShardsWorld) {
  const { shards = [], points = [] } = engine.find('keyed') ?? {}
  return shards.map(({ key, peers }) => ({
    key,
    nodes: new Set(peers).size,
    ids: points.filter((point) => point.shard_key === key).map(({ id }) => id),
  }))
}

async function stepsOf(t: Test, from: number, to: number): Promise<string[]> {
  const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 2 })
  fill(world)
  return startedSteps((await world.run(numbers(to))).log)
}

/** With a collection that has shard keys, and one whose place another one takes behind an alias. */
async function openWorld(t: Test, shards: number) {
  const world = await shardsWorld(t, { nodes: 3, shards, factor: 2 })
  const points = fill(world)
  await createKeyed(world)
  world.engine.createCollection('former', 2, 1)
  return { world, points, former: fill(world, 10, 'former', 1000) }
}

for (const [from, to] of DIRECTIONS) {
  t.test(
    `${from} -> ${to}: an alias that is switched and shard keys of another collection change nothing, at any step`,
    async (t) => {
      const undisturbed = await openWorld(t, from)
      const steps = startedSteps((await undisturbed.world.run(numbers(to))).log)
      const { world, points, former } = await openWorld(t, from)
      const alias = (collection: string) => ({
        actions: [
          { delete_alias: { alias_name: 'live' } },
          { create_alias: { alias_name: 'live', collection_name: collection } },
        ],
      })
      const calls: ReturnType<typeof ask>[] = [
        ask(world, 'POST /collections/aliases', alias('former')),
      ]
      const refused: ReturnType<typeof ask>[] = []
      const readers: string[] = []
      let step = 0
      const { code, log } = await world.run(numbers(to), {
        onLine(line) {
          if (!isStep(line)) return
          step += 1
          const target = step % 2 === 0 ? 'former' : 'docs'
          calls.push(ask(world, 'POST /collections/aliases', alias(target)))
          if (world.engine.find('live') === world.engine.find(target)) readers.push(target)
          const key = `key ${step}`
          calls.push(ask(world, 'PUT /collections/keyed/shards', { shard_key: key }))
          // The engine has no shard keys in this one.
          refused.push(ask(world, 'PUT /collections/docs/shards', { shard_key: key }))
        },
        async onSleep() {
          const keys = keysOf(world).filter(({ ids }) => ids.length === 0)
          for (const { key } of keys) calls.push(writeKeyed(world, String(key), 1))
          await Promise.all(calls)
          world.finishTransfers()
        },
      })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.strictSame(startedSteps(log), steps, 'the same steps, each once')
      t.equal(readers.length, step, 'each switch was made')
      t.ok((await Promise.all(calls)).every(({ status }) => status === 200))
      t.ok((await Promise.all(refused)).every(({ status }) => status === 400))
      t.strictSame(flaws(world, { shards: to, factor: 2, points }), [])
      t.strictSame(flaws(world, { name: 'former', shards: 2, factor: 1, points: former }), [])
      const keys = ['first', ...Array.from({ length: step }, (_, index) => `key ${index + 1}`)]
      t.strictSame(
        keysOf(world).map(({ key, nodes }) => ({ key, nodes })),
        keys.map((key) => ({ key, nodes: 2 })),
      )
      t.strictSame(await outcomesOf(world), [`docs ${changeOf(from, to)} completed`])
      t.equal((await world.progress())?.shards?.resharding, undefined)
    },
  )

  t.test(
    `${from} -> ${to}: a collection with custom sharding is left as it is while shard keys are created in it`,
    async (t) => {
      const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 2 })
      const points = fill(world)
      await createKeyed(world)
      const calls: ReturnType<typeof ask>[] = []
      const wish: Partial<ShardsPlan> = {
        resharding: {
          numbers: [
            { collection: 'keyed', shards: 100 },
            { collection: 'docs', shards: to },
          ],
          mayStart: true,
        },
      }
      const { code, log } = await world.run(wish, {
        onLine(line) {
          if (!isStep(line)) return
          const key = `key ${calls.length}`
          calls.push(ask(world, 'PUT /collections/keyed/shards', { shard_key: key }))
          t.equal(world.engine.find('keyed')?.resharding, undefined)
        },
      })
      t.equal(code, EXIT.failed, log.slice(-2000))
      const progress = await world.progress()
      t.match(progress, { state: 'Refused', reason: 'ReshardingUnsupported' })
      t.equal(
        progress?.message,
        'the number of shards of keyed cannot be changed: its shards belong to shard keys',
      )
      t.ok((await Promise.all(calls)).every(({ status }) => status === 200))
      t.strictSame(flaws(world, { shards: to, factor: 2, points }), [])
      t.strictSame(await outcomesOf(world), [`docs ${changeOf(from, to)} completed`])
      const keys = keysOf(world)
      t.equal(keys.length, calls.length + 1)
      t.ok(keys.every(({ nodes }) => nodes === 2))
      t.strictSame(keys[0]?.ids, [1])
    },
  )
}

/** Calls that a user sends by hand, one after the other; those that the stage excludes are refused by the engine. */
const BY_HAND = [
  { title: 'abort_resharding', bodies: [{ abort_resharding: {} }] },
  { title: 'finish_resharding', bodies: [{ finish_resharding: {} }] },
  {
    title: 'commit_write_hash_ring and finish_resharding',
    bodies: [{ commit_write_hash_ring: {} }, { finish_resharding: {} }],
  },
]

/** Before each step, and after each call of the one that makes reads use the other shards. */
function momentsOf(act: (moment: number) => void): (line: string) => void {
  let moment = 0
  let isCommitting = false
  return (line) => {
    if (isStep(line)) isCommitting = line.includes('reading from the new shards')
    if (!isStep(line) && !(isCommitting && isCall(line))) return
    moment += 1
    act(moment)
  }
}

for (const [from, to] of DIRECTIONS) {
  for (const { title, bodies } of BY_HAND) {
    t.test(
      `${from} -> ${to}: ${title} by hand at any step leaves a whole collection`,
      async (t) => {
        const change = `docs ${changeOf(from, to)}`
        let accepted = 0
        for (let chosen = 1; ; chosen += EVERY) {
          const world = await shardsWorld(t, { nodes: 2, shards: from, factor: 1 })
          const points = fill(world)
          const calls: ReturnType<typeof ask>[] = []
          const onLine = momentsOf((moment) => {
            if (moment !== chosen) return
            for (const body of bodies)
              calls.push(ask(world, 'POST /collections/docs/cluster', body))
          })
          const { code, log } = await world.run(numbers(to), { onLine })
          if (calls.length === 0) break
          const at = `moment ${chosen}`
          t.equal(code, EXIT.done, `${at}: ${log.slice(-2000)}`)
          t.strictSame(flaws(world, { shards: to, factor: 1, points }), [], at)
          const { status } = (await Promise.all(calls)).at(-1) ?? {}
          if (status === 200) accepted += 1
          const isAborted = status === 200 && title === 'abort_resharding'
          t.strictSame(
            await outcomesOf(world),
            [...(isAborted ? [`${change} aborted`] : []), `${change} completed`],
            at,
          )
          // One that was aborted is not checked as if it were complete.
          const checks = startedSteps(log).filter((step) => step.includes('checking the replica'))
          t.equal(new Set(checks).size, to, at)
          if (isAborted) t.equal(checks.length, to, at)
          const progress = await world.progress()
          t.equal(progress?.state, 'Done', at)
          t.equal(progress?.shards?.resharding, undefined, at)
          const uuids = progress?.shards?.reshardings?.map(({ uuid }) => uuid) ?? []
          t.equal(new Set(uuids).size, uuids.length, at)
        }
        // A part of the moments may have none of these.
        if (isFull) t.ok(accepted > 0, 'the engine accepts it at some moment')
      },
    )
  }
}

t.test(
  'a user who commits by hand before all points are copied loses none: the former shards keep them',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 2, shards: 2, factor: 1 })
    const points = fill(world)
    const change = (body: object) => ask(world, 'POST /collections/docs/cluster', body)
    const collection = () => world.engine.find('docs')
    const activate = () => {
      const replica = { shard_id: 2, peer_id: collection()?.resharding?.peer }
      return change({ finish_migrating_points: replica })
    }
    let isCommitted = false
    const { code } = await world.run(numbers(3), {
      async onSleep() {
        world.finishTransfers()
        if (isCommitted) return
        isCommitted = true
        // Those of shard 0 are copied.
        t.equal((await activate()).status, 200)
        t.equal((await change({ commit_read_hash_ring: {} })).status, 200)
      },
    })
    t.equal(code, EXIT.failed)
    t.ok(isCommitted)
    const progress = await world.progress()
    t.match(progress, { state: 'Failed', reason: 'ReshardingFailed' })
    t.match(
      progress?.message,
      /^docs: another client has committed the resharding, but \d+ points were copied instead of \d+: /,
    )
    t.strictSame(await outcomesOf(world), ['docs up 2 migrate'], 'not said to be complete')
    const held = Object.values(collection()?.copies ?? {}).flat()
    t.equal(new Set(held.map(({ id }) => id)).size, points.length)

    const [from] = world.shard(1).peers
    const transfer = {
      ...{ shard_id: 1, to_shard_id: 2, from_peer_id: from },
      ...{ to_peer_id: collection()?.resharding?.peer, method: 'resharding_stream_records' },
    }
    t.equal((await change({ replicate_shard: transfer })).status, 200)
    world.finishTransfers()
    t.equal((await activate()).status, 200)
    const next = await world.run({ run: 2, ...numbers(3) }, { pod: 'pod-2' })
    t.equal(next.code, EXIT.done, next.log.slice(-2000))
    t.strictSame(flaws(world, { shards: 3, factor: 1, points }), [])
    t.strictSame(await outcomesOf(world), ['docs up 2 completed'])
  },
)

for (const [from, to] of DIRECTIONS) {
  t.test(
    `${from} -> ${to}: one that a user ends by hand while points are copied is incomplete, and nothing is deleted`,
    async (t) => {
      const world = await shardsWorld(t, { nodes: 2, shards: from, factor: 1 })
      const points = fill(world)
      const change = (body: object) => ask(world, 'POST /collections/docs/cluster', body)
      const collection = () => world.engine.find('docs')
      const own = (shard: number) => {
        const [peer] = world.shard(shard).peers
        return collection()?.copies?.[`${shard}/${String(peer)}`] ?? []
      }
      let isEnded = false
      let copied: readonly { id: unknown }[] = []
      const { code, log } = await world.run(numbers(to), {
        async onSleep() {
          world.finishTransfers()
          if (isEnded) return
          isEnded = true
          // Those of shard 0, or those that it gets, are copied, and no others.
          for (const call of ['commit_read_hash_ring', 'commit_write_hash_ring']) {
            t.equal((await change({ [call]: {} })).status, 200)
          }
          copied =
            from < to ? Object.values(collection()?.copies ?? {}).flat() : [...own(0), ...own(1)]
          t.equal((await change({ finish_resharding: {} })).status, 200)
        },
      })
      t.ok(isEnded)
      t.equal(code, EXIT.done, log.slice(-2000))
      t.strictSame(await outcomesOf(world), [`docs ${changeOf(from, to)} incomplete`])
      const { copies, points: read = [] } = collection() ?? {}
      const replicas = copies === undefined ? read : Object.values(copies).flat()
      const held = new Set(replicas.map(({ id }) => id))
      t.strictSame(held, new Set(copied.map(({ id }) => id)))
      if (from < to) t.equal(held.size, points.length)
      else t.ok(held.size < points.length, 'the engine has deleted the others with the shard')
    },
  )
}

const plannedNodes = (nodes: number, run: number): Partial<ShardsPlan> => ({
  ...{ run, hash: `hash-${run}`, nodes },
})

/** As the hook plans it while nodes are removed: a resharding in progress is completed, and none is started. */
function draining(to: number, run: number): Partial<ShardsPlan> {
  const { resharding } = numbers(to)
  return { ...plannedNodes(2, run), resharding: { ...resharding, mayStart: false } }
}

for (const [from, to] of DIRECTIONS) {
  const outcome = `docs ${changeOf(from, to)} completed`

  t.test(
    `${from} -> ${to}: spec.replicas is lowered meanwhile, and raised again during the removal`,
    async (t) => {
      const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 2 })
      const points = fill(world)
      let isLowered = false
      const first = await world.run(numbers(to), {
        async onSleep() {
          if (!isLowered) await world.setReplicas(2)
          isLowered = true
          world.finishTransfers()
        },
      })
      t.equal(first.code, EXIT.done, first.log.slice(-2000))
      t.ok(isLowered)
      t.strictSame(flaws(world, { shards: to, factor: 2, points }), [])
      t.strictSame(await outcomesOf(world), [outcome])
      t.match(await world.progress(), { state: 'Done' })

      let isRaised = false
      const drain = await world.run(draining(to, 2), {
        pod: 'pod-2',
        async onSleep() {
          if (!isRaised) await world.setReplicas(3)
          isRaised = true
          world.finishTransfers()
        },
      })
      t.equal(drain.code, EXIT.done, drain.log.slice(-2000))
      t.ok(isRaised)
      t.match(await world.progress(), { state: 'Done', shards: { isYielded: true } })

      const plan = { ...plannedNodes(3, 3), ...numbers(to), balance: true }
      const last = await world.run(plan, { pod: 'pod-3' })
      t.equal(last.code, EXIT.done, last.log.slice(-2000))
      const { peers, pods, replicas } = await world.state()
      t.strictSame([peers, pods.length, replicas], [[0, 1, 2], 3, 3])
      // The drain has copied one replica to another node, which is one more until a user removes it.
      t.strictSame(
        flaws(world, { shards: to, factor: 2, points }).filter(
          (flaw) => !/^shard \d has 3 replicas$/.test(flaw),
        ),
        [],
      )
      t.strictSame(await outcomesOf(world), [outcome])
      t.notOk('isYielded' in ((await world.progress())?.shards ?? {}))
    },
  )

  t.test(`${from} -> ${to}: spec.replicas is lowered and raised again meanwhile`, async (t) => {
    const undisturbed = await stepsOf(t, from, to)
    const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 2 })
    const points = fill(world)
    let sleeps = 0
    const { code, log } = await world.run(numbers(to), {
      async onSleep() {
        sleeps += 1
        if (sleeps === 1) await world.setReplicas(2)
        if (sleeps === 2) await world.setReplicas(3)
        world.finishTransfers()
      },
    })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(sleeps >= 2)
    t.strictSame(startedSteps(log), undisturbed)
    t.strictSame(flaws(world, { shards: to, factor: 2, points }), [])
    t.strictSame(await outcomesOf(world), [outcome])
    t.notOk('isYielded' in ((await world.progress())?.shards ?? {}), 'nothing is left')
  })

  // With one replica each, the shard is added on the node that is removed.
  const factor = from < to ? 1 : 2
  t.test(
    `${from} -> ${to}, factor ${factor}: a Job that removes a node completes what was begun, from any step`,
    async (t) => {
      const ends = new Set<string>()
      for (let step = 1; ; step += EVERY) {
        const world = await shardsWorld(t, { nodes: 3, shards: from, factor })
        const points = fill(world)
        const killed = new AbortController()
        let steps = 0
        const onLine = (line: string) => {
          if (!isStep(line)) return
          steps += 1
          if (steps === step) killed.abort()
        }
        await world.run(numbers(to), { signal: killed.signal, onLine })
        if (steps < step) break
        await world.setReplicas(2)
        const { code, log } = await world.run(draining(to, 2), { pod: 'pod-2' })
        const at = `killed at step ${step}`
        t.equal(code, EXIT.done, `${at}: ${log.slice(-2000)}`)
        const [end = 'none'] = await outcomesOf(world)
        ends.add(end)
        // Killed before the engine was asked to begin: nothing is begun while a node is removed.
        const shards = end === outcome ? to : from
        t.strictSame(flaws(world, { shards, factor, points }), [], at)
        const { peers, pods, replicas } = await world.state()
        t.strictSame([peers, pods.length, replicas], [[0, 1], 2, 2], at)
        const progress = await world.progress()
        t.equal(progress?.state, 'Done', at)
        t.equal(progress?.shards?.resharding, undefined, at)
        const order = startedSteps(log)
        const last = order.findLastIndex((text) => /^docs: (completing|writing)/.test(text))
        const drop = order.findIndex((text) => text.includes('from the cluster'))
        t.ok(last < drop, `${at}: ${order.join('; ')}`)
      }
      t.ok(ends.has(outcome), [...ends].join())
    },
  )
}

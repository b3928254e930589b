/** `cluster shards` changes the number of shards of a collection, on engine doubles. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { EVERY } from '../../../depth.ts'
import { contents, fill, numbers, POINTS } from './resharding-contents.ts'
import { shardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

for (const factor of [1, 2]) {
  for (const [from, to] of [
    [2, 4],
    [3, 1],
  ] as const) {
    t.test(`${from} shards become ${to}, with factor ${factor}`, async (t) => {
      const world = await shardsWorld(t, { nodes: 3, shards: from, factor })
      fill(world)
      const { code, log } = await world.run(numbers(to))
      t.equal(code, EXIT.done, log)
      t.strictSame(contents(world), { shards: to, ids: POINTS, twice: 0, wrong: [] })
      const { shards } = await world.state()
      t.ok(
        Object.values(shards).every((replicas) => replicas.length === factor),
        JSON.stringify(shards),
      )
      t.ok(
        Object.values(shards)
          .flat()
          .every((replica) => replica.endsWith('Active')),
      )
      t.equal(world.engine.find('docs')?.config.params['shard_number'], to)
      const progress = await world.progress()
      t.equal(progress?.state, 'Done')
      t.notOk('resharding' in (progress?.shards ?? {}), 'nothing is left of it')
      t.equal(progress?.shards?.balancedNodes, 0, 'other shards are other loads')
      const shard = (step: number) => (to > from ? from + step : from - 1 - step)
      t.strictSame(
        progress?.shards?.reshardings?.map(({ uuid, ...outcome }) => (uuid === '' ? {} : outcome)),
        Array.from({ length: Math.abs(to - from) }, (_, step) => ({
          ...{ collection: 'docs', direction: to > from ? 'up' : 'down', shard: shard(step) },
          stage: 'completed',
        })),
      )
    })
  }
}

for (const [from, to] of [
  [2, 3],
  [2, 1],
] as const) {
  t.test(
    `${from} -> ${to}: a pod that is killed at any call leaves what the next completes`,
    async (t) => {
      for (let call = 1; ; call += EVERY) {
        const world = await shardsWorld(t, { nodes: 2, shards: from, factor: 1 })
        fill(world)
        const killed = new AbortController()
        let calls = 0
        const onLine = (line: string) => {
          if (!/engine call .*call=POST/.test(line)) return
          calls += 1
          if (calls === call) killed.abort()
        }
        await world.run(numbers(to), { pod: 'pod-1', signal: killed.signal, onLine })
        if (calls < call) break
        const { code, log } = await world.run(numbers(to), { pod: 'pod-2' })
        t.equal(code, EXIT.done, `killed at call ${call}: ${log.slice(-2000)}`)
        const found = contents(world)
        t.strictSame(found, { shards: to, ids: POINTS, twice: 0, wrong: [] }, `at call ${call}`)
        const outcomes = (await world.progress())?.shards?.reshardings ?? []
        const stages = outcomes.map(({ stage }) => stage)
        t.strictSame(stages.at(-1), 'completed', `at call ${call}`)
        // Killed between the call and the answer: what was begun is begun again.
        t.ok(
          stages.slice(0, -1).every((stage) => stage === 'aborted'),
          String(stages),
        )
        t.equal(new Set(outcomes.map(({ uuid }) => uuid)).size, outcomes.length)
      }
    },
  )
}

t.test(
  'the report has the number of points that are copied, until reads use the new shard',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 2, shards: 2, factor: 1 })
    fill(world)
    const copied: number[] = []
    const { code } = await world.run(numbers(3), {
      async onSleep() {
        world.finishTransfers()
        const { points } = (await world.progress())?.shards?.resharding ?? {}
        if (points !== undefined) copied.push(points.copied)
      },
    })
    t.equal(code, EXIT.done)
    t.ok((copied.at(-1) ?? 0) > 0, String(copied))
    t.strictSame(
      copied,
      copied.toSorted((a, b) => a - b),
    )
    t.equal((await world.progress())?.shards?.resharding, undefined)
  },
)

t.test('a later Job does not report the change of the number of shards again', async (t) => {
  const world = await shardsWorld(t, { nodes: 2, shards: 2, factor: 1 })
  fill(world)
  await world.run(numbers(3))
  t.equal((await world.progress())?.shards?.balancedNodes, 0)
  const { code } = await world.run({ run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
  t.equal(code, EXIT.done)
  t.equal((await world.progress())?.shards?.balancedNodes, undefined, 'the status has it')
})

t.test('a transfer that fails ends the resharding, which is started again', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2 })
  fill(world)
  let failures = 1
  world.engine.transferOutcome = () => (failures-- > 0 ? 'fail' : 'complete')
  const { code, log } = await world.run(numbers(3))
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /WARNING docs\/0: copying points to shard 2, .* failed failures=1/)
  const outcomes = (await world.progress())?.shards?.reshardings ?? []
  t.strictSame(
    outcomes.map(({ stage }) => stage),
    ['aborted', 'completed'],
  )
  t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
})

t.test(
  'a transfer that makes no progress is aborted, and the next Job starts the resharding again',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 2, shards: 2, factor: 1 })
    fill(world)
    let transfers = 0
    world.engine.transferOutcome = () => ((transfers += 1) === 1 ? 'stall' : 'complete')
    const killed = new AbortController()
    let aborts = 0
    const onLine = (line: string) => {
      if (line.includes('aborting a transfer')) aborts += 1
      if (aborts > 1) killed.abort()
    }
    const { code, log } = await world.run(numbers(3), { speed: 10, signal: killed.signal, onLine })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.equal(aborts, 1)
    t.strictSame(contents(world), { shards: 2, ids: POINTS, twice: 0, wrong: [] })
    t.equal((await world.run({ run: 2, ...numbers(3) }, { pod: 'pod-2' })).code, EXIT.done)
    t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
  },
)

t.test('points that were not copied are found before reads use the new shard', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  const collection = world.engine.find('docs')
  const { code } = await world.run(numbers(3), {
    onSleep() {
      world.finishTransfers()
      for (const key of Object.keys(collection?.copies ?? {})) {
        if (key.startsWith('2/') && collection?.copies !== undefined) collection.copies[key] = []
      }
    },
  })
  t.equal(code, EXIT.failed)
  const progress = await world.progress()
  t.match(progress, { state: 'Failed', reason: 'ReshardingFailed' })
  t.match(progress?.message, /^docs is not resharded, because 0 points were copied instead of /)
  t.strictSame(contents(world), { shards: 2, ids: POINTS, twice: 0, wrong: [] })
})

t.test('one missing point of hundreds is found, if nothing is written meanwhile', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world, 600)
  const collection = world.engine.find('docs')
  let lost: unknown
  const { code } = await world.run(numbers(3), {
    onSleep() {
      world.finishTransfers()
      for (const [key, points] of Object.entries(collection?.copies ?? {})) {
        // Always the same one, however often the points are copied.
        const rest = points.filter(({ id }) => !key.startsWith('2/') || id !== lost)
        if (key.startsWith('2/')) lost ??= points[0]?.id
        if (collection?.copies !== undefined) collection.copies[key] = rest
      }
    },
  })
  t.equal(code, EXIT.failed)
  const progress = await world.progress()
  t.match(progress, { state: 'Failed', reason: 'ReshardingFailed' })
  const [, found, expected] =
    /because (\d+) points were copied instead of (\d+)/.exec(progress?.message ?? '') ?? []
  t.equal(Number(expected) - Number(found), 1)
  t.strictSame(contents(world), { shards: 2, ids: 600, twice: 0, wrong: [] })
})

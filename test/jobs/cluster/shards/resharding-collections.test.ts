/** Several collections, and three replicas, while numbers of shards change, on engine doubles. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { depth, EVERY } from '../../../depth.ts'
import type { Point } from '../../../doubles/engine/points.ts'
import { fill, flaws, numbers, outcomesOf } from './resharding-contents.ts'
import { DIRECTIONS, isStep } from './resharding-users.ts'
import { shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

/** There are many steps with three replicas. */
const KILL_EVERY = depth(12, 4)

interface Change {
  name: string
  from: number
  to: number
}

/** One that grows and one that shrinks; both grow; both shrink. */
const PAIRS = [
  [2, 3, 3, 2],
  [2, 3, 2, 3],
  [3, 2, 3, 2],
].map(([from = 0, to = 0, otherFrom = 0, otherTo = 0]): [Change, Change] => [
  { name: 'docs', from, to },
  { name: 'more', from: otherFrom, to: otherTo },
])

function both(changes: readonly Change[]): Partial<ShardsPlan> {
  const wishes = changes.map(({ name, to }) => ({ collection: name, shards: to }))
  return { resharding: { numbers: wishes, mayStart: true } }
}

const ended = ({ name, from, to }: Change, stage: string) =>
  `${name} ${from < to ? 'up' : 'down'} 2 ${stage}`

/** Each has ids of its own. The third one keeps its number. */
async function openWorld(test: Test, changes: readonly Change[], factor = 2) {
  const [docs, more] = changes
  const world = await shardsWorld(test, { nodes: 3, shards: docs?.from ?? 0, factor })
  world.engine.createCollection('more', more?.from ?? 0, factor)
  world.engine.createCollection('quiet', 2, factor)
  for (const name of ['more', 'quiet']) {
    for (const shard of world.engine.find(name)?.shards ?? []) shard.vectorBytes = 1000
  }
  const points = new Map([
    ['docs', fill(world, 40)],
    ['more', fill(world, 30, 'more', 1000)],
    ['quiet', fill(world, 20, 'quiet', 2000)],
  ])
  const quiet = structuredClone(world.engine.find('quiet')?.shards)
  return { world, points, quiet }
}

function flawsOfAll(
  world: ShardsWorld,
  changes: readonly Change[],
  points: ReadonlyMap<string, Point[]>,
  factor = 2,
): string[] {
  const all = [...changes, { name: 'quiet', from: 2, to: 2 }]
  return all.flatMap(({ name, to }) =>
    flaws(world, { name, shards: to, factor, points: points.get(name) ?? [] }).map(
      (flaw) => `${name}: ${flaw}`,
    ),
  )
}

for (const changes of PAIRS) {
  const title = changes.map(({ name, from, to }) => `${name} ${from} -> ${to}`).join(', ')

  t.test(`${title}: one after the other, at no moment both`, async (t) => {
    const { world, points, quiet } = await openWorld(t, changes)
    let most = 0
    const watch = () => {
      const all = [...world.engine.collections.values()]
      most = Math.max(most, all.filter(({ resharding }) => resharding !== undefined).length)
    }
    const { code, log } = await world.run(both(changes), {
      onLine: watch,
      onSleep() {
        watch()
        world.finishTransfers()
      },
    })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.equal(most, 1)
    t.strictSame(flawsOfAll(world, changes, points), [])
    t.strictSame(world.engine.find('quiet')?.shards, quiet)
    t.strictSame(
      await outcomesOf(world),
      changes.map((change) => ended(change, 'completed')),
    )
    const names = startedSteps(log).map((step) => step.split(/[/:]/)[0])
    t.strictSame(
      names.filter((name, index) => name !== names[index - 1]),
      ['docs', 'more'],
    )
    const progress = await world.progress()
    t.equal(progress?.state, 'Done')
    t.equal(progress?.shards?.resharding, undefined)
    t.equal(progress?.shards?.stepsLeft, 0)
  })
}

t.test(
  'a Job that is killed at any step of two changes leaves what the next completes',
  async (t) => {
    const [changes = []] = PAIRS
    const kinds = new Set<string>()
    for (let step = 1; ; step += EVERY) {
      const { world, points, quiet } = await openWorld(t, changes, 1)
      const killed = new AbortController()
      let steps = 0
      const onLine = (line: string) => {
        if (!isStep(line)) return
        steps += 1
        if (steps === step) killed.abort()
      }
      await world.run(both(changes), { signal: killed.signal, onLine })
      if (steps < step) break
      const { code, log } = await world.run(both(changes), { pod: 'pod-2' })
      const at = `killed at step ${step}`
      t.equal(code, EXIT.done, `${at}: ${log.slice(-2000)}`)
      t.strictSame(flawsOfAll(world, changes, points, 1), [], at)
      t.strictSame(world.engine.find('quiet')?.shards, quiet, at)
      const outcomes = await outcomesOf(world)
      for (const outcome of outcomes) kinds.add(outcome)
      t.strictSame(
        outcomes.filter((outcome) => !outcome.endsWith('aborted')),
        changes.map((change) => ended(change, 'completed')),
        at,
      )
      t.equal((await world.progress())?.shards?.resharding, undefined, at)
    }
    for (const change of changes) t.ok(kinds.has(ended(change, 'completed')))
  },
)

t.test(
  'a collection whose number cannot be changed does not keep the other one back',
  async (t) => {
    const [changes = []] = PAIRS
    const { world, points, quiet } = await openWorld(t, changes)
    // Two of the three nodes have no space for another one.
    world.shard(1).vectorBytes = 10_000_000
    const { code } = await world.run({ ...both(changes), volumeBytes: 12_000_000 })
    t.equal(code, EXIT.failed)
    const progress = await world.progress()
    t.match(progress, { state: 'Refused', reason: 'NoCapacity' })
    t.match(
      progress?.message,
      /^another number of shards of docs needs about \d+ bytes on node \d,/,
    )
    const [, more] = changes
    const unchanged = { name: 'docs', from: 2, to: 2 }
    t.strictSame(flawsOfAll(world, [unchanged, ...(more ? [more] : [])], points), [])
    t.strictSame(world.engine.find('quiet')?.shards, quiet)
    t.strictSame(await outcomesOf(world), more ? [ended(more, 'completed')] : [])
  },
)

for (const nodes of [3, 4]) {
  for (const [from, to] of DIRECTIONS) {
    t.test(`${from} -> ${to} with three replicas on ${nodes} nodes`, async (t) => {
      const world = await shardsWorld(t, { nodes, shards: from, factor: 3 })
      const points = fill(world)
      const { code, log } = await world.run(numbers(to))
      t.equal(code, EXIT.done, log.slice(-2000))
      t.strictSame(flaws(world, { shards: to, factor: 3, points }), [])
      const steps = startedSteps(log)
      const indexesOf = (text: string) =>
        steps.flatMap((step, index) => (step.includes(text) ? [index] : []))
      const [commit = -1] = indexesOf('writing to the new shards only')
      const [read = -1] = indexesOf('reading from the new shards')
      const cleaned = indexesOf('deleting the points')
      t.equal(cleaned.length, from < to ? 3 * from : 0, 'on every holder')
      t.ok(cleaned.every((index) => index > read && index < commit))
      const copied = indexesOf('copying points')
      t.equal(copied.length, from < to ? from : 3 * to)
      t.equal(indexesOf('replicating').length, from < to ? 2 : 0)
      t.ok([...copied, ...indexesOf('replicating')].every((index) => index < read))
      t.equal(indexesOf('checking the replica').length, 3 * to)
      t.strictSame(await outcomesOf(world), [`docs ${from < to ? 'up' : 'down'} 2 completed`])
      const progress = await world.progress()
      t.equal(progress?.state, 'Done')
      t.equal(progress?.shards?.resharding, undefined)
    })
  }
}

for (const [from, to] of DIRECTIONS) {
  t.test(
    `${from} -> ${to} with three replicas: a Job that is killed at some step leaves what the next completes`,
    async (t) => {
      for (let step = 2; ; step += KILL_EVERY) {
        const world = await shardsWorld(t, { nodes: 3, shards: from, factor: 3 })
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
        const { code, log } = await world.run(numbers(to), { pod: 'pod-2' })
        const at = `killed at step ${step}`
        t.equal(code, EXIT.done, `${at}: ${log.slice(-2000)}`)
        t.strictSame(flaws(world, { shards: to, factor: 3, points }), [], at)
        const outcomes = await outcomesOf(world)
        t.match(outcomes.at(-1), / completed$/, at)
        t.ok(
          outcomes.slice(0, -1).every((outcome) => outcome.endsWith(' aborted')),
          `${at}: ${outcomes.join()}`,
        )
      }
    },
  )
}

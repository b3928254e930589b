/** A restore whose pods are killed: what is done is known to every pod that comes after. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { RestoreResult } from '../../../crds/contract/restore-job.ts'
import {
  decodeAbsent,
  decodeStates,
  encodeAbsent,
  encodeStates,
  type CollectionState,
} from '../../../jobs/restore/checkpoint.ts'
import type { Clock } from '../../../jobs/clock.ts'
import { depth } from '../../depth.ts'
import { instantClock } from '../job-world.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { ask } from './collection-state.ts'
import type { Restore } from './restore-world.ts'
import {
  isRecovery,
  createKeyedCollection,
  run,
  restoreFixture,
  type RestoreFixture,
} from './restore-fixture.ts'

const MARKER = 999

/** The pod is gone at that moment: nothing that it does afterwards reaches the engine or the store. */
async function killedAt(
  stood: RestoreFixture,
  restore: Restore,
  { pod, when, time }: { pod: string; when: (calls: number) => boolean; time?: Clock },
): Promise<number> {
  const controller = new AbortController()
  let calls = 0
  const strikes = () => {
    calls += 1
    if (when(calls)) controller.abort(new Error('SIGKILL'))
    return controller.signal.aborted
  }
  for (const node of stood.nodes) {
    node.misbehave(() => (strikes() ? { cut: 'before' } : undefined))
  }
  stood.s3.misbehave(() => (strikes() ? { cut: 'in' } : undefined))
  const options = { pod, signal: controller.signal, ...(time !== undefined && { time }) }
  const { code } = await run(restore, options)
  for (const node of stood.nodes) node.misbehave()
  stood.s3.misbehave()
  // Killed after its final report, while it removes its record from the bucket, a pod still ends with 0.
  const isReported = code === EXIT.done && (await restore.progress())?.state === 'Done'
  const expected = controller.signal.aborted && !isReported
  if (expected !== (code === EXIT.crash)) throw new Error(`it ended with ${code}`)
  return calls
}

/** The pod is gone at a call that is refused, or after the last one that is answered. */
async function killedBy(
  stood: RestoreFixture,
  restore: Restore,
  {
    pod,
    isLast,
    isRefused,
  }: {
    pod: string
    isLast: (request: EngineRequest) => boolean
    isRefused: (request: EngineRequest) => boolean
  },
): Promise<void> {
  const controller = new AbortController()
  for (const node of stood.nodes) {
    node.misbehave((request) => {
      if (controller.signal.aborted || isRefused(request)) {
        controller.abort(new Error('SIGKILL'))
        return { cut: 'before' }
      }
      if (!isLast(request)) return undefined
      controller.abort(new Error('SIGKILL'))
      return { cut: 'after' }
    })
  }
  const { code } = await run(restore, { pod, signal: controller.signal })
  for (const node of stood.nodes) node.misbehave()
  if (code !== EXIT.crash) throw new Error(`it ended with ${code}`)
}

/** So much time passes at each look at the clock that every report is due. */
function slowTime(): Clock {
  const time = instantClock()
  let looks = 0
  return { ...time, monotonicMs: () => time.monotonicMs() + 6_000 * (looks += 1) }
}

/** A client that uses a collection after it was reported as restored. */
async function useCompleted({ urls, engine }: RestoreFixture, restore: Restore): Promise<string[]> {
  const { collections = [] } = await restore.result()
  const done = collections.filter(({ status }) => status === 'Completed').map(({ name }) => name)
  for (const name of done) {
    const isKeyed = name === 'keyed'
    const point = { id: MARKER, vector: isKeyed ? [1, 1] : {}, payload: {} }
    const body = { points: [point], ...(isKeyed && { shard_key: 'a' }) }
    await ask(urls[0] ?? '', 'PUT', `/collections/${name}/points?wait=true`, body)
  }
  return done.filter((name) => engine.collections.has(name))
}

function hasMarker({ engine }: RestoreFixture, name: string): boolean {
  return engine.collections.get(name)?.points.some(({ id }) => id === MARKER) ?? false
}

for (const method of ['Node', 'Shard'] as const) {
  for (const isOver of [false, true]) {
    const where = isOver ? 'over collections in use' : 'into nothing'
    t.test(`by ${method}, ${where}: three pods killed anywhere forget nothing`, async (t) => {
      const options = { method, nodes: 2, collections: ['a', 'b'], prepare: createKeyedCollection }
      const stood = await restoreFixture(t, options)
      const names = ['a', 'b', 'keyed']
      const begin = async () => {
        if (!isOver) stood.deleteCollections(...names)
        else stood.engine.aliases.clear()
        stood.engine.aliases.set('other', 'nothing')
        return stood.world.restore()
      }
      const all = await killedAt(stood, await begin(), { pod: 'pod-0', when: () => false })
      t.ok(all > 100, `${all} calls`)
      for (let first = 3; first < all; first += Math.ceil(all / depth(3, 12))) {
        const restore = await begin()
        const used = new Set<string>()
        for (const [pod, at] of [
          ['pod-1', first],
          ['pod-2', 3 + (first % 17)],
          ['pod-3', 20 + (first % 41)],
        ] as const) {
          const time = pod === 'pod-2' ? { time: slowTime() } : {}
          await killedAt(stood, restore, { pod, when: (calls) => calls === at, ...time })
          for (const name of await useCompleted(stood, restore)) used.add(name)
        }
        const { code, log } = await run(restore, { pod: 'pod-4' })
        t.equal(code, EXIT.done, code === EXIT.done ? `killed at ${first}` : log)
        for (const name of used) t.ok(hasMarker(stood, name), `${name} was left alone`)
        for (const name of names) {
          const points = stood.engine.collections.get(name)?.points ?? []
          stood.engine.collections
            .get(name)
            ?.points.splice(0, points.length, ...points.filter(({ id }) => id !== MARKER))
          const [now, before] = [await stood.currentState(name), stood.stateBefore(name) ?? {}]
          // The only shard of a key may have another id.
          const ids = method === 'Shard' ? { shards: 'any' } : {}
          t.strictSame({ ...now, ...ids }, { ...before, ...ids }, `${name} is back`)
        }
      }
    })
  }
}

t.test(
  'a pod killed after it created the collection again leaves one that the next pod takes as its own',
  async (t) => {
    const stood = await restoreFixture(t, { method: 'Shard', nodes: 2 })
    stood.deleteCollections('docs')
    const restore = await stood.world.restore()
    const isCreation = ({ method, path }: EngineRequest) =>
      method === 'PUT' && path.join('/') === 'collections/docs'
    const isUpload = ({ path }: EngineRequest) => path.at(-1) === 'upload'
    // The first pod has recorded which collection it created; the second one deletes it and creates another.
    await killedBy(stood, restore, { pod: 'pod-1', isLast: () => false, isRefused: isUpload })
    const first = stood.engine.collections.get('docs')?.uuid
    await killedBy(stood, restore, { pod: 'pod-2', isLast: isCreation, isRefused: () => false })
    t.not(stood.engine.collections.get('docs')?.uuid, first)
    const { code, log } = await run(restore, { pod: 'pod-3' })
    t.equal(code, EXIT.done, log)
    t.strictSame(await stood.currentState('docs'), stood.stateBefore('docs'))
  },
)

t.test(
  'hundreds of collections, two kills: completed ones that the report does not list are not restored again',
  async (t) => {
    const stood = await restoreFixture(t, { nodes: 1, replicationFactor: 1 })
    // Many more than the report lists.
    const count = 450
    const long = 'long-name-of-a-tenant-'.repeat(5)
    const names = Array.from({ length: count }, (_, n) => `${long}${1000 + n}`)
    stood.rewrite((manifest) => {
      const [docs] = manifest.collections
      manifest.collections = docs === undefined ? [] : names.map((name) => ({ ...docs, name }))
    })
    stood.deleteCollections('docs')
    const restore = await stood.world.restore()
    const last = names[count - 10] ?? ''
    const controller = new AbortController()
    const recovered: string[] = []
    const isCounted = (request: EngineRequest) => {
      if (!isRecovery(request)) return false
      recovered.push(request.path[1] ?? '')
      return request.path[1] === last
    }
    stood.nodes[0]?.misbehave((request) => {
      if (isCounted(request)) controller.abort(new Error('SIGKILL'))
      return controller.signal.aborted ? { cut: 'before' } : undefined
    })
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    const left = {
      current: { collection: last, isOurs: true },
      ...{ completed: count - 10, states: `${count - 10}C10P` },
    }
    const result = await restore.result()
    t.match(result, left)
    t.ok((result.unlisted?.completed ?? 0) > count / 6, 'many are not in the list')

    // The next one is killed before it has begun anything, after it has reported.
    const when = (calls: number) => calls === 12
    const calls = await killedAt(stood, restore, { pod: 'pod-2', when, time: slowTime() })
    t.ok(calls >= 12)
    t.match(await restore.result(), left)

    recovered.length = 0
    stood.nodes[0]?.misbehave((request) => {
      isCounted(request)
      return undefined
    })
    const { code, log } = await run(restore, { pod: 'pod-3' })
    t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log.slice(-2000))
    t.strictSame(recovered, names.slice(count - 10), 'those that were left, once each')
    t.match(await restore.result(), { completed: count, failed: 0, states: `${count}C` })
  },
)

t.test('states are a short text, and are taken only for as many collections', async (t) => {
  const states: CollectionState[] = [
    'completed',
    'completed',
    'failed',
    'back',
    'pending',
    'pending',
  ]
  t.equal(encodeStates(states), '2C1F1B2P')
  t.strictSame(decodeStates('2C1F1B2P', 6), states)
  t.equal(encodeStates([]), '')
  t.strictSame(decodeStates('', 0), [])
  for (const [text, length] of [
    ['2C1F1B2P', 5],
    ['2C1F1B2P', 7],
    ['2X', 2],
    ['99999999999C', 2],
  ] as const) {
    t.equal(decodeStates(text, length), undefined, text)
  }
  t.ok('states' in RestoreResult.properties, 'the report has them')
  const names = ['a', 'b', 'c', 'd']
  t.equal(encodeAbsent(names, new Set(['b', 'c'])), '1O2A1O')
  t.strictSame(decodeAbsent('1O2A1O', names), ['b', 'c'])
  t.strictSame(decodeAbsent('1O2A', names), [], 'of other collections')
  t.strictSame(decodeAbsent('', names), [], 'of an earlier release')
})

/** Collections that are finished stay as they are, whatever becomes of the pod that copied them. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { fingerprints, includesFingerprint } from '../../../jobs/migration/progress.ts'
import type { Misbehaviour } from '../../doubles/engine/misbehaviour.ts'
import { instantClock } from '../job-world.ts'
import {
  createCollection,
  isUpsert,
  manyPoints,
  startEnginePair,
  runToDone,
} from './engine-pair.ts'

const COLLECTIONS = 150
/** So long that a report cannot list all of them. */
const LONG = 'x'.repeat(180)

const NOT_ACCEPTED: Misbehaviour = {
  status: 422,
  body: '{"status":{"error":"Unprocessable"},"time":0}',
  headers: { 'content-type': 'application/json' },
}

function nameOf(n: number): string {
  return `docs-${String(n).padStart(4, '0')}-${LONG}`
}

t.test('a set of fingerprints contains exactly the names that were added', async (t) => {
  const names = Array.from({ length: 5_000 }, (_, n) => `collection-${n}`)
  const finished = fingerprints(names)
  t.equal(finished.length, 8 * names.length)
  t.ok(names.every((name) => includesFingerprint(name, finished)))
  const others = names.map((name) => `${name}-`)
  t.strictSame(
    others.filter((name) => includesFingerprint(name, finished)),
    [],
  )
  t.notOk(includesFingerprint('collection-1'))
})

t.test('a killed Job never copies a finished collection over newer writes', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  for (let n = 0; n < COLLECTIONS; n += 1) await createCollection(source, nameOf(n), manyPoints(1))
  const stop = new AbortController()
  target.node.misbehave((request) => {
    if (isUpsert(request) && request.path[1] === nameOf(COLLECTIONS - 5)) {
      stop.abort(new Error('SIGTERM'))
    }
    return undefined
  })
  t.equal((await world.run({ signal: stop.signal, time: instantClock() })).code, EXIT.crash)
  const { unlisted, completed = 0 } = await world.result()
  t.equal(completed, COLLECTIONS - 5)
  t.ok((unlisted?.completed ?? 0) > 50, 'the report cannot list all of them')
  // Clients that see a completed collection may write to it.
  for (let n = 0; n < completed; n += 1) {
    for (const point of target.engine.find(nameOf(n))?.points ?? []) point.payload = { own: n }
  }
  // One that is deleted and one that is created do not shift what is known of the others.
  source.engine.removeCollection(nameOf(3))
  await createCollection(source, 'docs-0000-late', manyPoints(2))
  const copied = new Set<string | undefined>()
  target.node.misbehave((request) => {
    if (isUpsert(request)) copied.add(request.path[1])
    return undefined
  })
  await runToDone(t, world, { pod: 'pod-2', time: instantClock() })
  t.strictSame([...copied].toSorted(), [
    'docs-0000-late',
    ...Array.from({ length: 5 }, (_, n) => nameOf(COLLECTIONS - 5 + n)),
  ])
  for (let n = 0; n < completed; n += 1) {
    t.strictSame(target.engine.find(nameOf(n))?.points[0]?.payload, { own: n })
  }
  t.match(await world.result(), { completed: COLLECTIONS + 1, failed: 0 })
})

t.test('a killed Job does not copy a failed collection again', async (t) => {
  const { source, target, world } = await startEnginePair(t)
  for (let n = 0; n < COLLECTIONS; n += 1) await createCollection(source, nameOf(n), manyPoints(1))
  const last = nameOf(COLLECTIONS - 1)
  const stop = new AbortController()
  target.node.misbehave((request) => {
    if (!isUpsert(request)) return undefined
    if (request.path[1] !== last) return NOT_ACCEPTED
    stop.abort(new Error('SIGTERM'))
    return undefined
  })
  t.equal((await world.run({ signal: stop.signal, time: instantClock() })).code, EXIT.crash)
  const { error, failed, unlisted } = await world.result()
  t.equal(failed, COLLECTIONS - 1)
  t.ok((unlisted?.failed ?? 0) > 50, 'the report cannot list all of them')
  t.match(error, `${nameOf(0)}: `)
  const copied = new Set<string | undefined>()
  target.node.misbehave((request) => {
    if (isUpsert(request)) copied.add(request.path[1])
    return undefined
  })
  const { code, log } = await world.run({ pod: 'pod-2', time: instantClock() })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.strictSame([...copied], [last])
  t.match(await world.result(), { completed: 1, failed: COLLECTIONS - 1, error })
})

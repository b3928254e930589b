/** The status color of a collection after its points are restored: what a restore waits for, and how long. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'
import { run, runToDone, restoreFixture, type RestoreFixture } from './restore-fixture.ts'

/** The color that the first node reports once the last node has its snapshot. */
function colour(
  { nodes }: RestoreFixture,
  answer: () => object | undefined,
): { patches: () => number } {
  let isBack = false
  let patches = 0
  nodes[2]?.misbehave(({ path }) => {
    if (path.at(-1) === 'recover') isBack = true
    return undefined
  })
  nodes[0]?.misbehave(({ method, path }) => {
    if (method === 'PATCH') patches += 1
    if (!isBack || method !== 'GET' || path.length !== 2 || path[1] !== 'docs') return undefined
    const result = answer()
    if (result === undefined) return undefined
    const body = JSON.stringify({ result: { config: { params: {} }, ...result }, status: 'ok' })
    return { status: 200, body, headers: { 'content-type': 'application/json' } }
  })
  return { patches: () => patches }
}

t.test('red fails with the engine’s reason', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  colour(stood, () => ({ status: 'red', optimizer_status: { error: 'out of space' } }))
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.match(await restore.result(), { error: /^docs is red: out of space/ })
})

t.test('a grey collection is optimized again', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  const wasRequested = colour(stood, () =>
    wasRequested.patches() > 0 ? undefined : { status: 'grey', optimizer_status: 'ok' },
  )
  const log = await runToDone(t, await stood.world.restore())
  t.match(log, /waking the optimizers/)
})

t.test('a collection that is not green after 3600 s fails by its name', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  colour(stood, () => ({ status: 'yellow', optimizer_status: 'ok' }))
  const restore = await stood.world.restore()
  const instant = instantClock(() => new Promise(setImmediate))
  const pauses: number[] = []
  const sleep = (ms: number, signal?: AbortSignal) => {
    pauses.push(ms)
    return instant.sleep(ms, signal)
  }
  t.equal((await restore.run({ time: { ...instant, sleep } })).code, EXIT.failed)
  t.match(await restore.result(), { error: 'collection docs did not turn green in time' })
  t.equal(pauses.filter((ms) => ms === 5_000).length, 720, 'every 5 s')
  const first = [25, 50, 100, 250, 500, 1_000, 2_000]
  t.strictSame(pauses.slice(-727, -720), first, 'the first ones sooner')
})

t.test('`waitForIndexing: false` skips only that wait', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 1 })
  stood.deleteCollections('docs')
  colour(stood, () => ({ status: 'yellow', optimizer_status: 'ok' }))
  const restore = await stood.world.restore({ waitForIndexing: false })
  t.equal((await run(restore)).code, EXIT.done)
  matchWhole(t, await restore.result(), { collections: [{ points: 10 }] })
})

/** Another client deletes a collection during its restore and creates its own: nothing of that one is touched. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { answerAs } from '../../doubles/engine/node.ts'
import { ask } from './collection-state.ts'
import { isRecovery, restoreFixture, run, type RestoreFixture } from './restore-fixture.ts'

const ERROR =
  'collection docs was deleted and created again by another client during the restore: delete it or restore under another name, and create the VecRestore again'

/** The collection of another client, with one point of its own. */
async function recreate({ engine, urls }: RestoreFixture): Promise<void> {
  engine.removeCollection('docs')
  engine.createCollection('docs', 3, 2)
  const points = [{ id: 4711, vector: {}, payload: { owner: 'another client' } }]
  await ask(urls[0] ?? '', 'PUT', '/collections/docs/points?wait=true', { points })
}

/** Kills the first pod at a call, lets the other client act, and runs the next pod. */
async function killedThenRecreated(
  t: Test,
  where: string,
  isKilled: (path: string[], method: string, ordinal: number) => boolean,
  options: { isReplaced?: boolean } = {},
): Promise<void> {
  t.test(`a pod is killed ${where}: the next one fails and changes nothing`, async (t) => {
    const fixture = await restoreFixture(t)
    const { world, deleteCollections, nodes, currentState } = fixture
    if (options.isReplaced !== true) deleteCollections('docs')
    const restore = await world.restore()
    const controller = new AbortController()
    nodes.forEach((node, ordinal) =>
      node.misbehave((request) => {
        if (request.path.at(-1) === 'recover' && !isRecovery(request)) return undefined
        if (!isKilled(request.path, request.method, ordinal)) return undefined
        controller.abort(new Error('SIGTERM'))
        return { cut: 'after' }
      }),
    )
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    await recreate(fixture)
    const foreign = await currentState('docs')
    const changes: string[] = []
    for (const node of nodes) {
      node.misbehave((request) => {
        const { method, path } = request
        if (method === 'DELETE' || method === 'PATCH' || isRecovery(request)) {
          changes.push(`${method} ${path.join('/')}`)
        }
        return undefined
      })
    }
    t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
    matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
    t.strictSame(changes, [])
    t.strictSame(await currentState('docs'), foreign)
  })
}

await killedThenRecreated(
  t,
  'while it creates the collection',
  (path, method) => method === 'PUT' && path.join('/') === 'collections/docs',
)
await killedThenRecreated(
  t,
  'at the recovery of the third node',
  (path, _, ordinal) => ordinal === 2 && path.at(-1) === 'recover',
)
// The factor of the collection that it replaced was lowered: it is not that of the new one.
await killedThenRecreated(
  t,
  'while it replaces a collection',
  (path, _, ordinal) => ordinal === 2 && path.at(-1) === 'recover',
  { isReplaced: true },
)

t.test('a collection that is recreated between two recoveries is not overwritten', async (t) => {
  const fixture = await restoreFixture(t)
  const { world, deleteCollections, nodes, currentState } = fixture
  deleteCollections('docs')
  let recoveries = 0
  let recreated: Promise<void> | undefined
  for (const [ordinal, node] of nodes.entries()) {
    node.misbehave((request) => {
      if (isRecovery(request)) recoveries += 1
      // Node 1 is asked whether it is idle before it takes its snapshot.
      const isIdleCheck = ordinal === 1 && request.path[0] === 'telemetry'
      if (isIdleCheck && recoveries === 1) recreated ??= recreate(fixture)
      return undefined
    })
  }
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  await recreated
  t.equal(recoveries, 1)
  matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
  t.match(JSON.stringify(await currentState('docs')), /another client/)
})

t.test('a collection that another client fills while others are restored is kept', async (t) => {
  const fixture = await restoreFixture(t, { collections: ['a', 'b'] })
  const { world, engine, deleteCollections, nodes, urls, currentState } = fixture
  deleteCollections('a', 'b')
  let filled: Promise<object> | undefined
  const fill = async () => {
    engine.createCollection('b', 3, 2)
    const points = [{ id: 4711, vector: {}, payload: { owner: 'another client' } }]
    await ask(urls[0] ?? '', 'PUT', '/collections/b/points?wait=true', { points })
    return currentState('b')
  }
  for (const node of nodes) {
    node.misbehave((request) => {
      if (isRecovery(request)) filled ??= fill()
      return undefined
    })
  }
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  const error =
    'collection b was created by another client while this restore was about to create it'
  const { collections } = (await restore.result()) as { collections: object[] }
  matchWhole(
    t,
    Object.groupBy(collections as { name: string }[], ({ name }) => name),
    { a: [{ status: 'Completed' }], b: [{ status: 'Failed', error: new RegExp(error) }] },
  )
  t.strictSame(await currentState('b'), await filled)
})

for (const where of ['before a collection is begun', 'while another one is restored'] as const) {
  t.test(`a collection that a client fills after a pod is killed ${where} is kept`, async (t) => {
    const fixture = await restoreFixture(t, { collections: ['a', 'b'] })
    const { world, engine, deleteCollections, nodes, urls, currentState } = fixture
    deleteCollections('a', 'b')
    const restore = await world.restore()
    const controller = new AbortController()
    for (const node of nodes) {
      node.misbehave((request) => {
        const isBegun = request.method === 'PUT' && request.path.join('/') === 'collections/a'
        const isKilled = where === 'before a collection is begun' ? isBegun : isRecovery(request)
        if (!isKilled) return undefined
        controller.abort(new Error('SIGTERM'))
        return { cut: 'before' }
      })
    }
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    for (const node of nodes) node.misbehave(() => undefined)
    engine.createCollection('b', 3, 2)
    const points = [{ id: 4711, vector: {}, payload: { owner: 'another client' } }]
    await ask(urls[0] ?? '', 'PUT', '/collections/b/points?wait=true', { points })
    const filled = await currentState('b')

    t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
    const error = /^collection b was created by another client while this restore was about to/
    const { collections } = (await restore.result()) as { collections: { name: string }[] }
    matchWhole(
      t,
      Object.groupBy(collections, ({ name }) => name),
      { a: [{ status: 'Completed' }], b: [{ status: 'Failed', error }] },
    )
    t.strictSame(await currentState('b'), filled)
  })
}

t.test('an empty collection that is created while others are restored is filled', async (t) => {
  const fixture = await restoreFixture(t, { collections: ['a', 'b'] })
  const { world, engine, deleteCollections, nodes, assertRestored } = fixture
  deleteCollections('a', 'b')
  for (const node of nodes) {
    node.misbehave((request) => {
      if (isRecovery(request) && !engine.collections.has('b')) engine.createCollection('b', 3, 2)
      return undefined
    })
  }
  t.equal((await run(await world.restore())).code, EXIT.done)
  await assertRestored('a', 'b')
})

t.test('a collection that is recreated before the last check is not Completed', async (t) => {
  const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
    prepare: async ({ aliases }) => aliases.set('live', 'docs'),
  })
  deleteCollections('docs')
  let isRecreated = false
  nodes[0]?.misbehave(({ path }) => {
    if (isRecreated || path.at(-1) !== 'count') return undefined
    isRecreated = true
    engine.removeCollection('docs')
    engine.createCollection('docs', 3, 2)
    return undefined
  })
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  const { collections } = (await restore.result()) as { collections: { error?: string }[] }
  t.match(collections[0]?.error, ERROR)
  t.ok(isRecreated)
  t.ok(engine.collections.has('docs'))
  t.strictSame([...engine.aliases], [], 'no alias points to the collection of another client')
})

t.test('one that is recreated while later ones are restored is not Completed', async (t) => {
  const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
    collections: ['a', 'b'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b']) aliases.set(`${name} live`, name)
    },
  })
  deleteCollections('a', 'b')
  let isRecreated = false
  for (const node of nodes) {
    node.misbehave((request) => {
      if (isRecreated || request.path[1] !== 'b' || !isRecovery(request)) return undefined
      isRecreated = true
      engine.removeCollection('a')
      engine.createCollection('a', 3, 2)
      return undefined
    })
  }
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.ok(isRecreated)
  const error = ERROR.replace('docs', 'a')
  matchWhole(t, await restore.result(), {
    error,
    collections: [
      { name: 'a', status: 'Failed', error },
      { name: 'b', status: 'Completed' },
    ],
  })
  t.ok(engine.collections.has('a'))
  t.strictSame(Object.fromEntries(engine.aliases), { 'b live': 'b' })
})

t.test('a collection that is deleted at its end takes no alias of the others', async (t) => {
  const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
    collections: ['a', 'b', 'c'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b', 'c']) aliases.set(`${name} live`, name)
    },
  })
  deleteCollections('a', 'b', 'c')
  let recoveries = 0
  for (const node of nodes) {
    node.misbehave((request) => {
      const { method, path } = request
      if (path[1] === 'b' && isRecovery(request)) recoveries += 1
      // The first reading after the last recovery: whether it is green.
      const isRead = method === 'GET' && path.join('/') === 'collections/b'
      if (isRead && recoveries === nodes.length) engine.removeCollection('b')
      return undefined
    })
  }
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.strictSame(Object.fromEntries(engine.aliases), { 'a live': 'a', 'c live': 'c' })
  const { collections, error } = (await restore.result()) as {
    collections: { status: string }[]
    error?: string
  }
  t.strictSame(
    collections.map(({ status }) => status),
    ['Completed', 'Failed', 'Completed'],
  )
  t.equal(error, 'collection b was deleted during the restore')
  t.equal(recoveries, nodes.length)
})

t.test('a collection that a client creates while the creation is retried is kept', async (t) => {
  const fixture = await restoreFixture(t)
  const { world, deleteCollections, nodes, currentState } = fixture
  deleteCollections('docs')
  let calls = 0
  let created: Promise<void> | undefined
  const changes: string[] = []
  for (const node of nodes) {
    node.misbehave((request) => {
      const { method, path } = request
      const isCreation = method === 'PUT' && path.join('/') === 'collections/docs'
      if (isCreation && (calls += 1) === 1) return UNAVAILABLE
      if (isCreation) return { until: (created ??= recreate(fixture)) }
      if (method === 'DELETE' || method === 'PATCH' || isRecovery(request)) {
        changes.push(`${method} ${path.join('/')}`)
      }
      return undefined
    })
  }
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  t.equal(calls, 2)
  const error = /^collection docs was created by another client while this restore was about to/
  matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error }] })
  t.strictSame(changes, [])
  t.match(JSON.stringify(await currentState('docs')), /another client/)
})

t.test('one that a client creates while a deletion is retried is not deleted', async (t) => {
  const { world, engine, deleteCollections, nodes, currentState } = await restoreFixture(t)
  deleteCollections('docs')
  const restore = await world.restore()
  const controller = new AbortController()
  for (const node of nodes) {
    node.misbehave((request) => {
      if (!isRecovery(request)) return undefined
      controller.abort(new Error('SIGTERM'))
      return { cut: 'before' }
    })
  }
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  let step: 'before' | 'deleted' | 'recreated' = 'before'
  const later: string[] = []
  for (const node of nodes) {
    node.misbehave((request) => {
      const { method, path } = request
      if (step === 'deleted') {
        step = 'recreated'
        engine.createCollection('docs', 3, 2)
        const points = [{ id: 4711, vector: {}, payload: { owner: 'another client' } }]
        const upsert = { path: ['collections', 'docs', 'points'], query: { wait: 'true' } }
        void answerAs(engine, 0, { method: 'PUT', ...upsert, body: { points } })
      }
      const isChange = method === 'DELETE' || method === 'PATCH' || isRecovery(request)
      if (step === 'recreated' && isChange) later.push(`${method} ${path.join('/')}`)
      if (step !== 'before' || method !== 'DELETE') return undefined
      step = 'deleted'
      return { cut: 'after' }
    })
  }
  t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
  t.equal(step, 'recreated')
  matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
  t.strictSame(later, [])
  t.match(JSON.stringify(await currentState('docs')), /another client/)
})

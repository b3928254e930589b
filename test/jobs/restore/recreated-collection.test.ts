/** Another client deletes a collection during its restore and creates its own: nothing of that one is touched. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { matchWhole } from '../../match-whole.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { answerAs } from '../../doubles/engine/node.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { ask } from './collection-state.ts'
import {
  createKeyedCollection,
  isRecovery,
  restoreFixture,
  run,
  type RestoreFixture,
  type RestoreFixtureOptions,
} from './restore-fixture.ts'

const ERROR =
  'collection docs was deleted and created again by another client during the restore: delete it or restore under another name, and create the VecRestore again'

/** The collection of another client, with one point of its own. */
async function recreate({ engine, urls }: RestoreFixture): Promise<void> {
  engine.removeCollection('docs')
  engine.createCollection('docs', 3, 2)
  const points = [{ id: 4711, vector: {}, payload: { owner: 'another client' } }]
  await ask(urls[0] ?? '', 'PUT', '/collections/docs/points?wait=true', { points })
}

/** Does this once, when a node is about to begin a recovery of this collection; the answer says whether it was done. */
function onceRecovered(nodes: RestoreFixture['nodes'], name: string, action: () => void) {
  let isDone = false
  for (const node of nodes) {
    node.misbehave((request) => {
      if (isDone || request.path[1] !== name || !isRecovery(request)) return undefined
      isDone = true
      action()
      return undefined
    })
  }
  return () => isDone
}

/** Of collections a and b, a was recreated: the restore fails with it alone. */
async function failsFirst(
  t: Test,
  restore: Parameters<typeof run>[0],
  options: Parameters<typeof run>[1] = {},
): Promise<void> {
  t.equal((await run(restore, options)).code, EXIT.failed)
  const error = ERROR.replace('docs', 'a')
  matchWhole(t, await restore.result(), {
    error,
    collections: [
      { name: 'a', status: 'Failed', error },
      { name: 'b', status: 'Completed' },
    ],
  })
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

for (const method of ['Node', 'Shard'] as const) {
  t.test(
    `${method}: one that is recreated with other vectors meanwhile is left alone`,
    async (t) => {
      const fixture = await restoreFixture(t, { collections: ['a', 'b'], method })
      const { world, engine, nodes, currentState } = fixture
      let isRecreated = false
      const recoveries: unknown[] = []
      for (const node of nodes) {
        node.misbehave((request) => {
          const { path } = request
          if (!isRecovery(request) && path.at(-1) !== 'upload') return undefined
          if (path[1] === 'b') recoveries.push(path)
          if (isRecreated) return undefined
          isRecreated = true
          engine.removeCollection('b')
          engine.createCollection('b', 3, 2)
          const { config } = engine.collections.get('b') ?? {}
          Object.assign(config?.params ?? {}, { vectors: { size: 7, distance: 'Cosine' } })
          return undefined
        })
      }
      const restore = await world.restore()
      t.equal((await run(restore)).code, EXIT.failed)
      matchWhole(t, await restore.result(), {
        collections: [
          { name: 'a', status: 'Completed' },
          {
            name: 'b',
            status: 'Failed',
            error: /^collection b is at the target with other vectors/,
          },
        ],
      })
      t.strictSame(recoveries, [])
      t.match(await currentState('b'), { config: { params: { vectors: { size: 7 } } } })
    },
  )
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

t.test('a collection recreated while later ones are restored is not Completed', async (t) => {
  const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
    collections: ['a', 'b'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b']) aliases.set(`${name} live`, name)
    },
  })
  deleteCollections('a', 'b')
  const isRecreated = onceRecovered(nodes, 'b', () => {
    engine.removeCollection('a')
    engine.createCollection('a', 3, 2)
  })
  await failsFirst(t, await world.restore())
  t.ok(isRecreated())
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

t.test('a collection that is created while a deletion is retried is not deleted', async (t) => {
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

/** Node 0 still has the collection that was deleted, as long as the number of its answers is below this. */
function delayNode({ engine, nodes }: RestoreFixture, answers: number): void {
  const former = engine.find('docs')
  engine.outdated.set(0, new Map([['docs', former]]))
  let count = 0
  nodes[0]?.misbehave(() => {
    count += 1
    if (count >= answers) engine.outdated.delete(0)
    return undefined
  })
}

for (const { node, answers, expected } of [
  { node: 'has not caught up for a moment', answers: 5, expected: ERROR },
  {
    node: 'never catches up',
    answers: Infinity,
    expected:
      /^the nodes do not hold the same collection docs: its uuid is \S+ on node 0, \S+ on node 1, /,
  },
]) {
  t.test(`a collection that is recreated is not overwritten while node 0 ${node}`, async (t) => {
    const fixture = await restoreFixture(t)
    const { world, deleteCollections, nodes, currentState } = fixture
    deleteCollections('docs')
    let recoveries = 0
    let recreated: Promise<void> | undefined
    for (const [ordinal, double] of nodes.entries()) {
      double.misbehave((request) => {
        if (isRecovery(request)) recoveries += 1
        const isIdleCheck = ordinal === 1 && request.path[0] === 'telemetry'
        if (!isIdleCheck || recoveries !== 1 || recreated !== undefined) return undefined
        delayNode(fixture, answers)
        recreated = recreate(fixture)
        return { until: recreated }
      })
    }
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.ok(recreated)
    t.equal(recoveries, 1)
    matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: expected }] })
    fixture.engine.outdated.clear()
    t.match(JSON.stringify(await currentState('docs')), /another client/)
  })
}

t.test('a collection is restored although a node is late to apply its creation', async (t) => {
  const { world, engine, deleteCollections, nodes, assertRestored } = await restoreFixture(t)
  deleteCollections('docs')
  let answers = 0
  nodes[2]?.misbehave(() => {
    answers += 1
    if (answers === 20) engine.outdated.delete(2)
    return undefined
  })
  engine.outdated.set(2, new Map([['docs', undefined]]))
  t.equal((await run(await world.restore())).code, EXIT.done)
  t.ok(answers >= 20)
  await assertRestored('docs')
})

t.test(
  'a pod does not delete the collection of another client that node 0 does not know yet',
  async (t) => {
    const fixture = await restoreFixture(t)
    const { world, engine, deleteCollections, nodes, currentState } = fixture
    deleteCollections('docs')
    const restore = await world.restore()
    const controller = new AbortController()
    for (const node of nodes) {
      node.misbehave(({ path, method }) => {
        if (method !== 'PUT' || path.join('/') !== 'collections/docs') return undefined
        controller.abort(new Error('SIGTERM'))
        return { cut: 'before' }
      })
    }
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    for (const node of nodes) node.misbehave()
    await recreate(fixture)
    const foreign = await currentState('docs')
    const deletions: string[] = []
    for (const node of nodes) {
      node.misbehave(({ method, path }) => {
        // After all nodes listed the same collections: before the deletion, its points are read.
        const isRead = path.join('/') === 'aliases' || path.join('/') === 'collections/docs'
        if (isRead) engine.outdated.set(0, new Map([['docs', undefined]]))
        if (method === 'DELETE') deletions.push(path.join('/'))
        return undefined
      })
    }
    t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
    matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
    t.strictSame(deletions, [])
    for (const node of nodes) node.misbehave()
    engine.outdated.clear()
    t.strictSame(await currentState('docs'), foreign)
  },
)

for (const node of [0, 2]) {
  t.test(
    `one that is recreated at the end is not Completed, only node ${node} knows it`,
    async (t) => {
      const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
        collections: ['a', 'b'],
        prepare: async ({ aliases }) => aliases.set('a live', 'a'),
      })
      deleteCollections('a', 'b')
      const isRecreated = onceRecovered(nodes, 'b', () => {
        const former = engine.find('a')
        engine.removeCollection('a')
        engine.createCollection('a', 3, 2)
        const others = [0, 1, 2].filter((ordinal) => ordinal !== node)
        for (const ordinal of others) engine.outdated.set(ordinal, new Map([['a', former]]))
      })
      await failsFirst(t, await world.restore())
      t.ok(isRecreated())
      t.strictSame([...engine.aliases], [], 'no alias points to the collection of another client')
    },
  )
}

t.test(
  'one that is deleted at the end is not Completed, although node 0 still lists it',
  async (t) => {
    const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
      collections: ['a', 'b'],
    })
    deleteCollections('a', 'b')
    const isDeleted = onceRecovered(nodes, 'b', () => {
      engine.outdated.set(0, new Map([['a', engine.find('a')]]))
      engine.removeCollection('a')
    })
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.ok(isDeleted())
    matchWhole(t, await restore.result(), {
      collections: [
        {
          name: 'a',
          status: 'Failed',
          error: 'collection a was deleted during the restore: nodes 1, 2 do not list it any more',
        },
        { name: 'b', status: 'Completed' },
      ],
    })
  },
)

/** Every change of an existing collection, by what it does. */
const CHANGES: Record<
  string,
  { options?: RestoreFixtureOptions; isChange: (request: EngineRequest) => boolean }
> = {
  'lowers the factor': { isChange: isFactor(1) },
  'applies the configuration': { isChange: isPatchOf('hnsw_config') },
  'builds a payload index': {
    isChange: ({ method, path }) => method === 'PUT' && path.at(-1) === 'index',
  },
  'drops a replica': { options: { method: 'Shard' }, isChange: isClusterChange('drop_replica') },
  'sets the factor': { isChange: isFactor(2) },
  'creates a replica': { isChange: isClusterChange('replicate_shard') },
  'sets the read fan-out': { isChange: isFanOut },
  'wakes the optimizers': { isChange: isPatchOf('optimizers_config') },
}

function isFactor(factor: number) {
  return ({ method, body }: EngineRequest) => {
    const { params } = Object(body) as { params?: { replication_factor?: number } }
    return method === 'PATCH' && params?.replication_factor === factor
  }
}

function isFanOut({ method, body }: EngineRequest): boolean {
  const { params } = Object(body) as { params?: { read_fan_out_factor?: number } }
  return method === 'PATCH' && params?.read_fan_out_factor !== undefined
}

function isPatchOf(part: string) {
  return ({ method, body }: EngineRequest) =>
    method === 'PATCH' && Object.keys(Object(body) as object).includes(part)
}

function isClusterChange(kind: string) {
  return ({ method, path, body }: EngineRequest) =>
    method === 'POST' &&
    path.at(-1) === 'cluster' &&
    Object.keys(Object(body) as object).includes(kind)
}

/** Another client recreates the collection while such a call fails. Returns every later change, and its collection. */
function recreateAt(
  fixture: RestoreFixture,
  isChange: (request: EngineRequest) => boolean,
): { recreated: () => Promise<object> | undefined; changes: string[] } {
  const { nodes, currentState } = fixture
  let recreated: Promise<object> | undefined
  const changes: string[] = []
  const act = async () => {
    await recreate(fixture)
    return currentState('docs')
  }
  for (const node of nodes) {
    node.misbehave((request) => {
      const { method, path } = request
      if (recreated !== undefined) {
        // Clients write and read points.
        const isLater = method !== 'GET' && path[1] === 'docs' && !path.includes('points')
        if (isLater) changes.push(`${method} ${path.join('/')}`)
        return undefined
      }
      if (!isChange(request)) return undefined
      recreated = act()
      return { until: recreated, ...UNAVAILABLE }
    })
  }
  return { recreated: () => recreated, changes }
}

for (const [what, { options, isChange }] of Object.entries(CHANGES)) {
  t.test(`nothing is changed that is recreated while a call that ${what} is retried`, async (t) => {
    const fixture = await restoreFixture(t, {
      ...options,
      prepare: async (_, url) => {
        await ask(url, 'PATCH', '/collections/docs', { params: { read_fan_out_factor: 2 } })
        const index = { field_name: 'id', field_schema: 'integer' }
        await ask(url, 'PUT', '/collections/docs/index?wait=true', index)
      },
    })
    const { world, engine, urls, currentState } = fixture
    await ask(urls[0] ?? '', 'PATCH', '/collections/docs', { hnsw_config: { m: 40 } })
    await ask(urls[0] ?? '', 'DELETE', '/collections/docs/index/id?wait=true')
    let isVerified = false
    const { recreated, changes } = recreateAt(fixture, (request) => {
      const docs = engine.find('docs')
      if (what === 'wakes the optimizers' && isVerified && docs !== undefined) docs.status = 'grey'
      isVerified ||= isFanOut(request)
      return isChange(request)
    })
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.ok(recreated())
    t.strictSame(changes, [])
    t.strictSame(await currentState('docs'), await recreated())
    const { collections } = (await restore.result()) as { collections: { error?: string }[] }
    t.match(collections[0]?.error, ERROR)
  })
}

t.test(
  'no shard key is created in a collection that another client recreates meanwhile',
  async (t) => {
    const fixture = await restoreFixture(t, { collections: [], prepare: createKeyedCollection })
    const { world, engine, deleteCollections, nodes } = fixture
    deleteCollections('keyed')
    let keys = 0
    for (const node of nodes) {
      node.misbehave(({ method, path }) => {
        if (method !== 'PUT' || path.at(-1) !== 'shards' || (keys += 1) > 1) return undefined
        engine.removeCollection('keyed')
        engine.createCollection('keyed', 3, 2)
        return UNAVAILABLE
      })
    }
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.equal(keys, 1)
    const error = ERROR.replace('docs', 'keyed')
    matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error }] })
  },
)

t.test(
  'no alias is set for a collection that another client recreates while it is retried',
  async (t) => {
    const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
      prepare: async ({ aliases }) => aliases.set('live', 'docs'),
    })
    deleteCollections('docs')
    let calls = 0
    for (const node of nodes) {
      node.misbehave(({ method, path }) => {
        if (method !== 'POST' || path.join('/') !== 'collections/aliases') return undefined
        calls += 1
        if (calls > 1) return undefined
        engine.removeCollection('docs')
        engine.createCollection('docs', 3, 2)
        return UNAVAILABLE
      })
    }
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.equal(calls, 1)
    matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
    t.strictSame([...engine.aliases], [])
  },
)

t.test(
  'a collection that is recreated during the upload of a shard is not overwritten',
  async (t) => {
    const fixture = await restoreFixture(t, { method: 'Shard' })
    const { world, deleteCollections, s3, currentState } = fixture
    deleteCollections('docs')
    let recreated: Promise<void> | undefined
    s3.misbehave(({ operation, key }) => {
      if (operation !== 'GetObject' || !key.includes('/shard-')) return undefined
      return { after: (recreated ??= recreate(fixture)) }
    })
    const restore = await world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.ok(recreated)
    matchWhole(t, await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
    t.match(JSON.stringify(await currentState('docs')), /another client/)
  },
)

t.test('a collection recreated after another pod restored it is not Completed', async (t) => {
  const { world, engine, deleteCollections, nodes } = await restoreFixture(t, {
    collections: ['a', 'b'],
    prepare: async ({ aliases }) => {
      for (const name of ['a', 'b']) aliases.set(`${name} live`, name)
    },
  })
  deleteCollections('a', 'b')
  const restore = await world.restore()
  const controller = new AbortController()
  for (const node of nodes) {
    node.misbehave((request) => {
      if (request.path[1] !== 'b' || !isRecovery(request)) return undefined
      controller.abort(new Error('SIGTERM'))
      return { cut: 'before' }
    })
  }
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  for (const node of nodes) node.misbehave()
  engine.removeCollection('a')
  engine.createCollection('a', 3, 2)
  await failsFirst(t, restore, { pod: 'pod-2' })
  t.strictSame(Object.fromEntries(engine.aliases), { 'b live': 'b' })
})

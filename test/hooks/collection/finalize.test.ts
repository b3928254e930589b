import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { observeDeletion, type DeletionAttempt } from '../../../hooks/collection/finalize.ts'
import type { LastReconcile } from '../../../hooks/collection/result.ts'
import { EngineCaches } from '../../../hooks/collection/engine-cache.ts'
import { BackgroundTasks } from '../../../hooks/background-task.ts'
import { context, settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { engineError } from './engine-config.ts'
import { CollectionHarness, collection } from './stage.ts'

async function created(deletionPolicy: 'Retain' | 'Delete'): Promise<CollectionHarness> {
  const stage = new CollectionHarness(collection({ deletionPolicy, aliases: ['live'] }))
  await stage.syncUntilStable()
  stage.engine.writes.length = 0
  return stage
}

t.test('deletionPolicy Retain: the collection is left in the engine', async (t) => {
  const stage = await created('Retain')
  t.strictSame(await stage.finalize(), {
    status: { ...stage.parent.status },
    children: [],
    finalized: true,
  })
  t.strictSame(stage.engine.writes, [])
  t.ok(stage.engine.collections.has('docs'))
})

t.test('deletionPolicy Delete: DELETE on the collection, checked again', async (t) => {
  const stage = await created('Delete')
  stage.engine.calls.length = 0
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.writes, [['deleteCollection', 'docs']])
  t.equal(stage.engine.calls.at(-1), 'collectionInfo')
  t.notOk(stage.engine.collections.has('docs'))
})

t.test('a collection that is not there is deleted already', async (t) => {
  const stage = await created('Delete')
  stage.engine.collections.clear()
  t.equal((await stage.finalize()).finalized, true)
})

t.test('a missing cluster completes deletion without contacting the engine', async (t) => {
  const stage = await created('Delete')
  stage.cluster = undefined
  stage.engine.calls.length = 0
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.calls, [])
})

for (const [title, error] of [
  ['unreachable', new EngineError('no answer', { cause: new Error('refused') })],
  ['refusing the key', engineError(401, 'Invalid API key')],
  ['without a leader', engineError(500, 'leader is not established')],
] as const) {
  t.test(
    `engine ${title} while deleting: retried, visible, released once the VecCluster is gone`,
    async (t) => {
      const stage = await created('Delete')
      stage.engine.faults.set('deleteCollection', { error, persists: true })
      const answer = await stage.finalize()
      t.notOk(answer.finalized)
      t.equal(answer.resyncAfterSeconds, 30)
      matchWhole(t, answer.status, {
        phase: 'Ready',
        conditions: [
          {
            reason: 'Deleting',
            message: /collection docs cannot be deleted yet: .*(no answer|Invalid|leader)/,
          },
        ],
      })
      t.notOk((await stage.finalize()).finalized)
      stage.cluster = undefined
      t.equal((await stage.finalize()).finalized, true)
      t.ok(stage.engine.collections.has('docs'))
    },
  )
}

t.test('a deletion that ends with a defect says so, and is retried', async (t) => {
  const stage = await created('Delete')
  const error = new TypeError('a secret')
  stage.engine.faults.set('collectionInfo', { error })
  const answer = await stage.finalize()
  t.notOk(answer.finalized)
  t.strictSame(answer.failures, [{ error }], 'for the log')
  const why = 'internal error: TypeError; see the log of the service'
  const message = `collection docs cannot be deleted yet: ${why}`
  matchWhole(t, answer.status.conditions, [{ reason: 'Deleting', message }])
  stage.engine.faults.clear()
  stage.advance(31)
  t.equal((await stage.finalize()).finalized, true)
})

t.test('a DELETE that timed out and was applied is done', async (t) => {
  const stage = await created('Delete')
  stage.engine.faults.set('deleteCollection', {
    error: engineError(500, 'time-out'),
    applied: true,
  })
  t.equal((await stage.finalize()).finalized, true)
})

t.test('a restore that holds the cluster: the deletion waits and says so', async (t) => {
  const stage = await created('Delete')
  stage.holder = 'VecRestore ns/r'
  matchWhole(t, (await stage.finalize()).status.conditions, [
    { message: /waiting for VecRestore ns\/r/ },
  ])
  t.strictSame(stage.engine.writes, [])
})

t.test(
  'a cluster in a namespace that is not watched any more: kept, until the policy is Retain',
  async (t) => {
    const clusterRef = { name: 'a', namespace: 'elsewhere' }
    const stage = new CollectionHarness(collection({ clusterRef, deletionPolicy: 'Delete' }))
    stage.settings = { ...settings, namespaces: ['ns'] }
    const answer = await stage.finalize()
    t.notOk(answer.finalized)
    matchWhole(t, answer.status.conditions, [
      {
        message:
          'collection docs cannot be deleted yet: cluster elsewhere/a is in a namespace that this operator does not watch',
      },
    ])
    t.strictSame(stage.engine.calls, [])
    stage.applySpec({ deletionPolicy: 'Retain' })
    t.equal((await stage.finalize()).finalized, true)
  },
)

t.test('a name that became an alias is not deleted through it', async (t) => {
  const stage = await created('Delete')
  stage.engine.collections.clear()
  await stage.engine.createCollection('other', {})
  stage.engine.aliasTargets.set('docs', 'other')
  stage.engine.writes.length = 0
  t.equal((await stage.finalize()).finalized, true)
  t.strictSame(stage.engine.writes, [])
})

t.test('the running pass is aborted first, and writes nothing afterwards', async (t) => {
  const stage = new CollectionHarness(collection(), 1)
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.beforeCall = (name) => (name === 'collectionInfo' ? gate : undefined)
  t.equal((await stage.sync()).status.phase, 'Pending')
  const end = stage.finalize()
  open()
  t.equal((await end).finalized, true)
  t.strictSame(stage.engine.writes, [])
})

t.test('a deletion that takes longer continues in the background', async (t) => {
  const stage = new CollectionHarness(collection({ deletionPolicy: 'Delete' }), 1)
  await stage.engine.createCollection('docs', {})
  let open: () => void = () => undefined
  const gate = new Promise<void>((resolve) => {
    open = resolve
  })
  stage.engine.beforeCall = (name) => (name === 'deleteCollection' ? gate : undefined)
  const answer = await stage.finalize()
  t.equal(answer.resyncAfterSeconds, 2)
  matchWhole(t, answer.status.conditions, [{ message: 'collection docs is being deleted' }])
  open()
  let finalized = false
  for (let look = 0; look < 100 && !finalized; look += 1) {
    finalized = (await stage.finalize()).finalized === true
  }
  t.ok(finalized)
})

t.test('nothing is remembered of a collection that ends', async (t) => {
  const { ports, parent } = new CollectionHarness()
  const firstObserved = new Map([
    [parent.metadata.uid, 1],
    ['uid-other', 2],
  ])
  const engines = new EngineCaches(() => ports.now())
  const reconciles = new BackgroundTasks<LastReconcile>(0)
  const dependencies = {
    ports,
    engines,
    reconciles,
    deletions: new BackgroundTasks<DeletionAttempt>(0),
    firstObserved,
  }
  t.strictSame(await observeDeletion(parent, dependencies, context), {
    collection: parent,
    isDone: true,
  })
  t.strictSame([...firstObserved], [['uid-other', 2]])
})

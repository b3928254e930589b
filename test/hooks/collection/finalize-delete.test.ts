/** A collection that is deleted with its resource: looked for until it is gone. */
import t from 'tap'
import { cluster } from '../../builders.ts'
import { CollectionHarness, collection } from './stage.ts'

async function created(): Promise<CollectionHarness> {
  const stage = new CollectionHarness(collection({ deletionPolicy: 'Delete' }))
  await stage.syncUntilStable()
  stage.engine.writes.length = 0
  stage.waits.length = 0
  return stage
}

async function deletionMessage(stage: CollectionHarness) {
  const { finalized, status } = await stage.finalize()
  return { finalized, message: status.conditions?.[0]?.message }
}

t.test('a collection that does not exist is not deleted', async (t) => {
  const stage = await created()
  stage.engine.collections.clear()
  t.equal((await deletionMessage(stage)).finalized, true)
  t.strictSame(stage.engine.writes, [])
})

t.test('a collection that is gone at once is not polled again', async (t) => {
  const stage = await created()
  t.equal((await deletionMessage(stage)).finalized, true)
  t.strictSame(stage.waits, [])
})

t.test('a collection that remains after its deletion is polled, then reported', async (t) => {
  const stage = await created()
  const stored = stage.engine.collections.get('docs')
  stage.engine.beforeCall = (name) => {
    if (name === 'collectionInfo' && stored !== undefined) {
      stage.engine.collections.set('docs', stored)
    }
  }
  t.strictSame(await deletionMessage(stage), {
    finalized: undefined,
    message: 'collection docs cannot be deleted yet: collection docs still exists',
  })
  t.ok(stage.waits.length > 1)
})

t.test('after a defect the engine is asked again for the collection', async (t) => {
  const stage = await created()
  stage.engine.faults.set('collectionInfo', { error: new TypeError('a defect') })
  t.strictSame(await deletionMessage(stage), {
    finalized: undefined,
    message:
      'collection docs cannot be deleted yet: internal error: TypeError; see the log of the service',
  })
})

t.test('a collection of a hibernated cluster is deleted once the cluster runs', async (t) => {
  const stage = await created()
  stage.engine.calls.length = 0
  stage.cluster = cluster({ status: { phase: 'Hibernated' } })
  t.strictSame(await deletionMessage(stage), {
    finalized: undefined,
    message:
      'collection docs cannot be deleted yet: cluster ns/a is hibernated: no pods run until its spec.hibernate is false',
  })
  t.strictSame(stage.engine.calls, [])
  stage.cluster = cluster({ status: { phase: 'Running' } })
  t.equal((await deletionMessage(stage)).finalized, true)
})

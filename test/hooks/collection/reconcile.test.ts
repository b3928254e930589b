/** An aborted pass sends no more requests and has no result. */
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { reconcile } from '../../../hooks/collection/reconcile.ts'
import { EngineCache } from '../../../hooks/collection/engine-cache.ts'
import { CollectionHarness } from './stage.ts'

function taskOf({ engine, ports, parent }: CollectionHarness) {
  const engineCache = new EngineCache(engine, () => ports.now())
  return { collection: parent, engineCache, ports, isAllowed: () => true }
}

t.test('a pass that is aborted before it starts sends no request', async (t) => {
  const stage = new CollectionHarness()
  await t.rejects(reconcile(taskOf(stage), AbortSignal.abort()), { name: 'AbortError' })
  t.strictSame(stage.engine.calls, [])
  await reconcile(taskOf(stage), new AbortController().signal)
  t.not(stage.engine.calls.length, 0)
})

t.test('a call that is aborted with its pass is not a failure of the engine', async (t) => {
  const stage = new CollectionHarness()
  const task = taskOf(stage)
  const ended = new AbortController()
  stage.engine.beforeCall = (name) => {
    if (name !== 'collectionInfo') return
    ended.abort()
    throw new EngineError('got no answer', { cause: new Error('aborted') })
  }
  await t.rejects(reconcile(task, ended.signal), { name: 'AbortError' })
  stage.engine.beforeCall = () => undefined
  const { phase } = await reconcile(task, new AbortController().signal)
  t.equal(phase, 'Ready', 'the next pass finds it')
})

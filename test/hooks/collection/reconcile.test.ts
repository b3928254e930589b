/** A pass that is ended from outside: it asks for nothing more, and it comes to no verdict. */
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { reconcile } from '../../../hooks/collection/reconcile.ts'
import { EngineCache } from '../../../hooks/collection/engine-cache.ts'
import { CollectionHarness } from './stage.ts'

function taskOf({ engine, ports, parent }: CollectionHarness) {
  const engineCache = new EngineCache(engine, () => ports.now())
  return { collection: parent, engineCache, ports, isAllowed: () => true }
}

t.test('a pass that was ended before its turn asks the engine for nothing', async (t) => {
  const stage = new CollectionHarness()
  await t.rejects(reconcile(taskOf(stage), AbortSignal.abort()), { name: 'AbortError' })
  t.strictSame(stage.engine.calls, [])
})

t.test('a call that broke off with its pass says nothing about the engine', async (t) => {
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

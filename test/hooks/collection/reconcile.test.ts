/** A pass that is ended from outside: it asks for nothing more, and it comes to no verdict. */
import t from 'tap'
import { EngineError } from '../../../crds/errors.ts'
import { reconcile } from '../../../hooks/collection/reconcile.ts'
import { SharedEngine } from '../../../hooks/collection/shared.ts'
import { Stage } from './stage.ts'

function taskOf({ engine, ports, parent }: Stage) {
  const shared = new SharedEngine(engine, () => ports.now())
  return { collection: parent, shared, ports, isAllowed: () => true }
}

t.test('a pass that was ended before its turn asks the engine for nothing', async (t) => {
  const stage = new Stage()
  await t.rejects(reconcile(taskOf(stage), AbortSignal.abort()), { name: 'AbortError' })
  t.strictSame(stage.engine.calls, [])
})

t.test('a call that broke off with its pass says nothing about the engine', async (t) => {
  const stage = new Stage()
  const task = taskOf(stage)
  const ended = new AbortController()
  stage.engine.before = (name) => {
    if (name !== 'collectionInfo') return
    ended.abort()
    throw new EngineError('got no answer', { cause: new Error('aborted') })
  }
  await t.rejects(reconcile(task, ended.signal), { name: 'AbortError' })
  stage.engine.before = () => undefined
  const { phase } = await reconcile(task, new AbortController().signal)
  t.equal(phase, 'Ready', 'the next pass finds it')
})

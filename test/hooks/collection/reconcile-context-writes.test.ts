/** What comes before every write of a pass, and what is made of the error it ends with. */
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { guardedWrites } from '../../../hooks/collection/reconcile-context.ts'
import { engineError } from './engine-config.ts'
import { FakeEngine } from './engine.ts'

/** The writes of one pass, which is ended at one of its questions or calls. */
function stage(endedAt?: 'permitted' | 'writeHolder' | 'createCollection') {
  const engine = new FakeEngine()
  const pass = new AbortController()
  const asked: string[] = []
  const end = () => pass.abort(new Error('the reconcile was aborted'))
  const enter = (name: string) => {
    asked.push(name)
    if (name === endedAt) end()
  }
  engine.beforeCall = enter
  const writes = guardedWrites('docs', {
    ...{ engine, signal: pass.signal, cluster: { namespace: 'ns', name: 'a' } },
    checkPermission: async () => enter('permitted'),
    writeHolder: async () => {
      enter('writeHolder')
      return undefined
    },
  })
  return { engine, writes, asked, end }
}

const ended = { message: 'the reconcile was aborted' }

t.test(
  'a write is asked for first: whether it is permitted, and who holds the cluster',
  async (t) => {
    const { writes, asked } = stage()
    t.equal(await writes.create({}), undefined)
    t.strictSame(asked, ['permitted', 'writeHolder', 'createCollection'])
  },
)

t.test('a pass that was ended asks nothing more', async (t) => {
  const { writes, asked, end } = stage()
  end()
  await t.rejects(writes.create({}), ended)
  t.strictSame(asked, [])
})

for (const question of ['permitted', 'writeHolder'] as const) {
  t.test(`a pass that is ended at the question ${question} writes nothing`, async (t) => {
    const { writes, engine } = stage(question)
    await t.rejects(writes.create({}), ended)
    t.strictSame(engine.writes, [])
  })
}

t.test('an abort during a write ends the reconcile', async (t) => {
  const { writes, engine } = stage('createCollection')
  engine.faults.set('createCollection', { error: engineError(500, 'time-out') })
  await t.rejects(writes.create({}), ended)
})

for (const status of [undefined, 404, 408, 409, 500, 503]) {
  t.test(`a write that ended with ${status ?? 'no answer'} may have been applied`, async (t) => {
    const { writes, engine } = stage()
    const error = new EngineError('PUT ended', { ...(status !== undefined && { status }) })
    engine.faults.set('createCollection', { error })
    t.equal(await writes.create({}), error)
  })
}

for (const status of [400, 401, 422, 429]) {
  t.test(`a write that ended with ${status} was not applied`, async (t) => {
    const { writes, engine } = stage()
    const error = engineError(status, 'no')
    engine.faults.set('createCollection', { error })
    await t.rejects(writes.create({}), { message: error.message })
  })
}

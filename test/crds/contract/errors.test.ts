import t from 'tap'
import {
  EngineError,
  HelmError,
  KubernetesError,
  NotReady,
  Rejected,
  StorageError,
} from '../../../crds/contract/errors.ts'

t.test('each error has its literal code, the message and the cause', async (t) => {
  const cause = new Error('connection refused')
  for (const [code, error] of [
    ['NotReady', new NotReady('m', { cause })],
    ['Rejected', new Rejected('m', { cause })],
    ['EngineError', new EngineError('m', { cause })],
    ['StorageError', new StorageError('m', { cause })],
    ['KubernetesError', new KubernetesError('m', { cause })],
    ['HelmError', new HelmError('m', { cause })],
  ] as const) {
    t.ok(error instanceof Error)
    t.equal(error.code, code)
    t.equal(error.message, 'm')
    t.equal(error.cause, cause)
  }
})

t.test('an answer has a status, a call that got none has not', async (t) => {
  t.equal(new EngineError('GET /collections answered 503', { status: 503 }).status, 503)
  t.equal(new KubernetesError('GET answered 409', { status: 409 }).status, 409)
  t.equal(new EngineError('no answer').status, undefined)
  t.equal(new KubernetesError('no answer').status, undefined)
})

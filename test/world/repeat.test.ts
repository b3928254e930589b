/** Which calls through the API server's proxy the cluster's world repeats: those that the engine has not got. */
import t from 'tap'
import { mayRepeat } from '../cluster/repeat.ts'
import { ApiError } from './client.ts'

const CONNECTION = 'tcp 10.0.0.1:58908->10.0.0.109:6333'
const READ = ['POST', '/collections/docs/points/scroll'] as const
const DELETION = ['POST', '/collections/docs/points/delete?wait=true'] as const

function mayRepeatAll(why: string): boolean[] {
  const error = new ApiError(503, 'ServiceUnavailable', `error trying to reach service: ${why}`)
  return [READ, DELETION].map(([method, path]) => mayRepeat(error, method, path))
}

t.test('every call is repeated that the proxy could not write to its end', async (t) => {
  for (const why of [
    `write ${CONNECTION}: write: broken pipe`,
    `readfrom ${CONNECTION}: write ${CONNECTION}: write: connection reset by peer`,
    `readfrom ${CONNECTION}: write ${CONNECTION}: use of closed network connection`,
  ]) {
    t.strictSame(mayRepeatAll(why), [true, true], why)
  }
})

t.test('a call that the engine may have got is repeated only where that is harmless', async (t) => {
  for (const why of ['EOF', `read ${CONNECTION}: read: connection reset by peer`]) {
    t.strictSame(mayRepeatAll(why), [true, false], why)
  }
  const upsert = mayRepeat(
    new ApiError(503, '', 'error trying to reach service: EOF'),
    'PUT',
    '/collections/docs/points?wait=true',
  )
  t.equal(upsert, true)
})

t.test('an engine that does not answer, or refuses, is not asked again', async (t) => {
  for (const why of [
    'dial tcp 10.0.0.109:6333: connect: connection refused',
    'context deadline exceeded',
  ]) {
    t.strictSame(mayRepeatAll(why), [false, false], why)
  }
  t.notOk(mayRepeat(new ApiError(500, '', 'Service internal error'), ...READ))
  t.notOk(mayRepeat(new Error('write tcp a: write: broken pipe'), ...READ))
})

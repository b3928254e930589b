/** What errors of a store mean. */
import t from 'tap'
import { StorageError } from '../../../../crds/contract/errors.ts'
import { ResponseTooLarge } from '../../../../jobs/clients/http/body.ts'
import { isTransient, isUnknownHeader, toStorageError } from '../../../../jobs/clients/s3/errors.ts'

t.test('400 and 501 may be about a header; what passes, and a denial, are not', async (t) => {
  const errorOf = (status: number, reason?: string) =>
    new StorageError('x', { status, ...(reason !== undefined && { reason }) })
  t.ok(isUnknownHeader(errorOf(400)))
  t.ok(isUnknownHeader(errorOf(501)))
  for (const status of [401, 403, 404, 500, 503])
    t.notOk(isUnknownHeader(errorOf(status)), `${status}`)
  t.notOk(isUnknownHeader(errorOf(400, 'InvalidAccessKeyId')), 'a denial')
  t.notOk(isUnknownHeader(Object.assign(new TypeError('x'), { status: 400 })), 'not of the store')
})

t.test('a response above its limit names the call and the object, and is final', async (t) => {
  const call = { name: 'GetObject', bucket: 'backups', region: 'us-east-1' }
  const error = new ResponseTooLarge(1000)
  const expected = { code: 'StorageError', reason: 'ResponseTooLarge' }
  t.match(toStorageError(error, { ...call, key: 'a/manifest.json' }), {
    ...expected,
    message: 'GetObject s3://backups/a/manifest.json: the answer has more than 1000 bytes',
  })
  t.match(toStorageError(error, call), {
    ...expected,
    message: 'GetObject s3://backups: the answer has more than 1000 bytes',
  })
})

t.test('an error about a certificate is final, others without an answer may pass', async (t) => {
  const call = { name: 'GetObject', bucket: 'backups', region: 'us-east-1' }
  const errorOf = (code: string) =>
    toStorageError(Object.assign(new Error('failed'), { code }), call)
  for (const code of ['CERT_HAS_EXPIRED', 'ERR_TLS_CERT_ALTNAME_INVALID']) {
    t.notOk(isTransient(errorOf(code)), code)
    t.notMatch(errorOf(code).message, /trust its authority/, `${code}: its authority is trusted`)
  }
  for (const code of [
    ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN'],
    ...['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY'],
  ]) {
    t.notOk(isTransient(errorOf(code)), code)
    t.match(errorOf(code).message, /got no answer: failed \(trust its authority by /)
  }
  const wrapped = new Error('failed', { cause: { code: 'CERT_HAS_EXPIRED' } })
  t.notOk(isTransient(toStorageError(wrapped, call)))
  for (const code of ['ECONNREFUSED', 'ETIMEDOUT', 'ERR_SSL_WRONG_VERSION_NUMBER']) {
    t.ok(isTransient(errorOf(code)), code)
  }
})

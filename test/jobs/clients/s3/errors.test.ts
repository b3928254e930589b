/** What errors of a store mean. */
import t from 'tap'
import { StorageError } from '../../../../crds/contract/errors.ts'
import { ResponseTooLarge } from '../../../../jobs/clients/http/body.ts'
import {
  isForbidden,
  isTransient,
  isTransientCode,
  isUnknownHeader,
  simplifyMessage,
  toStorageError,
} from '../../../../jobs/clients/s3/errors.ts'

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

const CALL = { name: 'PUT', bucket: 'backups', region: 'eu-1', key: 'k' }

/** An error as the SDK throws it: its request has the credentials. */
function storeError(status: number, name: string, fields: object = {}): StorageError {
  const error = Object.assign(new Error('no'), {
    ...{ name, $metadata: { httpStatusCode: status }, $request: { secret: 'hidden' } },
    ...fields,
  })
  return toStorageError(error, CALL)
}

const CHECK = ' (check the credentials, the bucket policy, endpoint and forcePathStyle)'

for (const [status, code, mayPass, hint] of [
  [403, 'AccessDenied', false, CHECK],
  [401, 'Unauthorized', false, CHECK],
  [404, 'InvalidAccessKeyId', false, CHECK],
  [400, 'ExpiredToken', false, CHECK],
  [404, 'NoSuchBucket', false, ' (there is no bucket backups at this endpoint)'],
  [507, 'InsufficientStorage', false, ' (the store is full)'],
  [500, 'XMinioStorageFull', false, ' (the store is full)'],
  [400, 'QuotaExceeded', false, ' (the store is full)'],
  [501, 'NotImplemented', false, ''],
  [400, 'InvalidArgument', false, ''],
  [412, 'PreconditionFailed', false, ''],
  [500, 'InternalError', true, ''],
  [503, 'SlowDown', true, ''],
  [400, 'RequestTimeout', true, ''],
  [400, 'BadDigest', true, ''],
  [408, 'Timeout', true, ''],
  [429, 'TooManyRequests', true, ''],
] as const) {
  t.test(`${status} ${code} ${mayPass ? 'may pass' : 'is final'}${hint}`, async (t) => {
    const error = storeError(status, code)
    t.equal(isTransient(error), mayPass)
    t.equal(isForbidden(error), hint === CHECK)
    t.strictSame([error.status, error.reason], [status, code])
    t.equal(error.message, `PUT s3://backups/k answered ${status} ${code}: no${hint}`)
    t.notMatch(JSON.stringify(error.cause), /hidden/)
  })
}

t.test('a bucket in another region is an error that names both', async (t) => {
  const hint = ' (the bucket is in region us-2, not in eu-1)'
  const byHeader = { $response: { headers: { 'x-amz-bucket-region': 'us-2' } } }
  t.match(storeError(301, 'PermanentRedirect', byHeader).message, hint)
  t.match(storeError(400, 'AuthorizationHeaderMalformed', { Region: 'us-2' }).message, hint)
  t.equal(
    storeError(400, 'Malformed', { Region: 'eu-1' }).message,
    'PUT s3://backups/k answered 400 Malformed: no',
  )
})

t.test('an error without words has its code, and long words are truncated', async (t) => {
  const message = (text: string) => storeError(409, 'Conflict', { message: text }).message
  const start = 'PUT s3://backups/k answered 409 Conflict'
  t.equal(message(''), start)
  t.equal(message('Conflict'), start)
  t.equal(message('x'.repeat(1000)), `${start}: ${'x'.repeat(512)}`)
  const lost = (text: string) => toStorageError(new TypeError(text), CALL)
  t.equal(lost('').message, 'PUT s3://backups/k got no answer: TypeError')
  t.equal(lost('x'.repeat(1000)).message, `PUT s3://backups/k got no answer: ${'x'.repeat(512)}`)
  t.ok(isTransient(lost('')))
})

t.test('an error that was converted before is unchanged', async (t) => {
  const error = new StorageError('x', { status: 404, reason: 'NoSuchKey' })
  t.equal(toStorageError(error, CALL), error)
})

t.test('words of the SDK say what the store did', async (t) => {
  t.equal(
    simplifyMessage('socket timed out after 60000 ms of inactivity'),
    'the store was silent for 60 s',
  )
  const connect = 'socket did not establish a connection with the server within the configured'
  t.equal(simplifyMessage(`${connect} timeout of 10000 ms.`), 'no connection within 10 s')
  t.equal(
    simplifyMessage('self-signed certificate; if the root CA is installed locally, try x'),
    'self-signed certificate',
  )
  t.equal(simplifyMessage('other'), 'other')
})

t.test('the deletion of one object may pass later, by its code', async (t) => {
  for (const code of ['InternalError', 'ServiceUnavailable', 'Throttling', 'SlowDown'])
    t.ok(isTransientCode(code), code)
  for (const code of ['AccessDenied', 'NoSuchKey', undefined])
    t.notOk(isTransientCode(code), `${code}`)
})

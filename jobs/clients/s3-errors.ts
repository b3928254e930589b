/** What a store's refusals mean: words for people, and whether to try again. */
import { StorageError } from '../../crds/errors.ts'
import { AnswerTooLong } from './byte-limit.ts'
import { wordsOf } from './call.ts'

/** Which call failed, on what; the message is made from it. */
export interface S3Call {
  name: string
  bucket: string
  region: string
  key?: string | undefined
}

interface Refusal {
  name: string
  message: string
  status: number | undefined
  /** Region the store says the bucket is in. */
  region: string | undefined
}

/** Refused for now, or garbled on the way. */
const TRANSIENT = new Set([
  'SlowDown',
  'RequestTimeout',
  'RequestTimeTooSkewed',
  'BadDigest',
  'XAmzContentSHA256Mismatch',
  'IncompleteBody',
])
const FULL = new Set(['XMinioStorageFull', 'InsufficientStorage', 'QuotaExceeded'])
/** Refused credentials that come without a 401 or 403: an access key as 404, a session token as 400. */
const REFUSED_CREDENTIALS = new Set([
  'InvalidAccessKeyId',
  'XAdminUserNotFound',
  'NoSuchUser',
  'ExpiredToken',
  'InvalidToken',
  'TokenRefreshRequired',
])
const MAX_MESSAGE = 512
/** The store answers more than is read: it will do so again. */
const TOO_LONG = 'AnswerTooLong'
/** The address is one that is not called from here. */
const REFUSED = 'AddressRefused'
const FINAL = new Set(['MissingCredentials', TOO_LONG, REFUSED])

/** The error as one of ours: with bucket, key and cause, and without anything secret. */
export function storageError(error: unknown, call: S3Call): StorageError {
  if (error instanceof StorageError && error.reason !== REFUSED) return error
  const where = `s3://${call.bucket}${call.key === undefined ? '' : `/${call.key}`}`
  const denied = addressRefusalIn(error)
  if (denied !== undefined) {
    return new StorageError(`${call.name} ${where}: ${denied.message}`, { reason: REFUSED })
  }
  if (error instanceof AnswerTooLong) {
    return new StorageError(`${call.name} ${where}: ${error.message}`, { reason: TOO_LONG })
  }
  const refusal = refusalIn(error)
  if (refusal.status === undefined) {
    const words =
      plainWords(wordsOf(error).slice(0, 4 * MAX_MESSAGE)).slice(0, MAX_MESSAGE) || refusal.name
    return new StorageError(`${call.name} ${where} got no answer: ${words}${trustHint(error)}`, {
      cause: new Error(words),
    })
  }
  const { name, status } = refusal
  const message = refusal.message.slice(0, MAX_MESSAGE)
  const words = name === message || message === '' ? name : `${name}: ${message}`
  return new StorageError(
    `${call.name} ${where} answered ${status} ${words}${hint(refusal, call)}`,
    {
      status,
      reason: name,
      // The SDK's own error carries the request, and that the credentials.
      cause: new Error(words),
    },
  )
}

/** Our own refusal, as it comes back through the SDK: itself, or one of several attempts to connect. */
function addressRefusalIn(error: unknown): Error | undefined {
  const errors = error instanceof AggregateError ? (error.errors as unknown[]) : [error]
  return errors.find(
    (one): one is StorageError => one instanceof StorageError && one.reason === REFUSED,
  )
}

/** SDK and Node speak of their own parts where people want to know of the store. */
function plainWords(words: string): string {
  const silent = /socket timed out after (\d+) ms of inactivity/.exec(words)
  if (silent !== null) return `the store was silent for ${Number(silent[1]) / 1000} s`
  const lost = /did not establish a connection .* timeout of (\d+) ms/.exec(words)
  if (lost !== null) return `no connection within ${Number(lost[1]) / 1000} s`
  return words.replace(/; if the root CA is installed locally.*/, '')
}

/** Whether the same call may well succeed a little later. */
export function isTransient({ status, reason = '' }: StorageError): boolean {
  if (FINAL.has(reason)) return false
  if (status === undefined || status === 429 || status === 408) return true
  if (isFull({ status, reason })) return false
  return (status >= 500 && status !== 501) || TRANSIENT.has(reason)
}

/** Whether the store does not know us, or does not let us. */
export function isForbidden({
  status,
  reason = '',
}: Pick<StorageError, 'status' | 'reason'>): boolean {
  return status === 401 || status === 403 || REFUSED_CREDENTIALS.has(reason)
}

/** What stores answer to a header that they do not know, and to some other things. */
export function isUnknownHeader(error: unknown): boolean {
  if (!(error instanceof StorageError) || isTransient(error) || isForbidden(error)) return false
  return error.status === 400 || error.status === 501
}

function isFull({ status, reason }: { status: number | undefined; reason: string }): boolean {
  return status === 507 || FULL.has(reason)
}

function hint(refusal: Refusal, { bucket, region }: S3Call): string {
  const { name, status, region: actual } = refusal
  if (name === 'NoSuchBucket') return ` (there is no bucket ${bucket} at this endpoint)`
  if (actual !== undefined && actual !== region) {
    return ` (the bucket is in region ${actual}, not in ${region})`
  }
  if (isFull({ status, reason: name })) return ' (the store is full)'
  if (isForbidden({ status, reason: name })) {
    return ' (check the credentials, the bucket policy, endpoint and forcePathStyle)'
  }
  return ''
}

/** Node's codes of what is wrong with a chain of certificates. */
const UNTRUSTED = /SELF_SIGNED_CERT|UNABLE_TO_(VERIFY|GET_ISSUER)/

function trustHint(error: unknown): string {
  const { code } = Object(error) as { code?: unknown }
  const isUntrusted = typeof code === 'string' && UNTRUSTED.test(code)
  return isUntrusted ? ' (trust its authority by the key ca.crt of the Secret)' : ''
}

function refusalIn(error: unknown): Refusal {
  const { name, message, $metadata, $response, Region } = Object(error) as Partial<{
    name: string
    message: string
    $metadata: { httpStatusCode?: number }
    $response: { headers?: Record<string, string> }
    Region: string
  }>
  return {
    name: name ?? 'Error',
    message: message ?? '',
    status: $metadata?.httpStatusCode,
    region: Region ?? $response?.headers?.['x-amz-bucket-region'],
  }
}

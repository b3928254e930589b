/** Classifies the errors of a store: readable messages, and whether to retry. */
import { StorageError } from '../../../crds/contract/errors.ts'
import { ResponseTooLarge } from '../http/body.ts'
import { certificateError, errorMessage } from '../http/request.ts'

/** The failed call and its target; the message is built from them. */
export interface S3Call {
  name: string
  bucket: string
  region: string
  key?: string | undefined
}

interface StoreError {
  name: string
  message: string
  status: number | undefined
  /** The region of the bucket as reported by the store. */
  region: string | undefined
}

/**
 * The clocks differ by more than a quarter of an hour. The SDK takes the time of the store from each answer, so that the
 * next attempt has the right one.
 */
const WRONG_TIME = 'RequestTimeTooSkewed'
/** Temporarily rejected, or corrupted in transit. */
const TRANSIENT = new Set([
  'SlowDown',
  'RequestTimeout',
  WRONG_TIME,
  'BadDigest',
  'XAmzContentSHA256Mismatch',
  'IncompleteBody',
])
const STORAGE_FULL = new Set(['XMinioStorageFull', 'InsufficientStorage', 'QuotaExceeded'])
/** Rejected credentials without a 401 or 403: an access key as 404, a session token as 400. */
const REFUSED_CREDENTIALS = new Set([
  'InvalidAccessKeyId',
  'XAdminUserNotFound',
  'NoSuchUser',
  'ExpiredToken',
  'InvalidToken',
  'TokenRefreshRequired',
])
const MAX_MESSAGE = 512
/** The response exceeds the read limit; a retry would return the same. */
const RESPONSE_TOO_LARGE = 'ResponseTooLarge'
/** The address must not be called from here. */
const ADDRESS_REFUSED = 'AddressRefused'
/** The cloud gives the ServiceAccount of the Job no credentials. */
export const IDENTITY_REFUSED = 'IdentityRefused'
/** The certificate of the store, or of the token service, is rejected. */
export const CERTIFICATE_REFUSED = 'CertificateRefused'
const PERMANENT = new Set([
  ...['MissingCredentials', IDENTITY_REFUSED, CERTIFICATE_REFUSED],
  ...[RESPONSE_TOO_LARGE, ADDRESS_REFUSED],
])

/** Converts an error to a StorageError with bucket, key and cause, and without secrets. */
export function toStorageError(error: unknown, call: S3Call): StorageError {
  if (error instanceof StorageError && error.reason !== ADDRESS_REFUSED) return error
  const location = `s3://${call.bucket}${call.key === undefined ? '' : `/${call.key}`}`
  const addressFailure = findAddressFailure(error)
  if (addressFailure !== undefined) {
    return new StorageError(`${call.name} ${location}: ${addressFailure.message}`, {
      reason: ADDRESS_REFUSED,
    })
  }
  if (error instanceof ResponseTooLarge) {
    return new StorageError(`${call.name} ${location}: ${error.message}`, {
      reason: RESPONSE_TOO_LARGE,
    })
  }
  const storeError = parseStoreError(error)
  if (storeError.status === undefined) {
    const text =
      simplifyMessage(errorMessage(error).slice(0, 4 * MAX_MESSAGE)).slice(0, MAX_MESSAGE) ||
      storeError.name
    return new StorageError(
      `${call.name} ${location} got no answer: ${text}${certificateHint(error)}`,
      { ...certificateReason(error), cause: new Error(text) },
    )
  }
  const { name, status } = storeError
  const message = storeError.message.slice(0, MAX_MESSAGE)
  const text = name === message || message === '' ? name : `${name}: ${message}`
  return new StorageError(
    `${call.name} ${location} answered ${status} ${text}${hint(storeError, call)}`,
    {
      status,
      reason: name,
      // The SDK's own error contains the request, which contains the credentials.
      cause: new Error(text),
    },
  )
}

/**
 * The refusal of the address guard as returned by the SDK: the error itself, or one of several
 * connection attempts.
 */
function findAddressFailure(error: unknown): Error | undefined {
  const errors = error instanceof AggregateError ? (error.errors as unknown[]) : [error]
  return errors.find(
    (candidate): candidate is StorageError =>
      candidate instanceof StorageError && candidate.reason === ADDRESS_REFUSED,
  )
}

/** Replaces internals of the SDK and Node by the state of the store. */
export function simplifyMessage(text: string): string {
  const idle = /socket timed out after (\d+) ms of inactivity/.exec(text)
  if (idle !== null) return `the store was silent for ${Number(idle[1]) / 1000} s`
  const connectTimeout = /did not establish a connection .{0,100} timeout of (\d+) ms/.exec(text)
  if (connectTimeout !== null) return `no connection within ${Number(connectTimeout[1]) / 1000} s`
  return text.replace(/; if the root CA is installed locally.*/, '')
}

/** Whether the same call may succeed a little later. */
export function isTransient({ status, reason = '' }: StorageError): boolean {
  if (PERMANENT.has(reason)) return false
  if (status === undefined || status === 429 || status === 408) return true
  if (isStorageFull({ status, reason })) return false
  return (status >= 500 && status !== 501) || TRANSIENT.has(reason)
}

/** Codes that a deletion reports for single objects, without a status. */
const TRANSIENT_OBJECT_CODES = new Set([
  ...TRANSIENT,
  'InternalError',
  'ServiceUnavailable',
  'Throttling',
])

/** Whether the deletion of one object of a batch may succeed a little later. */
export function isTransientCode(code: string | undefined): boolean {
  return code !== undefined && TRANSIENT_OBJECT_CODES.has(code)
}

/** Whether the store rejects the credentials or denies access. */
export function isForbidden({
  status,
  reason = '',
}: Pick<StorageError, 'status' | 'reason'>): boolean {
  if (reason === WRONG_TIME) return false
  return status === 401 || status === 403 || REFUSED_CREDENTIALS.has(reason)
}

/**
 * Whether the SDK has found with this answer that the clocks differ: the time of the call may be all that the store
 * rejects. An answer to HEAD has no code that says so.
 */
export function isClockCorrected(error: unknown): boolean {
  const { $metadata } = Object(error) as Partial<{ $metadata: { clockSkewCorrected?: boolean } }>
  return $metadata?.clockSkewCorrected === true
}

/** How stores respond to an unknown header, and to some other problems. */
export function isUnknownHeader(error: unknown): boolean {
  if (!(error instanceof StorageError) || isTransient(error) || isForbidden(error)) return false
  return error.status === 400 || error.status === 501
}

function isStorageFull({
  status,
  reason,
}: {
  status: number | undefined
  reason: string
}): boolean {
  return status === 507 || STORAGE_FULL.has(reason)
}

function hint(storeError: StoreError, { bucket, region }: S3Call): string {
  const { name, status, region: actual } = storeError
  if (name === 'NoSuchBucket') return ` (there is no bucket ${bucket} at this endpoint)`
  if (actual !== undefined && actual !== region) {
    return ` (the bucket is in region ${actual}, not in ${region})`
  }
  if (isStorageFull({ status, reason: name })) return ' (the store is full)'
  if (name === WRONG_TIME)
    return ' (compare the clock of the Kubernetes node with that of the store)'
  if (isForbidden({ status, reason: name })) {
    return ' (check the credentials, the bucket policy, endpoint and forcePathStyle)'
  }
  return ''
}

/** The reason of an error about a certificate; nothing for any other error. */
export function certificateReason(error: unknown): { reason?: string } {
  return certificateError(error) === undefined ? {} : { reason: CERTIFICATE_REFUSED }
}

/** The codes for an authority that is not trusted. */
const UNTRUSTED_AUTHORITY = /SELF_SIGNED_CERT|UNABLE_TO_(VERIFY|GET_ISSUER)/

export function certificateHint(error: unknown): string {
  return UNTRUSTED_AUTHORITY.test(certificateError(error) ?? '')
    ? ' (trust its authority by caSecretRef or caConfigMapRef of the bucket, or the key ca.crt of its Secret)'
    : ''
}

function parseStoreError(error: unknown): StoreError {
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

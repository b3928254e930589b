/** The closed set of errors. Any other thrown error is a bug. */

/** A dependency is missing or not ready yet: a hook requeues, a Job retries. */
export class NotReady extends Error {
  readonly code = 'NotReady'
}

/** The input is invalid and cannot work unchanged: phase Failed, or a condition, with this message. */
export class Rejected extends Error {
  readonly code = 'Rejected'
}

/** The engine refused a call, was unreachable or returned an unexpected response. */
export class EngineError extends Error {
  readonly code = 'EngineError'
  /** HTTP status; absent without a response. */
  readonly status: number | undefined
  /** Retry-After of the response, unmodified: callers that honor it set bounds. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    message: string,
    options: ErrorOptions & {
      status?: number | undefined
      retryAfterSeconds?: number | undefined
    } = {},
  ) {
    super(message, options)
    this.status = options.status
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

/** The status code, if it says that the API key was refused. */
export function keyRejection({ status }: EngineError): number | undefined {
  return status === 401 || status === 403 ? status : undefined
}

/** The bucket refused a call or was unreachable. */
export class StorageError extends Error {
  readonly code = 'StorageError'
  /** HTTP status; absent without a response. */
  readonly status: number | undefined
  /** The error code of the store, such as AccessDenied or NoSuchBucket. */
  readonly reason: string | undefined

  constructor(message: string, options: ErrorOptions & { status?: number; reason?: string } = {}) {
    super(message, options)
    this.status = options.status
    this.reason = options.reason
  }
}

/** The Kubernetes API refused a call or was unreachable. */
export class KubernetesError extends Error {
  readonly code = 'KubernetesError'
  /** HTTP status; absent without a response. */
  readonly status: number | undefined

  constructor(message: string, options: ErrorOptions & { status?: number } = {}) {
    super(message, options)
    this.status = options.status
  }
}

/** The namespace exists and has rejected every list for a long time: what is in it is unknown. */
export class UnreadableNamespace extends KubernetesError {
  readonly namespace: string

  constructor(namespace = '', cause?: unknown) {
    super(`namespace ${namespace} cannot be read`, { cause, status: 403 })
    this.namespace = namespace
  }
}

/** A helm command failed; the message is the output of helm. */
export class HelmError extends Error {
  readonly code = 'HelmError'
}

/** The closed set of errors. Anything else that is thrown is a defect. */

/** A dependency is missing or not ready yet: a hook answers with waiting, a Job tries again. */
export class NotReady extends Error {
  readonly code = 'NotReady'
}

/** The input can never work as it is: phase Failed, or a condition, with this message. */
export class Rejected extends Error {
  readonly code = 'Rejected'
}

/** The engine refused a call, could not be reached or answered something else. */
export class EngineError extends Error {
  readonly code = 'EngineError'
  /** HTTP status, absent when no answer came. */
  readonly status: number | undefined
  /** What the answer asked for in Retry-After; as it came, so who heeds it sets bounds. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    message: string,
    options: ErrorOptions & { status?: number; retryAfterSeconds?: number | undefined } = {},
  ) {
    super(message, options)
    this.status = options.status
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

/** The bucket refused a call or could not be reached. */
export class StorageError extends Error {
  readonly code = 'StorageError'
  /** HTTP status, absent when no answer came. */
  readonly status: number | undefined
  /** The store's own word, such as AccessDenied or NoSuchBucket. */
  readonly reason: string | undefined

  constructor(message: string, options: ErrorOptions & { status?: number; reason?: string } = {}) {
    super(message, options)
    this.status = options.status
    this.reason = options.reason
  }
}

/** The Kubernetes API refused a call or could not be reached. */
export class KubernetesError extends Error {
  readonly code = 'KubernetesError'
  /** HTTP status, absent when no answer came. */
  readonly status: number | undefined

  constructor(message: string, options: ErrorOptions & { status?: number } = {}) {
    super(message, options)
    this.status = options.status
  }
}

/** A helm command ended with an error; the message is what helm printed. */
export class HelmError extends Error {
  readonly code = 'HelmError'
}

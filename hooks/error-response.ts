/** Maps the error of a failed hook call to an HTTP response, and identifies the caller. */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { FastifyError, FastifyRequest } from 'fastify'
import { KubernetesError } from '../crds/contract/errors.ts'
import { RESOURCES } from '../crds/crd.ts'
import { isDefect, type Caller } from './decision-log.ts'
import { RetryLater } from './protocol.ts'

/** Delay after the API server throttles us. */
const BUSY_RETRY_SECONDS = 10
const MAX_REASON = 300

export interface ErrorResponse {
  code: number
  /** For the log. */
  reason: string
  /**
   * For Metacontroller, which copies it into its log and into an Event on the parent: one short
   * line.
   */
  publicMessage: string
  retryAfterSeconds?: number
}

export function errorResponse(error: FastifyError): ErrorResponse {
  const { code, reason, ...rest } = responseTo(error)
  return { code, reason, publicMessage: isDefect(error) ? redactedMessage(error) : reason, ...rest }
}

/** The caller, if its body may not have been validated; undefined for an unknown route. */
export function failedCaller({ is404, routeOptions, body }: FastifyRequest): Caller | undefined {
  if (is404) return undefined
  const [, plural = '', hook = ''] = (routeOptions.url ?? '').split('/')
  const kind = RESOURCES.find((resource) => resource.plural === plural)?.kind
  if (kind === undefined) return undefined
  if (!Value.Check(BodyWithParent, body)) return { kind, hook }
  const { namespace, name, uid } = body.parent.metadata
  return { kind, hook, namespace, name, uid }
}

function responseTo(error: FastifyError): Omit<ErrorResponse, 'publicMessage'> {
  if (error instanceof RetryLater) {
    return { code: 429, reason: error.message, retryAfterSeconds: error.seconds }
  }
  // The API server throttles us (429). Return 429 as well: Metacontroller does not turn a 429 into
  // an error or an Event.
  if (error instanceof KubernetesError && error.status === 429) {
    return {
      code: 429,
      reason: 'the Kubernetes API is too busy',
      retryAfterSeconds: BUSY_RETRY_SECONDS,
    }
  }
  if (error.validation !== undefined) {
    const [first] = error.validation
    const path = `${error.validationContext ?? 'body'}${first?.instancePath ?? ''}`
    return { code: 400, reason: `${path}: ${first?.message ?? 'is not valid'}` }
  }
  const code = error instanceof KubernetesError ? 503 : (error.statusCode ?? 500)
  return { code, reason: error.message.slice(0, MAX_REASON) }
}

/**
 * Reports of a defect only that it happened: its message may contain anything, secrets included.
 */
function redactedMessage({ name }: Error): string {
  return `internal error: ${name}; see the log of the service`
}

const ShortString = Type.String({ maxLength: 253 })
const BodyWithParent = Type.Object({
  parent: Type.Object({
    metadata: Type.Object({ namespace: ShortString, name: ShortString, uid: ShortString }),
  }),
})

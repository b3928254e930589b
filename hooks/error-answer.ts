/** What a hook call that failed is answered, and whose call it was. */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { FastifyError, FastifyRequest } from 'fastify'
import { KubernetesError } from '../crds/errors.ts'
import { RESOURCES } from '../crds/resources.ts'
import { isDefect, type Caller } from './decision-log.ts'
import { TryLater } from './protocol.ts'

/** An API server that is too busy for us is given this much time. */
const BUSY_SECONDS = 10
const MAX_REASON = 300

export interface ErrorAnswer {
  code: number
  /** For the log. */
  reason: string
  /** For Metacontroller, which copies it into its log and into an Event on the parent: one short line. */
  shown: string
  afterSeconds?: number
}

export function errorAnswer(error: FastifyError): ErrorAnswer {
  const { code, reason, ...rest } = answerTo(error)
  return { code, reason, shown: isDefect(error) ? withoutDetails(error) : reason, ...rest }
}

/** Of a call whose body may not have been checked; undefined for a route that is not ours. */
export function failedCaller({ is404, routeOptions, body }: FastifyRequest): Caller | undefined {
  if (is404) return undefined
  const [, plural = '', hook = ''] = (routeOptions.url ?? '').split('/')
  const kind = RESOURCES.find((resource) => resource.plural === plural)?.kind
  if (kind === undefined) return undefined
  if (!Value.Check(WithParent, body)) return { kind, hook }
  const { namespace, name, uid } = body.parent.metadata
  return { kind, hook, namespace, name, uid }
}

function answerTo(error: FastifyError): Omit<ErrorAnswer, 'shown'> {
  if (error instanceof TryLater) {
    return { code: 429, reason: error.message, afterSeconds: error.seconds }
  }
  // The API server asks for patience. So do we: of a 429 Metacontroller makes no error and no Event.
  if (error instanceof KubernetesError && error.status === 429) {
    return { code: 429, reason: 'the Kubernetes API is too busy', afterSeconds: BUSY_SECONDS }
  }
  if (error.validation !== undefined) {
    const [first] = error.validation
    const path = `${error.validationContext ?? 'body'}${first?.instancePath ?? ''}`
    return { code: 400, reason: `${path}: ${first?.message ?? 'is not valid'}` }
  }
  const code = error instanceof KubernetesError ? 503 : (error.statusCode ?? 500)
  return { code, reason: error.message.slice(0, MAX_REASON) }
}

/** Nothing of a defect but that it happened: its message may hold anything. */
function withoutDetails({ name }: Error): string {
  return `internal error: ${name}; the log of the service has it`
}

const Word = Type.String({ maxLength: 253 })
const WithParent = Type.Object({
  parent: Type.Object({ metadata: Type.Object({ namespace: Word, name: Word, uid: Word }) }),
})

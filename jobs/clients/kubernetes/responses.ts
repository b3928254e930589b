/** Responses of the Kubernetes API: lists, errors, and objects that are validated on arrival. */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { firstSchemaError, type HttpResponse } from '../http/request.ts'

export const ObjectList = Type.Object({
  kind: Type.String(),
  metadata: Type.Optional(Type.Object({ continue: Type.Optional(Type.String()) })),
  items: Type.Union([Type.Array(Type.Object({})), Type.Null()]),
})
export type ObjectList = Static<typeof ObjectList>

const ApiStatus = Type.Object({ message: Type.String() })
/** Limit for an error message of the API: admission names every field. */
const MAX_MESSAGE = 2048

/** The text of a successful response. */
export function requireSuccess({ status, text }: HttpResponse, call: string): string {
  if (status < 400) return text
  throw new KubernetesError(`${call} answered ${status}: ${extractMessage(text)}`, { status })
}

function extractMessage(text: string): string {
  try {
    const body: unknown = JSON.parse(text)
    return (Value.Check(ApiStatus, body) ? body.message : text).slice(0, MAX_MESSAGE)
  } catch {
    return text.slice(0, MAX_MESSAGE)
  }
}

/** Throws a `KubernetesError` that names the field that violates the schema. */
export function parseResponse<Schema extends TSchema>(
  schema: Schema,
  text: string,
  call: string,
): Static<Schema> {
  const object = parseJson(text, call)
  validate(schema, object, call)
  return object
}

function parseJson(text: string, call: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Without the text: it may contain a Secret.
    throw new KubernetesError(`${call} answered something that is not JSON`)
  }
}

/** Names the field, never its value, which may belong to a Secret. */
export function validate(schema: TSchema, object: unknown, call: string): void {
  const schemaError = firstSchemaError(schema, object)
  if (schemaError !== undefined) {
    throw new KubernetesError(
      `${call} answered without a valid ${schemaError.path}: ${schemaError.message}`,
    )
  }
}

/** What the Kubernetes API answers: lists, refusals, and objects that are checked where they arrive. */
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KubernetesError } from '../../crds/errors.ts'
import { flawIn } from './checked.ts'
import type { Answer } from './whole-answer.ts'

export const List = Type.Object({
  kind: Type.String(),
  metadata: Type.Optional(Type.Object({ continue: Type.Optional(Type.String()) })),
  items: Type.Union([Type.Array(Type.Object({})), Type.Null()]),
})
export type List = Static<typeof List>

const Refusal = Type.Object({ message: Type.String() })
/** Of what the API says of a refusal: admission names every field. */
const MAX_MESSAGE = 2048

/** The text of an answer that is no refusal. */
export function succeeded({ status, text }: Answer, call: string): string {
  if (status < 400) return text
  throw new KubernetesError(`${call} answered ${status}: ${refusalOf(text)}`, { status })
}

function refusalOf(text: string): string {
  try {
    const refusal: unknown = JSON.parse(text)
    return (Value.Check(Refusal, refusal) ? refusal.message : text).slice(0, MAX_MESSAGE)
  } catch {
    return text.slice(0, MAX_MESSAGE)
  }
}

/** Throws a `KubernetesError` that names the field which is not as the schema says. */
export function checked<Schema extends TSchema>(
  schema: Schema,
  text: string,
  call: string,
): Static<Schema> {
  const object = parsed(text, call)
  check(schema, object, call)
  return object
}

function parsed(text: string, call: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Without the text: it may be a Secret's.
    throw new KubernetesError(`${call} answered something that is not JSON`)
  }
}

/** Names the field, never its value: it may be a Secret's. */
export function check(schema: TSchema, object: unknown, call: string): void {
  const flaw = flawIn(schema, object)
  if (flaw !== undefined) {
    throw new KubernetesError(`${call} answered without a valid ${flaw.path}: ${flaw.message}`)
  }
}

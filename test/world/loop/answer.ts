/** Reads the answer of a hook as strictly as Metacontroller does, and names its errors. */
import { Type, type Static, type TObject } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { RelatedRule } from './customize.ts'
import { LabelSelector } from './composite.ts'
import { isRecord } from './object.ts'

/** Absent and null are the same to the decoder. */
function optional<Schema extends Parameters<typeof Type.Optional>[0]>(schema: Schema) {
  return Type.Optional(Type.Union([Type.Null(), schema]))
}

const Child = Type.Object({
  apiVersion: Type.Optional(Type.String()),
  kind: Type.String({ minLength: 1 }),
  metadata: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
})

/** An object of any kind inside the answer may have any fields; only the answer itself is closed. */
export const SyncAnswer = Type.Object({
  status: optional(Type.Record(Type.String(), Type.Unknown())),
  children: optional(Type.Array(Type.Union([Type.Null(), Child]))),
  resyncAfterSeconds: optional(Type.Number()),
  finalized: optional(Type.Boolean()),
})
export type SyncAnswer = Static<typeof SyncAnswer>

const Rule = Type.Object({
  apiVersion: Type.String(),
  resource: Type.String(),
  namespace: optional(Type.String()),
  names: optional(Type.Array(Type.String())),
  labelSelector: optional(LabelSelector),
  namespaceSelector: optional(LabelSelector),
})

export const CustomizeAnswer = Type.Object({
  relatedResources: optional(Type.Array(Rule)),
})
export type CustomizeAnswer = Static<typeof CustomizeAnswer>

/** Parts of an answer that are objects of others: their fields are not checked twice. */
const OPAQUE = /^\/children\/\d+/

/** Checks the text against the schema; in strict mode no field may be unknown or written twice. */
export function readAnswer<Schema extends TObject>(
  text: string,
  schema: Schema,
  strict: boolean,
): Static<Schema> {
  const answer: unknown = JSON.parse(text) ?? {}
  if (!Value.Check(schema, answer)) {
    const error = Value.Errors(schema, answer).First()
    throw new Error(`can't unmarshal webhookResponse: ${error?.path ?? ''} ${error?.message ?? ''}`)
  }
  const faults = strict ? [...unknownFields(answer, schema), ...repeatedFields(text)] : []
  if (faults.length > 0) {
    throw new Error(`strict validation failed for webhookResponse: ${faults.join(', ')}`)
  }
  return answer
}

export function rulesOf(answer: CustomizeAnswer): RelatedRule[] {
  return (answer.relatedResources ?? []).map((rule) => ({
    apiVersion: rule.apiVersion,
    resource: rule.resource,
    namespace: rule.namespace ?? '',
    names: rule.names ?? [],
    ...(rule.labelSelector && { labelSelector: rule.labelSelector }),
    ...(rule.namespaceSelector && { namespaceSelector: rule.namespaceSelector }),
  }))
}

function unknownFields(answer: unknown, schema: TObject): string[] {
  const rules = isRecord(answer) ? answer['relatedResources'] : undefined
  return [
    ...unknownIn(answer, schema, ''),
    ...(Array.isArray(rules)
      ? rules.flatMap((rule, index) => unknownIn(rule, Rule, `relatedResources[${index}].`))
      : []),
  ]
}

function unknownIn(value: unknown, schema: TObject, path: string): string[] {
  return Object.keys(isRecord(value) ? value : {})
    .filter((field) => !(field in schema.properties))
    .map((field) => `unknown field "${path}${field}"`)
}

/** Names every field that occurs twice in its object. The text is known to be JSON. */
function repeatedFields(text: string): string[] {
  const found: string[] = []
  const open: { fields: Set<string> | undefined; path: string; index: number }[] = []
  let field = ''
  for (const [token] of text.matchAll(TOKEN)) {
    const inside = open.at(-1)
    if (token === '{' || token === '[') {
      const step = inside === undefined ? '' : `/${inside.fields ? field : inside.index}`
      const fields = token === '{' ? new Set<string>() : undefined
      open.push({ fields, path: (inside?.path ?? '') + step, index: 0 })
    } else if (token === '}' || token === ']') {
      open.pop()
    } else if (token === ',') {
      if (inside !== undefined) inside.index += 1
    } else if (inside?.fields !== undefined && token.endsWith(':')) {
      field = JSON.parse(token.slice(0, token.lastIndexOf('"') + 1)) as string
      if (inside.fields.has(field) && !OPAQUE.test(inside.path)) {
        found.push(`duplicate field "${`${inside.path}/${field}`.slice(1)}"`)
      }
      inside.fields.add(field)
    }
  }
  return found
}

/** Brackets, commas, names of fields (a string before a colon) and other strings, skipped whole. */
const TOKEN = /"(?:[^"\\]|\\.)*"(?:\s*:)?|[{}[\],]/g

/** Evaluates x-kubernetes-validations: which rules apply where, and what they see, as in the API server. */
import { Environment } from '@marcbachmann/cel-js'
import { fieldPath, type Cause } from './invalid.ts'
import { ANY, isFields, itemKey, schemaOfField, type Fields, type Schema } from './structure.ts'

/** A value with its path; `old` is its previous value, if it can be identified. */
interface CelScope {
  schema: Schema
  value: unknown
  old: unknown
  path: string
}

/** The rules that do not hold, at a value and everywhere in it. */
export function brokenRules(scope: CelScope): Cause[] {
  if (!hasRules(scope.schema)) return []
  return [...ownRules(scope), ...below(scope).flatMap(brokenRules)]
}

const ruled = new WeakMap<Schema, boolean>()

/** Whether there are rules in a schema, or anywhere below it. */
function hasRules(schema: Schema): boolean {
  const known = ruled.get(schema)
  if (known !== undefined) return known
  const { properties = {}, items, additionalProperties } = schema
  const parts = [...Object.values(properties), items, additionalProperties].filter(isSchema)
  const found = schema['x-kubernetes-validations'] !== undefined || parts.some(hasRules)
  ruled.set(schema, found)
  return found
}

function isSchema(part: Schema | boolean | undefined): part is Schema {
  return typeof part === 'object'
}

function ownRules({ schema, value, old, path }: CelScope): Cause[] {
  const rules = schema['x-kubernetes-validations'] ?? []
  if (rules.length === 0) return []
  const self = visible(schema, value)
  const oldSelf = old === undefined ? undefined : visible(schema, old)
  return rules
    .filter(({ rule }) => oldSelf !== undefined || !rule.includes('oldSelf'))
    .flatMap(({ rule, message = `failed rule: ${rule}` }) => {
      const problem = evaluate(rule, { self, oldSelf }, message)
      if (problem === undefined) return []
      return [{ field: path, message: `Invalid value: "${schema.type ?? ''}": ${problem}` }]
    })
}

const environment = new Environment()
  .registerVariable('self', 'dyn')
  .registerVariable('oldSelf', 'dyn')

const NO_DURATION = "type conversion error from 'string' to 'google.protobuf.Duration'"

/** undefined when the rule holds. */
function evaluate(rule: string, variables: Fields, message: string): string | undefined {
  try {
    return parsed(rule)(variables) === true ? undefined : message
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    // The one conversion our rules make, in the words of the real one.
    const reason = text.startsWith('Invalid duration') ? NO_DURATION : text.split('\n')[0]
    return `${reason ?? ''} evaluating rule: ${message}`
  }
}

type Rule = ReturnType<typeof environment.parse>
const rules = new Map<string, Rule>()

/** Reading a rule costs more than asking it. */
function parsed(rule: string): Rule {
  const found = rules.get(rule) ?? environment.parse(rule)
  rules.set(rule, found)
  return found
}

function below({ schema, value, old, path }: CelScope): CelScope[] {
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) => ({
      schema: schema.items ?? ANY,
      value: item,
      old: sameItem(schema, old, item),
      path: `${path}[${index}]`,
    }))
  }
  if (!isFields(value)) return []
  return Object.keys(value).map((name) => ({
    schema: schemaOfField(schema, name) ?? ANY,
    value: value[name],
    old: isFields(old) ? old[name] : undefined,
    path: schema.properties === undefined ? `${path}[${name}]` : fieldPath(path, name),
  }))
}

/** Only in a list of type map can an item be identified with its previous version. */
function sameItem(schema: Schema, old: unknown, item: unknown): unknown {
  if (schema['x-kubernetes-list-type'] !== 'map' || !Array.isArray(old)) return undefined
  const key = JSON.stringify(itemKey(schema, item))
  return old.find((other) => JSON.stringify(itemKey(schema, other)) === key)
}

/** A value as rules see it: only what the schema declares, integers as CEL's own. */
function visible(schema: Schema, value: unknown): unknown {
  if (typeof value === 'number') return schema.type === 'number' ? value : BigInt(value)
  if (typeof value === 'string') return schema.format === 'date-time' ? new Date(value) : value
  if (Array.isArray(value)) return visibleList(schema, value)
  return isFields(value) ? visibleFields(schema, value) : value
}

function visibleList(schema: Schema, list: unknown[]): unknown[] {
  const type = schema['x-kubernetes-list-type']
  const items = schema.items ?? ANY
  // Lists of these types are equal whatever their order is.
  const key = (item: unknown) => JSON.stringify(type === 'map' ? itemKey(schema, item) : item)
  const ordered = type === 'set' || type === 'map' ? list.toSorted(byText(key)) : list
  return ordered.map((item) => visible(items, item))
}

function byText(key: (item: unknown) => string) {
  return (a: unknown, b: unknown) => (key(a) < key(b) ? -1 : 1)
}

function visibleFields(schema: Schema, value: Fields): Fields | Map<string, unknown> {
  const known = Object.entries(value).flatMap(([name, field]) => {
    const fieldSchema = schemaOfField(schema, name)
    if (fieldSchema === undefined || !hasType(fieldSchema)) return []
    return [[name, visible(fieldSchema, field)] as const]
  })
  // Users choose the keys of a map: cel-js takes an object with a key `constructor` for another type.
  return schema.properties === undefined ? new Map(known) : Object.fromEntries(known)
}

function hasType(schema: Schema): boolean {
  return schema.type !== undefined || schema['x-kubernetes-int-or-string'] === true
}

/** The table of the chart's values, generated from chart/values.schema.json and chart/values.yaml. */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'yaml'
import { ownValue } from './engine/plain-object.ts'
import { escapeMarkdown, markdownTable } from './field-reference.ts'

const ValueSchema = Type.Recursive((Self) =>
  Type.Object({
    $ref: Type.Optional(Type.String()),
    type: Type.Optional(Type.Union([Type.String(), Type.Array(Type.String())])),
    enum: Type.Optional(Type.Array(Type.Unknown())),
    description: Type.Optional(Type.String()),
    properties: Type.Optional(Type.Record(Type.String(), Self)),
    definitions: Type.Optional(Type.Record(Type.String(), Self)),
  }),
)
type ValueSchema = Static<typeof ValueSchema>

/** Text of docs/chart-values.md. Throws if a value has no description. */
export function chartValuesPage(schemaText: string, valuesText: string): string {
  const schema = Value.Parse(ValueSchema, JSON.parse(schemaText))
  const table = markdownTable(
    ['Value', 'Type', 'Default', 'Description'],
    rows(schema, parse(valuesText), { path: '', definitions: schema.definitions ?? {} }),
  )
  return `${INTRODUCTION}\n\n${table}\n`
}

const INTRODUCTION = `# Values of the chart

Generated from [chart/values.schema.json](../chart/values.schema.json), which refuses unknown values by name, and
[chart/values.yaml](../chart/values.yaml), which explains them at more length.`

interface Position {
  path: string
  definitions: Record<string, ValueSchema>
}

/** One row for each value that is not a group of others. */
function rows(
  node: ValueSchema,
  defaultValue: unknown,
  { path, definitions }: Position,
): string[][] {
  const schema = resolved(node, definitions)
  if (schema.properties !== undefined) {
    return Object.entries(schema.properties).flatMap(([name, child]) =>
      rows(child, ownValue(defaultValue, name), {
        path: path === '' ? name : `${path}.${name}`,
        definitions,
      }),
    )
  }
  if (schema.description === undefined) throw new Error(`chart value ${path} has no description`)
  const text = defaultValue === undefined ? '' : `\`${JSON.stringify(defaultValue)}\``
  return [[`\`${path}\``, typeText(schema), text, escapeMarkdown(schema.description)]]
}

/** A description of the place is preferred to that of the definition. */
function resolved(node: ValueSchema, definitions: Record<string, ValueSchema>): ValueSchema {
  const name = node.$ref?.split('/').at(-1)
  return name === undefined ? node : { ...definitions[name], ...node }
}

function typeText({ enum: choices, type = '' }: ValueSchema): string {
  if (choices !== undefined) return choices.map((choice) => `\`${String(choice)}\``).join(', ')
  return [type].flat().join(' or ')
}

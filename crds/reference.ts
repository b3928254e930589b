/** The field reference: every field of every kind as tables of Markdown, made from the CRDs. */
import { schemaOf, type OpenApi } from './definition.ts'
import { DURATION_PATTERN } from './duration.ts'
import { escaped, table } from './markdown.ts'
import { ANNOTATIONS, API_VERSION } from './names.ts'
import { RESOURCES, type Resource } from './resources.ts'
import { Quantity } from './schema.ts'

/** Text of crds/README.md. */
export function reference(): string {
  return [HEAD, contents(), ...RESOURCES.map(section), annotations()].join('\n\n') + '\n'
}

const HEAD = `# What is written on a resource

This folder holds the seven kinds: one TypeBox schema per kind, from which the types, the CRDs and
this page are made. A field, its default, its bounds and its admission rules stand in \`<kind>.ts\`
and nowhere else. What hooks and jobs both need is here too (names, limits, errors, the contract of
a Job); nothing in this folder reads a clock, a network or an environment, and it imports no other
folder. Only \`generate.ts\` writes files: \`chart/crds/\`, this page and \`docs/reasons.md\`, which is made
from \`reasons/\`. Do not edit them: change the schema and run \`npm run generate\`.

All kinds are namespaced, in \`${API_VERSION}\`. References to other resources default to the
namespace of the resource that holds them. Rules are enforced by the API server.`

function contents(): string {
  return table(
    ['Kind', 'Short name', 'What it is'],
    RESOURCES.map(({ kind, shortName, description }) => [
      `[${kind}](#${kind.toLowerCase()})`,
      shortName,
      description,
    ]),
  )
}

/** What people may write besides spec. */
function annotations(): string {
  return [
    '## Annotations',
    table(
      ['Annotation', 'On', 'What it says'],
      [
        [
          `\`${ANNOTATIONS.acceptRisk}\``,
          'VecCluster, VecCollection',
          'Risks that are accepted, separated by commas: shard-loss, version-skip, downgrade. On a VecCollection: empty-collection.',
        ],
        [
          `\`${ANNOTATIONS.allowFrom}\``,
          'VecCluster, VecBackup',
          'Namespaces whose resources may use its credentials, separated by commas. Default: its own namespace; with the chart value `crossNamespace: open`, `*` on a VecCluster.',
        ],
        [
          `\`${ANNOTATIONS.retainObjects}\``,
          'VecBackup, VecBackupSchedule',
          '`true`: the objects stay in the bucket whatever deletes the resource, retention included. spec.deletionPolicy is the finer switch.',
        ],
      ],
    ),
  ].join('\n\n')
}

function section(resource: Resource): string {
  const { kind, description, columns } = resource
  const schema = schemaOf(resource)
  const { spec, status } = schema.properties
  return [
    `## ${kind}`,
    description,
    `Print columns: ${columns.map(({ name }) => name.toUpperCase()).join(', ')}.`,
    '### Spec',
    table(
      ['Field', 'Type', 'Default', 'Notes'],
      rowsOf(spec, '').map(({ field, type, absent, notes }) => [field, type, absent, notes]),
    ),
    ...rulesSection([...messagesOf(schema, ''), ...messagesOf(spec, '')]),
    '### Status',
    table(
      ['Field', 'Type', 'Notes'],
      rowsOf(status, '').map(({ field, type, notes }) => [field, type, notes]),
    ),
  ].join('\n\n')
}

function rulesSection(messages: string[]): string[] {
  const lines = [...new Set(messages)].map((message) => `- ${escaped(message)}`)
  return lines.length === 0 ? [] : ['### Admission rules', lines.join('\n')]
}

interface Row {
  field: string
  type: string
  /** What it means that the field is absent: its default, or that it is required. */
  absent: string
  notes: string
}

/** The rows of an object's fields, and of the fields below them. */
function rowsOf(schema: OpenApi, prefix: string): Row[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = prefix + name
    const required = schema.required?.includes(name) === true
    return [rowOf(path, field, required), ...below(path, field)]
  })
}

function below(path: string, field: OpenApi): Row[] {
  if (field.properties !== undefined) return rowsOf(field, `${path}.`)
  return field.items === undefined ? [] : rowsOf(field.items, `${path}[].`)
}

function rowOf(path: string, schema: OpenApi, required: boolean): Row {
  return {
    field: `\`${path}\``,
    type: typeOf(schema),
    absent: defaultOf(schema, required),
    notes: escaped(schema.description ?? ''),
  }
}

function defaultOf(field: OpenApi, required: boolean): string {
  if (required) return 'required'
  // The {} of an object whose fields have defaults of their own says nothing.
  if (field.default === undefined || field.properties !== undefined) return ''
  return field.default === '' ? 'empty' : `\`${JSON.stringify(field.default).replaceAll('"', '')}\``
}

function typeOf(field: OpenApi): string {
  const bounds = boundsOf(field)
  return bounds === '' ? wordFor(field) : `${wordFor(field)}, ${bounds}`
}

function wordFor(field: OpenApi): string {
  if (field.enum !== undefined) return field.enum.map((value) => `\`${String(value)}\``).join(', ')
  if (field['x-kubernetes-int-or-string'] === true) return 'integer or quantity'
  if (field.items !== undefined) return `list of ${wordFor(field.items)}`
  if (field.additionalProperties !== undefined) return 'map'
  if (field['x-kubernetes-preserve-unknown-fields'] === true) {
    return field.type === undefined ? 'any scalar' : 'free map'
  }
  if (field.pattern === DURATION_PATTERN) return 'duration'
  if (field.pattern === Quantity().pattern) return 'quantity'
  return field.format === 'date-time' ? 'time' : (field.type ?? '')
}

function boundsOf(field: OpenApi): string {
  const { minimum, maximum, maxItems, minItems = 0, maxProperties } = field
  if (maxItems !== undefined && maxItems > 0) return `${minItems} to ${maxItems}`
  if (maxProperties !== undefined && maxProperties > 0) return `up to ${maxProperties}`
  // The widest integer is a bound of the format, not of the field.
  if (minimum !== undefined && (maximum ?? WIDEST) >= WIDEST) return `at least ${minimum}`
  return minimum === undefined || maximum === undefined ? '' : `${minimum} to ${maximum}`
}

const WIDEST = 2_147_483_647

/** The messages of all rules at a schema and below it. */
function messagesOf(schema: OpenApi, path: string): string[] {
  const own = (schema['x-kubernetes-validations'] ?? []).map(({ message }) =>
    path !== '' && !message.includes('spec.') ? `spec.${path}: ${message}` : message,
  )
  const parts = Object.entries(schema.properties ?? {})
  // The root's spec is looked at on its own; its other parts have no rules.
  const inner =
    schema.properties?.['spec'] === undefined
      ? parts.flatMap(([name, field]) => messagesOf(field, path === '' ? name : `${path}.${name}`))
      : []
  const items = schema.items ?? schema.additionalProperties
  return [...own, ...inner, ...(items === undefined ? [] : messagesOf(items, `${path}[]`))]
}

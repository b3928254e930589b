/** The field reference: Markdown tables of every field of every kind, generated from the CRDs. */
import { ANNOTATIONS, API_VERSION } from './contract/names.ts'
import { openApiSchema, RESOURCES, type OpenApiSchema, type Resource } from './crd.ts'
import { Quantity } from './schema.ts'
import { DURATION_PATTERN } from './units.ts'

/** Text of crds/README.md. */
export function fieldReference(): string {
  return (
    [INTRODUCTION, kindsTable(), ...RESOURCES.map(kindSection), annotationsSection()].join('\n\n') +
    '\n'
  )
}

const INTRODUCTION = `# What is written on a resource

This folder holds the seven kinds: one TypeBox schema per kind, from which the types, the CRDs and
this page are made. A field, its default, its bounds and its admission rules stand in \`<kind>.ts\`
and nowhere else. What hooks and jobs both need is here too (names, limits, errors, the contract of
a Job); nothing in this folder reads a clock, a network or an environment, and it imports no other
folder. Only \`generate.ts\` writes files: \`chart/crds/\`, this page, \`docs/chart-values.md\` and \`docs/reasons.md\`,
which is made from \`reasons/\`. Do not edit them: change the schema and run \`npm run generate\`.

All kinds are namespaced, in \`${API_VERSION}\`. References to other resources default to the
namespace of the resource that holds them. Rules are enforced by the API server.`

function kindsTable(): string {
  return markdownTable(
    ['Kind', 'Short name', 'What it is'],
    RESOURCES.map(({ kind, shortName, description }) => [
      `[${kind}](#${kind.toLowerCase()})`,
      shortName,
      description,
    ]),
  )
}

/** The fields outside spec that users may set. */
function annotationsSection(): string {
  return [
    '## Annotations',
    markdownTable(
      ['Annotation', 'On', 'What it says'],
      [
        [
          `\`${ANNOTATIONS.acceptRisk}\``,
          'VecCluster, VecCollection',
          'Risks that are accepted, separated by commas: shard-loss, fewer-replicas, last-copy, version-skip, downgrade, no-backup, split-brain. On a VecCollection: empty-collection.',
        ],
        [
          `\`${ANNOTATIONS.allowedNamespaces}\``,
          'VecCluster, VecBackup',
          'Namespaces whose resources may use its credentials, separated by commas. Default: its own namespace; with the chart value `crossNamespace: open`, `*` on a VecCluster.',
        ],
        [
          `\`${ANNOTATIONS.restart}\``,
          'VecCluster',
          'Another value restarts the nodes one by one, with the checks of an update.',
        ],
        [
          `\`${ANNOTATIONS.replace}\``,
          'VecCluster',
          'Ordinals of nodes whose data is lost, separated by commas: they are replaced, unless their volume is intact.',
        ],
        [
          `\`${ANNOTATIONS.maintenance}\``,
          'VecCluster',
          '`now`: spec.maintenanceWindows do not count while the annotation is there.',
        ],
        [
          `\`${ANNOTATIONS.dataJobs}\``,
          'ServiceAccount',
          '`allow`: Jobs of backups and restores in its namespace may run under it.',
        ],
        [
          `\`${ANNOTATIONS.retainObjects}\``,
          'VecBackup, VecBackupSchedule',
          '`true`, or any value but `false`: the objects stay in the bucket whatever deletes the resource, retention included. spec.deletionPolicy is the finer switch.',
        ],
      ],
    ),
  ].join('\n\n')
}

function kindSection(resource: Resource): string {
  const { kind, description, columns } = resource
  const schema = openApiSchema(resource)
  const { spec, status } = schema.properties
  return [
    `## ${kind}`,
    description,
    `Print columns: ${columns.map(({ name }) => name.toUpperCase()).join(', ')}.`,
    '### Spec',
    markdownTable(
      ['Field', 'Type', 'Default', 'Notes'],
      fieldRows(spec, '').map(({ field, type, whenAbsent, notes }) => [
        field,
        type,
        whenAbsent,
        notes,
      ]),
    ),
    ...admissionRules([...ruleMessages(schema, ''), ...ruleMessages(spec, '')]),
    '### Status',
    markdownTable(
      ['Field', 'Type', 'Notes'],
      fieldRows(status, '').map(({ field, type, notes }) => [field, type, notes]),
    ),
  ].join('\n\n')
}

function admissionRules(messages: string[]): string[] {
  const lines = [...new Set(messages)].map((message) => `- ${escapeMarkdown(message)}`)
  return lines.length === 0 ? [] : ['### Admission rules', lines.join('\n')]
}

interface FieldRow {
  field: string
  type: string
  /** The meaning of an absent field: its default, or that the field is required. */
  whenAbsent: string
  notes: string
}

/** The rows of an object's fields and of all nested fields. */
function fieldRows(schema: OpenApiSchema, prefix: string): FieldRow[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = prefix + name
    const required = schema.required?.includes(name) === true
    return [fieldRow(path, field, required), ...nestedRows(path, field)]
  })
}

function nestedRows(path: string, field: OpenApiSchema): FieldRow[] {
  if (field.properties !== undefined) return fieldRows(field, `${path}.`)
  return field.items === undefined ? [] : fieldRows(field.items, `${path}[].`)
}

function fieldRow(path: string, schema: OpenApiSchema, required: boolean): FieldRow {
  return {
    field: `\`${path}\``,
    type: formatType(schema),
    whenAbsent: formatDefault(schema, required),
    notes: escapeMarkdown(schema.description ?? ''),
  }
}

function formatDefault(field: OpenApiSchema, required: boolean): string {
  if (required) return 'required'
  // The default {} of an object whose fields have their own defaults adds no information.
  if (field.default === undefined || field.properties !== undefined) return ''
  return field.default === '' ? 'empty' : `\`${JSON.stringify(field.default).replaceAll('"', '')}\``
}

function formatType(field: OpenApiSchema): string {
  const bounds = formatBounds(field)
  return bounds === '' ? typeName(field) : `${typeName(field)}, ${bounds}`
}

function typeName(field: OpenApiSchema): string {
  if (field.enum !== undefined) return field.enum.map((value) => `\`${String(value)}\``).join(', ')
  if (field['x-kubernetes-int-or-string'] === true) return 'integer or quantity'
  if (field.items !== undefined) return `list of ${typeName(field.items)}`
  if (field.additionalProperties !== undefined) return 'map'
  if (field['x-kubernetes-preserve-unknown-fields'] === true) {
    return field.type === undefined ? 'any scalar' : 'free map'
  }
  if (field.pattern === DURATION_PATTERN) return 'duration'
  if (field.pattern === Quantity().pattern) return 'quantity'
  return field.format === 'date-time' ? 'time' : (field.type ?? '')
}

function formatBounds(field: OpenApiSchema): string {
  const { minimum, maximum, maxItems, minItems = 0, maxProperties } = field
  if (maxItems !== undefined && maxItems > 0) return `${minItems} to ${maxItems}`
  if (maxProperties !== undefined && maxProperties > 0) return `up to ${maxProperties}`
  // The largest integer is a limit of the format, not of the field.
  if (minimum !== undefined && (maximum ?? MAX_INT32) >= MAX_INT32) return `at least ${minimum}`
  return minimum === undefined || maximum === undefined ? '' : `${minimum} to ${maximum}`
}

const MAX_INT32 = 2_147_483_647

/** The messages of all rules of a schema and its nested schemas. */
function ruleMessages(schema: OpenApiSchema, path: string): string[] {
  const ownMessages = (schema['x-kubernetes-validations'] ?? []).map(({ message }) =>
    path !== '' && !message.includes('spec.') ? `spec.${path}: ${message}` : message,
  )
  const fields = Object.entries(schema.properties ?? {})
  // The root's spec is handled separately; the other parts have no rules.
  const nestedMessages =
    schema.properties?.['spec'] === undefined
      ? fields.flatMap(([name, field]) =>
          ruleMessages(field, path === '' ? name : `${path}.${name}`),
        )
      : []
  const items = schema.items ?? schema.additionalProperties
  return [
    ...ownMessages,
    ...nestedMessages,
    ...(items === undefined ? [] : ruleMessages(items, `${path}[]`)),
  ]
}

export function markdownTable(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows]
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

export function escapeMarkdown(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '\\<')
}

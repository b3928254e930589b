/**
 * The output formats of commands that print a result: a text for a terminal, or one that scripts read.
 * Aligns columns of text for a terminal.
 */
import { stringify } from 'yaml'
import { API_GROUP } from '../../crds/contract/names.ts'
import { RESOURCES } from '../../crds/crd.ts'
import { booleanFlag, stringFlag, type Flag, type Invocation } from './command.ts'
import { escapeUnprintable, UNPRINTABLE } from '../log.ts'

/** As kubectl names them. */
export type OutputFormat = 'json' | 'yaml' | 'name' | 'wide'

const STRUCTURED = ['json', 'yaml'] as const
const DESCRIPTIONS = { name: 'only names', wide: 'more columns' } as const

/** `--output` with json, yaml and the additional formats of a command, and `--json`. */
export function outputFlags(...additional: (keyof typeof DESCRIPTIONS)[]) {
  const details = additional.map((format) => `${format} (${DESCRIPTIONS[format]})`)
  const choices: OutputFormat[] = [...STRUCTURED, ...additional]
  return {
    output: {
      type: 'string',
      short: 'o',
      value: 'FORMAT',
      choices,
      description: `${[...STRUCTURED, ...details].join(', ')}; default: text for a terminal`,
    },
    json: { type: 'boolean', description: 'the same as --output json' },
  } as const satisfies Record<string, Flag>
}

/** Undefined: text for a terminal. The command line has checked it against the choices of the flag. */
export function outputFormat(call: Pick<Invocation, 'flags'>): OutputFormat | undefined {
  const format = stringFlag(call, 'output') as OutputFormat | undefined
  return format ?? (booleanFlag(call, 'json') ? 'json' : undefined)
}

/** The value as JSON or YAML if the call asks for one of them; otherwise `text`, of which only line breaks act. */
export function formatOutput(
  call: Pick<Invocation, 'flags'>,
  value: unknown,
  text: () => string,
): string {
  const format = outputFormat(call)
  if (format === 'json') return formatJson(value)
  if (format === 'yaml') return formatYaml(value)
  return text().split('\n').map(escapeUnprintable).join('\n')
}

/** The same value for scripts: characters that a terminal would interpret have an escape of JSON. */
export function formatJson(value: unknown): string {
  return `${escapeInStrings(JSON.stringify(value, null, 2))}\n`
}

/** Only strings in double quotes can have escapes. */
function formatYaml(value: unknown): string {
  const options = { aliasDuplicateObjects: false } as const
  const text = stringify(value, options)
  const isPrintable = text.split('\n').every((line) => escapeUnprintable(line) === line)
  if (isPrintable) return text
  return escapeInStrings(stringify(value, { ...options, defaultStringType: 'QUOTE_DOUBLE' }))
}

/** Line breaks are between strings: in strings they are escaped already. */
function escapeInStrings(text: string): string {
  return text.replaceAll(UNPRINTABLE, (character) =>
    character === '\n' ? character : `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** One line per resource, as `kubectl get --output name` prints it. */
export function formatNames(resources: readonly { kind: string; name: string }[]): string {
  return resources.map(({ kind, name }) => `${resourceName(kind, name)}\n`).join('')
}

/** `vecbackup.vec-operator.dev/nightly` */
export function resourceName(kind: string, name: string): string {
  const singular = RESOURCES.find((resource) => resource.kind === kind)?.singular
  return `${singular ?? kind.toLowerCase()}.${API_GROUP}/${name}`
}

/** Aligns the columns of the rows, two spaces apart; the last column is not padded. */
export function formatColumns(rows: readonly (readonly string[])[], indent = ''): string {
  const widths: number[] = []
  const cells = rows.map((row) => row.map(escapeUnprintable))
  for (const row of cells) {
    for (const [index, cell] of row.entries()) {
      widths[index] = Math.max(widths[index] ?? 0, cell.length)
    }
  }
  const formatRow = (row: readonly string[]) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join('  ')
  return cells.map((row) => `${indent}${formatRow(row)}`.trimEnd() + '\n').join('')
}

/** Age in the format of kubectl: 45s, 12m, 5h, 3d. */
export function formatAge(since: string | undefined, now: Date): string {
  const seconds = Math.floor((now.getTime() - Date.parse(since ?? '')) / 1000)
  return Number.isNaN(seconds) ? '-' : formatSeconds(seconds)
}

/** In the same format. */
export function formatSeconds(seconds: number): string {
  if (seconds < 120) return `${Math.max(seconds, 0)}s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

/** A message on one line; not truncated by default. */
export function oneLine(text: string, length = Infinity): string {
  const line = escapeUnprintable(text.replaceAll(/\s+/g, ' ').trim())
  return line.length <= length ? line : `${line.slice(0, length - 1)}…`
}

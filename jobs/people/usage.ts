/** How a command is called: the help of all commands and of one, made from their table. */
import type { Flag, PeopleCommand } from './command.ts'
import { columns } from './table.ts'

export const PROGRAM = 'vec-operator'

export function overview(commands: readonly PeopleCommand[]): string {
  return [
    `Usage: ${PROGRAM} <command> [flags]\n`,
    columns(
      commands.map(({ name, operands, summary }) => [`${name} ${operands}`.trim(), summary]),
      '  ',
    ),
    `${PROGRAM} <command> --help tells more. As kubectl vec-operator where a file named`,
    'kubectl-vec_operator on PATH starts it.\n',
    EXITS,
  ].join('\n')
}

const EXITS =
  'Exit codes: 0 fine; 1 something is wrong, refused or not there; 2 not understood; 75 a defect.\n'

export function helpOf({ name, operands, summary, details = [], flags }: PeopleCommand): string {
  const rows = Object.entries(flags).map(([long, flag]) => [called(long, flag), flag.says])
  return [
    `Usage: ${[PROGRAM, name, operands].filter(Boolean).join(' ')} [flags]\n`,
    `${sentence(summary)}\n`,
    ...details.map((paragraph) => `${wrapped(paragraph)}\n`),
    columns([...rows, ['--help', 'print this']], '  '),
    EXITS,
  ].join('\n')
}

function called(long: string, { short, value }: Flag): string {
  const name = short === undefined ? `--${long}` : `-${short}, --${long}`
  return value === undefined ? name : `${name} ${value}`
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + '.'
}

const WIDTH = 96

function wrapped(text: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].join('\n')
}

/** The help of all commands and of one, and shell completion, generated from the table of commands. */
import { RESOURCES } from '../../crds/crd.ts'
import { CliError, EXIT_CODES, type CliCommand, type Flag } from './command.ts'
import { formatColumns } from './output.ts'

export const PROGRAM = 'vec-operator'

export function usageText(commands: readonly CliCommand[]): string {
  return [
    `Usage: ${PROGRAM} <command> [flags]\n`,
    formatColumns(
      commands.map(({ name, operands, summary }) => [`${name} ${operands}`.trim(), summary]),
      '  ',
    ),
    `${PROGRAM} <command> --help describes a command. With a file named kubectl-vec_operator on PATH,`,
    'the commands are also available as kubectl vec-operator <command>.\n',
    EXIT_CODE_HELP,
  ].join('\n')
}

const EXIT_CODE_HELP =
  'Exit codes: 0 success; 1 check failed, call rejected or resource not found; 2 usage error; 75 bug.\n'

export function commandHelp({ name, operands, summary, details = [], flags }: CliCommand): string {
  const rows = Object.entries(flags).map(([flagName, flag]) => [
    formatFlag(flagName, flag),
    flag.description,
  ])
  return [
    `Usage: ${[PROGRAM, name, operands].filter(Boolean).join(' ')} [flags]\n`,
    `${toSentence(summary)}\n`,
    ...details.map((paragraph) => `${wrapText(paragraph)}\n`),
    formatColumns([...rows, ['--help', 'print this help']], '  '),
    EXIT_CODE_HELP,
  ].join('\n')
}

function formatFlag(flagName: string, { short, value }: Flag): string {
  const name = short === undefined ? `--${flagName}` : `-${short}, --${flagName}`
  return value === undefined ? name : `${name} ${value}`
}

function toSentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1) + '.'
}

const HELP_WIDTH = 96

function wrapText(text: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > HELP_WIDTH) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].join('\n')
}

export function completionCommand(commands: readonly CliCommand[]): CliCommand {
  const completion: CliCommand = {
    name: 'completion',
    operands: '<bash|zsh>',
    operandCount: { min: 1, max: 1 },
    summary: 'print a completion script for a shell',
    details: [
      `source <(${PROGRAM} completion bash) in ~/.bashrc, or source <(${PROGRAM} completion zsh) in ~/.zshrc after compinit.`,
    ],
    flags: {},
    async run({ operands: [shell = ''], print }) {
      if (shell !== 'bash' && shell !== 'zsh') {
        throw new CliError(`completion: ${shell} is neither bash nor zsh`, EXIT_CODES.usage)
      }
      // zsh reads bash completions after bashcompinit.
      if (shell === 'zsh') print('autoload -U +X bashcompinit && bashcompinit\n')
      print(completionScript([...commands, completion]))
      return EXIT_CODES.success
    },
  }
  return completion
}

/** Completions for the words typed so far. */
function completionScript(commands: readonly CliCommand[]): string {
  const firstWords = [...new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))]
  const groups = new Map<string, string[]>()
  for (const [group, verb] of commands.map(({ name }) => name.split(' '))) {
    if (group !== undefined && verb !== undefined) {
      groups.set(group, [...(groups.get(group) ?? []), verb])
    }
  }
  const cases = [
    ...[...groups].map(([group, verbs]) => [group, verbs]),
    ...commands.map((command) => [command.name, completionWords(command)]),
  ] as [string, string[]][]
  return [
    `_vec_operator() {`,
    `  local typed="\${COMP_WORDS[*]:1:COMP_CWORD-1}" words`,
    `  case "$typed" in`,
    `    '') words='${firstWords.join(' ')} --help --version' ;;`,
    ...cases.map(([typed, words]) => `    '${typed}') words='${words.join(' ')}' ;;`),
    ...commands.flatMap(choiceCases),
    // After an operand or a flag, only flags remain.
    ...commands.map(
      ({ name, flags }) => `    '${name} '*) words='${longFlags(flags).join(' ')}' ;;`,
    ),
    `  esac`,
    `  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))`,
    `}`,
    `complete -F _vec_operator ${PROGRAM}`,
    '',
  ].join('\n')
}

/** The values of a flag, after the flag. */
function choiceCases({ name, flags }: CliCommand): string[] {
  return Object.entries(flags).flatMap(([flagName, { short, choices }]) => {
    if (choices === undefined) return []
    const typed = [`--${flagName}`, ...(short === undefined ? [] : [`-${short}`])]
    const patterns = typed.map((flag) => `'${name} '*'${flag}'`)
    return [`    ${patterns.join('|')}) words='${choices.join(' ')}' ;;`]
  })
}

function completionWords({ name, flags }: CliCommand): string[] {
  const kinds = RESOURCES.map(({ shortName }) => `${shortName}/`)
  const operands =
    { status: kinds, plan: kinds, advise: kinds, completion: ['bash', 'zsh'] }[name] ?? []
  return [...operands, ...longFlags(flags)]
}

function longFlags(flags: CliCommand['flags']): string[] {
  return [...Object.keys(flags), 'help'].map((name) => `--${name}`)
}

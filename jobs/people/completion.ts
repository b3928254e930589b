/** `completion <shell>`: a script for bash or zsh, made from the table of commands. */
import { RESOURCES } from '../../crds/resources.ts'
import { Complaint, ENDS, type PeopleCommand } from './command.ts'
import { PROGRAM } from './usage.ts'

export function completionOf(commands: readonly PeopleCommand[]): PeopleCommand {
  const completion: PeopleCommand = {
    name: 'completion',
    operands: '<bash|zsh>',
    takes: { least: 1, most: 1 },
    summary: 'print a completion script for a shell',
    details: [
      `source <(${PROGRAM} completion bash) in ~/.bashrc, or source <(${PROGRAM} completion zsh) in ~/.zshrc after compinit.`,
    ],
    flags: {},
    async run({ operands: [shell = ''], print }) {
      if (shell !== 'bash' && shell !== 'zsh') {
        throw new Complaint(`completion: ${shell} is neither bash nor zsh`, ENDS.usage)
      }
      // zsh reads what bash reads, once it is told to.
      if (shell === 'zsh') print('autoload -U +X bashcompinit && bashcompinit\n')
      print(script([...commands, completion]))
      return ENDS.fine
    },
  }
  return completion
}

/** Words that may follow, by what stands there already. */
function script(commands: readonly PeopleCommand[]): string {
  const firsts = [...new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))]
  const groups = new Map<string, string[]>()
  for (const [group, verb] of commands.map(({ name }) => name.split(' '))) {
    if (group !== undefined && verb !== undefined) {
      groups.set(group, [...(groups.get(group) ?? []), verb])
    }
  }
  const cases = [
    ...[...groups].map(([group, verbs]) => [group, verbs]),
    ...commands.map((command) => [command.name, wordsOf(command)]),
  ] as [string, string[]][]
  return [
    `_vec_operator() {`,
    `  local typed="\${COMP_WORDS[*]:1:COMP_CWORD-1}" words`,
    `  case "$typed" in`,
    `    '') words='${firsts.join(' ')} --help --version' ;;`,
    ...cases.map(([typed, words]) => `    '${typed}') words='${words.join(' ')}' ;;`),
    // Past an operand or a flag, what is left are the flags.
    ...commands.map(({ name, flags }) => `    '${name} '*) words='${longs(flags).join(' ')}' ;;`),
    `  esac`,
    `  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))`,
    `}`,
    `complete -F _vec_operator ${PROGRAM}`,
    '',
  ].join('\n')
}

function wordsOf({ name, flags }: PeopleCommand): string[] {
  const kinds = RESOURCES.map(({ shortName }) => `${shortName}/`)
  const operands = { status: kinds, completion: ['bash', 'zsh'] }[name] ?? []
  return [...operands, ...longs(flags)]
}

function longs(flags: PeopleCommand['flags']): string[] {
  return [...Object.keys(flags), 'help'].map((name) => `--${name}`)
}

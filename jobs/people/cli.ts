/**
 * The commands for people: finds the one that is meant, reads its flags, and turns every way it can
 * end into an exit code and, where something is wrong, a line on standard error.
 */
import { parseArgs } from 'node:util'
import type { Logger } from 'pino'
import { EngineError, KubernetesError, Rejected, StorageError } from '../../crds/errors.ts'
import { wordsOf } from '../clients/call.ts'
import { Kubernetes } from '../clients/kubernetes.ts'
import { peopleAccess } from '../clients/kubernetes-service.ts'
import type { Time } from '../time.ts'
import { printable } from '../printable.ts'
import { backupNow } from './backup-now.ts'
import { backupVerify } from './backup-verify.ts'
import { Complaint, ENDS, textOf, type PeopleCall, type PeopleCommand } from './command.ts'
import { completionOf } from './completion.ts'
import { doctor } from './doctor.ts'
import { explain } from './explain.ts'
import { ownRelease } from './release.ts'
import { restorePlan } from './restore-plan.ts'
import { status } from './status.ts'
import { PROGRAM, helpOf, overview } from './usage.ts'

const SERVED = [status, doctor, explain, backupNow, backupVerify, restorePlan]
export const PEOPLE_COMMANDS: readonly PeopleCommand[] = [...SERVED, completionOf(SERVED)]

export interface Surroundings {
  arguments: string[]
  env: NodeJS.ProcessEnv
  log: Logger
  time: Time
  signal: AbortSignal
  /** Standard output and standard error. */
  print: (text: string) => unknown
  complain: (text: string) => unknown
}

/** Runs a command and answers with its exit code; a defect is thrown. */
export async function serve(surroundings: Surroundings): Promise<number> {
  const { arguments: args, print, complain } = surroundings
  const command = commandOf(args)
  if (command === undefined) return without(surroundings)
  const rest = args.slice(command.name.split(' ').length)
  try {
    if (rest.includes('--help') || rest.includes('-h')) {
      print(helpOf(command))
      return ENDS.fine
    }
    return await command.run(callOf(command, rest, surroundings))
  } catch (error) {
    if (!isForPeople(error)) throw error
    const lines = wordsOf(error).split('\n')
    complain(`${PROGRAM}: ${lines.map(printable).join('\n')}\n`)
    return error instanceof Complaint ? error.exitCode : ENDS.wrong
  }
}

/** The command these arguments begin with. */
export function commandOf(args: readonly string[]): PeopleCommand | undefined {
  return PEOPLE_COMMANDS.find(
    ({ name }) =>
      args.slice(0, 2).join(' ').startsWith(name) &&
      name.split(' ').every((word, at) => args[at] === word),
  )
}

/** No command: help, asked for or not. */
function without({ arguments: args, print, complain }: Surroundings): number {
  const [first = '', ...rest] = args
  if (first === '--version') {
    print(`${PROGRAM} ${ownRelease()}\n`)
    return ENDS.fine
  }
  if (['', 'help', '--help', '-h'].includes(first)) {
    const command = commandOf(rest)
    print(command === undefined ? overview(PEOPLE_COMMANDS) : helpOf(command))
    return ENDS.fine
  }
  const said = args.slice(0, 2).join(' ')
  const near = PEOPLE_COMMANDS.map(({ name }) => name).filter((name) =>
    name.startsWith(`${first} `),
  )
  const meant = near.length === 0 ? '' : `; there is ${near.join(' and ')}`
  complain(`${PROGRAM}: ${said} is no command${meant}\nusage: ${PROGRAM} --help\n`)
  return ENDS.usage
}

function callOf(command: PeopleCommand, args: string[], surroundings: Surroundings): PeopleCall {
  const { values, positionals } = parsed(command, args)
  const { least, most } = command.takes
  if (positionals.length < least || positionals.length > most) throw misuse(command)
  const { env, log, time, signal, print } = surroundings
  const call = { operands: positionals, flags: values, env, log, time, signal, print }
  return { ...call, reach: () => reach(call) }
}

function parsed(command: PeopleCommand, args: string[]) {
  const options = Object.fromEntries(
    Object.entries(command.flags).map(([name, { type, short, default: preset }]) => [
      name,
      {
        type,
        ...(short !== undefined && { short }),
        ...(preset !== undefined && { default: preset }),
      },
    ]),
  )
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    return { values: values as PeopleCall['flags'], positionals }
  } catch (error) {
    throw misuse(command, `${wordsOf(error)}; `)
  }
}

function misuse({ name, operands }: PeopleCommand, why = ''): Complaint {
  const usage = [PROGRAM, name, operands].filter(Boolean).join(' ')
  return new Complaint(`${why}usage: ${usage} [flags]; --help tells more`, ENDS.usage)
}

async function reach(call: Omit<PeopleCall, 'reach'>) {
  const wish = { kubeconfig: textOf(call, 'kubeconfig'), context: textOf(call, 'context') }
  const { access, namespace } = await peopleAccess(wish, call.env).catch((error: unknown) => {
    throw new Complaint(`no kubeconfig that can be used: ${wordsOf(error)}`)
  })
  return {
    kubernetes: new Kubernetes(access, call.log),
    namespace: textOf(call, 'namespace') ?? namespace ?? 'default',
  }
}

/** What a person can mend; anything else is a defect. */
function isForPeople(error: unknown): boolean {
  const kinds = [Complaint, EngineError, KubernetesError, Rejected, StorageError]
  return kinds.some((kind) => error instanceof kind)
}

/**
 * The CLI for users: finds the command, parses its flags and maps every outcome to an exit code and, on
 * failure, a line on standard error.
 */
import { parseArgs } from 'node:util'
import type { Logger } from 'pino'
import { EngineError, KubernetesError, Rejected, StorageError } from '../../crds/contract/errors.ts'
import { errorMessage } from '../clients/http/request.ts'
import { userAccess } from '../clients/kubernetes/access.ts'
import { Kubernetes } from '../clients/kubernetes/client.ts'
import type { Clock } from '../clock.ts'
import { escapeUnprintable } from '../log.ts'
import { advise } from './advise/index.ts'
import { backupDelete } from './backup-delete.ts'
import { backupFind } from './backup-find.ts'
import { backupList } from './backup-list.ts'
import { backupNow } from './backup-now.ts'
import { backupVerify } from './backup-verify.ts'
import {
  CliError,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
  cliVersion,
} from './command.ts'
import { doctor } from './doctor/index.ts'
import { explain } from './explain.ts'
import { logs } from './logs.ts'
import { supportBundle } from './support-bundle.ts'
import { wait } from './wait.ts'
import { commandHelp, completionCommand, PROGRAM, usageText } from './help.ts'
import { plan } from './plan.ts'
import { restorePlan } from './restore-plan.ts'
import { status } from './status.ts'

const MAIN_COMMANDS = [
  ...[status, wait, logs, plan, advise, doctor, explain],
  ...[backupList, backupNow, backupFind, backupVerify, backupDelete, restorePlan, supportBundle],
]
export const COMMANDS: readonly CliCommand[] = [...MAIN_COMMANDS, completionCommand(MAIN_COMMANDS)]

export interface CliEnvironment {
  arguments: string[]
  env: NodeJS.ProcessEnv
  log: Logger
  time: Clock
  signal: AbortSignal
  /** Standard output and standard error. */
  print: (text: string) => unknown
  complain: (text: string) => unknown
  ask: Invocation['ask']
}

/** Runs a command and returns its exit code; throws on a bug. */
export async function runCli(environment: CliEnvironment): Promise<number> {
  const { arguments: args, print, complain } = environment
  const command = findCommand(args)
  if (command === undefined) return runWithoutCommand(environment)
  const rest = args.slice(command.name.split(' ').length)
  try {
    if (rest.includes('--help') || rest.includes('-h')) {
      print(commandHelp(command))
      return EXIT_CODES.success
    }
    return await command.run(newInvocation(command, rest, environment))
  } catch (error) {
    if (!isUserError(error)) throw error
    const lines = errorMessage(error).split('\n')
    complain(`${PROGRAM}: ${lines.map(escapeUnprintable).join('\n')}\n`)
    return error instanceof CliError ? error.exitCode : EXIT_CODES.failure
  }
}

/** The command these arguments begin with. */
export function findCommand(args: readonly string[]): CliCommand | undefined {
  return COMMANDS.find(
    ({ name }) =>
      args.slice(0, 2).join(' ').startsWith(name) &&
      name.split(' ').every((part, index) => args[index] === part),
  )
}

/** No command: prints the help, requested or not. */
function runWithoutCommand({ arguments: args, print, complain }: CliEnvironment): number {
  const [first = '', ...rest] = args
  if (first === '--version') {
    print(`${PROGRAM} ${cliVersion()}\n`)
    return EXIT_CODES.success
  }
  if (['', 'help', '--help', '-h'].includes(first)) {
    const command = findCommand(rest)
    print(command === undefined ? usageText(COMMANDS) : commandHelp(command))
    return EXIT_CODES.success
  }
  const typed = args.slice(0, 2).join(' ')
  const similar = COMMANDS.map(({ name }) => name).filter((name) => name.startsWith(`${first} `))
  const suggestion = similar.length === 0 ? '' : `; did you mean ${similar.join(' or ')}?`
  complain(`${PROGRAM}: ${typed} is not a command${suggestion}\nusage: ${PROGRAM} --help\n`)
  return EXIT_CODES.usage
}

function newInvocation(
  command: CliCommand,
  args: string[],
  environment: CliEnvironment,
): Invocation {
  const { values, positionals } = parseFlags(command, args)
  const { min, max } = command.operandCount
  if (positionals.length < min || positionals.length > max) throw usageError(command)
  const { env, log, time, signal, print, complain, ask } = environment
  const call = {
    ...{ operands: positionals, flags: values, env, log, time, signal },
    ...{ print, complain, ask },
  }
  return { ...call, connect: () => connectCluster(call) }
}

function parseFlags(command: CliCommand, args: string[]) {
  const options = Object.fromEntries(
    Object.entries(command.flags).map(([name, { type, short, default: defaultValue }]) => [
      name,
      {
        type,
        ...(short !== undefined && { short }),
        ...(defaultValue !== undefined && { default: defaultValue }),
      },
    ]),
  )
  try {
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
    return { values: checkChoices(command, values), positionals }
  } catch (error) {
    if (error instanceof CliError) throw error
    throw usageError(command, `${errorMessage(error)}; `)
  }
}

function checkChoices(command: CliCommand, values: Invocation['flags']): Invocation['flags'] {
  for (const [name, { choices }] of Object.entries(command.flags)) {
    const value = values[name]
    if (choices === undefined || typeof value !== 'string' || choices.includes(value)) continue
    throw usageError(command, `--${name} ${value}: must be one of ${choices.join(', ')}; `)
  }
  return values
}

function usageError({ name, operands }: CliCommand, reason = ''): CliError {
  const usage = [PROGRAM, name, operands].filter(Boolean).join(' ')
  return new CliError(`${reason}usage: ${usage} [flags]; see --help`, EXIT_CODES.usage)
}

async function connectCluster(call: Omit<Invocation, 'connect'>) {
  const selection = {
    kubeconfig: stringFlag(call, 'kubeconfig'),
    context: stringFlag(call, 'context'),
  }
  const { access, namespace } = await userAccess(selection, call.env).catch((error: unknown) => {
    throw new CliError(`no usable kubeconfig: ${errorMessage(error)}`)
  })
  return {
    kubernetes: new Kubernetes(access, call.log),
    namespace: stringFlag(call, 'namespace') ?? namespace ?? 'default',
  }
}

/** Errors that the user can fix; any other error is a bug. */
function isUserError(error: unknown): boolean {
  const errorTypes = [CliError, EngineError, KubernetesError, Rejected, StorageError]
  return errorTypes.some((errorType) => error instanceof errorType)
}

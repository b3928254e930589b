/** What a command for people is, and how it may end. */
import type { ParseArgsOptionDescriptor } from 'node:util'
import type { Logger } from 'pino'
import type { Kubernetes } from '../clients/kubernetes.ts'
import type { Time } from '../time.ts'

/** Exit codes of people's commands. */
export const ENDS = {
  /** What was asked for is done, and nothing is wrong. */
  fine: 0,
  /** Something is not as it should be: a check failed, a thing is not there, a call was refused. */
  wrong: 1,
  /** The command was not understood. */
  usage: 2,
} as const

/** A flag, and what its help says. */
export interface Flag extends ParseArgsOptionDescriptor {
  /** Name of its value in the help; absent for a switch. */
  value?: string
  says: string
}

export interface PeopleCommand {
  /** One word or two, as they are typed. */
  name: string
  /** What follows the name, for the help: `<in angles>` is required, `[in brackets]` may be left out. */
  operands: string
  /** So many operands it takes. */
  takes: { least: number; most: number }
  summary: string
  /** More for its help, a paragraph each. */
  details?: readonly string[]
  flags: Readonly<Record<string, Flag>>
  run(call: PeopleCall): Promise<number>
}

/** One call of a command. */
export interface PeopleCall {
  operands: string[]
  flags: Readonly<Record<string, string | boolean | undefined>>
  env: NodeJS.ProcessEnv
  /** To standard output: what was asked for. */
  print: (text: string) => unknown
  log: Logger
  time: Time
  signal: AbortSignal
  /** The cluster the caller's kubeconfig names; asked for only by commands that need one. */
  reach(): Promise<Reach>
}

export interface Reach {
  kubernetes: Kubernetes
  /** Of --namespace, else of the kubeconfig's context, else `default`. */
  namespace: string
}

/** Told to people as it is, without a stack: they can mend it. */
export class Complaint extends Error {
  readonly exitCode: number

  constructor(message: string, exitCode: number = ENDS.wrong) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A flag's value as text; undefined where it was not given. */
export function textOf({ flags }: Pick<PeopleCall, 'flags'>, name: string): string | undefined {
  const value = flags[name]
  return typeof value === 'string' ? value : undefined
}

export function isOn({ flags }: Pick<PeopleCall, 'flags'>, name: string): boolean {
  return flags[name] === true
}

/** How a cluster is reached; every command that needs one has these. */
export const CLUSTER_FLAGS = {
  kubeconfig: {
    type: 'string',
    value: 'FILE',
    says: 'kubeconfig to use; default: KUBECONFIG, else ~/.kube/config',
  },
  context: { type: 'string', value: 'NAME', says: 'context of the kubeconfig' },
  namespace: {
    type: 'string',
    short: 'n',
    value: 'NAME',
    says: 'namespace; default: that of the context',
  },
} as const satisfies Record<string, Flag>

export const JSON_FLAG = {
  json: { type: 'boolean', says: 'print JSON' },
} as const satisfies Record<string, Flag>

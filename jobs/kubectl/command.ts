/**
 * The shape of a CLI command, its exit codes, its release, and its access to a Kubernetes cluster, and to engines through
 * the API server.
 */
import type { ParseArgsOptionDescriptor } from 'node:util'
import type { Logger } from 'pino'
import type { Connection } from '../../crds/contract/connection.ts'
import { ConfigMap, Secret, secretValue } from '../../crds/kubernetes.ts'
import { caError, caRefOf, caValue, type S3Target } from '../../crds/storage.ts'
import { Engine } from '../clients/engine/client.ts'
import { secretEngineCredentials } from '../clients/engine/credentials.ts'
import { apiProxyTransport } from '../clients/engine/transport.ts'
import { configMaps, secrets } from '../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../clients/kubernetes/client.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import type { Clock } from '../clock.ts'
import packageJson from '../../package.json' with { type: 'json' }

/** Exit codes of the CLI. */
export const EXIT_CODES = {
  /** The command is done, and no problem was found. */
  success: 0,
  /** A check failed, a resource is missing, or a call was refused. */
  failure: 1,
  /** The command was not understood. */
  usage: 2,
} as const

/** A flag and its help. */
export interface Flag extends ParseArgsOptionDescriptor {
  /** Name of its value in the help; absent for a switch. */
  value?: string
  /** The accepted values; absent: any text. */
  choices?: readonly string[]
  description: string
}

export interface CliCommand {
  /** One word or two, as they are typed. */
  name: string
  /** What follows the name, for the help: `<in angles>` is required, `[in brackets]` may be left out. */
  operands: string
  /** Accepted number of operands. */
  operandCount: { min: number; max: number }
  summary: string
  /** Additional paragraphs of its help. */
  details?: readonly string[]
  flags: Readonly<Record<string, Flag>>
  run(call: Invocation): Promise<number>
}

/** One call of a command. */
export interface Invocation {
  operands: string[]
  flags: Readonly<Record<string, string | boolean | undefined>>
  env: NodeJS.ProcessEnv
  /** Writes the result to standard output. */
  print: (text: string) => unknown
  /** Writes to standard error. */
  complain: (text: string) => unknown
  /** The answer of the user; undefined without a terminal. */
  ask: (question: string) => Promise<string | undefined>
  log: Logger
  time: Clock
  signal: AbortSignal
  /** Connects to the cluster of the caller's kubeconfig; only commands that need one call it. */
  connect(): Promise<ClusterAccess>
}

export interface ClusterAccess {
  kubernetes: Kubernetes
  /** The value of --namespace, else the namespace of the kubeconfig's context, else `default`. */
  namespace: string
}

/** Printed to the user without a stack: the user can fix the cause. */
export class CliError extends Error {
  readonly exitCode: number

  constructor(message: string, exitCode: number = EXIT_CODES.failure) {
    super(message)
    this.exitCode = exitCode
  }
}

/** A flag's value as text; undefined if the flag is not set. */
export function stringFlag({ flags }: Pick<Invocation, 'flags'>, name: string): string | undefined {
  const value = flags[name]
  return typeof value === 'string' ? value : undefined
}

export function booleanFlag({ flags }: Pick<Invocation, 'flags'>, name: string): boolean {
  return flags[name] === true
}

/** Connection flags of every command that needs a Kubernetes cluster. */
export const CLUSTER_FLAGS = {
  kubeconfig: {
    type: 'string',
    value: 'FILE',
    description: 'kubeconfig to use; default: KUBECONFIG, else ~/.kube/config',
  },
  context: { type: 'string', value: 'NAME', description: 'context of the kubeconfig' },
  namespace: {
    type: 'string',
    short: 'n',
    value: 'NAME',
    description: 'namespace; default: that of the context',
  },
} as const satisfies Record<string, Flag>

export function engineClients(
  kubernetes: Kubernetes,
  connection: Connection,
  { log }: Pick<Invocation, 'log'>,
): (ordinal?: number) => Engine {
  // Read once for all calls of this command.
  let cached: ReturnType<typeof secretEngineCredentials> | undefined
  const readClusterSecret = (namespace: string, name: string) =>
    readSecret(kubernetes, namespace, name)
  const credentials = () => (cached ??= secretEngineCredentials(connection, readClusterSecret))
  return (ordinal) =>
    new Engine({ transport: apiProxyTransport(kubernetes, connection, ordinal), credentials, log })
}

/** With the rights of the caller. */
export function readSecret(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<Secret | undefined> {
  return kubernetes.get(secrets(namespace), name, Secret)
}

/** What a bucket names as its certificate authority, in PEM, or why it cannot be used; neither without one. */
export async function readBucketCa(
  kubernetes: Kubernetes,
  { field, namespace }: { field: string; namespace: string },
  target: Omit<S3Target, 'prefix'>,
): Promise<{ ca?: string; error?: string }> {
  const reference = caRefOf(target)
  if (reference === undefined) return {}
  const { kind, name } = reference
  const object =
    kind === 'Secret'
      ? await readSecret(kubernetes, namespace, name)
      : await kubernetes.get(configMaps(namespace), name, ConfigMap)
  const error = caError(field, reference, namespace, object)
  if (error !== undefined) return { error: error.message }
  const ca = caValue(reference, object)
  return ca === undefined ? {} : { ca }
}

/** Without a Secret, the credentials come from the environment. */
export async function openBucketClient(
  { secret, ca }: { secret: Secret | undefined; ca: string | undefined },
  target: Omit<S3Target, 'prefix'>,
  { env, log, time }: Pick<Invocation, 'env' | 'log' | 'time'>,
): Promise<Bucket> {
  if (secret === undefined) requireCredentials(env)
  // Only commands that use a bucket load the SDK.
  const [{ Bucket }, { parseCredentials: credentialsFrom, withCa }] = await Promise.all([
    import('../clients/s3/bucket.ts'),
    import('../clients/s3/credentials.ts'),
  ])
  const value = (key: string) => (secret === undefined ? env[key] : secretValue(secret, key))
  const reference = target.credentialsSecretRef ?? ENVIRONMENT_CREDENTIALS
  const credentials = withCa(
    () => credentialsFrom(reference, value),
    () => ca,
  )
  return new Bucket({ target, credentials, time, log })
}

/** Variables of the environment, named as keys of a Secret. */
export const ENVIRONMENT_CREDENTIALS = {
  name: 'in the environment',
  accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
  secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
}

/** Checked before the first request: the store would not name the missing variable. */
export function requireCredentials(env: NodeJS.ProcessEnv): void {
  for (const name of ['ACCESS_KEY_ID', 'SECRET_ACCESS_KEY']) {
    if ([`CLOUD_${name}`, `AWS_${name}`].every((variable) => (env[variable] ?? '') === '')) {
      throw new CliError(`neither CLOUD_${name} nor AWS_${name} is in the environment`)
    }
  }
}

/** Release of this program: the CRDs and the hook service are compared with it. */
export function cliVersion(): string {
  return packageJson.version
}

/**
 * Credentials of a pod's cloud identity, by the providers of the AWS SDK: a web identity token (IRSA),
 * or the container credentials endpoint (EKS Pod Identity). Admission sets their variables and mounts
 * their token for pods of a ServiceAccount that has an identity; the SDK reads them from the
 * environment of the process. The role of the node is never used.
 */
import { S3Client } from '@aws-sdk/client-s3'
import type { Logger } from 'pino'
import { StorageError } from '../../../crds/contract/errors.ts'
import type { Clock } from '../../clock.ts'
import { errorMessage } from '../http/request.ts'
import {
  trustOptions,
  type CaReader,
  type BucketCredentials,
  type CredentialsReader,
} from './credentials.ts'
import { certificateHint, certificateReason, IDENTITY_REFUSED, simplifyMessage } from './errors.ts'

export interface IdentityOptions {
  /** `<namespace>/<name>` of the ServiceAccount, for messages. */
  account: string
  /** Region of the bucket: that of the token service where the pod has no AWS_REGION. */
  region: string
  /** Environment of the process. */
  env: NodeJS.ProcessEnv
  /** Also trusted by the calls to the token service; read before each of them. */
  readCa?: CaReader
  time: Clock
  log: Logger
}

/**
 * Credentials are renewed when less than this of their lifetime is left: a presigned URL ends with the credentials that
 * signed it, and a node may start its download late.
 */
const MIN_LIFETIME_MS = 30 * 60_000
/** Between two early renewals: an endpoint may return the same credentials until they expire. */
const RENEWAL_PAUSE_MS = 60_000
const CONNECT_MS = 10_000
const IDLE_MS = 30_000
const MAX_MESSAGE = 512

/** Throws `StorageError`, of the reason IdentityRefused if a retry would not help. */
export function identityCredentials(options: IdentityOptions): CredentialsReader {
  const { account, env, time, log, readCa = () => undefined } = options
  let provider: { ca: string | undefined; load: ReturnType<typeof defaultProvider> } | undefined
  let current: Issued | undefined
  let renewedAt = 0
  let renewal: Promise<Issued> | undefined
  const issue = async () => {
    const kind = requireIdentity(account, env)
    const ca = readCa()
    if (provider?.ca !== ca) provider = undefined
    provider ??= { ca, load: defaultProvider(options, ca) }
    renewedAt = time.now().getTime()
    try {
      return (current = toIssued(await provider.load({ forceRefresh: true })))
    } catch (error) {
      throw identityError(account, kind, error)
    }
  }
  // Calls at the same time share a renewal.
  const renew = () => (renewal ??= issue().finally(() => (renewal = undefined)))
  return async ({ renew: isRejected } = { renew: false }) => {
    const now = time.now().getTime()
    if (isRejected || current === undefined || current.expiresAt <= now) {
      return (await renew()).credentials
    }
    const isShort = current.expiresAt - now < MIN_LIFETIME_MS
    if (!isShort || now - renewedAt < RENEWAL_PAUSE_MS) return current.credentials
    const { credentials } = current
    // They are still valid: the next call tries again.
    const renewed = await renew().catch((error: unknown) => {
      log.warn({ reason: errorMessage(error) }, 'early renewal of bucket credentials failed')
      return { credentials }
    })
    return renewed.credentials
  }
}

interface Issued {
  credentials: BucketCredentials
  /** In milliseconds; infinite for credentials that do not expire. */
  expiresAt: number
}

function toIssued({
  accessKeyId,
  secretAccessKey,
  sessionToken,
  expiration,
}: Awaited<ReturnType<ReturnType<typeof defaultProvider>>>): Issued {
  return {
    credentials: {
      accessKeyId,
      secretAccessKey,
      ...(sessionToken !== undefined && { sessionToken }),
    },
    expiresAt: expiration?.getTime() ?? Infinity,
  }
}

/** The SDK's chain of providers. The client that it belongs to makes no calls to a store. */
function defaultProvider({ region, env }: IdentityOptions, ca: string | undefined) {
  const { AWS_REGION = '' } = env
  const agent = { keepAlive: false, proxyEnv: env }
  const client = new S3Client({
    region: AWS_REGION === '' ? region : AWS_REGION,
    // Also of the calls to the token service.
    requestHandler: {
      ...{ connectionTimeout: CONNECT_MS, socketTimeout: IDLE_MS },
      ...{ httpAgent: agent, httpsAgent: { ...agent, ...trustOptions(ca) } },
    },
  })
  return client.config.credentials
}

type IdentityKind = 'web identity' | 'container'

/** Without these variables the chain would end at files, or at the role of the node. */
function requireIdentity(account: string, env: NodeJS.ProcessEnv): IdentityKind {
  const has = (...names: string[]) => names.every((name) => (env[name] ?? '') !== '')
  const isNodeRoleOff = !['', 'false'].includes(env['AWS_EC2_METADATA_DISABLED'] ?? '')
  if (isNodeRoleOff && has('AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_ROLE_ARN')) return 'web identity'
  const isContainer =
    has('AWS_CONTAINER_CREDENTIALS_FULL_URI') || has('AWS_CONTAINER_CREDENTIALS_RELATIVE_URI')
  if (isNodeRoleOff && isContainer) return 'container'
  throw new StorageError(
    `ServiceAccount ${account} gives its pods no cloud identity: neither AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set (check its annotation eks.amazonaws.com/role-arn or its Pod Identity association, and create the resource again)`,
    { reason: IDENTITY_REFUSED },
  )
}

/** The token service answers 400 also for too many calls, and while it cannot read the keys of the Kubernetes cluster. */
function isTransientError(name: string): boolean {
  return /^(Throttl|RequestLimitExceeded|IDPCommunicationError)/.test(name)
}

function identityError(account: string, kind: IdentityKind, error: unknown): StorageError {
  const { name = 'Error', $metadata } = Object(error) as {
    name?: string
    $metadata?: { httpStatusCode?: number }
  }
  const status = $metadata?.httpStatusCode
  const isRefused =
    status !== undefined &&
    status >= 400 &&
    status < 500 &&
    status !== 429 &&
    !isTransientError(name)
  // The chain of the SDK does not pass on what the container credentials endpoint answered.
  const text =
    kind === 'container' && status === undefined
      ? 'the container credentials endpoint gives none; check the Pod Identity association of the ServiceAccount, and the agent on the node'
      : `${name}: ${simplifyMessage(errorMessage(error))}`.slice(0, MAX_MESSAGE) +
        certificateHint(error)
  // The SDK's own error has the request, which has the token.
  return new StorageError(`no credentials for ServiceAccount ${account}: ${text}`, {
    ...certificateReason(error),
    ...(isRefused && { reason: IDENTITY_REFUSED }),
    cause: new Error(text),
  })
}

/**
 * Mutual trust between the hook service and Metacontroller. Certificate and token are created when
 * the service starts, checked every minute and renewed long before they expire.
 *
 * Also writes the CA and the token that Metacontroller uses for hook calls into the
 * CompositeControllers. The chart renders neither unless the user provides them: renderings stay
 * identical, and a tool that applies the chart again does not remove them. Metacontroller reads
 * both only when the spec of a CompositeController changes, so the spec itself contains the name of
 * the token and the text of the CA certificate (docs/metacontroller-notes.md).
 */
import type { Server } from 'node:https'
import { Type, type Static } from '@sinclair/typebox'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import type { Log, Timers } from '../runtime.ts'
import { newCertificate, type KeyPair } from './certificates.ts'
import {
  acceptedTokens,
  completeSecret,
  expiresAt,
  isSignedBy,
  isValidYet,
  readAuthority,
  readJobKey,
  type IdentityData,
  type NamespacedName,
} from './secret.ts'
import { controllerName } from '../controllers.ts'
import { compositeControllers } from '../../jobs/clients/kubernetes/api-resources.ts'

export interface IdentityOptions {
  /** Secret that stores the identity. */
  secret: NamespacedName
  /** Host names and IP addresses at which Metacontroller calls the service. */
  hosts: readonly string[]
  rotation: string
  /** Whether the service creates the token; false if it comes from a file. */
  ownToken: boolean
  /** Whether the service creates the certificate; false if it comes from a file or TLS is off. */
  ownTls: boolean
}

export interface IdentityDependencies {
  kubernetes: Kubernetes
  plurals: readonly string[]
  now: () => Date
  timers: Timers
  log: Log
}

const CERTIFICATE_RENEW_BEFORE_MS = 20 * 86_400_000
const CHECK_INTERVAL_MS = 60_000
/**
 * Helm creates the Deployment before the CompositeControllers, so the first checks are frequent.
 */
const INITIAL_CHECK_INTERVAL_MS = 5_000
const INITIAL_CHECKS = 12
const RETRY_DELAY_MS = 5_000

export class HookIdentity {
  readonly #options: IdentityOptions
  readonly #dependencies: IdentityDependencies
  #data: IdentityData = {}
  #certificate: KeyPair | undefined

  constructor(options: IdentityOptions, dependencies: IdentityDependencies) {
    this.#options = options
    this.#dependencies = dependencies
  }

  /** Reads the Secret and adds what is missing. The service cannot start before this succeeds. */
  async load(): Promise<void> {
    const { secret, rotation, ownTls } = this.#options
    const requirements = { now: this.#dependencies.now(), rotation, ownTls }
    this.#data = await completeSecret(
      this.#dependencies.kubernetes,
      secret,
      this.#data,
      requirements,
    )
    this.#certificate ??= this.#newCertificate()
  }

  /** The bearer tokens that the service accepts. */
  tokens(): string[] {
    return acceptedTokens(this.#data).map(({ token }) => token)
  }

  jobKeys(): string[] {
    const key = readJobKey(this.#data)
    return key === undefined ? [] : [key]
  }

  get certificate(): KeyPair | undefined {
    return this.#certificate
  }

  /**
   * Renews the credentials and connects the CompositeControllers in the background; the returned
   * function stops it.
   */
  watch(server: Pick<Server, 'setSecureContext'>): () => void {
    const { timers, log } = this.#dependencies
    let isStopped = false
    let checks = 0
    let cancel = timers.setTimeout(check, 0)

    function scheduleNext(milliseconds: number): void {
      if (!isStopped) cancel = timers.setTimeout(check, milliseconds)
    }

    const reconcile = async () => {
      await this.load()
      await this.#connect()
      // Renew last: Metacontroller must trust a new CA before the service uses a certificate that
      // it signed.
      this.#renew(server)
    }

    function check(): void {
      checks += 1
      reconcile().then(
        () =>
          scheduleNext(checks <= INITIAL_CHECKS ? INITIAL_CHECK_INTERVAL_MS : CHECK_INTERVAL_MS),
        (error: unknown) => {
          log.warn({ err: error }, 'connecting hooks failed; retrying')
          scheduleNext(RETRY_DELAY_MS)
        },
      )
    }

    return () => {
      isStopped = true
      cancel()
    }
  }

  /** Renews the certificate with the authority that was loaded; the returned function stops it. */
  watchCertificate(server: Pick<Server, 'setSecureContext'>): () => void {
    const { timers } = this.#dependencies
    const check = () => {
      this.#renew(server)
      cancel = timers.setTimeout(check, CHECK_INTERVAL_MS)
    }
    let cancel = timers.setTimeout(check, CHECK_INTERVAL_MS)
    return () => {
      cancel()
    }
  }

  async #connect(): Promise<void> {
    const { secret, hosts, ownToken } = this.#options
    const { kubernetes, plurals, log } = this.#dependencies
    const [newestToken] = acceptedTokens(this.#data)
    const caBundle = this.#options.ownTls ? readAuthority(this.#data)?.caBundle : undefined
    await connectControllers(
      { kubernetes, plurals, hosts, log },
      {
        ...(ownToken &&
          newestToken !== undefined && { token: { ...secret, key: newestToken.name } }),
        ...(caBundle !== undefined && { caBundle }),
      },
    )
  }

  #renew(server: Pick<Server, 'setSecureContext'>): void {
    const current = this.#certificate
    if (current === undefined) return
    const now = this.#dependencies.now()
    const remainingMs = expiresAt(current.cert) - now.getTime()
    const isFresh = remainingMs > CERTIFICATE_RENEW_BEFORE_MS && isValidYet(current.cert, now)
    const signer = readAuthority(this.#data)?.signer
    if (isFresh && signer !== undefined && isSignedBy(current.cert, signer.cert)) return
    const next = this.#newCertificate()
    if (next === undefined) return
    server.setSecureContext(next)
    this.#certificate = next
    this.#dependencies.log.info({}, 'certificate renewed')
  }

  #newCertificate(): KeyPair | undefined {
    const authority = this.#options.ownTls ? readAuthority(this.#data) : undefined
    if (authority === undefined) return undefined
    const { hosts } = this.#options
    return newCertificate(authority.signer, hosts, this.#dependencies.now())
  }
}

const Webhook = Type.Object({
  url: Type.Optional(Type.String()),
  caBundle: Type.Optional(Type.Unknown()),
  authorization: Type.Optional(Type.Unknown()),
})
const CompositeController = Type.Object({
  metadata: Type.Object({ name: Type.String() }),
  spec: Type.Object({
    hooks: Type.Record(Type.String(), Type.Object({ webhook: Webhook })),
  }),
})
type Webhook = Static<typeof Webhook>

export interface ConnectDependencies {
  kubernetes: Kubernetes
  plurals: readonly string[]
  /**
   * Host names of the service. Webhooks with another host belong to another service and are left
   * unchanged.
   */
  hosts: readonly string[]
  log: Log
}

/** Credentials for hook calls; absent fields are left unchanged. */
export interface Credentials {
  token?: { namespace: string; name: string; key: string }
  caBundle?: string
}

/** Writes the credentials where they differ; skips CompositeControllers that are not installed. */
export async function connectControllers(
  { kubernetes, plurals, hosts, log }: ConnectDependencies,
  credentials: Credentials,
): Promise<void> {
  for (const plural of plurals) {
    const name = controllerName(plural)
    const live = await kubernetes.get(compositeControllers(), name, CompositeController)
    const hooks = hooksToPatch(live?.spec.hooks ?? {}, hosts, credentials)
    if (Object.keys(hooks).length === 0) continue
    await kubernetes.patch(compositeControllers(), name, { spec: { hooks } })
    log.info({ compositeController: name, token: credentials.token?.key }, 'hooks connected')
  }
}

function hooksToPatch(
  hooks: Record<string, { webhook: Webhook }>,
  hosts: readonly string[],
  { token, caBundle }: Credentials,
): Record<string, { webhook: object }> {
  const desired = {
    ...(token !== undefined && { authorization: { type: 'Bearer', secretRef: token } }),
    ...(caBundle !== undefined && { caBundle: { inline: caBundle } }),
  }
  const outdated = Object.entries(hooks).filter(
    ([, { webhook }]) => hosts.includes(hostName(webhook.url)) && !matches(webhook, desired),
  )
  return Object.fromEntries(outdated.map(([hook]) => [hook, { webhook: desired }]))
}

/**
 * Whether every desired field has its value; other fields are ignored because the API adds
 * defaults.
 */
function matches(live: unknown, desired: unknown): boolean {
  if (typeof desired !== 'object' || desired === null) return live === desired
  return Object.entries(desired).every(([field, value]) =>
    matches((live as Record<string, unknown> | undefined)?.[field], value),
  )
}

function hostName(url = ''): string {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, '$1') : ''
}

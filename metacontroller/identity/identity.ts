/**
 * How the hook service and Metacontroller know each other: certificate and token are made when the service
 * starts, looked at every minute, and renewed long before they end.
 */
import type { Server } from 'node:https'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import type { Log } from '../startup-upgrades.ts'
import type { Timers } from '../timers.ts'
import { newCertificate, type KeyPair } from './certificates.ts'
import { connectControllers } from './connect-controllers.ts'
import {
  acceptedTokens,
  completeSecret,
  expiresAt,
  isSignedBy,
  readAuthority,
  readJobKey,
  type IdentityData,
  type NamespacedName,
} from './secret.ts'

export interface IdentityOptions {
  /** Where it is kept. */
  secret: NamespacedName
  /** Names and addresses that Metacontroller calls. */
  hosts: readonly string[]
  rotation: string
  /** Whether the token is made here, or is one of a file. */
  ownToken: boolean
  /** Whether the certificate is made here, or is one of a file, or there is none. */
  ownTls: boolean
}

export interface IdentityDependencies {
  kubernetes: Kubernetes
  plurals: readonly string[]
  now: () => Date
  timers: Timers
  log: Log
}

const CERTIFICATE_DAYS = 30
const CERTIFICATE_RENEW_BEFORE_MS = 20 * 86_400_000
const CHECK_INTERVAL_MS = 60_000
/** Helm creates the Deployment before the CompositeControllers: the first looks come quickly. */
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

  /** Reads the Secret and completes it; the service cannot start before that. */
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

  /** Bearer tokens that are accepted. */
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

  /** Looks after everything in the background; calling what it returns stops that. */
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
      // Only now: what Metacontroller trusts must come before what is signed by it.
      this.#renew(server)
    }

    function check(): void {
      checks += 1
      reconcile().then(
        () =>
          scheduleNext(checks <= INITIAL_CHECKS ? INITIAL_CHECK_INTERVAL_MS : CHECK_INTERVAL_MS),
        (error: unknown) => {
          log.warn({ err: error }, 'hooks are not connected: tries again')
          scheduleNext(RETRY_DELAY_MS)
        },
      )
    }

    return () => {
      isStopped = true
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
    const isFresh =
      expiresAt(current.cert) - this.#dependencies.now().getTime() > CERTIFICATE_RENEW_BEFORE_MS
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
    return newCertificate(authority.signer, hosts, this.#dependencies.now(), CERTIFICATE_DAYS)
  }
}

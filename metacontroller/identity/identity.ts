/**
 * How the hook service and Metacontroller know each other: certificate and token are made when the service
 * starts, looked at every minute, and renewed long before they end.
 */
import type { Server } from 'node:https'
import type { Kubernetes } from '../../jobs/clients/kubernetes.ts'
import type { Log } from '../start-mark.ts'
import type { Timers } from '../timers.ts'
import { newCertificate, type KeyPair } from './certificates.ts'
import { connectControllers } from './connect.ts'
import { authorityIn, endOf, isSignedBy, jobKeyIn, tokensIn, type IdentityData } from './secret.ts'
import { completeSecret, type SecretPlace } from './store.ts'

export interface IdentityOptions {
  /** Where it is kept. */
  secret: SecretPlace
  /** Names and addresses that Metacontroller calls. */
  hosts: readonly string[]
  rotation: string
  /** Whether the token is made here, or is one of a file. */
  ownToken: boolean
  /** Whether the certificate is made here, or is one of a file, or there is none. */
  ownTls: boolean
}

export interface IdentityTools {
  kubernetes: Kubernetes
  plurals: readonly string[]
  now: () => Date
  timers: Timers
  log: Log
}

const CERTIFICATE_DAYS = 30
const CERTIFICATE_LEFT_MS = 20 * 86_400_000
const AGAIN_MS = 60_000
/** Helm creates the Deployment before the CompositeControllers: the first looks come quickly. */
const FIRST_LOOKS_MS = 5_000
const FIRST_LOOKS = 12
const AFTER_FAILURE_MS = 5_000

export class HookIdentity {
  readonly #options: IdentityOptions
  readonly #tools: IdentityTools
  #data: IdentityData = {}
  #certificate: KeyPair | undefined

  constructor(options: IdentityOptions, tools: IdentityTools) {
    this.#options = options
    this.#tools = tools
  }

  /** Reads the Secret and completes it; the service cannot start before that. */
  async load(): Promise<void> {
    const { secret, rotation, ownTls } = this.#options
    const wish = { now: this.#tools.now(), rotation, ownTls }
    this.#data = await completeSecret(this.#tools.kubernetes, secret, this.#data, wish)
    this.#certificate ??= this.#newCertificate()
  }

  /** Bearer tokens that are accepted. */
  tokens(): string[] {
    return tokensIn(this.#data).map(({ token }) => token)
  }

  jobKeys(): string[] {
    const key = jobKeyIn(this.#data)
    return key === undefined ? [] : [key]
  }

  get certificate(): KeyPair | undefined {
    return this.#certificate
  }

  /** Looks after everything in the background; calling what it returns stops that. */
  follow(server: Pick<Server, 'setSecureContext'>): () => void {
    const { timers, log } = this.#tools
    let isStopped = false
    let looks = 0
    let cancel = timers.setTimeout(look, 0)

    function again(milliseconds: number): void {
      if (!isStopped) cancel = timers.setTimeout(look, milliseconds)
    }

    const pass = async () => {
      await this.load()
      await this.#connect()
      // Only now: what Metacontroller trusts must come before what is signed by it.
      this.#renew(server)
    }

    function look(): void {
      looks += 1
      pass().then(
        () => again(looks <= FIRST_LOOKS ? FIRST_LOOKS_MS : AGAIN_MS),
        (error: unknown) => {
          log.warn({ err: error }, 'hooks are not connected: tries again')
          again(AFTER_FAILURE_MS)
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
    const { kubernetes, plurals, log } = this.#tools
    const [newest] = tokensIn(this.#data)
    const trusted = this.#options.ownTls ? authorityIn(this.#data)?.trusted : undefined
    await connectControllers(
      { kubernetes, plurals, hosts, log },
      {
        ...(ownToken && newest !== undefined && { token: { ...secret, key: newest.name } }),
        ...(trusted !== undefined && { caBundle: trusted }),
      },
    )
  }

  #renew(server: Pick<Server, 'setSecureContext'>): void {
    const current = this.#certificate
    if (current === undefined) return
    const isGood = endOf(current.cert) - this.#tools.now().getTime() > CERTIFICATE_LEFT_MS
    const signer = authorityIn(this.#data)?.signer
    if (isGood && signer !== undefined && isSignedBy(current.cert, signer.cert)) return
    const next = this.#newCertificate()
    if (next === undefined) return
    server.setSecureContext(next)
    this.#certificate = next
    this.#tools.log.info({}, 'certificate renewed')
  }

  #newCertificate(): KeyPair | undefined {
    const authority = this.#options.ownTls ? authorityIn(this.#data) : undefined
    if (authority === undefined) return undefined
    const { hosts } = this.#options
    return newCertificate(authority.signer, hosts, this.#tools.now(), CERTIFICATE_DAYS)
  }
}

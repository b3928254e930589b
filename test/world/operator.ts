/** The operator in the embedded world: the hook service in this process, and the loop in Metacontroller's place. */
import { createHash, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { jobLog } from '../../jobs/log.ts'
import { controllers } from '../../metacontroller/controllers.ts'
import { parseOptions } from '../../metacontroller/options.ts'
import { startService, type Service } from '../../metacontroller/serve.ts'
import { applyObject } from './apply.ts'
import { ApiClient } from './client.ts'
import type { Clock } from './clock.ts'
import { startLoop, type Loop } from './loop/index.ts'
import { PULL_SECRET, pullSecret } from './pull-secret.ts'

export interface OperatorOptions {
  api: ApiClient
  /** The API server identifies the caller by it. */
  tokens: Record<OperatorProcess, string>
  clock: Clock
  /** Where files may be written. */
  folder: string
  version: string
  /** Plurals of the kinds that are served. */
  kinds: readonly string[]
  /** The only ones that are served; default: all. */
  namespaces?: readonly string[]
  /** Where its two processes run; default: in this one. */
  runIn?: <Result>(process: OperatorProcess, start: () => Result) => Result
}

/** The hook service, and the loop in Metacontroller's place. */
export type OperatorProcess = 'service' | 'loop'

const NAMESPACE = 'vec-operator'
/** Metacontroller finds the service by name; the loop is given its current address. */
const SERVICE = 'http://vec-operator.vec-operator:8080'
/** Nothing listens there while the service is down. */
const UNREACHABLE_URL = 'http://127.0.0.1:9'
const INLINE_MS = 100

export class Operator {
  readonly #options: OperatorOptions
  #token = randomBytes(16).toString('hex')
  #acceptedTokens = [this.#token]
  readonly #log: string[] = []
  #linesRead = 0
  #version: string
  #service: Service | undefined
  #loop: { loop: Loop; api: ApiClient } | undefined

  constructor(options: OperatorOptions) {
    this.#options = options
    this.#version = options.version
  }

  /** Installs everything the chart would, and starts it. */
  async start(): Promise<void> {
    const { api } = this.#options
    const metadata = { name: NAMESPACE }
    await applyObject(api, { apiVersion: 'v1', kind: 'Namespace', metadata })
    await this.#applyToken()
    await applyObject(api, pullSecret(NAMESPACE))
    await this.#applyCrds()
    await this.startService()
    this.startLoop()
  }

  /** The loop calls, or a call is answered. */
  busy(): boolean {
    return this.#loop?.loop.idle() === false
  }

  /** Why the loop died, as Metacontroller would have; undefined while it runs. */
  failure(): Error | undefined {
    return this.#loop?.loop.failure()
  }

  log(): string {
    return this.#log.join('')
  }

  /** The output since the last call; the whole log may be long by then. */
  newLogLines(): string[] {
    const lines = this.#log.slice(this.#linesRead)
    this.#linesRead = this.#log.length
    return lines
  }

  /** Calls a hook as Metacontroller would, with any body. */
  async callHook(path: string, body: unknown): Promise<{ status: number; text: string }> {
    const response = await fetch(`${this.#service?.url ?? UNREACHABLE_URL}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }

  async startService(): Promise<void> {
    if (this.#service !== undefined) return
    const { clock, namespaces = [] } = this.#options
    const served = namespaces.flatMap((name) => ['--namespace', name])
    const options = parseOptions(
      ['--kubeconfig', this.#kubeconfig(), '--port', '0', '--host', '127.0.0.1', ...served],
      {
        ...{ HOOK_TOKEN_FILE: this.#tokenFile(), ENGINE_ROUTE: 'proxy', LOG_LEVEL: 'DEBUG' },
        ...{ IMAGE_PULL_SECRETS: PULL_SECRET, POD_NAMESPACE: NAMESPACE },
      },
      this.#version,
    )
    if (options === undefined) throw new Error('the service asked for its usage')
    this.#service = await this.#runIn('service', () =>
      startService({
        ...options,
        log: jobLog({ LOG_LEVEL: 'DEBUG' }, { write: (line) => this.#log.push(line) }),
        now: () => clock.now(),
        setTimeout: (run, ms) => clock.setTimeout(run, ms),
        // A second in which the clock stands still is long: a waiting pass continues in the background.
        inlineMs: INLINE_MS,
      }),
    )
  }

  async stopService(): Promise<void> {
    await this.#service?.close()
    this.#service = undefined
  }

  startLoop(): void {
    const { tokens, clock, kinds, namespaces = [] } = this.#options
    const { server } = this.#options.api
    this.#loop ??= this.#runIn('loop', () => {
      // Connections of its own: they end with it.
      const api = new ApiClient({ server, token: tokens.loop })
      const loop = startLoop({
        api,
        clock,
        controllers: controllers({
          url: SERVICE,
          version: this.#version,
          tokenFingerprint: createHash('sha256').update(this.#token).digest('hex').slice(0, 12),
          namespacesHash: namespaces.join(',') || 'all',
          token: { name: 'hook-token', namespace: NAMESPACE, key: 'token' },
          kinds,
        }),
        resolve: (url) => url.replace(SERVICE, this.#service?.url ?? UNREACHABLE_URL),
        log: (line) => this.#log.push(`loop: ${line}\n`),
      })
      return { loop, api }
    })
  }

  async #stopLoop(): Promise<void> {
    await this.#loop?.loop.stop()
    await this.#loop?.api.close()
    this.#loop = undefined
  }

  /** As a helm upgrade: CRDs first, then the service, then the CompositeControllers. */
  async upgrade(version: string): Promise<void> {
    this.#version = version
    await this.#applyCrds()
    await this.stopService()
    await this.startService()
    await this.#stopLoop()
    this.startLoop()
  }

  /** A part was killed from outside: it is not there any more, and nothing is left to be closed. */
  markKilled(process: OperatorProcess): void {
    if (process === 'service') this.#service = undefined
    else this.#loop = undefined
  }

  /** As a helm upgrade with another word: the one before stays accepted. */
  async rotateToken(): Promise<void> {
    const previous = this.#token
    this.#token = randomBytes(16).toString('hex')
    this.#acceptedTokens = [this.#token, previous]
    this.#tokenFile()
    await this.#applyToken()
    await this.#stopLoop()
    this.startLoop()
  }

  async close(): Promise<void> {
    await this.#stopLoop()
    await this.stopService()
  }

  async #applyCrds(): Promise<void> {
    for (const resource of RESOURCES) {
      await applyObject(this.#options.api, customResourceDefinition(resource, this.#version))
    }
  }

  async #applyToken(): Promise<void> {
    await applyObject(this.#options.api, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'hook-token', namespace: NAMESPACE },
      data: { token: Buffer.from(this.#token).toString('base64') },
    })
  }

  #runIn<Result>(process: OperatorProcess, start: () => Result): Result {
    const { runIn } = this.#options
    return runIn === undefined ? start() : runIn(process, start)
  }

  #tokenFile(): string {
    const file = join(this.#options.folder, 'hook-token')
    writeFileSync(file, this.#acceptedTokens.join('\n'), { mode: 0o600 })
    return file
  }

  #kubeconfig(): string {
    const { api, tokens, folder } = this.#options
    const file = join(folder, 'kubeconfig')
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'embedded',
      contexts: [{ name: 'embedded', context: { cluster: 'embedded', user: 'embedded' } }],
      // client-node takes plain HTTP only together with this.
      clusters: [
        { name: 'embedded', cluster: { server: api.server, 'insecure-skip-tls-verify': true } },
      ],
      users: [{ name: 'embedded', user: { token: tokens.service } }],
    }
    writeFileSync(file, JSON.stringify(config), { mode: 0o600 })
    return file
  }
}

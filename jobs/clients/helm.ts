/**
 * The helm command: arguments as a list, values on standard input. Knows how to call helm and how to
 * interpret its output; the commands decide when to call it.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Logger } from 'pino'
import { HelmError } from '../../crds/contract/errors.ts'
import type { MonitorTls } from '../../crds/contract/job.ts'
import { HELM_TIMEOUT_SECONDS } from '../../crds/contract/limits.ts'
import { trimTrailing } from '../../crds/contract/names.ts'
import {
  indexError,
  writeRepository,
  type ChartCredentials,
  type RepositoryFiles,
} from './chart-repository.ts'
import { redact } from './http/redact.ts'

/** How long helm may take, after its own timeout, to mark the release as failed. */
const MARGIN_MS = 60_000
/** How long helm may take to exit after SIGTERM. */
const GRACE_MS = 20_000
/** Limit on the output that is read; the end of the output states what went wrong. */
const MAX_OUTPUT = 1024 * 1024
const MAX_MESSAGE = 2048

export interface HelmUpgrade {
  release: string
  /** Name in the repository; a path or a whole address if repository is empty. */
  chart: string
  /** An http://, https:// or oci:// address. */
  repository: string
  version: string
  namespace: string
  values: object
  /** Of an existing StatefulSet: Kubernetes replaces no pod with a lower ordinal. */
  partition?: number | undefined
  /** Checksum of the chart's Secret that the pods of an existing StatefulSet keep. */
  secretChecksum?: string | undefined
  /** Image of the engine, by digest and without a tag. */
  image?: string | undefined
  /** Of the pods, in seconds: charts before 1.18 have no value for it. */
  gracePeriod?: number | undefined
  /** How Prometheus verifies the nodes. */
  monitorTls?: MonitorTls | undefined
  /** The rendered manifests are adjusted, also without a partition. */
  isAdjusted?: boolean
}

export interface HelmOptions {
  command?: string
  /** Command of the post-renderer, which gets the release and, as further arguments, what is set of the partition, the checksum, the image, the grace period and `monitorTls`. */
  postRenderer?: string[]
  env?: NodeJS.ProcessEnv
  /** PEM of the certificate authorities that sign the certificate of the repository; default: those of the image. */
  chartCa?: string
  /** Reads the credentials of the repository; absent if it needs none. */
  chartCredentials?: (() => ChartCredentials) | undefined
  /** How long a whole helm run may take. */
  limitMs?: number
  graceMs?: number
}

interface HelmRun {
  args: [string, ...string[]]
  input?: string
  signal?: AbortSignal | undefined
  /** In addition to the environment of all runs. */
  env?: NodeJS.ProcessEnv
}

const ReleaseStatus = Type.Object({
  version: Type.Integer(),
  info: Type.Object({ status: Type.String(), description: Type.Optional(Type.String()) }),
})

export class Helm {
  readonly #log: Logger
  readonly #options: Required<HelmOptions>

  constructor(log: Logger, options: HelmOptions = {}) {
    this.#log = log
    this.#options = {
      command: 'helm',
      postRenderer: [],
      env: process.env,
      chartCa: '',
      chartCredentials: undefined,
      limitMs: HELM_TIMEOUT_SECONDS * 1000 + MARGIN_MS,
      graceMs: GRACE_MS,
      ...options,
    }
  }

  /** Installs the release or upgrades an existing one; returns the output of helm. */
  async upgrade(request: HelmUpgrade, signal?: AbortSignal): Promise<string> {
    const { chartCa, chartCredentials, postRenderer } = this.#options
    const args = upgradeArguments(request, postRenderer)
    const input = JSON.stringify(request.values)
    if (chartCa === '' && chartCredentials === undefined) return this.#run({ args, input, signal })
    const folder = await mkdtemp(join(tmpdir(), 'chart-'))
    try {
      const caFile = chartCa === '' ? undefined : join(folder, 'ca.crt')
      if (caFile !== undefined) await writeFile(caFile, chartCa)
      if (chartCredentials !== undefined) {
        const { username, password } = chartCredentials()
        const { repository: url } = request
        const entry = { url, username, password, ...(caFile !== undefined && { caFile }) }
        return await this.#upgradeFrom(await writeRepository(folder, entry), request, signal)
      }
      return await this.#run({ args: [...args, '--ca-file', caFile ?? ''], input, signal })
    } finally {
      await rm(folder, { recursive: true })
    }
  }

  /**
   * Downloads the index of the repository and upgrades from it. helm would take credentials as arguments
   * too, which other processes and the log show.
   */
  async #upgradeFrom(
    repository: RepositoryFiles,
    request: HelmUpgrade,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    const { env, name } = repository
    const output = await this.#run({ args: ['repo', 'update', name], signal, env })
    const error = indexError(output)
    const url = redact(request.repository)
    if (error !== undefined) {
      throw new HelmError(`cannot read the index of the chart repository ${url}: ${redact(error)}`)
    }
    const chart = `${name}/${request.chart}`
    const args = upgradeArguments({ ...request, chart, repository: '' }, this.#options.postRenderer)
    try {
      return await this.#run({ args, input: JSON.stringify(request.values), signal, env })
    } catch (error) {
      if (!(error instanceof HelmError)) throw error
      const message = error.message.replace(`${name} index. (try 'helm repo update')`, url)
      throw new HelmError(message, { cause: error })
    }
  }

  /** A missing release is accepted; its volumes remain. */
  async uninstall(release: string, namespace: string, signal?: AbortSignal): Promise<string> {
    try {
      const flags = [...namespaceFlags(namespace), '--wait', ...TIMEOUT_FLAGS]
      return await this.#run({ args: ['uninstall', release, ...flags], signal })
    } catch (error) {
      if (isNotFound(error)) return `release ${release} is not there`
      throw error
    }
  }

  /** Status and revision of a release; undefined if there is none. */
  async status(release: string, namespace: string, signal?: AbortSignal) {
    try {
      const flags = [...namespaceFlags(namespace), '-o', 'json']
      const text = await this.#run({ args: ['status', release, ...flags], signal })
      const status: unknown = JSON.parse(text)
      return Value.Parse(ReleaseStatus, status)
    } catch (error) {
      if (isNotFound(error)) return undefined
      throw error
    }
  }

  /** The objects of the newest revision as YAML, Secrets included; undefined if there is no release. */
  async manifest(release: string, namespace: string, signal?: AbortSignal) {
    try {
      const flags = namespaceFlags(namespace)
      return await this.#run({ args: ['get', 'manifest', release, ...flags], signal })
    } catch (error) {
      if (isNotFound(error)) return undefined
      throw error
    }
  }

  async #run({ args, input, signal, env: added }: HelmRun): Promise<string> {
    signal?.throwIfAborted()
    const { command, env, limitMs } = this.#options
    // Values stay out of the log: a user may have written a secret into config.
    this.#log.debug({ command: redact([command, ...args].join(' ')) }, 'helm runs')
    const child = spawn(command, args, {
      env: { ...env, ...added },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    const output = captureTail(child.stdout)
    const errors = captureTail(child.stderr)
    // helm may exit without reading them, for example if the chart is missing.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)

    const limit = AbortSignal.timeout(limitMs)
    const code = await this.#waitForExit(child, signal ? AbortSignal.any([limit, signal]) : limit)
    signal?.throwIfAborted()
    if (limit.aborted) throw new HelmError(`helm ${args[0]} did not end within ${limitMs / 1000} s`)
    if (code !== 0)
      throw new HelmError(formatErrors(errors()) || `helm ended with code ${code ?? 'none'}`)
    return stripNotes(output()).trim()
  }

  /**
   * Exit code of a child process, which gets SIGTERM when the signal aborts and is killed after
   * that.
   */
  async #waitForExit(child: ChildProcess, abortSignal: AbortSignal): Promise<number | null> {
    const { command, graceMs } = this.#options
    let kill: NodeJS.Timeout | undefined
    const onAbort = () => {
      child.kill('SIGTERM')
      kill = setTimeout(() => child.kill('SIGKILL'), graceMs)
    }
    abortSignal.addEventListener('abort', onAbort, { once: true })
    try {
      return await new Promise((resolve, reject) => {
        child.once('close', resolve)
        child.once('error', (cause) => {
          reject(new HelmError(`${command} cannot be started: ${cause.message}`, { cause }))
        })
      })
    } finally {
      abortSignal.removeEventListener('abort', onAbort)
      clearTimeout(kill)
    }
  }
}

export function upgradeArguments(
  request: HelmUpgrade,
  postRenderer: string[] = [],
): [string, ...string[]] {
  const { release, chart, repository, version, namespace } = request
  return [
    'upgrade',
    '--install',
    release,
    ...chartArguments(chart, repository),
    '--version',
    version,
    ...namespaceFlags(namespace),
    ...TIMEOUT_FLAGS,
    ...postRendererFlags(request, postRenderer),
    '--values',
    '-',
  ]
}

/** A registry has no index: helm takes the address of the chart itself, and refuses it as --repo. */
function chartArguments(chart: string, repository: string): string[] {
  if (repository.startsWith('oci://')) return [`${trimTrailing(repository, '/')}/${chart}`]
  return repository === '' ? [chart] : [chart, '--repo', repository]
}

function postRendererFlags(request: HelmUpgrade, [command, ...args]: string[]): string[] {
  const { release, partition, secretChecksum, image, gracePeriod, monitorTls } = request
  const { isAdjusted = partition !== undefined } = request
  if (!isAdjusted || command === undefined) return []
  const allArgs = [
    ...[...args, release],
    ...(partition === undefined ? [] : [`partition=${partition}`]),
    ...(secretChecksum === undefined ? [] : [`secret-checksum=${secretChecksum}`]),
    ...(image === undefined ? [] : [`image=${image}`]),
    ...(gracePeriod === undefined ? [] : [`grace-period=${gracePeriod}`]),
    ...(monitorTls === undefined ? [] : [`monitor-tls=${JSON.stringify(monitorTls)}`]),
  ]
  return [
    '--post-renderer',
    command,
    ...allArgs.flatMap((argument) => ['--post-renderer-args', argument]),
  ]
}

const TIMEOUT_FLAGS = ['--timeout', `${HELM_TIMEOUT_SECONDS}s`]

function namespaceFlags(namespace: string): string[] {
  return ['--namespace', namespace]
}

function isNotFound(error: unknown): boolean {
  return error instanceof HelmError && /release: not found/.test(error.message)
}

/** helm's own message without warnings and repetitions, short enough for a report. */
function formatErrors(text: string): string {
  const lines = text
    .split('\n')
    .map((line) =>
      line
        .trim()
        .replace(/^Error: /, '')
        .replace(QUOTED_CONFIG, '$1"…"'),
    )
    .filter((line) => line !== '' && !NOISE.test(line))
  // helm quotes the address of a repository, including its password.
  const message = redact([...new Set(lines)].join('\n'))
  return message.length <= MAX_MESSAGE ? message : `${message.slice(0, MAX_MESSAGE - 2)} …`
}

/** The chart's notes describe kubectl and port-forward and say nothing about the result. */
function stripNotes(text: string): string {
  const [beforeNotes = ''] = text.split(/^NOTES:$/m)
  return beforeNotes
}

const NOISE = /^(WARNING:|level=|[IWE]\d{4} |coalesce\.go|Use --debug flag)/
/** A template error quotes the whole config, into which a user may have written a secret. */
// eslint-disable-next-line local/no-slow-patterns -- a quote ends the match, and each begins with one
const QUOTED_CONFIG = /(cannot parse template |tpl function execution for )"(?:[^"\\]|\\.)*"/g

/** The last part of a stream. */
function captureTail(stream: NodeJS.ReadableStream): () => string {
  let text = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => (text = (text + chunk).slice(-MAX_OUTPUT)))
  return () => text
}

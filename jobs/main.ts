#!/usr/bin/env node
/**
 * Entry point of the Jobs: `<kind> <verb> <namespace>/<name>` runs jobs/<kind>/<verb>.ts with the plan from
 * the environment, waits for the final report and maps every outcome to an exit code. Other arguments are
 * commands of the CLI for users: jobs/kubectl/cli.ts.
 */
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import type { Connection } from '../crds/contract/connection.ts'
import { Rejected } from '../crds/contract/errors.ts'
import {
  BackupPlan,
  decodePlan,
  EXIT,
  JOB_ENV,
  PurgePlan,
  UninstallPlan,
  UpgradePlan,
  type MonitorTls,
} from '../crds/contract/job.ts'
import { MigrationPlan } from '../crds/contract/migration-job.ts'
import { RestorePlan } from '../crds/contract/restore-job.ts'
import { ShardsPlan } from '../crds/contract/shards-job.ts'
import type { BucketAccess } from '../crds/storage.ts'
import { Engine } from './clients/engine/client.ts'
import { KeyRotation, mountedEngineCredentials } from './clients/engine/credentials.ts'
import {
  apiProxyTransport,
  dnsTransport,
  EngineConnections,
  urlTransport,
} from './clients/engine/transport.ts'
import { mountedChartCredentials } from './clients/chart-repository.ts'
import { Helm } from './clients/helm.ts'
import type { CredentialsReader } from './clients/s3/credentials.ts'
import { inClusterAccess, Kubernetes } from './clients/kubernetes/client.ts'
import { systemClock, type Clock } from './clock.ts'
import type { Dependencies, RunResult } from './dependencies.ts'
import { jobLog, standardError, standardOutput } from './log.ts'
import { ProgressBar } from './progress.ts'
import { HEARTBEAT_MS, Reporter, ResourceDeleted, type JobTarget } from './reporter.ts'

export interface Environment {
  arguments: string[]
  env: NodeJS.ProcessEnv
  log: Logger
  /** Set when the output is a terminal. */
  progressBar?: ProgressBar | undefined
  time: Clock
  /** Aborts on SIGTERM. */
  signal: AbortSignal
  /** Memory of this process; default: the limit of its container. */
  memoryBytes?: number | undefined
  /** Standard output and standard error of the CLI. */
  print?: (text: string) => unknown
  printError?: (text: string) => unknown
  /** The answer of the user of the CLI; undefined without a terminal. */
  ask?: (question: string) => Promise<string | undefined>
}

/** A command: its plan and its implementation. */
interface Command {
  verb: string
  run(text: string, reference: string, environment: Environment): Promise<RunResult>
}

/** Each command loads only its own modules, so that a Job starts quickly. */
const COMMANDS: Record<string, Command> = {
  'cluster upgrade': command(
    'upgrade',
    UpgradePlan,
    async () => (await import('./cluster/upgrade.ts')).upgrade,
  ),
  'cluster uninstall': command(
    'uninstall',
    UninstallPlan,
    async () => (await import('./cluster/uninstall.ts')).uninstall,
  ),
  'cluster shards': command(
    'shards',
    ShardsPlan,
    async () => (await import('./cluster/shards/run.ts')).manageShards,
  ),
  'backup run': command('run', BackupPlan, async () => (await import('./backup/run.ts')).run),
  'backup purge': command(
    'purge',
    PurgePlan,
    async () => (await import('./backup/purge.ts')).purgeBackup,
  ),
  'restore run': command('run', RestorePlan, async () => (await import('./restore/run.ts')).run),
  'migration run': command(
    'run',
    MigrationPlan,
    async () => (await import('./migration/run.ts')).run,
  ),
}

/** helm runs this program again, for the manifests that it has rendered. */
const POST_RENDERER = [process.execPath, fileURLToPath(import.meta.url), 'cluster', 'post-render']

/** Runs one command and returns its exit code. */
export async function main(environment: Environment): Promise<number> {
  const { env, log, signal } = environment
  const [kind = '', verb = '', reference = ''] = environment.arguments
  try {
    if (kind === 'cluster' && verb === 'post-render') return await runPostRenderer(environment)
    const command = COMMANDS[`${kind} ${verb}`]
    if (command === undefined) return await runUserCommand(environment)
    const outcome = await command.run(env[JOB_ENV.plan] ?? '', reference, environment)
    log.info({ outcome }, `${kind} ${verb} completed`)
    return outcome === 'Done' ? EXIT.done : EXIT.failed
  } catch (error) {
    if (error instanceof ResourceDeleted) {
      log.warn({ reason: error.message }, 'resource deleted, nothing left to do')
      return EXIT.failed
    }
    // SIGTERM: the clean-up is done; the Job controller may start another pod.
    if (signal.aborted) log.warn('terminated by a signal')
    else log.error({ err: error }, 'crashed')
    return EXIT.crash
  }
}

/**
 * Heap growth between two full garbage collections, in percent. V8's default is a third in a pod with a
 * limit, which the buffers of a stream fill thirty times per GiB (a quarter of all CPU), and three times as
 * much in a pod without a limit, so that memory would grow with the streamed bytes.
 */
const HEAP_GROWTH_PERCENT = 50

/** The kubelet updates a changed Secret in its pods within about a minute. */
const ROTATION_MS = 90_000

async function runPostRenderer({ arguments: args, print }: Environment): Promise<number> {
  const [, , release = '', ...options] = args
  const option = (name: string) =>
    options.find((text) => text.startsWith(`${name}=`))?.slice(name.length + 1)
  const partition = option('partition')
  const gracePeriod = option('grace-period')
  const monitorTls = option('monitor-tls')
  const [{ adjustManifests }, manifests] = await Promise.all([
    import('./cluster/post-render.ts'),
    text(process.stdin),
  ])
  try {
    const changed = adjustManifests(manifests, {
      release,
      ...(partition !== undefined && { partition: Number(partition) }),
      secretChecksum: option('secret-checksum'),
      image: option('image'),
      ...(gracePeriod !== undefined && { gracePeriod: Number(gracePeriod) }),
      ...(monitorTls !== undefined && { monitorTls: JSON.parse(monitorTls) as MonitorTls }),
    })
    if (print === undefined) await writeAll(process.stdout, changed)
    else print(changed)
    return EXIT.done
  } catch (error) {
    if (!(error instanceof Rejected)) throw error
    // helm repeats what its post-renderer writes to standard error.
    await writeAll(process.stderr, `${error.message}\n`)
    return EXIT.failed
  }
}

/** The process exits after the command, whatever a pipe has not taken yet. */
function writeAll(stream: NodeJS.WriteStream, content: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(content, (error) => (error == null ? resolve() : reject(error)))
  })
}

/** Loaded on demand: a Job does not need it. */
async function runUserCommand(environment: Environment): Promise<number> {
  const { runCli: serve } = await import('./kubectl/cli.ts')
  const { print = writerFor(process.stdout), printError = writerFor(process.stderr) } = environment
  const { ask = askOnTerminal } = environment
  return serve({ ...environment, print, complain: printError, ask })
}

/** The question is on standard error, where a redirection of the output does not hide it. */
async function askOnTerminal(question: string): Promise<string | undefined> {
  if (!process.stdin.isTTY) return undefined
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  return new Promise((resolve) => {
    // Ctrl-C and Ctrl-D close it without an answer.
    terminal.once('close', () => resolve(''))
    terminal.question(question, (answer) => {
      resolve(answer)
      terminal.close()
    })
  })
}

function writerFor(stream: NodeJS.WriteStream) {
  return (text: string) => stream.write(text)
}

function command<Schema extends TSchema>(
  verb: string,
  schema: Schema,
  load: () => Promise<(plan: Static<Schema>, dependencies: Dependencies) => Promise<RunResult>>,
): Command {
  return {
    verb,
    async run(text, reference, environment) {
      const plan = decodePlan(schema, text)
      const target = plan as JobTarget
      if (`${target.namespace}/${target.name}` !== reference) {
        throw new Rejected(`the plan is for ${target.namespace}/${target.name}, not ${reference}`)
      }
      const dependencies = createDependencies(target, verb, environment)
      const { hash, run: runNumber } = target
      dependencies.log.info({ target: reference, run: runNumber, plan: hash }, `${verb} started`)
      const [previous, run] = await Promise.all([dependencies.reporter.start(), load()])
      if (previous === undefined || previous.state === 'Started') {
        return withHeartbeat(dependencies.reporter, () => run(plan, dependencies))
      }
      dependencies.log.info(
        { state: previous.state },
        'an earlier pod of this Job has reported the outcome',
      )
      return previous.state
    },
  }
}

/** Not needed by a command that learns from its own reports that it must stop. */
async function withHeartbeat<Result>(
  reporter: Reporter,
  action: () => Promise<Result>,
): Promise<Result> {
  const timer = setInterval(() => void reporter.heartbeat().catch(() => undefined), HEARTBEAT_MS)
  // The timer does not keep an otherwise idle process alive.
  timer.unref()
  try {
    return await action()
  } finally {
    clearInterval(timer)
  }
}

function createDependencies(
  target: JobTarget,
  verb: string,
  environment: Environment,
): Dependencies {
  const { env, log, progressBar, time, signal, memoryBytes } = environment
  const access = inClusterAccess(env)
  const kubernetes = new Kubernetes(access, log)
  const podUid = env[JOB_ENV.podUid] ?? ''
  const jobUid = env[JOB_ENV.jobUid] ?? ''
  const reporter = new Reporter({
    ...{ kubernetes, target, verb, podUid, jobUid },
    ...{ time, log, signal },
  })
  return {
    // A pod that was presumed dead must not change what the one that replaced it works on.
    kubernetes: new Kubernetes(access, log, () => reporter.verifyOwnership()),
    helm: new Helm(log, {
      ...{ env, postRenderer: POST_RENDERER, chartCa: env[JOB_ENV.chartCa] ?? '' },
      chartCredentials: mountedChartCredentials(env),
    }),
    ...engineFactories(kubernetes, { env, log, time, signal }),
    openBucket: async (bucketTarget, hooks) => {
      // Only commands that use a bucket load the SDK: it costs 0.2 s and 30 MB of memory.
      const [{ Bucket }, credentials] = await Promise.all([
        import('./clients/s3/bucket.ts'),
        jobCredentials(bucketTarget, target.namespace, environment),
      ])
      return new Bucket({
        ...{ target: bucketTarget, credentials, time, log, memoryBytes, ...hooks },
        ...{ rotationMs: ROTATION_MS, proxyEnv: env },
      })
    },
    reporter,
    time,
    log,
    progressBar,
    podUid,
    jobUid,
    signal,
  }
}

/**
 * The credentials in the mounted Secret, or those of the identity of the pod's ServiceAccount, with the
 * certificate authority that the bucket names.
 */
async function jobCredentials(
  target: BucketAccess & { region: string },
  namespace: string,
  { env, log, time }: Pick<Environment, 'env' | 'log' | 'time'>,
): Promise<CredentialsReader> {
  const { credentialsSecretRef, serviceAccountName = '' } = target
  const { mountedBucketCa, mountedBucketCredentials, withCa } =
    await import('./clients/s3/credentials.ts')
  const readCa = mountedBucketCa(target, env)
  if (credentialsSecretRef !== undefined) {
    return withCa(mountedBucketCredentials(credentialsSecretRef, env), readCa)
  }
  const { identityCredentials } = await import('./clients/s3/identity.ts')
  const account = `${namespace}/${serviceAccountName}`
  const { region } = target
  return withCa(identityCredentials({ account, region, env, readCa, log, time }), readCa)
}

/** Host names of pods resolve only inside the Kubernetes cluster; VEC_ENGINE_ROUTE=proxy uses the proxy of the API server instead. */
function engineFactories(
  kubernetes: Kubernetes,
  { env, log, time, signal }: Pick<Environment, 'env' | 'log' | 'time' | 'signal'>,
): Pick<Dependencies, 'engineForPod' | 'engineForAddress'> {
  const connections = new EngineConnections({ clusterDomain: env[JOB_ENV.clusterDomain] })
  const transportFor = (address: Connection | string, ordinal?: number) => {
    if (typeof address === 'string') return urlTransport(address, connections)
    return env['VEC_ENGINE_ROUTE'] === 'proxy'
      ? apiProxyTransport(kubernetes, address, ordinal)
      : dnsTransport(connections, address, ordinal)
  }
  const clusterCredentials = mountedEngineCredentials(env)
  const keyRotation = (readCredentials: typeof clusterCredentials) =>
    new KeyRotation({
      ...{ read: readCredentials, time, signal, limitMs: ROTATION_MS },
      onWaiting: () => log.warn('waiting for a renewed API key of the engine'),
    })
  const clusterRotation = keyRotation(clusterCredentials)
  return {
    engineForPod: (connection, ordinal) =>
      new Engine({
        ...{ transport: transportFor(connection, ordinal), credentials: clusterCredentials, log },
        rotation: clusterRotation,
      }),
    engineForAddress: ({ address, ordinal, ...mountedKeys }) => {
      const credentials = mountedEngineCredentials(env, mountedKeys)
      return new Engine({
        transport: transportFor(address, ordinal),
        credentials,
        log,
        rotation: keyRotation(credentials),
      })
    },
  }
}

/** A Job logs for machines and users; commands of the CLI log for users only, on standard error. */
function isJobCommand([kind, verb]: string[]): boolean {
  return COMMANDS[`${kind ?? ''} ${verb ?? ''}`] !== undefined
}

/** Runs the command of this process, and ends it with the command's exit code. */
export async function start(): Promise<void> {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
  const controller = new AbortController()
  process.once('SIGTERM', () => controller.abort(new Error('SIGTERM')))
  process.once('SIGINT', () => controller.abort(new Error('SIGINT')))
  const isJob = isJobCommand(process.argv.slice(2))
  const progressBar = process.stdout.isTTY ? new ProgressBar(process.stdout) : undefined
  if (!isJob) process.stdout.on('error', endWithoutReader)
  const code = await main({
    arguments: process.argv.slice(2),
    env: process.env,
    // The standard output of a command for users has only its result.
    log: isJob
      ? jobLog(process.env, progressBar?.logAbove(standardOutput()))
      : jobLog({ LOG_FORMAT: 'text', ...process.env }, standardError()),
    progressBar,
    time: systemClock,
    signal: controller.signal,
  })
  // A pipe takes 64 KiB at once.
  if (!isJob) await Promise.all([process.stdout, process.stderr].map(flush))
  // Idle connections would keep the process alive for seconds; the log is already written.
  process.exit(code)
}

/** `vec-operator logs | head`: what is left has no reader. */
function endWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error
  process.exit(EXIT_WITHOUT_READER)
}

/** Not 0: the command did not get to its end. */
const EXIT_WITHOUT_READER = 1

async function flush(stream: NodeJS.WriteStream): Promise<void> {
  if (stream.writableLength === 0) return
  await new Promise<void>((resolve) => {
    stream.write('', () => {
      resolve()
    })
  })
}

if (import.meta.main) void start()

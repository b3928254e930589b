#!/usr/bin/env node
/**
 * The companion CLI: `<kind> <verb> <namespace>/<name>` runs jobs/<kind>/<verb>.ts with the plan from
 * the environment. It turns every way a command can end into an exit code, once the report is made.
 * Anything else is for people: jobs/kubectl/cli.ts.
 */
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
  UninstallPlan,
  UpgradePlan,
} from '../crds/contract/job.ts'
import { MigrationPlan } from '../crds/contract/migration-job.ts'
import { RestorePlan } from '../crds/contract/restore-job.ts'
import { Engine } from './clients/engine/client.ts'
import { KeyRotation, mountedEngineCredentials } from './clients/engine/credentials.ts'
import {
  apiProxyTransport,
  dnsTransport,
  EngineConnections,
  urlTransport,
} from './clients/engine/transport.ts'
import { Helm } from './clients/helm.ts'
import { inClusterAccess, Kubernetes } from './clients/kubernetes/client.ts'
import { systemClock, type Clock } from './clock.ts'
import type { Dependencies, RunResult } from './dependencies.ts'
import { jobLog, standardOutput } from './log.ts'
import { ProgressBar } from './progress.ts'
import { HEARTBEAT_MS, Reporter, ResourceDeleted, type JobTarget } from './reporter.ts'

export interface Environment {
  arguments: string[]
  env: NodeJS.ProcessEnv
  log: Logger
  /** Where a terminal watches. */
  progressBar?: ProgressBar | undefined
  time: Clock
  /** Aborts on SIGTERM. */
  signal: AbortSignal
  /** Memory of this process; default: that of its container. */
  memoryBytes?: number | undefined
  /** Standard output and standard error, for people. */
  print?: (text: string) => unknown
  printError?: (text: string) => unknown
}

/** A command: its plan, and what to do with it. */
interface Command {
  verb: string
  run(text: string, reference: string, environment: Environment): Promise<RunResult>
}

/** Each loads its own modules, and no other's: a Job is to start at once. */
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
  'backup run': command('run', BackupPlan, async () => (await import('./backup/run.ts')).run),
  'restore run': command('run', RestorePlan, async () => (await import('./restore/run.ts')).run),
  'migration run': command(
    'run',
    MigrationPlan,
    async () => (await import('./migration/run.ts')).run,
  ),
}

/** Runs one command and answers with its exit code. */
export async function main(environment: Environment): Promise<number> {
  const { env, log, signal } = environment
  const [kind = '', verb = '', reference = ''] = environment.arguments
  try {
    const command = COMMANDS[`${kind} ${verb}`]
    if (command === undefined) return await runUserCommand(environment)
    const outcome = await command.run(env[JOB_ENV.plan] ?? '', reference, environment)
    log.info({ outcome }, `${kind} ${verb} has ended`)
    return outcome === 'Done' ? EXIT.done : EXIT.failed
  } catch (error) {
    if (error instanceof ResourceDeleted) {
      log.warn({ reason: error.message }, 'nothing is left to do')
      return EXIT.failed
    }
    // SIGTERM: the clean-up is done, and the Job controller may start another pod.
    if (signal.aborted) log.warn('ended by a signal')
    else log.error({ err: error }, 'crashed')
    return EXIT.crash
  }
}

/**
 * By how many percent the heap grows between two full collections. By itself V8 takes a third in a pod
 * with a limit, which the buffers of a stream fill thirty times in a GiB (a quarter of all CPU), and
 * three times as much in one without, so that memory grows with what is streamed.
 */
const HEAP_GROWTH_PERCENT = 50

/** The kubelet brings a Secret that was changed to its pods within about a minute. */
const ROTATION_MS = 90_000

/** Loaded only then: a Job has no use for it. */
async function runUserCommand(environment: Environment): Promise<number> {
  const { runCli: serve } = await import('./kubectl/cli.ts')
  const { print = writerFor(process.stdout), printError = writerFor(process.stderr) } = environment
  return serve({ ...environment, print, complain: printError })
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
      dependencies.log.info({ target: reference, run: runNumber, plan: hash }, `${verb} starts`)
      const [previous, run] = await Promise.all([dependencies.reporter.start(), load()])
      if (previous === undefined || previous.state === 'Started') {
        return withHeartbeat(dependencies.reporter, () => run(plan, dependencies))
      }
      dependencies.log.info(
        { state: previous.state },
        'an earlier pod of this Job has reported its end',
      )
      return previous.state
    },
  }
}

/** A command that learns from its own reports that it must stop has no need to learn it here. */
async function withHeartbeat<Result>(
  reporter: Reporter,
  action: () => Promise<Result>,
): Promise<Result> {
  const timer = setInterval(() => void reporter.heartbeat().catch(() => undefined), HEARTBEAT_MS)
  // It keeps no process alive that has nothing else to do.
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
  const kubernetes = new Kubernetes(inClusterAccess(env), log)
  const podUid = env[JOB_ENV.podUid] ?? ''
  const jobUid = env[JOB_ENV.jobUid] ?? ''
  return {
    kubernetes,
    helm: new Helm(log, { env }),
    ...engineFactories(kubernetes, { env, log, time, signal }),
    openBucket: async (bucketTarget, onWaiting) => {
      // Only what touches a bucket pays for the SDK: 0.2 s, and 30 MB of memory.
      const [{ Bucket }, { mountedBucketCredentials }] = await Promise.all([
        import('./clients/s3/bucket.ts'),
        import('./clients/s3/credentials.ts'),
      ])
      const credentials = mountedBucketCredentials(bucketTarget.credentialsSecretRef, env)
      const rotation = { rotationMs: ROTATION_MS, onWaiting }
      return new Bucket({ target: bucketTarget, credentials, time, log, memoryBytes, ...rotation })
    },
    reporter: new Reporter({ kubernetes, target, verb, podUid, jobUid, time, log, signal }),
    time,
    log,
    progressBar,
    podUid,
    jobUid,
    signal,
  }
}

/** Host names of pods resolve only inside the Kubernetes cluster; VEC_ENGINE_ROUTE=proxy goes around. */
function engineFactories(
  kubernetes: Kubernetes,
  { env, log, time, signal }: Pick<Environment, 'env' | 'log' | 'time' | 'signal'>,
): Pick<Dependencies, 'engineForPod' | 'engineForAddress'> {
  const connections = new EngineConnections()
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
      onWaiting: () => log.warn('waits for a renewed key of the engine'),
    })
  const clusterRotation = keyRotation(clusterCredentials)
  return {
    engineForPod: (connection, ordinal) =>
      new Engine({
        ...{ transport: transportFor(connection, ordinal), credentials: clusterCredentials, log },
        rotation: clusterRotation,
      }),
    engineForAddress: ({ address, ...mountedKeys }) => {
      const credentials = mountedEngineCredentials(env, mountedKeys)
      return new Engine({
        transport: transportFor(address),
        credentials,
        log,
        rotation: keyRotation(credentials),
      })
    },
  }
}

/** A Job's log is for machines too; what people start is read by people. */
function isJobCommand([kind, verb]: string[]): boolean {
  return COMMANDS[`${kind ?? ''} ${verb ?? ''}`] !== undefined
}

if (import.meta.main) {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
  const controller = new AbortController()
  process.once('SIGTERM', () => controller.abort(new Error('SIGTERM')))
  process.once('SIGINT', () => controller.abort(new Error('SIGINT')))
  const progressBar = process.stdout.isTTY ? new ProgressBar(process.stdout) : undefined
  const code = await main({
    arguments: process.argv.slice(2),
    env: process.env,
    log: jobLog(
      isJobCommand(process.argv.slice(2)) ? process.env : { LOG_FORMAT: 'text', ...process.env },
      progressBar?.logAbove(standardOutput()),
    ),
    progressBar,
    time: systemClock,
    signal: controller.signal,
  })
  // Idle connections would keep the process for seconds; the log has been written.
  process.exit(code)
}

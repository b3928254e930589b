#!/usr/bin/env node
/**
 * The companion CLI: `<kind> <verb> <namespace>/<name>` runs jobs/<kind>/<verb>.ts with the plan from
 * the environment. It turns every way a command can end into an exit code, once the report is made.
 * Anything else is for people: jobs/people/cli.ts.
 */
import { setFlagsFromString } from 'node:v8'
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import {
  BackupPlan,
  EXIT,
  JOB_ENV,
  UninstallPlan,
  UpgradePlan,
  decodePlan,
} from '../crds/command.ts'
import type { Connection } from '../crds/connection.ts'
import { Rejected } from '../crds/errors.ts'
import { MigrationPlan } from '../crds/migration-command.ts'
import { RestorePlan } from '../crds/restore-command.ts'
import { Bar } from './bar.ts'
import { mountedEngineCredentials } from './clients/credentials.ts'
import { KeyRotation } from './clients/key-rotation.ts'
import { EngineConnections, directRoute, proxyRoute, routeTo } from './clients/engine-route.ts'
import { Engine } from './clients/engine.ts'
import { Helm } from './clients/helm.ts'
import { Kubernetes, podAccess } from './clients/kubernetes.ts'
import { jobLog, standardOutput } from './log.ts'
import { HEARTBEAT_MS, Gone, Reporter, type Subject } from './report.ts'
import { systemTime, type Time } from './time.ts'
import type { Outcome, Tools } from './tools.ts'

export interface Surroundings {
  arguments: string[]
  env: NodeJS.ProcessEnv
  log: Logger
  /** Where a terminal watches. */
  bar?: Bar | undefined
  time: Time
  /** Aborts on SIGTERM. */
  signal: AbortSignal
  /** Memory of this process; default: that of its container. */
  memoryBytes?: number | undefined
  /** Standard output and standard error, for people. */
  print?: (text: string) => unknown
  complain?: (text: string) => unknown
}

/** A command: its plan, and what to do with it. */
interface Command {
  verb: string
  run(text: string, target: string, surroundings: Surroundings): Promise<Outcome>
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
export async function main(surroundings: Surroundings): Promise<number> {
  const { env, log, signal } = surroundings
  const [kind = '', verb = '', target = ''] = surroundings.arguments
  try {
    const command = COMMANDS[`${kind} ${verb}`]
    if (command === undefined) return await forPeople(surroundings)
    const outcome = await command.run(env[JOB_ENV.plan] ?? '', target, surroundings)
    log.info({ outcome }, `${kind} ${verb} has ended`)
    return outcome === 'Done' ? EXIT.done : EXIT.over
  } catch (error) {
    if (error instanceof Gone) {
      log.warn({ reason: error.message }, 'nothing is left to do')
      return EXIT.over
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
async function forPeople(surroundings: Surroundings): Promise<number> {
  const { serve } = await import('./people/cli.ts')
  const { print = write(process.stdout), complain = write(process.stderr) } = surroundings
  return serve({ ...surroundings, print, complain })
}

function write(stream: NodeJS.WriteStream) {
  return (text: string) => stream.write(text)
}

function command<Schema extends TSchema>(
  verb: string,
  schema: Schema,
  load: () => Promise<(plan: Static<Schema>, tools: Tools) => Promise<Outcome>>,
): Command {
  return {
    verb,
    async run(text, target, surroundings) {
      const plan = decodePlan(schema, text)
      const subject = plan as Subject
      if (`${subject.namespace}/${subject.name}` !== target) {
        throw new Rejected(`the plan is for ${subject.namespace}/${subject.name}, not ${target}`)
      }
      const tools = toolsOf(subject, verb, surroundings)
      const { hash, run: number } = subject
      tools.log.info({ target, run: number, plan: hash }, `${verb} starts`)
      const [earlier, run] = await Promise.all([tools.reporter.started(), load()])
      if (earlier === undefined || earlier.state === 'Started') {
        return withHeartbeat(tools.reporter, () => run(plan, tools))
      }
      tools.log.info({ state: earlier.state }, 'an earlier pod of this Job has reported its end')
      return earlier.state
    },
  }
}

/** A command that learns from its own reports that it must stop has no need to learn it here. */
async function withHeartbeat<Result>(
  reporter: Reporter,
  work: () => Promise<Result>,
): Promise<Result> {
  const timer = setInterval(() => void reporter.beat().catch(() => undefined), HEARTBEAT_MS)
  // It keeps no process alive that has nothing else to do.
  timer.unref()
  try {
    return await work()
  } finally {
    clearInterval(timer)
  }
}

function toolsOf(subject: Subject, verb: string, surroundings: Surroundings): Tools {
  const { env, log, bar, time, signal, memoryBytes } = surroundings
  const kubernetes = new Kubernetes(podAccess(env), log)
  const runner = env[JOB_ENV.podUid] ?? ''
  const job = env[JOB_ENV.jobUid] ?? ''
  return {
    kubernetes,
    helm: new Helm(log, { env }),
    ...enginesOf(kubernetes, { env, log, time, signal }),
    bucketAt: async (target, waiting) => {
      // Only what touches a bucket pays for the SDK: 0.2 s, and 30 MB of memory.
      const [{ Bucket }, { mountedBucketCredentials }] = await Promise.all([
        import('./clients/s3.ts'),
        import('./clients/s3-credentials.ts'),
      ])
      const credentials = mountedBucketCredentials(target.credentialsSecretRef, env)
      const waits = { rotationMs: ROTATION_MS, waiting }
      return new Bucket({ target, credentials, time, log, memoryBytes, ...waits })
    },
    reporter: new Reporter({ kubernetes, subject, verb, runner, job, time, log, signal }),
    time,
    log,
    bar,
    runner,
    job,
    signal,
  }
}

/** Host names of pods resolve only inside the Kubernetes cluster; VEC_ENGINE_ROUTE=proxy goes around. */
function enginesOf(
  kubernetes: Kubernetes,
  { env, log, time, signal }: Pick<Surroundings, 'env' | 'log' | 'time' | 'signal'>,
): Pick<Tools, 'engineOn' | 'engineAt'> {
  const connections = new EngineConnections()
  const routeOf = (at: Connection | string, ordinal?: number) => {
    if (typeof at === 'string') return routeTo(at, connections)
    return env['VEC_ENGINE_ROUTE'] === 'proxy'
      ? proxyRoute(kubernetes, at, ordinal)
      : directRoute(connections, at, ordinal)
  }
  const own = mountedEngineCredentials(env)
  const rotationOf = (read: typeof own) =>
    new KeyRotation({
      ...{ read, time, signal, limitMs: ROTATION_MS },
      waiting: () => log.warn('waits for a renewed key of the engine'),
    })
  const ownRotation = rotationOf(own)
  return {
    engineOn: (connection, ordinal) =>
      new Engine({
        ...{ route: routeOf(connection, ordinal), credentials: own, log },
        rotation: ownRotation,
      }),
    engineAt: ({ at, ...mounts }) => {
      const credentials = mountedEngineCredentials(env, mounts)
      return new Engine({ route: routeOf(at), credentials, log, rotation: rotationOf(credentials) })
    },
  }
}

/** A Job's log is for machines too; what people start is read by people. */
function isOfJob([kind, verb]: string[]): boolean {
  return COMMANDS[`${kind ?? ''} ${verb ?? ''}`] !== undefined
}

if (import.meta.main) {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`)
  const controller = new AbortController()
  process.once('SIGTERM', () => controller.abort(new Error('SIGTERM')))
  process.once('SIGINT', () => controller.abort(new Error('SIGINT')))
  const bar = process.stdout.isTTY ? new Bar(process.stdout) : undefined
  const code = await main({
    arguments: process.argv.slice(2),
    env: process.env,
    log: jobLog(
      isOfJob(process.argv.slice(2)) ? process.env : { LOG_FORMAT: 'text', ...process.env },
      bar?.above(standardOutput()),
    ),
    bar,
    time: systemTime,
    signal: controller.signal,
  })
  // Idle connections would keep the process for seconds; the log has been written.
  process.exit(code)
}

/**
 * `npm run demo`: a world, the samples of docs/samples, and a tour through the life of the resources.
 * Nothing is left behind, whether the demo ends, is interrupted or fails.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { ApiClient } from './client.ts'
import type { Guide } from './demo/guide.ts'
import { lineGuide } from './demo/lines.ts'
import { liveGuide } from './demo/live.ts'
import { JobLogs } from './demo/logs.ts'
import { phaseOf, referenceOf, sampleOf, take, type DemoContext } from './demo/step.ts'
import { WATCHED_KINDS, TOUR } from './demo/tour.ts'
import { Watcher } from './demo/watcher.ts'
import { startEmbeddedWorld } from './embedded.ts'
import { NotSupported, type BucketCall, type World, type WorldBucket } from './world.ts'

const USAGE = `Usage: npm run demo -- [options]
  --cluster       on a real cluster: that of KUBECONFIG, else one of its own (as npm run test:cluster)
  --logs          print the log of each Job that has ended, where there is no terminal
  --plain         print lines also in a terminal
  --samples DIR   apply the samples of this folder (docs/samples)
  --help          print this
In a terminal: l shows the log of a Job, arrows select one, q or Ctrl-C leaves.
`

const SAMPLES = new URL('../../docs/samples', import.meta.url).pathname

const FLAGS = {
  cluster: { type: 'boolean', default: false },
  logs: { type: 'boolean', default: false },
  plain: { type: 'boolean', default: false },
  samples: { type: 'string', default: SAMPLES },
  help: { type: 'boolean', default: false },
} as const

/** What the demo needs of a world in addition to what scenarios need. */
type DemoWorld = World & { client: ApiClient; clock?: { now(): Date } }

type Samples = DemoContext['samples']

/** Human-readable logs of Jobs; inside Kubernetes they are JSON. */
const LOG_ENV = { LOG_FORMAT: 'text', LOG_LEVEL: 'INFO' }
const GARBAGE_COLLECTION_SECONDS = 5
const UPLOAD_SECONDS = 2
const CLOSE_WITHIN_MS = 180_000

/** Ends by Ctrl-C: as shells count it. */
const INTERRUPTED = 130

async function main(): Promise<number> {
  const { values } = parseArgs({ options: FLAGS, strict: true })
  if (values.help) {
    process.stdout.write(USAGE)
    return 0
  }
  const interruption = new AbortController()
  const interrupt = () => {
    interruption.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, interrupt)
  const samples = readSamples(values.samples)
  const live = process.stdout.isTTY && process.stdin.isTTY && !values.plain
  const world = await (values.cluster ? startCluster() : startEmbeddedWorld({ env: LOG_ENV }))
  try {
    await runDemo(world, samples, { live, withLogs: values.logs, interruption })
  } finally {
    await closeWorld(world)
  }
  if (live) print('The demo has ended; it leaves nothing behind.')
  return interruption.signal.aborted && !live ? INTERRUPTED : 0
}

interface DisplayOptions {
  live: boolean
  withLogs: boolean
  interruption: AbortController
}

/** Takes the tour until its end or until the user leaves. */
async function runDemo(world: DemoWorld, samples: Samples, display: DisplayOptions): Promise<void> {
  const { signal } = display.interruption
  const namespace = await world.namespace('demo')
  const watcher = new Watcher(world.client, namespace)
  const guide = createGuide(world, { ...display, watcher, namespace })
  try {
    for (const { apiVersion, kind } of WATCHED_KINDS) watcher.follow(apiVersion, kind)
    await Promise.race([
      tour({ world, namespace, samples }, { guide, watcher, signal }),
      waitForAbort(signal),
    ])
  } finally {
    await guide.close()
    await watcher.stop()
  }
}

async function tour(
  start: DemoContext,
  { guide, watcher, signal }: { guide: Guide; watcher: Watcher; signal: AbortSignal },
): Promise<void> {
  const bucket = await createBucket(start)
  const context: DemoContext = { ...start, ...(bucket !== undefined && { bucket }) }
  for (const step of TOUR) {
    if (step.needsBucket && bucket === undefined) continue
    await guide.announce(step, context.namespace)
    if (signal.aborted) return
    const result = await take(step, context)
    const last = step.phases.at(-1)
    const reference = referenceOf(sampleOf(context, step.sample))
    await watcher.caughtUp(reference, (object) => phaseOf(object) === last)
    if (result !== undefined) await guide.report(result)
  }
  // What the last step leaves to garbage collection.
  await context.world.advance(GARBAGE_COLLECTION_SECONDS)
  await guide.end()
}

/** Undefined in an existing cluster without a store. The first backup is slow enough to be watched. */
async function createBucket({ world, namespace }: DemoContext): Promise<WorldBucket | undefined> {
  try {
    const bucket = await world.bucket(namespace)
    if (world.kind === 'embedded') {
      bucket.misbehave((call) =>
        isFirstUpload(call) ? { hold: world.advance(UPLOAD_SECONDS) } : undefined,
      )
    }
    return bucket
  } catch (error) {
    if (error instanceof NotSupported) return undefined
    throw error
  }
}

function isFirstUpload({ method, key }: BucketCall): boolean {
  return method === 'PUT' && /^by-hand\/.*\.snapshot$/.test(key)
}

function createGuide(
  world: DemoWorld,
  {
    live,
    withLogs,
    interruption,
    watcher,
    namespace,
  }: DisplayOptions & { watcher: Watcher; namespace: string },
): Guide {
  const logs = new JobLogs(world, namespace, watcher)
  const now = () => world.clock?.now() ?? new Date()
  const title = `vec-operator demo, ${world.kind} world`
  if (!live) {
    for (const line of [title, ...world.components.map((part) => `  ${part}`)]) print(line)
    return lineGuide({ watcher, logs, withLogs, now, print })
  }
  const interrupt = () => {
    interruption.abort()
  }
  return liveGuide({ watcher, logs, title, now, leave: interrupt, left: interruption.signal })
}

/** Limits the time that closing takes, so that the process always ends. */
async function closeWorld(world: World): Promise<void> {
  const timeout = setTimeout(() => {
    process.stderr.write('demo: the world does not close\n')
    process.exit(1)
  }, CLOSE_WITHIN_MS)
  await world.close()
  clearTimeout(timeout)
}

/** Imported only here: it needs what the embedded world does not. */
async function startCluster(): Promise<DemoWorld> {
  const { startClusterWorld } = await import('../cluster/world.ts')
  return startClusterWorld(print)
}

function readSamples(folder: string): Samples {
  const files = readdirSync(folder).filter((file) => file.endsWith('.yaml'))
  return new Map(
    files.map((file) => {
      const object = parse(readFileSync(join(folder, file), 'utf8')) as AnyObject
      return [basename(file, '.yaml'), object]
    }),
  )
}

async function waitForAbort(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve, { once: true })
  })
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

main().then(
  (code) => {
    process.exitCode = code
  },
  (error: unknown) => {
    process.stderr.write(`demo: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = 1
  },
)

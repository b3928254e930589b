/**
 * A migration between two real engines (ENGINE_BIN), in turns with the tool a user would take instead,
 * qdrant/migration (MIGRATION_TOOL), at its default settings and at its best. All start with an absent
 * target collection and are timed from the start of their process to its end, so that ours includes
 * the proof.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { JOB_ENV, encodePlan } from '../../crds/command.ts'
import { definitionOf } from '../../crds/definition.ts'
import type { MigrationPlan } from '../../crds/migration-command.ts'
import { VecMigration } from '../../crds/migration.ts'
import { API_VERSION, HTTP_PORT } from '../../crds/names.ts'
import { realSubject, type RealSubject } from '../contract/engine/real.ts'
import { startApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { MovableClock } from '../world/clock.ts'
import type { Part, Plan } from './part.ts'
import { BUILD, build, cpuOf, memoryOf, ROOT } from './processes.ts'
import { median, type Figure } from './table.ts'

const POINTS = 60_000
const DIMENSIONS = 384
const FILL_BATCH = 500
const LOOK_EVERY_MS = 50
/** Where test/doubles/loopback-names.ts finds the Service of the cluster: beside those of other parts. */
const TARGET_HOST = '127.0.0.4'
const BEST_BATCH = 500

export const migration: Part = {
  name: 'migration',
  title: `A VecMigration of ${POINTS} points`,
  columns: ['Job', 'qdrant/migration'],
  measure: async (plan) => {
    const engine = process.env['ENGINE_BIN']
    if (engine === undefined) {
      process.stdout.write('migration: ENGINE_BIN names no engine: not measured\n')
      return []
    }
    build()
    return withEngines(engine, (engines) => compare(plan, engines))
  },
}

interface Engines {
  source: RealSubject
  target: RealSubject
}

interface Run {
  /** Points per second, from the start of the process to its end. */
  rate: number
  /** The same by processor time, of the process and both engines: what else the machine does counts less. */
  perCpuSecond: number
  /** The most memory it ever had, in MiB. */
  peak: number
}

async function withEngines<Result>(
  bin: string,
  measure: (engines: Engines) => Promise<Result>,
): Promise<Result> {
  const setting = { size: 'one', service: {} } as const
  const source = await realSubject(bin, setting)
  try {
    const target = await realSubject(bin, setting, { host: TARGET_HOST, port: HTTP_PORT })
    try {
      return await measure({ source, target })
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

async function compare({ pairs }: Plan, engines: Engines): Promise<Figure[]> {
  await fill(engines.source.urls[0] ?? '')
  const job = await migrationJob(engines)
  const tool = process.env['MIGRATION_TOOL']
  const runs = { job: [] as Run[], standard: [] as Run[], best: [] as Run[] }
  try {
    for (let pair = 0; pair < pairs; pair += 1) {
      runs.job.push(await measured(engines, await job.command()))
      if (tool === undefined) continue
      runs.standard.push(await measured(engines, toolCommand(tool, engines)))
      runs.best.push(await measured(engines, toolCommand(tool, engines, BEST_BATCH)))
    }
  } finally {
    await job.close()
  }
  return figuresOf(runs)
}

function figuresOf({ job, standard, best }: Record<'job' | 'standard' | 'best', Run[]>): Figure[] {
  const compared = (what: string, others: Run[], field: 'rate' | 'perCpuSecond'): Figure => {
    const values = job.map((run) => run[field])
    const figure = { what, unit: '/s', value: median(values), best: Math.max(...values) }
    if (others.length === 0) return figure
    return { ...figure, yardstick: median(others.map((run) => run[field])) }
  }
  const beside = (what: string, others: Run[], factor: number): Figure[] => {
    const figure = compared(`points, ${what}`, others, 'rate')
    const { value, yardstick = 0 } = figure
    const target = Math.round(factor * yardstick)
    return [
      { ...figure, ...(yardstick > 0 && { target, met: value >= target }) },
      compared(`points per CPU second of all, ${what}`, others, 'perCpuSecond'),
    ]
  }
  const peak = Math.max(...job.map(({ peak: most }) => most))
  const tools = [...standard, ...best].map(({ peak: most }) => most)
  return [
    ...beside('beside its default settings', standard, 1.8),
    ...beside(`beside its best (batches of ${BEST_BATCH})`, best, 1.1),
    {
      ...{ what: 'RSS, peak', unit: 'MiB', value: peak, target: 256, met: peak < 256 },
      ...(tools.length > 0 && { yardstick: Math.max(...tools) }),
    },
  ]
}

interface Command {
  file: string
  args: string[]
  env: NodeJS.ProcessEnv
}

/** One run into an absent collection; it must have brought every point. */
async function measured(engines: Engines, { file, args, env }: Command): Promise<Run> {
  const { source, target } = engines
  const url = target.urls[0] ?? ''
  for (const name of ['docs', '_migration_offsets'])
    await call(url, 'DELETE', `/collections/${name}`)
  const ofEngines = () => [...source.pids, ...target.pids].reduce((sum, pid) => sum + cpuOf(pid), 0)
  const before = ofEngines()
  const began = performance.now()
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const output = Promise.all([text(child.stdout), text(child.stderr)])
  const used = { peak: 0, cpu: 0 }
  const looking = setInterval(() => look(child.pid ?? 0, used), LOOK_EVERY_MS)
  const [code] = (await once(child, 'exit')) as [number | null]
  const seconds = (performance.now() - began) / 1000
  clearInterval(looking)
  const cpuSeconds = used.cpu + ofEngines() - before
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${(await output).join('\n')}`)
  const count = await call(url, 'POST', '/collections/docs/points/count', { exact: true })
  if ((count as { count: number }).count !== POINTS) throw new Error(`${file}: not all points came`)
  return { rate: POINTS / seconds, perCpuSecond: POINTS / cpuSeconds, peak: used.peak }
}

/** What a process has used so far: it cannot be asked once it is gone. */
function look(pid: number, used: { peak: number; cpu: number }): void {
  try {
    used.peak = memoryOf(pid).peak
    used.cpu = cpuOf(pid)
  } catch {
    // It has just ended.
  }
}

function toolCommand(tool: string, { source, target }: Engines, batch?: number): Command {
  const args = [
    'qdrant',
    ...['--source.url', source.grpcUrls[0] ?? '', '--source.collection', 'docs'],
    ...['--target.url', target.grpcUrls[0] ?? '', '--target.collection', 'docs'],
    ...(batch === undefined ? [] : ['--migration.batch-size', String(batch)]),
  ]
  return { file: tool, args, env: { PATH: process.env['PATH'], HOME: process.env['HOME'] } }
}

/** The Job as its pod would run it, but for the names of the cluster. */
async function migrationJob({ source }: Engines) {
  const server = await startApi(new MovableClock(new Date()))
  const api = new ApiClient({ server: server.url, token: server.token })
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const token = join(folder, 'token')
  writeFileSync(token, server.token)
  const close = async () => {
    await api.close()
    await server.close()
    rmSync(folder, { recursive: true })
  }
  const url = source.urls[0] ?? ''
  const namespace = 'ns'
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  await api.create(definitionOf(VecMigration, '0.0.0'))
  let made = 0
  /** Each run has a resource of its own: one that has ended is not run again. */
  const command = async (): Promise<Command> => {
    const name = `m${(made += 1)}`
    const { metadata } = await api.create({
      apiVersion: API_VERSION,
      kind: 'VecMigration',
      metadata: { name, namespace },
      spec: { source: { endpoint: { url } }, targetClusterRef: { name: 'a' } },
    })
    const plan: MigrationPlan = {
      ...{ resource: 'vecmigrations', namespace, name, uid: metadata.uid ?? '' },
      ...{ run: 1, hash: 'hash' },
      source: { url },
      target: { namespace, name: 'a', replicas: 1, tls: false },
    }
    const names = join(ROOT, 'test', 'doubles', 'loopback-names.ts')
    const cli = join(BUILD, 'jobs', 'cli.js')
    return {
      file: process.execPath,
      args: ['--import', names, cli, 'migration', 'run', `${namespace}/${name}`],
      env: {
        VEC_API_SERVER: server.url,
        VEC_API_TOKEN_FILE: token,
        LOOPBACK_CLUSTER: TARGET_HOST,
        // As the hook sets them.
        NODE_OPTIONS: '--use-system-ca --max-semi-space-size=1',
        MALLOC_ARENA_MAX: '2',
        [JOB_ENV.plan]: encodePlan(plan, 'spec'),
        [JOB_ENV.podUid]: 'pod',
        [JOB_ENV.jobUid]: 'job',
      },
    }
  }
  return { command, close }
}

/** The same points at every run: a generator of Lehmer's. */
async function fill(url: string): Promise<void> {
  const vectors = { size: DIMENSIONS, distance: 'Cosine' }
  await call(url, 'PUT', '/collections/docs', { vectors })
  let seed = 42
  const random = () => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647
  for (let from = 0; from < POINTS; from += FILL_BATCH) {
    const points = Array.from({ length: FILL_BATCH }, (_, n) => ({
      id: from + n,
      vector: Array.from({ length: DIMENSIONS }, () => Math.fround(random() * 2 - 1)),
      payload: { title: `document ${from + n}`, tenant: (from + n) % 100, score: random() },
    }))
    await call(url, 'PUT', '/collections/docs/points?wait=true', { points })
  }
}

async function call(url: string, method: string, path: string, body?: object): Promise<unknown> {
  const response = await fetch(url + path, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  }).catch((cause: unknown) => {
    throw new Error(`${method} ${path}: ${String((cause as Error).cause)}`, { cause })
  })
  const answer = await response.text()
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${answer}`)
  return (JSON.parse(answer) as { result: unknown }).result
}

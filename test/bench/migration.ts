/**
 * A migration between two real engines (ENGINE_BIN), alternating with the tool a user would take instead,
 * qdrant/migration (MIGRATION_TOOL), at its default settings and at its best. All start with an absent
 * target collection. The tool only copies, so the copy is compared: from the start of the process until
 * all points are written. The comparison of both sides that follows has rows of its own.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { taken, type Command } from './job.ts'
import { LARGE_POINTS, largePoints } from './large-points.ts'
import { call } from './engine-calls.ts'
import { withEngines, withJob, type Engines } from './migrating.ts'
import type { Part, Plan } from './part.ts'
import { build, cpuOf } from './processes.ts'
import { median, type Figure } from './table.ts'

const POINTS = 60_000
const DIMENSIONS = 384
const FILL_BATCH = 500
const GREEN_POLL_MS = 500
const BEST_BATCH = 500

export const migration: Part = {
  name: 'migration',
  title: `A VecMigration of ${POINTS} points`,
  columns: ['Job', 'qdrant/migration'],
  usage: `
ENGINE_BIN names the engine; without it nothing is measured. MIGRATION_TOOL names a built
github.com/qdrant/migration; without it nothing stands beside the Job.`,
  needs: [
    { variable: 'ENGINE_BIN', rows: 'every row' },
    { variable: 'MIGRATION_TOOL', rows: 'ratios and targets compared with qdrant/migration' },
  ],
  targets: () => [
    'points copied, beside its default settings',
    `points copied, beside its best (batches of ${BEST_BATCH})`,
    'RSS, peak',
    LARGE_POINTS,
  ],
  measure: async (plan) => {
    const engine = process.env['ENGINE_BIN']
    if (engine === undefined) return []
    await build()
    return withEngines(engine, async (engines) => [
      ...(await compare(plan, engines)),
      await largePoints(engines),
    ])
  },
}

/** What a run had done at a moment: from its start on, and of the process and both engines. */
interface Moment {
  seconds: number
  cpuSeconds: number
}

interface Run {
  /** When all points were copied, and when it ended. */
  copied: Moment
  ended: Moment
  /** The most memory it ever had, in MiB. */
  peak: number
}

async function compare({ pairs }: Plan, engines: Engines): Promise<Figure[]> {
  await fill(engines.source.urls[0] ?? '')
  const tool = process.env['MIGRATION_TOOL']
  const runs = { job: [] as Run[], standard: [] as Run[], best: [] as Run[] }
  for (let pair = 0; pair < pairs; pair += 1) {
    runs.job.push(await withJob(engines, ['docs'], (command) => measured(engines, command)))
    if (tool === undefined) continue
    runs.standard.push(await measured(engines, toolCommand(tool, engines)))
    runs.best.push(await measured(engines, toolCommand(tool, engines, BEST_BATCH)))
  }
  return figuresOf(runs)
}

function figuresOf({ job, standard, best }: Record<'job' | 'standard' | 'best', Run[]>): Figure[] {
  const rate = (what: string, of: (run: Run) => number, others: Run[] = []): Figure => {
    const values = job.map(of)
    const figure = { what, unit: '/s', value: median(values), best: Math.max(...values) }
    return others.length === 0 ? figure : { ...figure, yardstick: median(others.map(of)) }
  }
  const beside = (what: string, others: Run[], factor: number): Figure[] => {
    const figure = rate(`points copied, ${what}`, ({ copied }) => POINTS / copied.seconds, others)
    const { value, yardstick = 0 } = figure
    const target = Math.round(factor * yardstick)
    const perCpu = ({ copied }: Run) => POINTS / copied.cpuSeconds
    return [
      { ...figure, ...(yardstick > 0 && { target, met: value >= target }) },
      // What else the machine does counts less.
      rate(`points copied per CPU second of all, ${what}`, perCpu, others),
    ]
  }
  const peak = Math.max(...job.map(({ peak: most }) => most))
  const tools = [...standard, ...best].map(({ peak: most }) => most)
  return [
    ...beside('beside its default settings', standard, 1.8),
    ...beside(`beside its best (batches of ${BEST_BATCH})`, best, 1.1),
    {
      ...rate(
        'points compared whole, beside the copy by the same Jobs',
        ({ copied, ended }) => POINTS / (ended.seconds - copied.seconds),
      ),
      yardstick: median(job.map(({ copied }) => POINTS / copied.seconds)),
    },
    rate(
      'points compared whole per CPU second of all',
      ({ copied, ended }) => POINTS / (ended.cpuSeconds - copied.cpuSeconds),
    ),
    rate('points copied and compared', ({ ended }) => POINTS / ended.seconds),
    {
      ...{ what: 'RSS, peak', unit: 'MiB', value: peak, target: 256, met: peak < 256 },
      ...(tools.length > 0 && { yardstick: Math.max(...tools) }),
    },
  ]
}

/** One run into an absent collection; it must have brought every point. */
async function measured({ source, target }: Engines, command: Command): Promise<Run> {
  const url = target.urls[0] ?? ''
  for (const name of ['docs', '_migration_offsets']) {
    await call(url, 'DELETE', `/collections/${name}`)
  }
  const ofEngines = () => [...source.pids, ...target.pids].reduce((sum, pid) => sum + cpuOf(pid), 0)
  const [before, began] = [ofEngines(), performance.now()]
  const moment = (cpuSeconds: number): Moment => ({
    seconds: (performance.now() - began) / 1000,
    cpuSeconds: cpuSeconds + ofEngines() - before,
  })
  let copied: Moment | undefined
  const { cpuSeconds, peak } = await taken(command, (line, soFar) => {
    if (line.includes('"msg":"points copied"')) copied = moment(soFar)
  })
  const ended = moment(cpuSeconds)
  const count = await call(url, 'POST', '/collections/docs/points/count', { exact: true })
  if ((count as { count: number }).count !== POINTS) {
    throw new Error(`${command.file}: not all points came`)
  }
  // The tool ends when it has copied.
  return { copied: copied ?? ended, ended, peak }
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
  // What is still indexed would be counted as the work of who is measured first.
  for (;;) {
    const { status } = (await call(url, 'GET', '/collections/docs')) as { status: string }
    if (status === 'green') return
    await sleep(GREEN_POLL_MS)
  }
}

/**
 * `npm run bench`: how fast the hook service answers, how much memory it takes, and what it writes
 * when nothing happens; each beside a bare Fastify echo of the same bodies, taken in turns with it,
 * because what else the machine does counts for both. Asserts nothing; `--save` keeps the figures.
 */
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { parseOptions } from '../../metacontroller/options.ts'
import { startSettledApi } from './api.ts'
import { syncBodies } from './bodies.ts'
import { measureIdleHour } from './idle.ts'
import { run, type Rate } from './load.ts'
import { build, moveAside, ROOT, startBuiltService, startEcho, TOKEN } from './processes.ts'
import type { Measured } from './processes.ts'
import { median, print, type Figure } from './table.ts'

const USAGE = `Usage: npm run bench -- [options]
  --seconds N   length of each measurement (3)
  --pairs N     measurements of the service and of the echo, in turns (5)
  --parents N   different parents synced in turn for the memory (10000)
  --no-idle     leave out the idle hour
  --profile     write a CPU profile of the service to dist/bench
  --save        append the figures to test/bench/history.jsonl
  --help        print this
`

const FLAGS = {
  seconds: { type: 'string', default: '3' },
  pairs: { type: 'string', default: '5' },
  parents: { type: 'string', default: '10000' },
  'no-idle': { type: 'boolean', default: false },
  profile: { type: 'boolean', default: false },
  save: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
} as const

/** As many clusters as requests in flight: what Metacontroller has at work at once. */
const CLUSTERS = 50
const WARM_UP_SECONDS = 2
const SYNC = '/vecclusters/sync'

interface Plan {
  seconds: number
  pairs: number
  parents: number
  idle: boolean
  profile: boolean
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: FLAGS, strict: true })
  if (values.help) {
    process.stdout.write(USAGE)
    return
  }
  const figures = await measure({
    seconds: Number(values.seconds),
    pairs: Number(values.pairs),
    parents: Number(values.parents),
    idle: !values['no-idle'],
    profile: values.profile,
  })
  print(figures)
  if (values.save) save(figures)
}

async function measure(plan: Plan): Promise<Figure[]> {
  build()
  moveAside(availableParallelism())
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const { settings } = optionsOf()
  const api = await startSettledApi(settings.version)
  const nodeArgs = plan.profile ? ['--cpu-prof', '--cpu-prof-dir', join(ROOT, 'dist', 'bench')] : []
  const processes: Measured[] = []
  try {
    const service = await startBuiltService(folder, api.url, nodeArgs)
    processes.push(service)
    const echo = await startEcho()
    processes.push(echo)
    const request = syncBodies(settings, new Date())
    const bodies = Array.from({ length: CLUSTERS }, (_, n) => request(n))
    await checkAnswer(service.url, bodies[0] ?? Buffer.of())
    const at = (inFlight: number) => inTurns(plan, { service, echo }, bodies, inFlight)
    const figures = [
      ...speed(await at(50), 50, { perSecond: 2000 }),
      ...speed(await at(5), 5, { p99: 10 }),
      ...(await memory(plan.parents, service, echo, request)),
    ]
    if (api.writes.length > 0) throw new Error(`the service wrote: ${api.writes[0] ?? ''}`)
    return plan.idle ? [...figures, ...(await measureIdleHour())] : figures
  } finally {
    await Promise.all(processes.map((process) => process.stop()))
    api.close()
    rmSync(folder, { recursive: true })
  }
}

/** As the service reads them from an empty environment: a request must show the Jobs it would make. */
function optionsOf() {
  const manifest = readFileSync(join(ROOT, 'package.json'), 'utf8')
  const { version } = JSON.parse(manifest) as { version: string }
  const options = parseOptions(['--insecure-hooks', '--kubeconfig', 'any'], {}, version)
  if (options === undefined) throw new Error('no options')
  return options
}

/** A fast wrong answer is no answer: the cluster must be found settled. */
async function checkAnswer(url: string, body: Buffer): Promise<void> {
  const response = await fetch(url + SYNC, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}` },
    body: new Uint8Array(body),
  })
  const text = await response.text()
  const answer = JSON.parse(text) as {
    status?: { phase?: string; conditions?: { type: string; status: string }[] }
  }
  const applied = answer.status?.conditions?.find(({ type }) => type === 'Applied')
  if (answer.status?.phase !== 'Running' || applied?.status !== 'True') {
    throw new Error(`the service does not find the cluster settled: ${text.slice(0, 1000)}`)
  }
}

/** Answers per second of processor time hardly depend on what else the machine does. */
interface Taken extends Rate {
  perCpuSecond: number
}

interface Pairs {
  service: Taken[]
  echo: Taken[]
}

async function inTurns(
  { seconds, pairs }: Plan,
  sides: { service: Measured; echo: Measured },
  bodies: Buffer[],
  inFlight: number,
): Promise<Pairs> {
  const body = (n: number) => bodies[n % bodies.length] ?? Buffer.of()
  const load = { path: SYNC, token: TOKEN, body, inFlight }
  const rates: Pairs = { service: [], echo: [] }
  async function take(side: Measured, length: number): Promise<Taken> {
    const before = side.cpuSeconds()
    const rate = await run({ ...load, url: side.url, seconds: length })
    return { ...rate, perCpuSecond: rate.answers / (side.cpuSeconds() - before) }
  }
  // The first second is the compiler's.
  for (const side of [sides.service, sides.echo]) await take(side, WARM_UP_SECONDS)
  for (let pair = 0; pair < pairs; pair++) {
    rates.service.push(await take(sides.service, seconds))
    rates.echo.push(await take(sides.echo, seconds))
  }
  return rates
}

function speed(
  { service, echo }: Pairs,
  inFlight: number,
  targets: Partial<Record<keyof Taken, number>>,
): Figure[] {
  const figure = (what: string, unit: string, field: keyof Taken): Figure => {
    const value = median(service.map((rate) => rate[field]))
    const bare = median(echo.map((rate) => rate[field]))
    const target = targets[field]
    const isRate = field === 'perSecond' || field === 'perCpuSecond'
    const best = (isRate ? Math.max : Math.min)(...service.map((rate) => rate[field]))
    return {
      ...{ what: `${what}, ${inFlight} in flight`, unit, value, best, echo: bare },
      ...(target !== undefined && { target, met: isRate ? value >= target : value < target }),
    }
  }
  return [
    figure('answers', '/s', 'perSecond'),
    figure('answers per CPU second', '/s', 'perCpuSecond'),
    figure('p50', 'ms', 'p50'),
    figure('p99', 'ms', 'p99'),
  ]
}

/** Every parent is new to the service: its Secrets are read and its engines are asked. */
async function memory(
  parents: number,
  service: Measured,
  echo: Measured,
  body: (n: number) => Buffer,
): Promise<Figure[]> {
  const load = { path: SYNC, token: TOKEN, inFlight: 5, requests: parents, body }
  const before = service.memory().now
  const ofService = await run({ ...load, url: service.url })
  const ofEcho = await run({ ...load, url: echo.url })
  const { peak } = service.memory()
  const all = `${parents} parents in turn`
  return [
    {
      ...{ what: `RSS, peak, ${all}`, unit: 'MiB', value: peak, echo: echo.memory().peak },
      ...{ target: 190, met: peak < 190 },
    },
    { what: 'RSS before them', unit: 'MiB', value: before },
    {
      ...{ what: `answers, ${all}`, unit: '/s' },
      ...{ value: ofService.perSecond, echo: ofEcho.perSecond },
    },
  ]
}

function save(figures: Figure[]): void {
  const line = {
    at: new Date().toISOString(),
    node: process.version,
    cpu: cpus()[0]?.model,
    figures: Object.fromEntries(figures.map(({ what, ...rest }) => [what, rest])),
  }
  appendFileSync(join(ROOT, 'test', 'bench', 'history.jsonl'), `${JSON.stringify(line)}\n`)
}

main().catch((error: unknown) => {
  process.stderr.write(
    `bench: ${error instanceof Error ? (error.stack ?? error.message) : 'failed'}\n`,
  )
  process.exitCode = 1
})

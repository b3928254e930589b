/**
 * What VecCollections cost: the time of their hook, with an engine that answers at once and without its
 * time, and the calls and connections that a thousand of them need of one cluster.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { callsOfMany } from './collection-calls.ts'
import { changing, requests } from './collection-objects.ts'
import { run } from './load.ts'
import type { HookTime } from './own-time.ts'
import { alternate, speed, WARM_UP_SECONDS } from './pairs.ts'
import type { Part, Plan } from './part.ts'
import { NOTE_TIMES, TOKEN, type Measured } from './processes.ts'
import { withService, type Stage } from './service.ts'
import { median, quantile, type Figure } from './table.ts'

const SYNC = '/veccollections/sync'
/** Different ones that are shown in turn. */
const MANY = 1000
const IN_FLIGHT = 5
/** Issue 4: of the hook's own time. */
const OWN_P99_MS = 10

export const collections: Part = {
  name: 'collections',
  title: 'VecCollections',
  columns: ['service', 'bare echo'],
  targets: () => [
    ...['between passes: p99', 'a pass in every hook: p99 of own time'].map(
      (row) => `${row}, ${IN_FLIGHT} in flight`,
    ),
    `connections, ${MANY} of one cluster`,
    'own calls of a pass without a change',
  ],
  measure: async (plan) => [
    ...(await withService(plan, (stage) => hookTimes(plan, stage))),
    ...(await withService(plan, (stage) => ownTimes(plan, stage), [NOTE_TIMES])),
    ...(await callsOfMany()),
  ],
}

/** Every hook of a collection whose spec has changed looks at the engine: the most a hook does. */
async function hookTimes(plan: Plan, { sides, api, ask }: Stage): Promise<Figure[]> {
  const ready = requests(1)
  const passing = changing(MANY)
  for (const body of [ready(0), passing()]) checkAnswer(await ask(SYNC, body))
  const known = await alternate(plan, sides, {
    ...{ path: SYNC, inFlight: IN_FLIGHT },
    body: (n) => ready(n % MANY),
  })
  const before = await api.calls()
  const looking = await alternate(plan, sides, { path: SYNC, inFlight: IN_FLIGHT, body: passing })
  const hooks = looking.service.reduce((sum, { answers }) => sum + answers, 0)
  const { engine, writes } = await api.calls()
  const calls = engine - before.engine
  if (calls < 2 * hooks) throw new Error(`${calls} calls of engines in ${hooks} hooks`)
  if (writes.length > 0) throw new Error(`the service wrote: ${writes[0] ?? ''}`)
  const titled = (title: string, figures: Figure[]) =>
    figures.map((figure) => ({ ...figure, what: `${title}: ${figure.what}` }))
  return [
    ...titled('between passes', speed(known, IN_FLIGHT, { p99: OWN_P99_MS })),
    ...titled('a pass in every hook', speed(looking, IN_FLIGHT, {})),
  ]
}

/**
 * Of hooks that look at the engine, without the time in which that had the word, next to those of the
 * yardstick that asks it as often. Taking notes costs a little too, so speed and memory are measured
 * without.
 */
async function ownTimes({ seconds, pairs }: Plan, { sides }: Stage): Promise<Figure[]> {
  const body = changing(MANY)
  const take = async (side: Measured, path: string, length: number) => {
    await run({ url: side.url, path, token: TOKEN, inFlight: IN_FLIGHT, seconds: length, body })
    const times = await side.hookTimes()
    if (times.some(({ calls }) => calls < 2)) throw new Error(`${path} asked no engine`)
    return times
  }
  const service: HookTime[][] = []
  const echo: HookTime[][] = []
  // The first pair only warms up.
  for (const length of [WARM_UP_SECONDS, ...Array.from({ length: pairs }, () => seconds)]) {
    service.push(await take(sides.service, SYNC, length))
    echo.push(await take(sides.echo, '/asking', length))
  }
  const figure = (what: string, share: number, of: (time: HookTime) => number): Figure => {
    const ofSide = (slices: HookTime[][]) =>
      slices.slice(1).map((times) => quantile(times.map(of), share))
    const values = ofSide(service)
    const titled = `a pass in every hook: ${what}, ${IN_FLIGHT} in flight`
    const best = Math.min(...values)
    return {
      what: titled,
      unit: 'ms',
      value: median(values),
      best,
      yardstick: median(ofSide(echo)),
    }
  }
  const own = ({ all, engine }: HookTime) => all - engine
  const p99 = figure('p99 of own time', 0.99, own)
  return [
    figure('p50 of own time', 0.5, own),
    { ...p99, target: OWN_P99_MS, met: p99.value < OWN_P99_MS },
    figure("p50 of the engine's time", 0.5, ({ engine }) => engine),
    figure("p99 of the engine's time", 0.99, ({ engine }) => engine),
  ]
}

function checkAnswer(text: string): void {
  const { status } = JSON.parse(text) as { status?: VecCollection['status'] }
  if (status?.phase === 'Ready' && status.conditions?.[0]?.status === 'True') return
  throw new Error(`the service does not find the collection settled: ${text.slice(0, 1000)}`)
}

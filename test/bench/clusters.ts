/** How fast the hook service answers for settled VecClusters, and how much memory it takes. */
import { syncBodies } from './bodies.ts'
import { run } from './load.ts'
import { alternate, speed, type Sides } from './pairs.ts'
import type { Part, Plan } from './part.ts'
import { TOKEN } from './processes.ts'
import { withService, type Stage } from './service.ts'
import type { Figure } from './table.ts'

/** As many clusters as requests in flight: what Metacontroller has at work at once. */
const CLUSTERS = 50
const SYNC = '/vecclusters/sync'

export const clusters: Part = {
  name: 'clusters',
  title: 'hook service, settled VecClusters',
  columns: ['service', 'bare echo'],
  targets: ({ parents }) => [
    ...['answers, 50 in flight', 'p99, 5 in flight', `RSS, peak, ${parents} parents in turn`],
  ],
  measure: (plan) => withService(plan, (stage) => measure(plan, stage)),
}

async function measure(plan: Plan, { sides, settings, api, ask }: Stage): Promise<Figure[]> {
  const request = syncBodies(settings, new Date())
  const bodies = Array.from({ length: CLUSTERS }, (_, n) => request(n))
  checkAnswer(await ask(SYNC, bodies[0] ?? Buffer.of()))
  const body = (n: number) => bodies[n % CLUSTERS] ?? Buffer.of()
  const at = (inFlight: number) => alternate(plan, sides, { path: SYNC, body, inFlight })
  const figures = [
    ...speed(await at(50), 50, { perSecond: 2000 }),
    ...speed(await at(5), 5, { p99: 10 }),
    ...(await memory(plan.parents, sides, request)),
  ]
  const { writes } = await api.calls()
  if (writes.length > 0) throw new Error(`the service wrote: ${writes[0] ?? ''}`)
  return figures
}

/** A fast wrong answer is no answer: the cluster must be found settled. */
function checkAnswer(text: string): void {
  const { status } = JSON.parse(text) as {
    status?: { phase?: string; conditions?: { type: string; status: string }[] }
  }
  const applied = status?.conditions?.find(({ type }) => type === 'Applied')
  if (status?.phase === 'Running' && applied?.status === 'True') return
  throw new Error(`the service does not find the cluster settled: ${text.slice(0, 1000)}`)
}

/** Every parent is new to the service: its Secrets are read and its engines are asked. */
async function memory(
  parents: number,
  { service, echo }: Sides,
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
      ...{ what: `RSS, peak, ${all}`, unit: 'MiB', value: peak, yardstick: echo.memory().peak },
      ...{ target: 190, met: peak < 190 },
    },
    { what: 'RSS before them', unit: 'MiB', value: before },
    {
      ...{ what: `answers, ${all}`, unit: '/s' },
      ...{ value: ofService.perSecond, yardstick: ofEcho.perSecond },
    },
  ]
}

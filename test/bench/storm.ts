/**
 * Ten thousand VecClusters behind one service: at rest, each seen again every five minutes, and in a
 * storm, all of them at once, as after a restart of Metacontroller or an upgrade of the operator.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { syncBodies } from './bodies.ts'
import { run } from './load.ts'
import type { Part, Plan } from './part.ts'
import { TOKEN, type Measured } from './processes.ts'
import { withService, type Stage } from './service.ts'
import type { Figure } from './table.ts'

const SYNC = '/vecclusters/sync'
/** Workers of Metacontroller for one kind, all of them busy. */
const IN_FLIGHT = 50
/** In which each parent is seen once when nothing happens (resyncPeriodSeconds). */
const ROUND_SECONDS = 300
const REST_SECONDS = 10
const MEMORY_MIB = 190

export const storm: Part = {
  name: 'storm',
  title: 'all parents at once',
  columns: ['service', 'bare echo'],
  measure: (plan) => withService(plan, (stage) => measure(plan, stage)),
}

async function measure({ parents }: Plan, { sides, settings }: Stage): Promise<Figure[]> {
  const request = syncBodies(settings, new Date())
  const bodies = Array.from({ length: parents }, (_, n) => request(n))
  const { service, echo } = sides
  const all = `${parents} parents`
  const first = await stormed(service, bodies)
  const again = await stormed(service, bodies)
  const beside = await stormed(echo, bodies)
  const rest = await rested(service, bodies)
  const { peak } = service.memory()
  return [
    figure(`storm of ${all}, unknown`, 's', first.seconds, beside.seconds),
    figure(`storm of ${all}, known`, 's', again.seconds, beside.seconds),
    figure(`CPU of that storm`, 's', again.cpuSeconds, beside.cpuSeconds),
    figure(`p99 in that storm`, 'ms', again.p99, beside.p99),
    { what: `CPU with ${all} at rest, of a core`, unit: '%', value: 100 * rest },
    { what: 'RSS, peak', unit: 'MiB', value: peak, target: MEMORY_MIB, met: peak < MEMORY_MIB },
  ]
}

function figure(what: string, unit: string, value: number, yardstick: number): Figure {
  return { what, unit, value, yardstick }
}

interface Stormed {
  seconds: number
  cpuSeconds: number
  /** In milliseconds. */
  p99: number
}

async function stormed(side: Measured, bodies: Buffer[]): Promise<Stormed> {
  const before = side.cpuSeconds()
  const { answers, perSecond, p99 } = await run({
    ...{ url: side.url, path: SYNC, token: TOKEN, inFlight: IN_FLIGHT },
    requests: bodies.length,
    body: (n) => bodies[n] ?? Buffer.of(),
  })
  return { seconds: answers / perSecond, cpuSeconds: side.cpuSeconds() - before, p99 }
}

/** Processor seconds in a second, while parents are seen as often as their resync asks for. */
async function rested(service: Measured, bodies: Buffer[]): Promise<number> {
  const perSecond = Math.ceil(bodies.length / ROUND_SECONDS)
  const before = service.cpuSeconds()
  const began = performance.now()
  for (let second = 0; second < REST_SECONDS; second += 1) {
    await run({
      ...{ url: service.url, path: SYNC, token: TOKEN, inFlight: 1, requests: perSecond },
      body: (n) => bodies[(second * perSecond + n) % bodies.length] ?? Buffer.of(),
    })
    const next = began + (second + 1) * 1000
    await sleep(Math.max(0, next - performance.now()))
  }
  return (service.cpuSeconds() - before) / ((performance.now() - began) / 1000)
}

/** The service and its yardstick measured alternating, because what else the machine does counts for both. */
import { run, type Rate } from './load.ts'
import { TOKEN, type Measured } from './processes.ts'
import { median, type Figure } from './table.ts'

export interface Schedule {
  /** Length of each measurement. */
  seconds: number
  /** Measurements of each side. */
  pairs: number
}

export interface Sides {
  service: Measured
  echo: Measured
}

export interface Requests {
  path: string
  /** The n-th body. */
  body: (n: number) => Buffer
  inFlight: number
}

/** Answers per second of processor time hardly depend on what else the machine does. */
interface Taken extends Rate {
  perCpuSecond: number
}

export interface Pairs {
  service: Taken[]
  echo: Taken[]
}

/** The first second is the compiler's. */
export const WARM_UP_SECONDS = 2

export async function alternate(
  { seconds, pairs }: Schedule,
  sides: Sides,
  requests: Requests,
): Promise<Pairs> {
  const load = { ...requests, token: TOKEN }
  const rates: Pairs = { service: [], echo: [] }
  async function take(side: Measured, length: number): Promise<Taken> {
    const before = side.cpuSeconds()
    const rate = await run({ ...load, url: side.url, seconds: length })
    return { ...rate, perCpuSecond: rate.answers / (side.cpuSeconds() - before) }
  }
  for (const side of [sides.service, sides.echo]) await take(side, WARM_UP_SECONDS)
  for (let pair = 0; pair < pairs; pair++) {
    rates.service.push(await take(sides.service, seconds))
    rates.echo.push(await take(sides.echo, seconds))
  }
  return rates
}

export function speed(
  { service, echo }: Pairs,
  inFlight: number,
  targets: Partial<Record<keyof Taken, number>>,
): Figure[] {
  const figure = (what: string, unit: string, field: keyof Taken): Figure => {
    const value = median(service.map((rate) => rate[field]))
    const yardstick = median(echo.map((rate) => rate[field]))
    const target = targets[field]
    const isRate = field === 'perSecond' || field === 'perCpuSecond'
    const best = (isRate ? Math.max : Math.min)(...service.map((rate) => rate[field]))
    return {
      ...{ what: `${what}, ${inFlight} in flight`, unit, value, best, yardstick },
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

/** The faults of a run: each happens at one call through one door. */
import type { Call, Effect } from './doors.ts'
import type { Dice } from './machine/dice.ts'
import {
  bucketDown,
  deleteNamespace,
  drain,
  killEngine,
  lag,
  restartControllers,
  strikeDown,
  upgrade,
} from './misfortunes.ts'
import type { FaultWorld } from './world.ts'

/** A fault and the call at which it happens. A seed draws them; the same strikes reproduce the run. */
export interface Strike {
  fault: string
  door: string
  /** The fault strikes at this call through the door, or at the first later call that it fits. */
  nth: number
  /** A regular expression: only calls whose `METHOD /path` matches are counted. */
  like?: string
  seconds: number
}

interface Fault {
  /** Doors at which the fault can strike. */
  doors: RegExp
  /** Whether the fault can strike at this call; by default at every call. */
  fits?: (call: Call) => boolean
  /** Shortest and longest duration in seconds. */
  lasts: [number, number]
  /** What the fault does to the call itself. */
  effect?: (seconds: number) => Effect
  /** What the fault does to other parts of the world. */
  happens?: (blow: Blow) => void
}

/** The arguments of a fault that strikes. */
interface Blow {
  world: FaultWorld
  seconds: number
  call: Call
}

const WRITES = ['PUT', 'PATCH']
const BRIEF: [number, number] = [1, 40]

function status(code: number, reason: string, headers: Record<string, string> = {}): Effect {
  const body = {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    reason,
    code,
    message: reason,
  }
  const json = { 'content-type': 'application/json', ...headers }
  return { kind: 'refuse', answer: { status: code, headers: json, body: JSON.stringify(body) } }
}

function engine(code: number, error: string): Effect {
  const body = JSON.stringify({ status: { error }, time: 0 })
  const headers = {
    'content-type': 'application/json',
    ...(code === 429 && { 'retry-after': '2' }),
  }
  return { kind: 'refuse', answer: { status: code, headers, body } }
}

function store(code: number, name: string): Effect {
  const body = `<Error><Code>${name}</Code><Message>${name}</Message></Error>`
  return {
    kind: 'refuse',
    answer: { status: code, headers: { 'content-type': 'application/xml' }, body },
  }
}

const API = />api$/
const ENGINE = />engine$/
const BUCKET = />bucket$/
const HOOK = />service$/
const JOB = /^job>/
const FULL = 'Service internal error: No space left on device (os error 28)'

export const FAULTS: Record<string, Fault> = {
  'API answers 500': { doors: API, lasts: BRIEF, effect: () => status(500, 'InternalError') },
  'API answers 429': {
    doors: API,
    lasts: BRIEF,
    effect: () => status(429, 'TooManyRequests', { 'retry-after': '1' }),
  },
  'API answers a conflict': {
    doors: API,
    fits: ({ method }) => WRITES.includes(method),
    lasts: BRIEF,
    effect: () => status(409, 'Conflict'),
  },
  'engine answers 500': {
    doors: ENGINE,
    lasts: BRIEF,
    effect: () => engine(500, 'Service internal error'),
  },
  'engine answers 503': {
    doors: ENGINE,
    lasts: BRIEF,
    effect: () => engine(503, 'Service unavailable'),
  },
  'engine answers 429': {
    doors: ENGINE,
    lasts: BRIEF,
    effect: () => engine(429, 'Rate limiting exceeded'),
  },
  'engine disk full': {
    doors: ENGINE,
    fits: ({ method, path }) => method === 'POST' && path.includes('/snapshots'),
    lasts: BRIEF,
    effect: () => engine(500, FULL),
  },
  'bucket answers 500': { doors: BUCKET, lasts: BRIEF, effect: () => store(500, 'InternalError') },
  'bucket answers 503': { doors: BUCKET, lasts: BRIEF, effect: () => store(503, 'SlowDown') },
  'call cut': { doors: /./, lasts: BRIEF, effect: () => ({ kind: 'cut' }) },
  'answer lost': { doors: /./, lasts: BRIEF, effect: () => ({ kind: 'lost' }) },
  'call late': { doors: /./, lasts: BRIEF, effect: (seconds) => ({ kind: 'late', seconds }) },
  'answer slow': { doors: /./, lasts: BRIEF, effect: (seconds) => ({ kind: 'slow', seconds }) },
  'hook call twice': {
    doors: HOOK,
    lasts: [0, 60],
    effect: (seconds) => ({ kind: 'again', seconds }),
  },
  'stale cache': {
    doors: HOOK,
    lasts: [1, 60],
    happens: ({ world, seconds }) => lag(world, seconds),
  },
  'hook service killed': {
    doors: /^(service|loop)>/,
    lasts: [1, 120],
    happens: ({ world, seconds }) => strikeDown(world, 'service', seconds),
  },
  'loop killed': {
    doors: /^loop>/,
    lasts: [1, 120],
    happens: ({ world, seconds }) => strikeDown(world, 'loop', seconds),
  },
  'Job killed before its call': {
    doors: JOB,
    lasts: BRIEF,
    effect: () => ({ kind: 'cut' }),
    happens: ({ call }) => call.client.kill(),
  },
  'Job killed after its call': {
    doors: JOB,
    lasts: BRIEF,
    effect: () => ({ kind: 'lost' }),
    happens: ({ call }) => call.client.kill(),
  },
  'helm killed': {
    doors: /^helm>/,
    lasts: BRIEF,
    effect: () => ({ kind: 'lost' }),
    happens: ({ call }) => call.client.kill(),
  },
  'Job drained': {
    doors: JOB,
    lasts: BRIEF,
    happens: ({ world, call }) => drain(world, call.client),
  },
  'engine node killed': {
    doors: /^(job|service)>engine$/,
    lasts: BRIEF,
    happens: ({ world, call }) => killEngine(world, call.path),
  },
  'bucket down': {
    doors: BUCKET,
    lasts: [1, 60],
    happens: ({ world, seconds }) => bucketDown(world, seconds),
  },
  'clock jumps': {
    doors: /./,
    lasts: [60, 7200],
    happens: ({ world, seconds }) => world.jump(seconds),
  },
  'operator upgraded': {
    doors: /^(loop|job)>/,
    lasts: BRIEF,
    happens: ({ world }) => upgrade(world),
  },
  'namespace deleted': { doors: /./, lasts: BRIEF, happens: ({ world }) => deleteNamespace(world) },
  'controllers restarted': {
    doors: /^(loop|job)>api$/,
    lasts: BRIEF,
    happens: ({ world }) => restartControllers(world),
  },
}

const MOST = 6

/** Draws one to six faults at calls that a run without faults has made. */
export function draw(dice: Dice, calls: Record<string, number>): Strike[] {
  const names = Object.keys(FAULTS) as [string, ...string[]]
  return Array.from({ length: dice.between(1, MOST) }, () => {
    const fault = dice.oneOf(names)
    const { doors, lasts } = FAULTS[fault] ?? { doors: /./, lasts: BRIEF }
    const choice = Object.keys(calls).filter((door) => doors.test(door)) as [string, ...string[]]
    const door = dice.oneOf(choice)
    return { fault, door, nth: dice.between(1, calls[door] ?? 1), seconds: dice.between(...lasts) }
  })
}

/** Injects each strike once. Returns a list that grows with each strike that has happened. */
export function strikeAt(world: FaultWorld, strikes: readonly Strike[]): Strike[] {
  const waiting = [...strikes]
  const seen = new Map<Strike, number>()
  const struck: Strike[] = []
  world.doors.decide((call) => {
    const like = waiting.filter((strike) => isLike(strike, call))
    for (const strike of like) seen.set(strike, (seen.get(strike) ?? 0) + 1)
    const index = waiting.findIndex((strike) => {
      const { fits = () => true } = FAULTS[strike.fault] ?? {}
      return like.includes(strike) && strike.nth <= (seen.get(strike) ?? 0) && fits(call)
    })
    const strike = waiting[index]
    if (strike === undefined) return undefined
    waiting.splice(index, 1)
    struck.push(strike)
    const { effect, happens } = FAULTS[strike.fault] ?? {}
    world.doors.note(`${strike.fault} ${strike.seconds}`)
    happens?.({ world, seconds: strike.seconds, call })
    return effect?.(strike.seconds)
  })
  return struck
}

function isLike({ door, like = '' }: Pick<Strike, 'door' | 'like'>, call: Call): boolean {
  return door === call.door && new RegExp(like).test(`${call.method} ${call.path}`)
}

/** The faults that strike: each a thing that happens at some call through some door. */
import type { Call, Verdict } from './doors.ts'
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

/** A fault at its place in a run; what a seed draws, and what repeats it. */
export interface Strike {
  fault: string
  door: string
  /** It strikes at this call through the door, or the first after it that it fits. */
  nth: number
  /** Only calls like this count, as `METHOD /path`: a regular expression. */
  like?: string
  seconds: number
}

interface Fault {
  /** Doors at which it can strike. */
  doors: RegExp
  /** Where not every call is right for it. */
  fits?: (call: Call) => boolean
  /** For how long, in seconds: from and to. */
  lasts: [number, number]
  /** What the call meets. */
  verdict?: (seconds: number) => Verdict
  /** What happens beside it. */
  happens?: (blow: Blow) => void
}

/** A fault that strikes: whom, for how long, and at which call. */
interface Blow {
  world: FaultWorld
  seconds: number
  call: Call
}

const WRITES = ['PUT', 'PATCH']
const BRIEF: [number, number] = [1, 40]

function status(code: number, reason: string, headers: Record<string, string> = {}): Verdict {
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

function engine(code: number, error: string): Verdict {
  const body = JSON.stringify({ status: { error }, time: 0 })
  const headers = {
    'content-type': 'application/json',
    ...(code === 429 && { 'retry-after': '2' }),
  }
  return { kind: 'refuse', answer: { status: code, headers, body } }
}

function store(code: number, name: string): Verdict {
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
  'API answers 500': { doors: API, lasts: BRIEF, verdict: () => status(500, 'InternalError') },
  'API answers 429': {
    doors: API,
    lasts: BRIEF,
    verdict: () => status(429, 'TooManyRequests', { 'retry-after': '1' }),
  },
  'API answers a conflict': {
    doors: API,
    fits: ({ method }) => WRITES.includes(method),
    lasts: BRIEF,
    verdict: () => status(409, 'Conflict'),
  },
  'engine answers 500': {
    doors: ENGINE,
    lasts: BRIEF,
    verdict: () => engine(500, 'Service internal error'),
  },
  'engine answers 503': {
    doors: ENGINE,
    lasts: BRIEF,
    verdict: () => engine(503, 'Service unavailable'),
  },
  'engine answers 429': {
    doors: ENGINE,
    lasts: BRIEF,
    verdict: () => engine(429, 'Rate limiting exceeded'),
  },
  'engine without room': {
    doors: ENGINE,
    fits: ({ method, path }) => method === 'POST' && path.includes('/snapshots'),
    lasts: BRIEF,
    verdict: () => engine(500, FULL),
  },
  'bucket answers 500': { doors: BUCKET, lasts: BRIEF, verdict: () => store(500, 'InternalError') },
  'bucket answers 503': { doors: BUCKET, lasts: BRIEF, verdict: () => store(503, 'SlowDown') },
  'call cut': { doors: /./, lasts: BRIEF, verdict: () => ({ kind: 'cut' }) },
  'answer lost': { doors: /./, lasts: BRIEF, verdict: () => ({ kind: 'lost' }) },
  'call late': { doors: /./, lasts: BRIEF, verdict: (seconds) => ({ kind: 'late', seconds }) },
  'answer slow': { doors: /./, lasts: BRIEF, verdict: (seconds) => ({ kind: 'slow', seconds }) },
  'hook call twice': {
    doors: HOOK,
    lasts: [0, 60],
    verdict: (seconds) => ({ kind: 'again', seconds }),
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
    verdict: () => ({ kind: 'cut' }),
    happens: ({ call }) => call.client.kill(),
  },
  'Job killed after its call': {
    doors: JOB,
    lasts: BRIEF,
    verdict: () => ({ kind: 'lost' }),
    happens: ({ call }) => call.client.kill(),
  },
  'helm killed': {
    doors: /^helm>/,
    lasts: BRIEF,
    verdict: () => ({ kind: 'lost' }),
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

/** One to six faults at places that a calm run showed to be there. */
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

/** Lets the strikes happen; each once. Answers those that did. */
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
    const { verdict, happens } = FAULTS[strike.fault] ?? {}
    world.doors.note(`${strike.fault} ${strike.seconds}`)
    happens?.({ world, seconds: strike.seconds, call })
    return verdict?.(strike.seconds)
  })
  return struck
}

function isLike({ door, like = '' }: Pick<Strike, 'door' | 'like'>, call: Call): boolean {
  return door === call.door && new RegExp(like).test(`${call.method} ${call.path}`)
}

/**
 * One pass of Metacontroller in a small world: the pass of test/world/loop, which the contract cases compare with
 * the real one, over the cached objects and with the real hooks and their guard.
 */
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import {
  answerValidator,
  InvalidAnswer,
  type AnswerValidator,
} from '../../hooks/answer-validation.ts'
import {
  RetryLater,
  type HookRequest,
  type Settings,
  type KindHooks,
} from '../../hooks/protocol.ts'
import { Kinds } from '../world/api/kinds.ts'
import type { ApiObject } from '../world/client.ts'
import type { SyncAnswer } from '../world/loop/answer.ts'
import { passInMemory, type HookName } from '../world/loop/in-memory.ts'
import type { ObjectMap } from '../world/loop/object.ts'
import { askHook, carryOut, runPass, type PassOptions } from '../world/loop/pass.ts'
import { Calls } from './calls.ts'
import { Wrong } from './explore.ts'
import { apiOf } from './small-api.ts'
import type { Small, SmallWorld } from './small-world.ts'

export interface Passing {
  /** `Kind/name` of the parent. */
  parent: string
  /** The hooks of a service that has just started and has no memory of earlier passes. */
  hooks: (world: SmallWorld) => KindHooks
  settings: Settings
}

/** The body of a call of a hook, before it is written as JSON. */
export interface HookBody {
  parent: ApiObject
  children: ObjectMap
  related: ObjectMap
  finalizing: boolean
}

/** How much of an answer is carried out. The writes of the service itself are always done. */
export type Heard = 'all' | 'children' | 'nothing'

export async function pass(
  world: SmallWorld,
  passing: Passing,
  heard: Heard = 'all',
): Promise<void> {
  const cached = cachedParent(world, passing)
  if (cached === undefined) return
  await attempt(world, passing, { heard, run: (options) => runPass(options, cached) })
}

/** Calls the hook, which does its own writes, and stores its answer for later. */
export async function askOnly(world: SmallWorld, passing: Passing): Promise<void> {
  const cached = cachedParent(world, passing)
  if (cached === undefined) return
  await attempt(world, passing, {
    async run(options) {
      const answered = await askHook(options, cached)
      if (answered !== undefined) world.answered = answered
    },
  })
}

/** Carries out the stored answer, whatever has happened since. */
export async function carryOutPending(world: SmallWorld, passing: Passing): Promise<void> {
  const { answered } = world
  if (answered === undefined) return
  delete world.answered
  await attempt(world, passing, { run: (options) => carryOut(options, answered) })
}

/**
 * A pass whose service stops before its write with this number, counted from zero: for example its node is
 * suspended, or the connection to the API server is slow. Returns false if it does fewer writes.
 */
export async function passUntil(
  world: SmallWorld,
  passing: Passing,
  write: number,
): Promise<boolean> {
  const cached = cachedParent(world, passing)
  if (cached === undefined) return false
  const calls = new Calls(write)
  world.calls = calls
  const bodies: HookBody[] = []
  const whole = attempt(world, passing, {
    run: (options) => runPass(options, cached),
    onCall: (body) => void bodies.push(body),
  })
  await Promise.race([whole, calls.stopped])
  delete world.calls
  const [body] = bodies
  if (body === undefined || !calls.isStopped) return false
  world.slow = { body, calls, now: world.now, isGivenUp: false, steps: 0 }
  return true
}

/** The stopped service continues. Its answer is carried out, unless Metacontroller has given up on it. */
export async function continueSlow(world: SmallWorld, passing: Passing): Promise<void> {
  const { slow } = world
  if (slow === undefined) return
  delete world.slow
  const { body, calls, isGivenUp, now } = slow
  world.calls = calls.resumed()
  const { parent, children } = body
  const answer = await decide(passing.hooks(world), { ...passing, body, now }).catch(retried)
  delete world.calls
  if (isGivenUp || answer === undefined) return
  const answered = { parent, observed: children, answer }
  await attempt(world, passing, { run: (options) => carryOut(options, answered) })
}

function cachedParent({ seen }: SmallWorld, { parent }: Passing): ApiObject | undefined {
  return seen[parent] as unknown as ApiObject | undefined
}

interface Attempt {
  heard?: Heard
  run: (options: PassOptions) => Promise<void>
  /** Called with the body of each call of sync and finalize. */
  onCall?: (body: HookBody) => void
}

/** The answer of the service does not arrive. */
class Lost extends Error {}

async function attempt(
  world: SmallWorld,
  passing: Passing,
  { heard = 'all', run, onCall }: Attempt,
): Promise<void> {
  const hooks = passing.hooks(world)
  const { calls, now } = world
  const failures: unknown[] = []
  const call = async (hook: HookName, body: object) => {
    const { parent } = body as HookBody
    if (hook === 'customize') return { relatedResources: hooks.customize(parent) }
    onCall?.(body as HookBody)
    try {
      const answer = await decide(hooks, { ...passing, body: body as HookBody, now })
      // A hook that waits for a stopped call answers after a second.
      if (calls?.isStopped === true) return await new Promise<never>(() => undefined)
      if (heard === 'nothing') throw new Lost()
      return answer
    } catch (error) {
      failures.push(error)
      throw error
    }
  }
  const api = apiOf(world, { isStatusLost: heard === 'children' })
  const options = await passInMemory(hooks.plural, {
    ...{ api, call, kinds: KINDS },
    clock: { now: () => new Date(now), setTimeout: () => () => undefined },
    list: ({ kind }) => cachedOf(world, kind),
  })
  try {
    await run(options)
  } catch (error) {
    const [failure] = failures
    // The service asks to be called again.
    if (failure instanceof Lost || failure instanceof RetryLater) return
    if (failure instanceof Error) throw failure
    if (failure !== undefined) throw new Error('a call failed without an Error')
    // Metacontroller logs what the API server refuses, and tries again in a later pass.
    if (!api.hasRefused) throw error
  }
}

/** The service asks to be called again: Metacontroller applies nothing. */
function retried(error: unknown): undefined {
  if (!(error instanceof RetryLater)) throw error
}

const KINDS = new Kinds()
KINDS.define(
  RESOURCES.map((resource) => customResourceDefinition(resource, '0.1.0') as unknown as ApiObject),
)

function cachedOf({ seen }: SmallWorld, kind: string): ApiObject[] {
  return Object.values(seen).filter((object) => object.kind === kind) as unknown as ApiObject[]
}

/** Guards are stateless and expensive to create. */
const guards = new Map<string, AnswerValidator>()

function guardFor(hooks: KindHooks): AnswerValidator {
  const found = guards.get(hooks.kind) ?? answerValidator(hooks)
  guards.set(hooks.kind, found)
  return found
}

interface Deciding {
  body: HookBody
  now: number
  settings: Settings
}

async function decide(hooks: KindHooks, { body, now, settings }: Deciding): Promise<SyncAnswer> {
  const { parent, children, related, finalizing } = body
  const request = {
    ...{ parent, finalizing },
    children: children.toJSON(),
    related: related.toJSON(),
  } as HookRequest<unknown>
  const hook = finalizing && hooks.finalize !== undefined ? 'finalize' : 'sync'
  const desired = await hooks[hook]?.(request, { now: new Date(now), settings })
  if (desired === undefined) throw new Error(`no ${hook} hook`)
  try {
    // The answer as Metacontroller reads it.
    return JSON.parse(JSON.stringify(guardFor(hooks)(request, desired, hook))) as SyncAnswer
  } catch (error) {
    if (error instanceof InvalidAnswer) throw new Wrong(error.message)
    throw error
  }
}

/** Whether the caches of Metacontroller have an object for a parent: itself, a child or a related object. */
export function cachedKeys(
  world: SmallWorld,
  passing: Passing,
): (object: Small, key: string) => boolean {
  const parent = world.live[passing.parent] ?? world.seen[passing.parent]
  if (parent === undefined) return () => true
  const related = relatedKeys(hooksOf(world, passing), parent)
  return (object, key) => key === passing.parent || isChild(object, parent) || related.includes(key)
}

/** Hooks whose customize is called; it reads only the parent, so the world does not matter. */
const known = new WeakMap<Passing, KindHooks>()

function hooksOf(world: SmallWorld, passing: Passing): KindHooks {
  const hooks = known.get(passing) ?? passing.hooks(world)
  known.set(passing, hooks)
  return hooks
}

function isChild({ kind, metadata }: Small, parent: Small): boolean {
  const { uid } = parent.metadata
  return kind !== 'Lease' && metadata.ownerReferences?.some((owner) => owner.uid === uid) === true
}

function relatedKeys(hooks: KindHooks, parent: Small): string[] {
  return hooks.customize(parent).flatMap(({ apiVersion, resource, names }) => {
    const [version = '', group = ''] = apiVersion.split('/').toReversed()
    const kind = KINDS.find(group, version, resource)?.kind ?? ''
    return names.map((name) => `${kind}/${name}`)
  })
}

/**
 * Runs scenarios in a world as tests: first those that disturb, which wait more than they work and leave
 * the machine to what runs beside this suite; once nothing is disturbed any more, all others.
 */
import type { Test } from 'tap'
import { NotSupported, type World } from '../world/world.ts'
import { tooManyEvents } from './event-rate.ts'
import type { Scenario, Stage } from './scenario.ts'
import { leakedSecrets } from './secrecy.ts'
import { Stages } from './stages.ts'
import { ServiceLock } from './service-lock.ts'

export interface Running {
  /** Number of concurrent scenarios. */
  atOnce: number
  /** Receives each result as it ends: concurrent tests are printed in the order they began. */
  ended?: (title: string, seconds: number) => void
}

export async function runScenarios(
  t: Test,
  world: World,
  all: Scenario[],
  { atOnce, ended = () => undefined }: Running,
): Promise<void> {
  const scenarios = all.filter(({ only = world.kind }) => only === world.kind)
  const serviceLock = new ServiceLock(world.faults)
  const stages = new Stages()
  await t.test('scenarios', { jobs: Math.max(scenarios.length, 1) }, async (together) => {
    const tests: Promise<unknown>[] = []
    /** Resolves once the scenario no longer disturbs others. */
    const begin = async (scenario: Scenario) => {
      const { promise: calm, resolve } = Promise.withResolvers<undefined>()
      const stage = stages.enter(() => resolve(undefined))
      const began = Date.now()
      const one = together.test(scenario.title, { buffered: true }, async (one) => {
        try {
          await show(scenario, { world, serviceLock, stage }, one)
        } finally {
          stage.calm()
          ended(scenario.title, (Date.now() - began) / 1000)
        }
      })
      tests.push(one)
      await calm
    }
    const {
      disturbing = [],
      alone = [],
      waiting = [],
      other = [],
    } = Object.groupBy(scenarios, when)
    await runConcurrently(disturbing, atOnce, begin)
    await runConcurrently(alone, 1, begin)
    await Promise.all([
      runConcurrently(waiting, waiting.length, begin),
      runConcurrently(other, atOnce, begin),
    ])
    await Promise.all(tests)
  })
}

function when({ disturbs, alone, waits }: Scenario) {
  if (disturbs === true) return 'disturbing'
  if (alone === true) return 'alone'
  return waits === true ? 'waiting' : 'other'
}

/** Runs this many concurrently, in their order. */
async function runConcurrently<Item>(
  items: readonly Item[],
  concurrency: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const left = items.values()
  const lane = async () => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
}

interface ScenarioRun {
  world: World
  serviceLock: ServiceLock
  stage: Stage
}

/** A scenario that this world does not support is skipped with the reason. */
async function show(
  { run }: Scenario,
  { world, serviceLock, stage }: ScenarioRun,
  t: Test,
): Promise<void> {
  const opened: string[] = []
  const { faults, end } = serviceLock.take()
  try {
    await run(overlaid(world, { faults, namespace: noting(opened, world) }), t, stage)
    t.strictSame(await leakedSecrets(world, opened), [], 'no secret was leaked')
    t.strictSame(await tooManyEvents(world, opened), [], 'never more than a few Events a minute')
  } catch (error) {
    if (!(error instanceof NotSupported)) throw error
    t.pass('not shown here', { skip: error.message })
  } finally {
    await end()
    // Leftover pods and resources would slow down the next scenarios.
    for (const namespace of opened) await giveBack(namespace, world)
  }
}

/** Its deletion is not waited for: `close` does that for all. */
async function giveBack(name: string, world: World): Promise<void> {
  const reference = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name }
  if ((await world.get(reference)) !== undefined) await world.delete(reference)
}

/** Notes the namespaces that are opened. */
function noting(opened: string[], world: World): World['namespace'] {
  return async (purpose) => {
    const name = await world.namespace(purpose)
    opened.push(name)
    return name
  }
}

/** The same world, but for some of its members. */
function overlaid(world: World, members: Partial<World>): World {
  return new Proxy(world, {
    get(target, key) {
      const own: unknown = Reflect.get(members, key)
      if (own !== undefined) return own
      const member: unknown = Reflect.get(target, key)
      return typeof member === 'function' ? (member.bind(target) as unknown) : member
    },
  })
}

/**
 * Runs scenarios in a world as tests: one by one where they may not run together, then side by side.
 * The first ones wait more than they work, which leaves the machine to what runs beside this suite.
 */
import type { Test } from 'tap'
import { NotHere, type World } from '../world/world.ts'
import { tooManyEvents } from './event-rate.ts'
import type { Scenario } from './scenario.ts'
import { toldSecrets } from './secrecy.ts'

export async function runScenarios(
  t: Test,
  world: World,
  all: Scenario[],
  atOnce: number,
): Promise<void> {
  const scenarios = all.filter(({ only = world.kind }) => only === world.kind)
  const isAlone = ({ alone }: Scenario) => alone === true
  for (const scenario of scenarios.filter(isAlone)) {
    await t.test(scenario.title, (one) => show(scenario, world, one))
  }
  await t.test('side by side', { jobs: atOnce }, async (together) => {
    const titled = (scenario: Scenario) =>
      together.test(scenario.title, { buffered: true }, (one) => show(scenario, world, one))
    await Promise.all(scenarios.filter((scenario) => !isAlone(scenario)).map(titled))
  })
}

/** What this world cannot show is skipped, and says why. */
async function show({ run }: Scenario, world: World, t: Test): Promise<void> {
  const opened: string[] = []
  try {
    await run(noting(opened, world), t)
    t.strictSame(await toldSecrets(world, opened), [], 'no secret was told')
    t.strictSame(await tooManyEvents(world, opened), [], 'never more than a few Events a minute')
  } catch (error) {
    if (!(error instanceof NotHere)) throw error
    t.pass('not shown here', { skip: error.message })
  } finally {
    // Pods and resources of the past would slow down whoever comes next.
    for (const namespace of opened) await giveBack(namespace, world)
  }
}

/** Its deletion is not waited for: `close` does that for all. */
async function giveBack(name: string, world: World): Promise<void> {
  const reference = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name }
  if ((await world.get(reference)) !== undefined) await world.delete(reference)
}

/** The same world, which notes the namespaces that are opened in it. */
function noting(opened: string[], world: World): World {
  const namespace = async (purpose: string) => {
    const name = await world.namespace(purpose)
    opened.push(name)
    return name
  }
  return new Proxy(world, {
    get(target, key) {
      if (key === 'namespace') return namespace
      const member: unknown = Reflect.get(target, key)
      return typeof member === 'function' ? (member.bind(target) as unknown) : member
    },
  })
}

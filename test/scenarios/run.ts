/** Runs scenarios in a world as tests: side by side where they may, one by one where they may not. */
import type { Test } from 'tap'
import { NotHere, type World } from '../world/world.ts'
import type { Scenario } from './scenario.ts'

export async function runScenarios(
  t: Test,
  world: World,
  all: Scenario[],
  atOnce: number,
): Promise<void> {
  const scenarios = all.filter(({ only = world.kind }) => only === world.kind)
  await t.test('side by side', { jobs: atOnce }, async (together) => {
    await Promise.all(
      scenarios
        .filter(({ alone }) => alone !== true)
        .map((scenario) =>
          together.test(scenario.title, { buffered: true }, (one) => show(scenario, world, one)),
        ),
    )
  })
  for (const scenario of scenarios) {
    if (scenario.alone === true) {
      await t.test(scenario.title, (one) => show(scenario, world, one))
    }
  }
}

/** What this world cannot show is skipped, and says why. */
async function show({ run }: Scenario, world: World, t: Test): Promise<void> {
  try {
    await run(world, t)
  } catch (error) {
    if (!(error instanceof NotHere)) throw error
    t.pass('not shown here', { skip: error.message })
  }
}

/** Runs scenarios in a world as tests: side by side where they may, one by one where they may not. */
import type { Test } from 'tap'
import type { World } from '../world/world.ts'
import type { Scenario } from './scenario.ts'

export async function runScenarios(
  t: Test,
  world: World,
  scenarios: Scenario[],
  atOnce: number,
): Promise<void> {
  await t.test('side by side', { jobs: atOnce }, async (together) => {
    await Promise.all(
      scenarios
        .filter(({ alone }) => alone !== true)
        .map(({ title, run }) =>
          together.test(title, { buffered: true }, (one) => run(world, one)),
        ),
    )
  })
  for (const { title, alone, run } of scenarios) {
    if (alone === true) await t.test(title, (one) => run(world, one))
  }
}

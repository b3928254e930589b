/**
 * The script of `npm run test:hard` in short, against engine doubles: one new seed of each journey, and
 * the regressions that doubles can express.
 */
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { namesCause } from './journey.ts'
import { draw, NEEDS_PROCESSES, type Journey, type Plan } from './plan.ts'
import { REGRESSIONS } from './regressions.ts'
import { runSeed } from './seed.ts'

const JOURNEYS: Journey[] = ['backup by node', 'backup by shard', 'migration']
/** Ends a run that hangs: beside the suite on a cluster, two cores may need ten times as long as alone. */
const LIMIT_MS = 1_500_000

t.setTimeout(0)
for (const journey of JOURNEYS) {
  t.test(`${journey} under faults of a new seed`, { timeout: LIMIT_MS }, async (t) =>
    show(t, drawn(journey)),
  )
}
const listed = readFileSync('.ci/skips', 'utf8').split('\n')
for (const { title, plan } of REGRESSIONS) {
  const skip = plan.strikes.some(({ fault }) => NEEDS_PROCESSES.includes(fault))
    ? 'doubles have no processes and no network between them: npm run test:hard'
    : false
  t.ok(!skip || listed.includes(title), `.ci/skips allows the skip of: ${title}`)
  t.test(title, { timeout: LIMIT_MS, skip }, async (t) => show(t, { ...plan, points: 60 }))
}

t.test('a message that names no part of the cluster names no cause', async (t) => {
  t.equal(namesCause('BackupFailed: collection docs was deleted during the backup'), true)
  t.equal(namesCause('Waiting: shard 3 of "docs" is Dead on vec-a-1'), true)
  t.equal(namesCause('Failed: something went wrong'), false)
  t.equal(namesCause(': '), false)
})

async function show(t: Test, plan: Plan): Promise<void> {
  t.comment(`node test/hard/main.ts --doubles --plan '${JSON.stringify(plan)}'`)
  const { findings, outcomes, compared, writes, reads } = await runSeed(plan)
  t.comment(`${compared} points compared, ${writes.good} writes, ${reads.good} reads`)
  for (const { phase, attempt, ended, message } of outcomes) {
    t.comment(`${phase} ${attempt}: ${ended}: ${message}`)
  }
  t.strictSame(findings, [])
  t.ok(compared > plan.points, 'every point was compared on every node that has it')
}

function drawn(journey: Journey): Plan {
  for (let seed = randomInt(1, 2 ** 31); ; seed += 1) {
    const plan = draw(seed, { nodes: 3, short: true })
    if (plan.journey === journey) return plan
  }
}

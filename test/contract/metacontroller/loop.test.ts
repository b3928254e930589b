/**
 * Our loop in the embedded world does what the real Metacontroller was seen to do: every case is
 * compared with its recording (real.test.ts makes them).
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApi } from '../../world/api/server.ts'
import { ApiClient } from '../../world/client.ts'
import { ManualClock } from '../../world/clock.ts'
import { garbageCollector } from '../../world/controllers/garbage.ts'
import { namespaceController } from '../../world/controllers/namespaces.ts'
import { run } from '../../world/controllers/queue.ts'
import { CASES } from './cases/all.ts'
import { DEFINITIONS } from './kinds.ts'
import { play, recordedVersions, recording } from './run.ts'
import { loopSubject } from './subject.ts'

const START = new Date('2030-01-01T00:00:00Z')
/** A part of the cases, by a pattern over their titles. */
const chosen = new RegExp(process.env['CASES'] ?? '')

// Every case has a world of its own, and most of it is waiting for answers.
t.jobs = 4
// Ends only what hangs: while other suites run, the cases take minutes.
t.setTimeout(1_200_000)

t.test('all recordings are of the version that the chart requires', async (t) => {
  const required = readFileSync('chart/templates/_metacontroller.tpl', 'utf8')
  const version = /metacontrollerVersion" -\}\}([\d.]+)/.exec(required)?.[1] ?? ''
  t.strictSame(recordedVersions(), new Set([version]))
  const page = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8')
  t.match(page, `the real Metacontroller ${version} did`)
})

for (const played of CASES.filter(({ title }) => chosen.test(title))) {
  t.test(played.title, { buffered: true }, async (t) => {
    const clock = new ManualClock(START)
    const embedded = await startApi(clock)
    const api = new ApiClient({ server: embedded.url, token: embedded.token })
    const { resources } = embedded
    const controllers = [garbageCollector(resources), namespaceController(resources)]
    const running = controllers.map((controller) => run(resources, clock, controller))
    t.teardown(async () => {
      for (const controller of running) controller.stop()
      await api.close()
      await embedded.close()
    })
    for (const definition of DEFINITIONS) await api.create(definition)
    t.strictSame(await play(loopSubject(api, clock), played, 'stage-1'), recording(played))
  })
}

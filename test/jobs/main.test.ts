/** The CLI: which command runs, and the exit codes for the Job controller. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { EXIT, JOB_ENV, encodePlan } from '../../crds/contract/job.ts'
import { EXIT_CODES } from '../../jobs/kubectl/command.ts'
import { CLI } from './job-fixture.ts'
import { jobWorld, runJob, type JobWorld } from './job-world.ts'

t.test('an unknown command has an exit code that the Job retries', async (t) => {
  const { code, log } = await runJob(['cluster', 'dance', 'ns/a'], {})
  t.equal(code, EXIT_CODES.usage)
  t.notOk(new Set<number>([EXIT.done, EXIT.failed]).has(code))
  t.match(log, /cluster dance is not a command/)
})

t.test('a plan for another resource is not carried out', async (t) => {
  const world = await jobWorld(t)
  const plan = encodePlan(world.plan(), 'spec')
  const { code, log } = await runJob(['cluster', 'upgrade', 'ns/b'], {
    ...world.env,
    [JOB_ENV.plan]: plan,
  })
  t.equal(code, EXIT.crash)
  t.match(log, /the plan is for ns\/a, not ns\/b/)
  t.equal(await world.progress(), undefined)
})

t.test('an unreadable plan is a crash', async (t) => {
  const env = { [JOB_ENV.plan]: 'nonsense' }
  t.equal((await runJob(['cluster', 'upgrade', 'ns/a'], env)).code, EXIT.crash)
})

t.test('without its resource the Job ends and installs nothing', async (t) => {
  const world = await jobWorld(t)
  const { code, log } = await world.run('upgrade', world.plan({ uid: 'another' }))
  t.equal(code, EXIT.failed)
  t.match(log, /resource deleted, nothing left to do reason=vecclusters ns\/a is gone/)
  t.equal(await world.object('apps/v1', 'StatefulSet', 'vec-a'), undefined)
})

for (const [state, code] of [
  ['Done', EXIT.done],
  ['Failed', EXIT.failed],
] as const) {
  t.test(`a pod after one that reported ${state} ends at once with code ${code}`, async (t) => {
    const world = await jobWorld(t)
    const version = state === 'Done' ? '1.18.3' : '9.9.9'
    await world.run('upgrade', world.plan({ version }))
    const second = await runJob(['cluster', 'upgrade', 'ns/a'], {
      ...world.env,
      [JOB_ENV.podUid]: 'pod-2',
      [JOB_ENV.plan]: encodePlan(world.plan({ version }), 'spec'),
    })
    t.equal(second.code, code)
    t.match(second.log, /an earlier pod of this Job has reported the outcome/)
    t.match(await world.progress(), { state, runner: 'pod-1' })
  })
}

t.test('the next pod repairs the release of a pod that was killed during helm', async (t) => {
  const world = await jobWorld(t)
  const { child, pending } = await heldInHelm(t, world)
  child.kill('SIGKILL')
  await once(child, 'close')
  world.hold.release()
  t.match(await pending(), { metadata: { labels: { status: 'pending-install' } } })
  const { code, log } = await world.run('upgrade', world.plan())
  t.equal(code, EXIT.done, log)
  t.match(log, /deleting the pending revision of a killed helm.*status=pending-install/)
  t.match(await pending(), { metadata: { labels: { status: 'deployed' } } })
})

t.test('SIGTERM ends helm, writes no final report, and is a crash that is retried', async (t) => {
  const world = await jobWorld(t)
  const { child, pending } = await heldInHelm(t, world)
  const log = text(child.stdout)
  child.kill('SIGTERM')
  const [code] = (await once(child, 'close')) as [number]
  t.equal(code, EXIT.crash)
  t.match(await log, /"level":"WARNING".*"msg":"terminated by a signal"/)
  t.match(await world.progress(), { state: 'Started' })
  // helm got SIGTERM and marked its release: the next pod can continue.
  t.match(await pending(), { metadata: { labels: { status: 'failed' } } })
  world.hold.release()
  t.equal((await world.run('upgrade', world.plan())).code, EXIT.done)
})

/** The CLI in a separate process, with helm stopped after it created its pending revision. */
async function heldInHelm(t: Test, world: JobWorld) {
  world.hold.set()
  world.helm({ holdAt: 'pending', hold: world.hold.file })
  const child = spawn(process.execPath, [CLI, 'cluster', 'upgrade', 'ns/a'], {
    env: { ...world.env, [JOB_ENV.plan]: encodePlan(world.plan(), 'spec'), LOG_FORMAT: 'json' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const pending = () => world.object('v1', 'Secret', 'sh.helm.release.v1.vec-a.v1')
  while ((await pending()) === undefined) await new Promise(setImmediate)
  return { child, pending }
}

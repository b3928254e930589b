/** The reporter: what a Job writes on its resource, and when the Job must stop. */
import t, { type Test } from 'tap'
import type { Progress } from '../../crds/contract/job.ts'
import { MAX_PROGRESS_BYTES } from '../../crds/contract/limits.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { Kubernetes, inClusterAccess } from '../../jobs/clients/kubernetes/client.ts'
import { jobLog } from '../../jobs/log.ts'
import { Reporter } from '../../jobs/reporter.ts'
import type { Clock } from '../../jobs/clock.ts'
import {
  startScriptedApi,
  type ScriptedAnswer,
  type ScriptedCall,
} from '../doubles/scripted-api.ts'
import { START } from './job-fixture.ts'
import { instantClock } from './job-world.ts'

interface Patch {
  metadata: { uid: string; annotations: Record<string, string | null> }
}

/** An API server with one VecCluster; `refuse` may answer a request. */
async function reporting(
  t: Test,
  { time = instantClock(), refuse = (): ScriptedAnswer | undefined => undefined } = {},
) {
  const resource: { metadata: { uid: string; annotations: Record<string, string> } } = {
    metadata: { uid: 'u', annotations: {} },
  }
  const answer = ({ method, body }: ScriptedCall): ScriptedAnswer => {
    const rejection = refuse()
    if (rejection !== undefined) return rejection
    if (method === 'PATCH') {
      const { metadata } = JSON.parse(body) as Patch
      const merged = { ...resource.metadata.annotations, ...metadata.annotations }
      resource.metadata.annotations = Object.fromEntries(
        Object.entries(merged).filter((entry): entry is [string, string] => entry[1] !== null),
      )
    }
    return { status: 200, body: resource }
  }
  const api = await startScriptedApi(answer)
  t.teardown(() => api.close())
  const log = jobLog({ LOG_LEVEL: 'ERROR' })
  const kubernetes = new Kubernetes(inClusterAccess({ VEC_API_SERVER: api.url }), log)
  const reporterOf = (runner: string, run = 1, clock: Clock = time) =>
    new Reporter({
      kubernetes,
      target: { resource: 'vecclusters', namespace: 'ns', name: 'a', uid: 'u', run, hash: 'h' },
      verb: 'upgrade',
      podUid: runner,
      jobUid: `job-${run}`,
      time: clock,
      log,
      signal: new AbortController().signal,
    })
  return {
    api,
    resource,
    reporterOf,
    progress: () =>
      JSON.parse(resource.metadata.annotations[ANNOTATIONS.progress] ?? '{}') as Progress,
    patches: () => api.calls.filter(({ method }) => method === 'PATCH'),
  }
}

const APPLIED = {
  planHash: 'h0',
  generation: 1,
  secretFingerprints: {},
  version: '1.18.3',
  run: 1,
  at: START.toISOString(),
}

t.test('the first report claims the resource for this pod', async (t) => {
  const { reporterOf, progress, patches } = await reporting(t)
  t.equal(await reporterOf('pod').start(), undefined)
  t.strictSame(progress(), {
    uid: 'u',
    verb: 'upgrade',
    run: 1,
    job: 'job-1',
    runner: 'pod',
    plan: 'h',
    at: START.toISOString(),
    startedAt: START.toISOString(),
    state: 'Started',
  })
  const [patch] = patches()
  t.equal(patch?.path, '/apis/vec-operator.dev/v1alpha1/namespaces/ns/vecclusters/a')
  t.equal(patch?.headers['content-type'], 'application/merge-patch+json')
  t.equal(
    (JSON.parse(patch?.body ?? '') as Patch).metadata.uid,
    'u',
    'not for another resource of that name',
  )
})

t.test('later reports keep the applied release', async (t) => {
  const { reporterOf, progress } = await reporting(t)
  await reporterOf('pod').finish({ state: 'Done', applied: APPLIED })
  const next = reporterOf('pod', 2)
  await next.start()
  t.match(progress(), { run: 2, state: 'Started', applied: APPLIED })
  await next.finish({ state: 'Failed', reason: 'HelmFailed', message: 'no' })
  t.match(progress(), { state: 'Failed', applied: APPLIED })
})

t.test('a pod that reads another runner stops', async (t) => {
  const { reporterOf, progress } = await reporting(t)
  const old = reporterOf('old')
  await old.start()
  await reporterOf('new').start()
  await t.rejects(old.finish({ state: 'Done' }), { code: 'Superseded' })
  t.match(progress(), { runner: 'new', state: 'Started' })
})

t.test('a Job that reads a newer run stops before it does anything', async (t) => {
  const { reporterOf, progress } = await reporting(t)
  await reporterOf('pod', 2).start()
  await t.rejects(reporterOf('late', 1).start(), { code: 'Superseded' })
  t.match(progress(), { run: 2, runner: 'pod' })
})

t.test('a deleted resource ends the work', async (t) => {
  const { reporterOf } = await reporting(t, { refuse: () => ({ status: 404, body: {} }) })
  await t.rejects(reporterOf('pod').start(), { code: 'Gone' })
})

t.test('a resource that was recreated under the same name ends the work', async (t) => {
  const { reporterOf, resource, patches } = await reporting(t)
  const reporter = reporterOf('pod')
  await reporter.start()
  resource.metadata.uid = 'another'
  await t.rejects(reporter.finish({ state: 'Done' }), { code: 'Gone' })
  t.equal(patches().length, 1)
})

t.test('a rejected report is retried until it is accepted', async (t) => {
  let rejections = 3
  const { reporterOf, progress } = await reporting(t, {
    refuse: () => (rejections-- > 0 ? { status: 409, body: { message: 'changed' } } : undefined),
  })
  await reporterOf('pod').start()
  t.match(progress(), { state: 'Started' })
})

t.test('reports that are rejected for ten minutes end the Job', async (t) => {
  const time = instantClock()
  const { reporterOf } = await reporting(t, {
    time,
    refuse: () => ({ status: 403, body: { message: 'forbidden' } }),
  })
  await t.rejects(reporterOf('pod').start(), { code: 'Unreported' })
  const waited = time.now().getTime() - START.getTime()
  t.ok(waited > 560_000 && waited <= 600_000, `${waited} ms`)
})

t.test('intermediate reports are throttled, and may be rejected without harm', async (t) => {
  const time = instantClock()
  let refused = false
  const { reporterOf, progress, patches } = await reporting(t, {
    time,
    refuse: () => (refused ? { status: 500, body: 'broken' } : undefined),
  })
  const reporter = reporterOf('pod')
  await reporter.start()
  await reporter.progress('too early')
  t.equal(patches().length, 1)
  await time.sleep(5_000)
  await reporter.progress('half')
  t.match(progress(), { state: 'Started', message: 'half' })
  refused = true
  await time.sleep(5_000)
  await reporter.progress('refused')
  refused = false
  await time.sleep(5_000)
  await reporterOf('another').start()
  await t.rejects(reporter.progress('more'), { code: 'Superseded' })
})

t.test('a report stays within its size limits', async (t) => {
  const { reporterOf, progress, resource } = await reporting(t)
  const reporter = reporterOf('pod')
  const many = Array.from({ length: 2230 }, (_, i) => [`secret-${i}`, 'f'.repeat(12)])
  const applied = {
    ...APPLIED,
    secretFingerprints: Object.fromEntries(many) as Record<string, string>,
  }
  await reporter.finish({ state: 'Failed', message: 'x'.repeat(100_000), applied })
  t.notOk('message' in progress(), 'what was applied is preferred over a message')
  const text = resource.metadata.annotations[ANNOTATIONS.progress] ?? ''
  t.ok(Buffer.byteLength(text) <= MAX_PROGRESS_BYTES)
  await reporter.finish({ state: 'Failed', message: 'x'.repeat(100_000), applied: APPLIED })
  t.match(progress().message, /^x{2046} …$/)
  await reporter.finish({ state: 'Done' }, { spec: 'x' })
  t.equal(resource.metadata.annotations['spec'], 'x')
  await reporter.finish({ state: 'Done' }, { spec: 'y'.repeat(200_000) })
  t.notOk('spec' in resource.metadata.annotations, 'the former one is not left for this one')
})

t.test('a heartbeat repeats the last report with the current time', async (t) => {
  const time = movable()
  const { reporterOf, progress, patches } = await reporting(t, { time })
  const reporter = reporterOf('pod')
  await reporter.heartbeat()
  t.equal(patches().length, 0, 'no report before it has claimed the resource')
  await reporter.start()
  const backup = { startedAt: START.toISOString(), total: 2, completed: 1, failed: 0, bytes: 7 }
  const parts = { backup: { ...backup, collections: [], unlisted: NONE } }
  time.advance(10_000)
  await reporter.progress('half-way', parts)
  const before = progress()
  time.advance(20_000)
  await reporter.heartbeat()
  t.strictSame(progress(), before, 'the last report is recent')
  time.advance(60_000)
  await reporter.heartbeat()
  t.strictSame(progress(), { ...before, at: time.now().toISOString() })
})

t.test('a removed report is written again with what it carried over', async (t) => {
  const time = movable()
  const { reporterOf, progress, resource } = await reporting(t, { time })
  const reporter = reporterOf('pod')
  await reporter.start()
  await reporter.checkpoint('half', { applied: APPLIED })
  const before = progress()
  resource.metadata.annotations = {}
  time.advance(60_000)
  await reporter.heartbeat()
  t.strictSame(progress(), { ...before, at: time.now().toISOString() })
  resource.metadata.annotations = {}
  await reporter.finish({ state: 'Done', message: 'all' })
  t.match(progress(), { state: 'Done', applied: APPLIED })
})

t.test('no heartbeat follows the final report, and writes do not overlap', async (t) => {
  const time = movable()
  const { reporterOf, progress } = await reporting(t, { time })
  const reporter = reporterOf('pod')
  await reporter.start()
  time.advance(120_000)
  await Promise.all([reporter.finish({ state: 'Done', message: 'all' }), reporter.heartbeat()])
  const final = progress()
  t.match(final, { state: 'Done', message: 'all' })
  time.advance(120_000)
  await reporter.heartbeat()
  t.strictSame(progress(), final)
})

t.test('a heartbeat that the API rejects does no harm', async (t) => {
  const time = movable()
  let refused = false
  const refuse = () => (refused ? { status: 500, body: {} } : undefined)
  const { reporterOf, progress } = await reporting(t, { time, refuse })
  const reporter = reporterOf('pod')
  await reporter.start()
  const before = progress()
  refused = true
  time.advance(120_000)
  await reporter.heartbeat()
  t.strictSame(progress(), before)
  refused = false
  time.advance(120_000)
  await reporter.heartbeat()
  t.strictSame(progress(), { ...before, at: time.now().toISOString() }, 'the next one is written')
})

t.test('ownership is asked for again after a minute by either clock', async (t) => {
  let [wallMs, elapsedMs] = [START.getTime(), 0]
  const time = {
    ...instantClock(),
    now: () => new Date(wallMs),
    monotonicMs: () => elapsedMs,
  }
  const { api, reporterOf } = await reporting(t, { time })
  const reporter = reporterOf('pod-1')
  const asked = async () => {
    const before = api.calls.length
    await reporter.verifyRecentOwnership()
    return api.calls.length - before
  }
  t.equal(await asked(), 1, 'nothing has confirmed it')
  t.equal(await asked(), 0, 'just confirmed')
  elapsedMs += 61_000
  wallMs -= 3_600_000
  t.equal(await asked(), 1, 'the system clock was set back meanwhile')
  wallMs += 61_000
  t.equal(await asked(), 1, 'the machine was suspended')
  t.equal(await asked(), 0)
})

const NONE = { completed: 0, failed: 0, pending: 0 }

function movable(): Clock & { advance(ms: number): void } {
  let now = START.getTime()
  return {
    now: () => new Date(now),
    monotonicMs: () => now,
    advance: (ms) => void (now += ms),
    sleep: async (ms) => void (now += ms),
  }
}

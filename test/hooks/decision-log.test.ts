/** What the service logs of its decisions: one line when something begins or changes, with the reason. */
import { pino } from 'pino'
import t from 'tap'
import { VecCluster } from '../../crds/cluster.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { SHARD_WORK_REASONS } from '../../crds/critical-conditions.ts'
import { DecisionLog, hookCaller } from '../../hooks/decision-log.ts'
import { setConditions } from '../../hooks/conditions.ts'
import { newEvent } from '../../hooks/events.ts'
import { RetryLater, type Desired, kindHooks } from '../../hooks/protocol.ts'
import { buildServer, type ServerOptions } from '../../hooks/server.ts'
import { NOW, cluster, helmJob, settings, type ClusterOverrides } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'
import { hookRequest } from './request.ts'

type Status = NonNullable<VecCluster['status']>
type Answer = () => Desired<Status>

/** A service whose only kind answers what a test says, and what it logged since the last look. */
function stage(options: Partial<ServerOptions> = {}) {
  let lines: Record<string, unknown>[] = []
  let answer: Answer = () => ({ status: {}, children: [] })
  const write = (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>)
  const decide = async () => answer()
  const server = buildServer({
    hooks: [
      kindHooks({
        ...{
          resource: VecCluster,
          childKinds: ['Job.batch/v1'],
          finalizeReads: [],
          customize: () => [],
        },
        ...{ sync: decide, finalize: decide },
      }),
    ],
    ...{ tokens: () => [], now: () => NOW, settings },
    log: pino({ base: {}, timestamp: false }, { write }),
    metrics: { observe: () => undefined, text: async () => '', contentType: 'text/plain' },
    ...options,
  })
  const post = (payload: object, hook = 'sync') =>
    server.inject({ method: 'POST', url: `/vecclusters/${hook}`, payload })
  /** Calls the hook so many times, as Metacontroller does with a resource that does not change. */
  const logged = async (says: Answer, parts: ClusterOverrides = {}, times = 3) => {
    answer = says
    for (let time = 0; time < times; time += 1) await post(hookRequest(cluster(parts)))
    return taken()
  }
  const taken = () => {
    const taken = lines
    lines = []
    return taken
  }
  return { logged, post, taken, answers: (says: Answer) => (answer = says) }
}

const INFO = 30
const WARNING = 40
const ERROR = 50
const SYNC = { kind: 'VecCluster', hook: 'sync', namespace: 'ns', name: 'a' }

function applied(reason: string, message: string, status: 'True' | 'False' = 'False'): Status {
  const findings = [{ type: 'Applied', status, reason, message }]
  return { phase: 'Pending', conditions: setConditions(cluster(), findings, NOW) }
}

/** The answer, with a Warning that says the same. */
function warned(reason: string, message: string): Desired<Status> {
  const event = { type: 'Warning' as const, reason, message, transition: message }
  const events = [newEvent(cluster(), event, NOW)]
  return { status: applied(reason, message), children: [], events }
}

t.test('a wait is one line when it begins, when its reason changes and when it ends', async (t) => {
  const { logged } = stage()
  const first = applied('ClusterBusy', 'waits for VecBackup ns/one')
  const second = applied('ClusterBusy', 'waits for VecBackup ns/two')
  const end = applied('UpToDate', 'generation 1 is applied', 'True')
  const line = (message: string) => ({
    ...{ level: INFO, ...SYNC, condition: 'Applied', status: 'False', reason: 'ClusterBusy' },
    ...{ message, phase: 'Pending', msg: 'waiting' },
  })
  t.strictSame(await logged(() => ({ status: first, children: [] })), [
    line('waits for VecBackup ns/one'),
  ])
  t.strictSame(await logged(() => ({ status: first, children: [] }), { status: first }), [])
  t.strictSame(await logged(() => ({ status: second, children: [] }), { status: first }), [
    line('waits for VecBackup ns/two'),
  ])
  matchWhole(t, await logged(() => ({ status: end, children: [] }), { status: second }), [
    { reason: 'UpToDate', status: 'True', msg: 'condition changed' },
  ])
})

t.test('a wait that begins again is logged again', async (t) => {
  const { logged } = stage()
  const waits = applied('ClusterBusy', 'waits for VecBackup ns/one')
  const end = applied('UpToDate', 'generation 1 is applied', 'True')
  t.equal((await logged(() => ({ status: waits, children: [] }), { status: end })).length, 1)
  await logged(() => ({ status: end, children: [] }), { status: waits })
  t.equal((await logged(() => ({ status: waits, children: [] }), { status: end })).length, 1)
})

t.test('work is logged when it begins, not with each of its messages', async (t) => {
  const { logged } = stage()
  const begun = applied('HelmRunning', 'helm run 1 is in progress')
  const later = applied('HelmRunning', 'helm run 1 is in progress, 10 %')
  matchWhole(t, await logged(() => ({ status: begun, children: [] })), [
    { level: INFO, reason: 'HelmRunning', msg: 'in progress' },
  ])
  t.strictSame(await logged(() => ({ status: later, children: [] }), { status: begun }), [])
})

/** Of work on the shards while helm has nothing to do. */
function placed(reason: string, message: string): Status {
  const findings = [{ type: 'ShardsPlaced', status: 'False' as const, reason, message }]
  return { phase: 'Running', conditions: setConditions(cluster(), findings, NOW) }
}

t.test('a wait of a drain, and of other work on shards, is a line when it begins', async (t) => {
  const { logged } = stage()
  const works = applied('Draining', 'spec.replicas: 3 -> 2 is applied node by node')
  const consensus = applied('Draining', 'spec.replicas: 3 -> 2 waits until consensus works')
  const pod = applied('Draining', 'the removal of node 2 waits: its pod has not ended')
  const linesFrom = async (status: Status, before?: Status) =>
    (await logged(() => ({ status, children: [] }), before && { status: before })).map(
      ({ msg, message }) => [msg, message],
    )
  const text = (status: Status) => status.conditions?.[0]?.message
  t.strictSame(await linesFrom(works), [['in progress', text(works)]])
  t.strictSame(await linesFrom(works, works), [])
  t.strictSame(await linesFrom(consensus, works), [['waiting', text(consensus)]])
  t.strictSame(await linesFrom(consensus, consensus), [])
  t.strictSame(await linesFrom(pod, consensus), [['waiting', text(pod)]])
  t.strictSame(await linesFrom(works, pod), [['in progress', text(works)]])
  for (const reason of Object.values(SHARD_WORK_REASONS)) {
    const starts = placed(reason, 'creating ServiceAccount, Role and RoleBindings of the Job')
    const waits = placed(reason, 'waiting for VecBackup ns/b')
    t.strictSame(await linesFrom(waits, starts), [['condition changed', text(waits)]], reason)
  }
})

t.test('work after a failure is logged as a retry: a warning with the reason', async (t) => {
  const { logged } = stage()
  matchWhole(t, await logged(() => warned('HelmFailed', 'chart 9.9.9 not found')), [
    { level: WARNING, reason: 'HelmFailed', message: 'chart 9.9.9 not found', msg: 'retrying' },
  ])
})

t.test('a state that only a user can change is refused: a warning with the reason', async (t) => {
  const { logged } = stage()
  const refused = applied('InvalidSpec', 'spec.config.tls.cert is set by spec.tls: remove it')
  matchWhole(t, await logged(() => ({ status: refused, children: [] })), [
    { level: WARNING, reason: 'InvalidSpec', message: /spec\.config\.tls\.cert/, msg: 'refused' },
  ])
})

t.test('a new Job, a stopped one and a warning without a condition have a line each', async (t) => {
  const { logged } = stage()
  const child = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'vec-a-run-2' }, spec: {} }
  const event = {
    type: 'Warning' as const,
    reason: 'ShortApiKey',
    message: 'short',
    transition: '',
  }
  const lines = await logged(() => ({
    ...{ status: {}, children: [child] },
    events: [newEvent(cluster(), event, NOW)],
    deleteJobs: [{ namespace: 'ns', name: 'vec-a-run-1', uid: 'u' }],
  }))
  matchWhole(t, lines, [
    { level: WARNING, reason: 'ShortApiKey', message: 'short', msg: 'warning' },
    { level: INFO, child: 'Job vec-a-run-2', msg: 'creating child' },
    { level: WARNING, child: 'Job vec-a-run-1', msg: 'stopping Job' },
  ])
  t.equal(lines.length, 3)
})

t.test('a Job that is observed already is no new one', async (t) => {
  const { answers, post, taken } = stage()
  const job = helmJob()
  const { name } = job.metadata
  answers(() => ({
    status: {},
    children: [{ apiVersion: 'batch/v1', kind: 'Job', metadata: { name } }],
  }))
  await post(hookRequest(cluster(), [job]))
  t.strictSame(taken(), [])
  await post(hookRequest(cluster()))
  matchWhole(t, taken(), [{ child: `Job ${name}`, msg: 'creating child' }])
})

t.test('the observed children are searched once, however many are desired', async (t) => {
  let reads = 0
  const names = Array.from({ length: 100 }, (_, at) => `b-${at}`)
  const observed = Object.fromEntries(
    names.map((name) => {
      const object = {
        get kind() {
          reads += 1
          return 'VecBackup'
        },
        ...{ apiVersion: API_VERSION, metadata: { name } },
      }
      return [name, object]
    }),
  )
  const children = [...names, 'b-new'].map((name) => ({
    ...{ apiVersion: API_VERSION, kind: 'VecBackup', metadata: { name } },
  }))
  const lines: string[] = []
  const log = new DecisionLog(pino({}, { write: (line) => void lines.push(line) }))
  const request = { ...hookRequest(cluster()), children: { VecBackup: observed } }
  const desired = { status: {}, children }
  log.recordDecision(request, desired, hookCaller(request.parent, 'sync'))
  t.equal(reads, names.length)
  t.strictSame(
    lines.map((line) => (JSON.parse(line) as { child: string }).child),
    ['VecBackup b-new'],
  )
})

t.test(
  'a call that fails is one line when it begins, and one when it succeeds again',
  async (t) => {
    const { logged } = stage()
    const fails = (port: number) => (): never => {
      throw new KubernetesError(`GET /leases got no answer: connect ECONNREFUSED 10.0.0.1:${port}`)
    }
    const [line, ...more] = await logged(fails(6443))
    t.strictSame(line, {
      ...{ level: WARNING, ...SYNC, msg: 'retrying' },
      reason: 'GET /leases got no answer: connect ECONNREFUSED 10.0.0.1:6443',
    })
    t.strictSame([...more, ...(await logged(fails(6444)))], [])
    matchWhole(t, await logged(() => ({ status: {}, children: [] })), [
      { level: INFO, ...SYNC, msg: 'retry succeeded' },
    ])
  },
)

t.test('a call that is repeated later is logged with the reason and the time', async (t) => {
  const { logged } = stage()
  const later = (): never => {
    throw new RetryLater('namespace ns is not watched by this operator', 3600)
  }
  t.strictSame(await logged(later), [
    {
      ...{ level: INFO, ...SYNC, msg: 'retrying' },
      ...{ reason: 'namespace ns is not watched by this operator', afterSeconds: 3600 },
    },
  ])
})

t.test('a defect is logged once, with its stack', async (t) => {
  const { logged } = stage()
  const broken = (): never => {
    throw new TypeError('x is not a function')
  }
  const lines = await logged(broken)
  matchWhole(t, lines, [
    {
      ...{ level: ERROR, ...SYNC, msg: 'hook failed' },
      err: { type: 'TypeError', message: 'x is not a function', stack: /decision-log\.test/ },
    },
  ])
  t.equal(lines.length, 1)
})

t.test('an unexpected error is logged once, with its stack', async (t) => {
  const { logged } = stage()
  const status = applied('PodsNotAnswering', 'querying the pods failed')
  const failing = (error: unknown) => () => ({ status, children: [], failures: [{ error }] })
  const seen = { status }
  matchWhole(t, await logged(failing(new TypeError('x is not a function on port 4711')), seen), [
    { level: ERROR, ...SYNC, msg: 'pass failed', err: { stack: /decision-log\.test/ } },
  ])
  t.strictSame(await logged(failing(new TypeError('x is not a function on port 4712')), seen), [])
  t.equal((await logged(failing(new RangeError('another')), seen)).length, 1)
  t.strictSame(await logged(failing(new KubernetesError('GET secret answered 403')), seen), [])
})

t.test('each unexpected error is logged, also behind an expected one', async (t) => {
  const { logged } = stage()
  const status = applied('PodsNotAnswering', 'querying the pods failed')
  const errors = [new KubernetesError('GET secret answered 403'), new TypeError('x')]
  const failures = [...errors, new RangeError('y')].map((error) => ({ error }))
  matchWhole(t, await logged(() => ({ status, children: [], failures }), { status }), [
    { level: ERROR, ...SYNC, msg: 'pass failed', err: { type: 'TypeError' } },
    { level: ERROR, ...SYNC, msg: 'pass failed', err: { type: 'RangeError' } },
  ])
})

t.test('an answer that the guard refuses is a defect: what is wrong, and the stack', async (t) => {
  const { logged } = stage()
  matchWhole(t, await logged(() => ({ status: { phase: 'Odd' } as never, children: [] })), [
    {
      level: ERROR,
      err: { type: 'InvalidAnswer', message: /status\.phase/, stack: /answer-validation/ },
    },
  ])
})

t.test('an invalid body and a wrong token are rejected with a log line', async (t) => {
  const { post, taken } = stage()
  await post({ ...hookRequest(cluster()), finalizing: 'x' })
  await post({ ...hookRequest(cluster()), finalizing: 'x' })
  await post({})
  matchWhole(t, taken(), [
    { level: WARNING, ...SYNC, reason: /body\/finalizing/, msg: 'refused' },
    { level: WARNING, kind: 'VecCluster', hook: 'sync', reason: /body/, msg: 'refused' },
  ])
  const closed = stage({ tokens: () => ['right'] })
  await closed.post(hookRequest(cluster()))
  await closed.post(hookRequest(cluster()))
  t.strictSame(closed.taken(), [
    {
      ...{ level: WARNING, kind: 'VecCluster', hook: 'sync', msg: 'refused' },
      reason: 'the bearer token is missing or wrong',
    },
  ])
})

t.test('the end of a resource is a line', async (t) => {
  const { answers, post, taken } = stage()
  const parts = { deletionTimestamp: NOW.toISOString() }
  answers(() => ({ status: {}, children: [], finalized: true }))
  await post(hookRequest(cluster(parts)), 'finalize')
  t.strictSame(taken(), [{ level: INFO, ...SYNC, hook: 'finalize', msg: 'finalized' }])
})

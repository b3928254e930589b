import { setImmediate as immediate } from 'node:timers/promises'
import t from 'tap'
import { pino } from 'pino'
import { VecCluster } from '../../crds/cluster.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { childKind } from '../../hooks/answer-validation.ts'
import { RetryLater, type Desired, kindHooks, type KindHooks } from '../../hooks/protocol.ts'
import { buildServer, type LiveStatus, type ServerOptions } from '../../hooks/server.ts'
import { NOW, cluster, helmJob, settings } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'

type Answer = Desired<unknown>

/** Hooks with the answer of a test. */
function scripted(answer: () => Answer | Promise<Answer>): KindHooks {
  return kindHooks({
    resource: VecCluster,
    childKinds: ['Job.batch/v1'],
    finalizeReads: [],
    customize: ({ metadata }) => [
      {
        apiVersion: 'apps/v1',
        resource: 'statefulsets',
        namespace: metadata.namespace,
        names: ['vec-a'],
      },
    ],
    sync: async () => answer(),
    finalize: async () => answer(),
  })
}

function server(answer: () => Answer | Promise<Answer>, options: Partial<ServerOptions> = {}) {
  const seen: unknown[][] = []
  const built = buildServer({
    hooks: [scripted(answer)],
    tokens: () => [],
    log: pino({ level: 'silent' }),
    now: () => NOW,
    settings,
    metrics: {
      observe: (...args) => seen.push(args),
      text: async () => 'metrics',
      contentType: 'text/plain',
    },
    ...options,
  })
  return { built, seen }
}

const fine: Answer = { status: {}, children: [] }

t.test('a request, its headers and an idle connection have limits', async (t) => {
  const { built } = server(() => fine)
  t.teardown(() => built.close())
  const { requestTimeout, headersTimeout, maxConnections, timeout } = built.server
  t.strictSame(
    { requestTimeout, headersTimeout, maxConnections, timeout },
    { requestTimeout: 15_000, headersTimeout: 10_000, maxConnections: 1000, timeout: 120_000 },
  )
})

const job = helmJob()
const body = {
  parent: cluster(),
  children: { 'Job.batch/v1': {} },
  related: {},
  finalizing: false,
  controller: {},
}
const withJob = {
  ...body,
  children: { 'Job.batch/v1': { [`ns/${job.metadata.name}`]: job } },
}
const keep = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: job.metadata.name } }

async function post(answer: () => Answer | Promise<Answer>, payload: unknown, path = 'sync') {
  const { built } = server(answer)
  return built.inject({ method: 'POST', url: `/vecclusters/${path}`, payload: payload as object })
}

t.test('other requests continue between the steps of a large one', async (t) => {
  const stepsOf = async (annotations: Record<string, string>) => {
    const steps: string[] = []
    const step = (name: string) => {
      steps.push(name)
      setImmediate(() => steps.push('others'))
    }
    const decide = () => {
      step('decide')
      return fine
    }
    const { built } = server(decide, {
      // Of each request, before it is validated.
      outdatedCrd: () => {
        step('begin')
        return undefined
      },
      metrics: {
        ...{ observe: () => undefined, text: async () => '', contentType: 'text/plain' },
        recordDecision: () => steps.push('end'),
      },
    })
    const payload = { ...body, parent: cluster({ annotations }) }
    const { statusCode } = await built.inject({
      method: 'POST',
      url: '/vecclusters/sync',
      payload,
    })
    t.equal(statusCode, 200)
    return steps.slice(0, steps.indexOf('end') + 1)
  }
  const large = await stepsOf({ note: 'x'.repeat(64 * 1024) })
  t.strictSame(large, ['begin', 'others', 'decide', 'others', 'end'])
  t.strictSame(await stepsOf({}), ['begin', 'decide', 'end'])
})

t.test('finalize decides on the live status, sync on the one that was sent', async (t) => {
  const seen: unknown[] = []
  const hooks = kindHooks({
    resource: VecCluster,
    childKinds: [],
    finalizeReads: [],
    customize: () => [],
    sync: async ({ parent }) => {
      seen.push(parent.status)
      return { status: parent.status ?? {}, children: [] }
    },
    finalize: async ({ parent }) => {
      seen.push(parent.status)
      return { status: parent.status ?? {}, children: [] }
    },
  })
  const live = { phase: 'Running' as const, replicas: 3 }
  const answers: Record<string, LiveStatus | undefined> = { a: { status: live }, b: {} }
  const asked: string[] = []
  const { built } = server(() => fine, {
    hooks: [hooks],
    liveStatus: async ({ plural }, { metadata }) => {
      asked.push(`${plural} ${metadata.name}`)
      return answers[metadata.name]
    },
  })
  const older = { phase: 'Pending' as const }
  for (const [name, hook] of [
    ['a', 'sync'],
    ['a', 'finalize'],
    ['b', 'finalize'],
    ['c', 'finalize'],
  ] as const) {
    const { metadata, ...rest } = cluster({ status: older })
    const parent = { ...rest, metadata: { ...metadata, name } }
    const url = `/vecclusters/${hook}`
    const response = await built.inject({
      method: 'POST',
      url,
      payload: { ...body, parent, children: {} },
    })
    t.equal(response.statusCode, 200, response.body)
  }
  t.strictSame(asked, ['vecclusters a', 'vecclusters b', 'vecclusters c'])
  t.strictSame(seen, [older, live, undefined, older])
})

t.test('a live status that is not read in time is an error of the call', async (t) => {
  const { built } = server(() => fine, {
    answerDeadlineMs: 20,
    liveStatus: () => new Promise(() => undefined),
  })
  const url = '/vecclusters/finalize'
  const response = await built.inject({ method: 'POST', url, payload: body })
  t.equal(response.statusCode, 503, response.body)
})

t.test('an answer carries status, children and resyncAfterSeconds, nothing else', async (t) => {
  const answer = {
    ...fine,
    children: [keep],
    resyncAfterSeconds: 30,
    events: [],
    deleteJobs: [],
    pruned: [],
  }
  const response = await post(() => answer, withJob)
  t.equal(response.statusCode, 200)
  t.strictSame(response.json(), { status: {}, children: [keep], resyncAfterSeconds: 30 })
})

/** Answers that are not in answer-validation.test.ts, and one that is. */
const invalidAnswers: [title: string, answer: unknown][] = [
  ['a missing status', { children: [keep] }],
  ['a null among the children', { status: {}, children: [keep, null] }],
  ['a status that breaks its schema', { status: { phase: 'Odd' }, children: [keep] }],
  ['a null in the status', { status: { phase: null }, children: [keep] }],
]

for (const [title, answer] of invalidAnswers) {
  t.test(`an answer with ${title} is a 5xx`, async (t) => {
    const response = await post(() => answer as Answer, withJob)
    t.equal(response.statusCode, 500)
    t.match(response.json(), { error: /^internal error: / })
  })
}

t.test('a child in pruned with a reason may be deleted', async (t) => {
  const pruned = [{ kind: 'Job', name: job.metadata.name, reason: 'its history time is over' }]
  const response = await post(() => ({ ...fine, pruned }), withJob)
  t.strictSame(response.json(), { status: {}, children: [] })
})

t.test('finalized is passed on in finalize', async (t) => {
  const response = await post(() => ({ ...fine, finalized: true }), body, 'finalize')
  t.strictSame(response.json(), { status: {}, children: [], finalized: true })
})

t.test('an unexpected error is a 5xx without its message', async (t) => {
  const response = await post(() => Promise.reject(new Error('secret inside')), body)
  t.equal(response.statusCode, 500)
  t.notMatch(response.body, /secret inside/)
})

t.test('429 always carries Retry-After', async (t) => {
  const response = await post(() => Promise.reject(new RetryLater('busy', 7)), body)
  t.equal(response.statusCode, 429)
  t.equal(response.headers['retry-after'], '7')
})

t.test('a decision that takes more than its limit is a 503', async (t) => {
  const { built } = server(() => new Promise<Answer>(() => undefined), { answerDeadlineMs: 5 })
  const response = await built.inject({ method: 'POST', url: '/vecclusters/sync', payload: body })
  t.equal(response.statusCode, 503)
  t.match(response.json(), { error: 'VecCluster ns/a took more than 5 ms' })
})

t.test('a decision learns that it was answered; one that took too long is not', async (t) => {
  let answers = 0
  const answered = () => (answers += 1)
  const release = Promise.withResolvers<Answer>()
  const late = server(() => release.promise, { answerDeadlineMs: 5 })
  const response = await late.built.inject({
    ...{ method: 'POST', url: '/vecclusters/sync', payload: body },
  })
  t.equal(response.statusCode, 503)
  release.resolve({ ...fine, answered })
  await immediate()
  t.equal(answers, 0)
  t.equal((await post(() => ({ ...fine, answered }), body)).statusCode, 200)
  t.equal(answers, 1)
})

const bad: [title: string, payload: unknown, code: number, words: RegExp][] = [
  ['malformed JSON', '{"parent":', 400, /body/i],
  ['no parent', { ...body, parent: undefined }, 400, /parent/],
  [
    'a parent of the wrong kind',
    { ...body, parent: { ...cluster(), kind: 'VecBackup' } },
    400,
    /kind/,
  ],
  ['a null parent', { ...body, parent: null }, 400, /parent/],
  ['children that are a list', { ...body, children: [] }, 400, /children/],
  ['a null child', { ...body, children: { 'Job.batch/v1': { 'ns/x': null } } }, 400, /children/],
  ['no finalizing', { ...body, finalizing: undefined }, 400, /finalizing/],
  ['a list', [], 400, /body/],
]

for (const [title, payload, code, words] of bad) {
  t.test(`a request with ${title} is rejected, naming the reason in one line`, async (t) => {
    const { built } = server(() => fine)
    const response = await built.inject({
      method: 'POST',
      url: '/vecclusters/sync',
      headers: { 'content-type': 'application/json' },
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    })
    t.equal(response.statusCode, code)
    t.match(response.body, words)
    t.notMatch(response.body, /\n/)
  })
}

t.test('a Kubernetes API that is too busy: 429 with Retry-After, which is no error', async (t) => {
  const response = await post(() => {
    throw new KubernetesError('GET /secrets answered 429: too many requests', { status: 429 })
  }, body)
  t.equal(response.statusCode, 429)
  t.equal(response.headers['retry-after'], '10')
  t.strictSame(response.json(), { error: 'the Kubernetes API is too busy' })
})

t.test('a Kubernetes API that refuses or does not answer is named, in one line', async (t) => {
  const words = 'GET /api/v1/namespaces/ns/secrets/a answered 403: secrets "a" is forbidden'
  const response = await post(() => {
    throw new KubernetesError(words, { status: 403 })
  }, body)
  t.equal(response.statusCode, 503)
  t.strictSame(response.json(), { error: words })
})

t.test('a body over 10 MiB is rejected', async (t) => {
  const response = await post(() => fine, { ...body, noise: 'x'.repeat(10 * 1024 * 1024) })
  t.equal(response.statusCode, 413)
})

t.test(
  'a hook call needs the bearer token; the current and the previous one are accepted',
  async (t) => {
    const { built } = server(() => fine, { tokens: () => ['new', 'old'] })
    const call = async (authorization?: string) =>
      built.inject({
        method: 'POST',
        url: '/vecclusters/sync',
        payload: body,
        ...(authorization !== undefined && { headers: { authorization } }),
      })
    t.equal((await call()).statusCode, 401)
    t.equal((await call('Bearer wrong')).statusCode, 401)
    t.equal((await call('Bearer new')).statusCode, 200)
    t.equal((await call('Bearer old')).statusCode, 200)
  },
)

t.test('a route that does not exist needs the token too, and takes no body', async (t) => {
  const { built } = server(() => fine, { tokens: () => ['new'] })
  const payload = `[${'[],'.repeat(1000)}[]]`
  const call = async (authorization: string) =>
    built.inject({
      method: 'POST',
      url: '/none',
      payload,
      headers: { authorization, 'content-type': 'application/json' },
    })
  t.equal((await call('Bearer wrong')).statusCode, 401)
  t.equal((await call('Bearer new')).statusCode, 413)
  const headers = { authorization: 'Bearer new' }
  const missing = await built.inject({ method: 'GET', url: '/none', headers })
  t.equal(missing.statusCode, 404)
  t.strictSame(missing.json(), { error: 'no such route' })
})

t.test('/healthz and /metrics need no token, as GET only', async (t) => {
  const { built } = server(() => fine, { tokens: () => ['new'] })
  for (const url of ['/healthz', '/metrics']) {
    t.equal((await built.inject({ method: 'POST', url, payload: 'x' })).statusCode, 401)
  }
})

t.test('requests for /metrics at the same time share one page', async (t) => {
  let pages = 0
  const { built } = server(() => fine, {
    metrics: {
      observe: () => undefined,
      text: async () => `page ${(pages += 1)}`,
      contentType: 'text/plain',
    },
  })
  const answers = await Promise.all(Array.from({ length: 20 }, () => built.inject('/metrics')))
  t.strictSame(new Set(answers.map(({ body }) => body)), new Set(['page 1']))
  t.equal((await built.inject('/metrics')).body, 'page 2', 'the next request gets a new one')
})

t.test('a page of metrics that fails is not shared with the next request', async (t) => {
  let pages = 0
  const { built } = server(() => fine, {
    metrics: {
      observe: () => undefined,
      text: async () => {
        pages += 1
        if (pages === 1) throw new Error('no page')
        return 'page'
      },
      contentType: 'text/plain',
    },
  })
  t.equal((await built.inject('/metrics')).statusCode, 500)
  t.equal((await built.inject('/metrics')).body, 'page')
})

t.test('/healthz and /metrics need no token', async (t) => {
  const { built } = server(() => fine, { tokens: () => ['new'] })
  t.equal((await built.inject('/healthz')).statusCode, 200)
  t.equal((await built.inject('/metrics')).body, 'metrics')
})

t.test('customize answers the rules of the hooks', async (t) => {
  const response = await post(() => fine, { parent: cluster() }, 'customize')
  matchWhole(t, response.json(), {
    relatedResources: [{ resource: 'statefulsets', names: ['vec-a'] }],
  })
})

t.test('customize answers [] for a parent with deletionTimestamp', async (t) => {
  const parent = cluster({ deletionTimestamp: NOW.toISOString() })
  t.strictSame((await post(() => fine, { parent }, 'customize')).json(), { relatedResources: [] })
})

t.test(
  '--namespace: elsewhere customize answers [], sync 429 with a long Retry-After',
  async (t) => {
    const { built } = server(() => fine, { settings: { ...settings, namespaces: ['mine'] } })
    const call = (path: string, payload: object) =>
      built.inject({ method: 'POST', url: `/vecclusters/${path}`, payload })
    t.strictSame((await call('customize', { parent: cluster() })).json(), { relatedResources: [] })
    const sync = await call('sync', body)
    t.equal(sync.statusCode, 429)
    t.equal(sync.headers['retry-after'], '3600')
  },
)

t.test(
  '--namespace: elsewhere finalize ends at once without phase and child, else 429',
  async (t) => {
    const { built } = server(() => fine, { settings: { ...settings, namespaces: ['mine'] } })
    const call = (payload: object) =>
      built.inject({ method: 'POST', url: '/vecclusters/finalize', payload })
    t.strictSame((await call(body)).json(), { status: {}, children: [], finalized: true })
    t.equal((await call(withJob)).statusCode, 429)
    const running = { ...body, parent: cluster({ status: { phase: 'Running' } }) }
    t.equal((await call(running)).statusCode, 429)
  },
)

t.test('hooks of an older CRD answer 503: their status would be pruned', async (t) => {
  const { built } = server(() => fine, {
    outdatedCrd: (plural) => `CRD ${plural} is of release 0.0.1`,
  })
  const response = await built.inject({ method: 'POST', url: '/vecclusters/sync', payload: body })
  t.equal(response.statusCode, 503)
  t.match(response.json(), { error: 'CRD vecclusters is of release 0.0.1' })
})

t.test('every answer is counted with kind, hook, code and seconds', async (t) => {
  const { built, seen } = server(() => fine)
  await built.inject({ method: 'POST', url: '/vecclusters/sync', payload: body })
  matchWhole(t, seen, [['VecCluster', 'sync', 200, Number]])
})

t.test('childKind is the key Metacontroller uses', async (t) => {
  t.equal(childKind('batch/v1', 'Job'), 'Job.batch/v1')
  t.equal(childKind('v1', 'Secret'), 'Secret.v1')
})

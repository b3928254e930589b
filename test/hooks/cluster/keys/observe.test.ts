/** What is read for the rotation of an API key, and when nodes are asked which keys they accept. */
import t from 'tap'
import { keyEntry, keyFingerprint, KEYS_SECRET_TYPE } from '../../../../crds/contract/api-keys.ts'
import { KubernetesError } from '../../../../crds/contract/errors.ts'
import type { Secret } from '../../../../crds/kubernetes.ts'
import { BackgroundTasks } from '../../../../hooks/background-task.ts'
import { observeKeys } from '../../../../hooks/cluster/keys/observe.ts'
import type { KeyAnswers, KeyPorts } from '../../../../hooks/cluster/keys/ports.ts'
import { desiredRun, findPendingRun } from '../../../../hooks/cluster/job.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import { ago, context, NOW, secret, settings, statefulSet } from '../../../builders.ts'
import { matchWhole } from '../../../match-whole.ts'
import { fakePorts } from '../ports.ts'
import { A, a, B, b, C, c, OVERLAP_SECONDS, situation, type Situation } from './situation.ts'

const FRESH_SECONDS = 15
/** A pass that does not end immediately is checked again. */
const INLINE_MS = 1

function publishedSecret(key: string): Secret {
  const { metadata, ...rest } = secret({ 'api-key': key })
  return { ...rest, metadata: { ...metadata, resourceVersion: `of ${key}` } }
}

function ownSecret(...keys: string[]): Secret {
  const data = Object.fromEntries(keys.map((key) => [keyEntry(keyFingerprint(key)), key]))
  return secret(data, KEYS_SECRET_TYPE)
}

/** The Secret that clients read, and that of the operator; each may be missing. */
interface Secrets {
  published?: Secret
  own?: Secret
}

function reader({ published, own }: Secrets): KeyPorts['secret'] {
  const found = new Map([
    ['ns/vec-a-apikey', published],
    ['ns/vec-a.keys', own],
  ])
  return async (namespace, name) => found.get(`${namespace}/${name}`)
}

interface Calls {
  /** Replicas and keys, as nodes were asked. */
  asked: [replicas: number, keys: [string, string][]][]
  tokens: unknown[]
  liveReads: number
}

/** Passes that share what is remembered between them. */
function passesWith(
  { cached, live = cached }: { cached: Secrets; live?: Secrets },
  overrides: Partial<KeyPorts> = {},
) {
  const calls: Calls = { asked: [], tokens: [], liveReads: 0 }
  const answer = overrides.nodeKeys ?? (async () => [{ ordinal: 0, accepts: [a] }])
  const { ports } = fakePorts({
    secret: reader(cached),
    liveSecret(...of) {
      calls.liveReads += 1
      return reader(live)(...of)
    },
    async tokensSignedWith(of, fingerprint, isAllowed) {
      calls.tokens.push([of, fingerprint, ['ns', 'allowed', 'other'].filter(isAllowed)])
      return ['ns/reader']
    },
    ...overrides,
    nodeKeys(connection, keys, signal) {
      calls.asked.push([connection.replicas, [...keys].toSorted()])
      return answer(connection, keys, signal)
    },
  })
  const nodeKeys = new BackgroundTasks<KeyAnswers>(FRESH_SECONDS, INLINE_MS)
  return {
    calls,
    pass: (seen: Observed, seconds = 0) =>
      observeKeys(
        seen,
        { ports, nodeKeys },
        { ...context, now: new Date(NOW.getTime() + seconds * 1000) },
      ),
  }
}

/** A cluster with one node, before anything was read for its keys. */
function oneNode(facts: Situation = {}): Observed {
  const { keys: _, ...seen } = situation({ accepts: [[]], ...facts })
  return seen
}

function entries(...keys: string[]): [string, string][] {
  return keys.map((key): [string, string] => [keyFingerprint(key), key]).toSorted()
}

const ONE_KEY = { published: publishedSecret(A), own: ownSecret(A) }
const TWO_KEYS = { published: publishedSecret(A), own: ownSecret(A, B) }

t.test('without spec.apiKey.rotation nothing is read if no run has reported its key', async (t) => {
  const fail = async () => t.fail('read') as never
  const { pass } = passesWith({ cached: TWO_KEYS }, { secret: fail, liveSecret: fail })
  const apiKey = { autoGenerate: false, jwtRbac: false, secretRef: { name: 'key', key: 'api' } }
  t.strictSame(await pass(oneNode({ spec: { apiKey } })), {})
  const seen = oneNode()
  const { apiKey: _, ...spec } = seen.cluster.spec
  t.strictSame(await pass({ ...seen, cluster: { ...seen.cluster, spec } }), {})
})

const NAMED = { autoGenerate: false, jwtRbac: false, secretRef: { name: 'key', key: 'api' } }
const GENERATED = { autoGenerate: true, jwtRbac: false }

/** A cluster without a rotation, whose last run has published A. */
function withoutRotation(apiKey: typeof NAMED | typeof GENERATED, appliedAt = ago(300)): Observed {
  const seen = oneNode({ spec: { apiKey }, recorded: undefined, appliedAt })
  const { progress } = seen
  if (progress?.applied === undefined) throw new Error('nothing was applied')
  return { ...seen, progress: { ...progress, applied: { ...progress.applied, publishedKey: a } } }
}

const REPLACED: [title: string, seen: Observed, found: Secrets, live: Secrets, isDue: boolean][] = [
  [
    'the key of another client',
    withoutRotation(NAMED),
    { published: publishedSecret(C) },
    {},
    true,
  ],
  ['no Secret', withoutRotation(NAMED), {}, {}, true],
  ['an empty key', withoutRotation(NAMED), { published: publishedSecret('') }, {}, true],
  ['the published key', withoutRotation(NAMED), ONE_KEY, {}, false],
  [
    'a key that is cached, and was replaced by a helm run since',
    withoutRotation(NAMED),
    { published: publishedSecret(C) },
    ONE_KEY,
    false,
  ],
  [
    'the key of the spec, by a run that was killed',
    { ...withoutRotation(NAMED), secrets: new Map([['key', secret({ api: B })]]) },
    { published: publishedSecret(B) },
    {},
    false,
  ],
  [
    'the key of another client, shortly after a helm run',
    withoutRotation(NAMED, ago(299)),
    { published: publishedSecret(C) },
    {},
    false,
  ],
  [
    'the key of another client instead of a generated one',
    withoutRotation(GENERATED),
    { published: publishedSecret(C) },
    {},
    false,
  ],
]
for (const [title, seen, cached, live, isDue] of REPLACED) {
  const due = isDue ? 'is due' : 'is not due'
  t.test(`a helm run for ${title} in vec-<name>-apikey ${due} without a rotation`, async (t) => {
    const { pass } = passesWith({ cached, live: { ...cached, ...live } })
    const found = await pass(seen)
    t.strictSame(found, isDue ? { isKeyReplaced: true } : {})
    const applied = (planHash: string): Observed => {
      const { progress } = seen
      if (progress?.applied === undefined) throw new Error('nothing was applied')
      const reported = { ...progress, applied: { ...progress.applied, planHash } }
      return { ...seen, ...found, progress: reported }
    }
    const { hash } = desiredRun({ ...seen, ...found }, settings)
    t.equal(findPendingRun(applied(hash), settings)?.hash, isDue ? hash : undefined)
  })
}

const ALONE: [title: string, facts: Situation, cached: Secrets, published?: string][] = [
  ['the key is the same everywhere', {}, ONE_KEY, a],
  ['the key is not stored yet', { recorded: undefined }, { published: publishedSecret(A) }, a],
  ['the Secret of the user is gone', { more: { secrets: new Map() } }, ONE_KEY, a],
  ['the key of the user is empty', { desired: '' }, ONE_KEY, a],
  ['nothing is there yet', { more: { secrets: new Map() }, recorded: undefined }, {}],
  [
    'the key that clients read is empty, and there is no other',
    { more: { secrets: new Map() }, recorded: undefined },
    { published: publishedSecret('') },
  ],
  [
    'the chart has generated the key',
    { spec: { apiKey: { autoGenerate: true, jwtRbac: false, rotation: { overlap: '1h' } } } },
    ONE_KEY,
    a,
  ],
]
for (const [title, facts, cached, published] of ALONE) {
  t.test(`${title}: cached Secrets are enough, and no node is asked`, async (t) => {
    const { pass, calls } = passesWith({ cached })
    const { keys, ...more } = await pass(oneNode(facts))
    t.strictSame(more, {})
    matchWhole(t, keys, {
      overlapSeconds: OVERLAP_SECONDS,
      stored: new Map(cached.own && [[a, A]]),
    })
    t.equal(keys?.published, published)
    t.equal(keys?.publishedVersion, published && `of ${A}`)
    t.notOk(keys && 'answers' in keys)
    t.strictSame(calls, { asked: [], tokens: [], liveReads: 0 })
  })
}

const FOREIGN_KEY = {
  ...{ type: 'KeyRotated', status: 'False' as const, reason: 'ForeignApiKey', message: '' },
  lastTransitionTime: ago(60),
}

const ROTATING: [title: string, facts: Situation, cached: Secrets][] = [
  ['the user has written another key', { desired: B }, ONE_KEY],
  ['the key that clients read is missing', {}, { own: ownSecret(A) }],
  ['the key that clients read is empty', {}, { published: publishedSecret(''), own: ownSecret(A) }],
  ['another key is stored', {}, TWO_KEYS],
  ['the key that a helm run has stored is missing', {}, { published: publishedSecret(A) }],
  ['pods have another key', { template: [a, b] }, ONE_KEY],
  ['another client had written a key', { conditions: [FOREIGN_KEY] }, ONE_KEY],
  [
    'pods had another key before their StatefulSet was deleted',
    { recorded: { published: a, accepted: [a, b] } },
    ONE_KEY,
  ],
]
for (const [title, facts, cached] of ROTATING) {
  t.test(`${title}: Secrets are read live`, async (t) => {
    const live = { published: publishedSecret(C), own: ownSecret(B, C) }
    const { pass, calls } = passesWith({ cached, live })
    const seen = oneNode(facts)
    const { statefulSet: _, ...missing } = seen
    const { keys } = await pass(title.includes('deleted') ? missing : seen)
    t.strictSame([keys?.published, keys?.publishedVersion], [c, `of ${C}`])
    t.strictSame(keys?.stored, new Map(entries(B, C)))
    t.equal(calls.liveReads, 2)
  })
}

t.test('every node is asked with every key that has a value', async (t) => {
  const answers = [{ ordinal: 0, accepts: [a] }, { ordinal: 1 }, { ordinal: 2, accepts: [a, b] }]
  const { pass, calls } = passesWith(
    { cached: { published: publishedSecret(A), own: ownSecret(B) } },
    { nodeKeys: async () => answers },
  )
  const { keys, ...more } = await pass(oneNode({ desired: C, accepts: [[], [], []] }))
  t.strictSame(calls.asked, [[3, entries(A, B, C)]])
  t.strictSame(keys?.answers, {
    ...{ asked: [a, b, c].toSorted(), nodes: answers },
    at: '2026-03-01T12:00:00Z',
  })
  t.strictSame(more, {})
})

t.test('a cluster without a status has no former key', async (t) => {
  const { pass, calls } = passesWith({ cached: TWO_KEYS })
  const seen = oneNode()
  const { status: _, ...cluster } = seen.cluster
  matchWhole(t, (await pass({ ...seen, cluster })).keys, {
    published: a,
    former: undefined,
    answers: { asked: [a, b].toSorted(), nodes: [{ ordinal: 0, accepts: [a] }] },
  })
  t.strictSame(calls.tokens, [])
})

t.test('no node is asked with an empty key', async (t) => {
  const { pass, calls } = passesWith({ cached: TWO_KEYS })
  await pass(oneNode({ desired: '' }))
  t.strictSame(calls.asked, [[1, entries(A, B)]])
})

t.test('no node is asked without pods', async (t) => {
  const { pass, calls } = passesWith({ cached: TWO_KEYS })
  const seen = oneNode()
  const { statefulSet: _, ...missing } = seen
  t.notOk('answers' in ((await pass(missing)).keys ?? {}))
  t.notOk('answers' in ((await pass({ ...seen, statefulSet: statefulSet(0) })).keys ?? {}))
  t.strictSame(calls.asked, [])
  t.ok('answers' in ((await pass(seen)).keys ?? {}))
  t.equal(calls.asked.length, 1)
})

t.test('answers hold for 15 s, for the same keys and nodes', async (t) => {
  const { pass, calls } = passesWith(
    { cached: TWO_KEYS },
    {
      nodeKeys: async ({ replicas }) =>
        Array.from({ length: replicas }, (_, ordinal) => ({ ordinal, accepts: [a] })),
    },
  )
  const answersAt = async (seconds: number, facts: Situation = {}) =>
    (await pass(oneNode(facts), seconds)).keys?.answers
  const first = await answersAt(0)
  t.strictSame(await answersAt(FRESH_SECONDS - 1), first)
  t.equal(calls.asked.length, 1)
  await answersAt(FRESH_SECONDS)
  t.equal(calls.asked.length, 2)
  t.strictSame((await answersAt(FRESH_SECONDS, { desired: C }))?.asked, [a, b, c].toSorted())
  t.strictSame(calls.asked.slice(2), [[1, entries(A, B, C)]])
  t.equal((await answersAt(FRESH_SECONDS, { desired: C, accepts: [[], []] }))?.nodes.length, 2)
  t.strictSame(calls.asked.slice(3), [[2, entries(A, B, C)]])
})

t.test(
  'a failed query is in what is observed, and no step follows from answers before',
  async (t) => {
    const error = new TypeError('x')
    let isBroken = false
    const nodeKeys: KeyPorts['nodeKeys'] = async () => {
      if (isBroken) throw error
      return [{ ordinal: 0, accepts: [a, b] }]
    }
    const { pass } = passesWith({ cached: TWO_KEYS }, { nodeKeys })
    const first = await pass(oneNode())
    t.ok('answers' in (first.keys ?? {}))
    t.notOk('keysFailure' in first)
    isBroken = true
    const failed = await pass(oneNode(), FRESH_SECONDS)
    t.notOk('answers' in (failed.keys ?? {}))
    t.strictSame(failed.keysFailure, { error })
    isBroken = false
    const later = await pass(oneNode(), FRESH_SECONDS + 30)
    t.ok('answers' in (later.keys ?? {}))
    t.notOk('keysFailure' in later)
  },
)

/** Nodes that answer when they are let. */
function slowNodes() {
  const pending: { answer: (nodes: KeyAnswers['nodes']) => void; signal: AbortSignal }[] = []
  const nodeKeys: KeyPorts['nodeKeys'] = (_, __, signal) =>
    new Promise((resolve, reject) => {
      pending.push({ answer: resolve, signal })
      signal.addEventListener('abort', () => reject(new Error('aborted')))
    })
  return { nodeKeys, pending }
}

t.test('slow nodes are asked once, and their late answer is used', async (t) => {
  const { nodeKeys, pending } = slowNodes()
  const { pass } = passesWith({ cached: TWO_KEYS }, { nodeKeys })
  const seconds: (number | undefined)[] = []
  for (const second of [0, 2, 6]) {
    const { keys, keysResyncSeconds } = await pass(oneNode(), second)
    t.notOk('answers' in (keys ?? {}))
    seconds.push(keysResyncSeconds)
  }
  t.strictSame(seconds, [2, 4, 8])
  t.strictSame(
    pending.map(({ signal }) => signal.aborted),
    [false],
  )
  pending[0]?.answer([{ ordinal: 0, accepts: [a, b] }])
  const { keys, keysResyncSeconds } = await pass(oneNode(), 14)
  t.strictSame(keys?.answers, {
    asked: [a, b].toSorted(),
    nodes: [{ ordinal: 0, accepts: [a, b] }],
    at: '2026-03-01T12:00:00Z',
  })
  t.equal(keysResyncSeconds, undefined)
})

t.test('an answer for other keys does not count', async (t) => {
  const { nodeKeys, pending } = slowNodes()
  const { pass } = passesWith({ cached: TWO_KEYS }, { nodeKeys })
  await pass(oneNode())
  t.notOk('answers' in ((await pass(oneNode({ desired: C }), 2)).keys ?? {}))
  pending[0]?.answer([{ ordinal: 0, accepts: [a, b] }])
  await pass(oneNode({ desired: C }), 4)
  t.notOk('answers' in ((await pass(oneNode({ desired: C }), 6)).keys ?? {}))
  pending.at(-1)?.answer([{ ordinal: 0, accepts: [a, c] }])
  t.strictSame((await pass(oneNode({ desired: C }), 10)).keys?.answers, {
    asked: [a, b, c].toSorted(),
    nodes: [{ ordinal: 0, accepts: [a, c] }],
    at: '2026-03-01T12:00:04Z',
  })
})

const STATUS = { step: 'Overlap', publishedKey: a, formerKey: b } as const

t.test('tokens of the former key are looked for once the overlap is over', async (t) => {
  const { pass, calls } = passesWith({ cached: TWO_KEYS })
  const tokensAfter = async (seconds: number) => {
    const status = { ...STATUS, overlapTime: ago(seconds) }
    const seen = oneNode({ status })
    const annotations = { 'vec-operator.dev/allowed-namespaces': 'allowed' }
    const cluster = { ...seen.cluster, metadata: { ...seen.cluster.metadata, annotations } }
    return (await pass({ ...seen, cluster })).keys?.formerTokens
  }
  t.equal(await tokensAfter(OVERLAP_SECONDS - 1), undefined)
  t.equal((await pass(oneNode({ status: STATUS }))).keys?.formerTokens, undefined)
  t.strictSame(calls.tokens, [])
  t.strictSame(await tokensAfter(OVERLAP_SECONDS), ['ns/reader'])
  matchWhole(t, calls.tokens, [[{ namespace: 'ns', name: 'a' }, b, ['ns', 'allowed']]])
})

t.test('tokens that cannot be listed are unknown, and a defect is not hidden', async (t) => {
  const status = { ...STATUS, overlapTime: ago(OVERLAP_SECONDS) }
  const failing = (error: Error) =>
    passesWith({ cached: TWO_KEYS }, { tokensSignedWith: () => Promise.reject(error) })
  const forbidden = new KubernetesError('forbidden', { status: 403 })
  t.equal((await failing(forbidden).pass(oneNode({ status }))).keys?.formerTokens, 'unknown')
  const defect = new TypeError('a defect')
  await t.rejects(failing(defect).pass(oneNode({ status })), defect)
})

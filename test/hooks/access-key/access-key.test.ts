import { decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import t from 'tap'
import type { AccessKeySpec, VecAccessKey } from '../../../crds/access-key.ts'
import type { Secret } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/names.ts'
import { accessKeyRoom } from '../../../hooks/access-key/index.ts'
import { customize } from '../../../hooks/access-key/customize.ts'
import type { Observed } from '../../../hooks/access-key/observe.ts'
import { sync } from '../../../hooks/access-key/sync.ts'
import { claimsOf, fingerprintOf, lifetimeOf, sign } from '../../../hooks/access-key/token.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { NOW, ago, cluster, context, secret } from '../../builders.ts'

const KEY = 'a-signing-key-of-thirty-two-bytes'
const created = Math.floor(Date.parse(ago(3600)) / 1000)

function accessKey(spec: Partial<AccessKeySpec> = { access: 'r' }): VecAccessKey {
  return {
    apiVersion: API_VERSION,
    kind: 'VecAccessKey',
    metadata: {
      name: 'reader',
      namespace: 'ns',
      uid: 'uid-reader',
      generation: 1,
      creationTimestamp: ago(3600),
    },
    spec: { clusterRef: { name: 'a' }, ...spec },
  }
}

const jwtCluster = cluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: true } } })

function observed(parts: Partial<Observed> = {}): Observed {
  return { accessKey: accessKey(), cluster: jwtCluster, signingKey: KEY, children: [], ...parts }
}

/** The Secret of an answer, as the API server shows it afterwards. */
function written(desired: Desired<unknown>): Secret {
  const [child] = desired.children
  return { ...child, metadata: { ...child?.metadata, namespace: 'ns' } } as Secret
}

function tokenIn({ data }: Secret): string {
  return Buffer.from(data?.['token'] ?? '', 'base64').toString()
}

async function settled(parts: Partial<Observed> = {}, now = NOW) {
  const first = await sync(observed(parts), { ...context, now })
  return sync(observed({ ...parts, children: [written(first)] }), { ...context, now })
}

t.test('Output Secret: Opaque, keys token and url', async (t) => {
  const child = written(await sync(observed(), context))
  t.equal(child.type, 'Opaque')
  t.strictSame(Object.keys(child.data ?? {}).sort(), ['token', 'url'])
  const url = Buffer.from(child.data?.['url'] ?? '', 'base64').toString()
  t.equal(url, 'http://vec-a.ns.svc.cluster.local:6333')
  await t.resolves(jwtVerify(tokenIn(child), new TextEncoder().encode(KEY)))
  t.strictSame(decodeProtectedHeader(tokenIn(child)), { alg: 'HS256', typ: 'JWT' })
})

t.test(
  'TokenIssued: the Secret holds a current token; the status is read back from it every 60 s',
  async (t) => {
    const spec = { access: 'r', ttl: '3h' } as const
    const desired = await settled({ accessKey: accessKey(spec) })
    t.match(desired.status, {
      phase: 'Ready',
      secretRef: { name: 'reader', key: 'token' },
      issuedAt: '2026-03-01T11:00:00Z',
      expiresAt: '2026-03-01T14:00:00Z',
      renewAt: '2026-03-01T13:00:00Z',
      keyFingerprint: fingerprintOf(KEY),
      conditions: [{ type: 'Ready', status: 'True', reason: 'TokenIssued' }],
    })
    t.equal(desired.resyncAfterSeconds, 60)
  },
)

t.test('a renewal that is due within the minute is not waited past', async (t) => {
  const spec = { access: 'r', ttl: '3h' } as const
  const now = new Date(NOW.getTime() + 3600_000 - 20_000)
  t.equal((await settled({ accessKey: accessKey(spec) }, now)).resyncAfterSeconds, 20)
})

t.test('until the Secret is written the phase is Pending', async (t) => {
  const desired = await sync(observed(), context)
  t.match(desired.status, { phase: 'Pending', conditions: [{ reason: 'SecretNotWritten' }] })
})

const claims: [title: string, spec: Partial<AccessKeySpec>, claims: object][] = [
  ['access r', { access: 'r' }, { access: 'r' }],
  ['access m', { access: 'm' }, { access: 'm' }],
  [
    'collections',
    {
      collections: [
        { name: 'c', access: 'rw' },
        { name: 'd', access: 'prw' },
      ],
    },
    {
      access: [
        { collection: 'c', access: 'rw' },
        { collection: 'd', access: 'prw' },
      ],
    },
  ],
  [
    'subject as sub and subject',
    { access: 'r', subject: 'me' },
    { access: 'r', sub: 'me', subject: 'me' },
  ],
  ['ttl as exp', { access: 'r', ttl: '1h30m' }, { access: 'r', exp: created + 3600 + 5400 }],
  [
    'valueExists as value_exists',
    { access: 'r', valueExists: { collection: 'u', matches: [{ key: 'id', value: 7 }] } },
    { access: 'r', value_exists: { collection: 'u', matches: [{ key: 'id', value: 7 }] } },
  ],
  ['nothing at all: still a claim access, of nothing', {}, { access: [] }],
]

for (const [title, spec, expected] of claims) {
  t.test(`claims, each present only when set in the spec: ${title}`, async (t) => {
    const key = accessKey(spec)
    const token = await sign(claimsOf(key.spec, lifetimeOf(key, NOW)), KEY)
    t.strictSame(decodeJwt(token), expected)
  })
}

const lifetimes: [
  title: string,
  spec: Partial<AccessKeySpec>,
  age: number,
  issued: number,
  renew?: number,
][] = [
  ['without ttl it never expires', {}, 10 ** 8, 0],
  ['in its first life', { ttl: '3h' }, 7199, 0, 7200],
  ['a third of ttl before expiry when renewBefore is unset', { ttl: '3h' }, 7200, 7200, 14_400],
  ['renewBefore before expiry', { ttl: '3h', renewBefore: '30m' }, 8999, 0, 9000],
  ['many lives later', { ttl: '3h', renewBefore: '30m' }, 9000 * 7 + 5, 9000 * 7, 9000 * 8],
  ['a clock before the creation', { ttl: '3h' }, -50, 0, 7200],
]

for (const [title, spec, age, issued, renew] of lifetimes) {
  t.test(`renewal time: ${title}`, async (t) => {
    const found = lifetimeOf(accessKey({ access: 'r', ...spec }), new Date((created + age) * 1000))
    t.equal(found.issuedAt, created + issued)
    t.equal(found.renewAt, renew === undefined ? undefined : created + renew)
  })
}

t.test('two hooks at once, a restart and a resync every second give the same token', async (t) => {
  const spec = { access: 'm', ttl: '10h' } as const
  const at = async (seconds: number) => {
    const now = new Date(NOW.getTime() + seconds * 1000)
    return tokenIn(
      written(await sync(observed({ accessKey: accessKey(spec) }), { ...context, now })),
    )
  }
  t.equal(await at(0), await at(0))
  t.equal(await at(0), await at(1000))
  t.not(await at(0), await at(7 * 3600))
})

const held = { accessKey: accessKey({ access: 'r', ttl: '3h' }) }
const reissues: [when: string, parts: Partial<Observed>, seconds: number, isNew: boolean][] = [
  ['renewAt has passed', held, 3600, true],
  ['the spec has changed', { accessKey: accessKey({ access: 'm', ttl: '3h' }) }, 0, true],
  ['the key fingerprint has changed', { ...held, signingKey: `${KEY}2` }, 0, true],
  ['renewAt lies ahead: it is not', held, 3599, false],
]
for (const [when, parts, seconds, isNew] of reissues) {
  t.test(`Ready: the token is re-issued when ${when}`, async (t) => {
    const before = written(await sync(observed(held), context))
    const now = new Date(NOW.getTime() + seconds * 1000)
    const desired = await sync(observed({ ...parts, children: [before] }), { ...context, now })
    t.equal(desired.status.phase, 'Ready')
    t.equal(tokenIn(written(desired)) !== tokenIn(before), isNew)
    const after = await settled(parts, now)
    t.match(after.status, { phase: 'Ready', conditions: [{ reason: 'TokenIssued' }] })
  })
}

t.test('Ready: a Secret that is missing is written again, with the same token', async (t) => {
  const before = await settled(held)
  const gone = { ...held.accessKey, status: before.status }
  const desired = await sync(observed({ accessKey: gone }), context)
  t.equal(tokenIn(written(desired)), tokenIn(written(before)))
})

t.test('keyFingerprint is the first sixteen hex digits of the SHA-256 of the key', async (t) => {
  t.equal((await settled({ signingKey: 'abc' })).status.keyFingerprint, 'ba7816bf8f01cfea')
})

t.test('another signing key, or another spec, is another token', async (t) => {
  const token = async (parts: Partial<Observed>) =>
    tokenIn(written(await sync(observed(parts), context)))
  t.not(await token({}), await token({ signingKey: `${KEY}2` }))
  t.not(await token({}), await token({ accessKey: accessKey({ access: 'm' }) }))
})

const pending: [reason: string, parts: Partial<Observed>, message: RegExp][] = [
  [
    'JwtRbacDisabled',
    { cluster: cluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }) },
    /jwtRbac false/,
  ],
  ['ApiKeyMissing', { cluster: cluster() }, /no apiKey/],
]

for (const [reason, parts, message] of pending) {
  t.test(`${reason}: phase Pending, retried in 30 s`, async (t) => {
    const desired = await sync(observed(parts), context)
    t.match(desired.status, {
      phase: 'Pending',
      conditions: [{ status: 'False', reason, message }],
    })
    t.equal(desired.resyncAfterSeconds, 30)
    t.strictSame(desired.children, [])
  })
}

t.test('cluster or Secret not found: Pending, retried in 30 s', async (t) => {
  const missing: Observed = { accessKey: accessKey(), children: [] }
  const unsigned: Observed = { ...missing, cluster: jwtCluster }
  for (const [found, reason, message] of [
    [missing, 'ClusterNotFound', 'cluster ns/a not found'],
    [unsigned, 'SecretNotFound', 'Secret ns/vec-a-apikey not found'],
  ] as const) {
    t.match(await sync(found, context), {
      status: { phase: 'Pending', conditions: [{ status: 'False', reason, message }] },
      resyncAfterSeconds: 30,
    })
  }
})

t.test(
  'a cluster in a namespace that is not served: Pending, and its key is not asked for',
  async (t) => {
    const asked: string[] = []
    const read = async (namespace: string, name: string) => {
      asked.push(`${namespace}/${name}`)
      return undefined
    }
    const room = accessKeyRoom({
      secret: read,
      liveSecret: read,
      writeEvent: async () => undefined,
    })
    const parent = accessKey({ clusterRef: { name: 'a', namespace: 'elsewhere' }, access: 'r' })
    const elsewhere = cluster({ namespace: 'elsewhere', spec: jwtCluster.spec })
    const related = { 'VecCluster.vec-operator.dev/v1alpha1': { 'elsewhere/a': elsewhere } }
    const served = { ...context, settings: { ...context.settings, namespaces: ['ns'] } }
    const request = { parent, children: {}, related, finalizing: false }
    t.match(await room.sync(request, served), {
      status: {
        phase: 'Pending',
        conditions: [
          {
            reason: 'ClusterNotServed',
            message: 'cluster elsewhere/a is in a namespace that this operator does not serve',
          },
        ],
      },
      resyncAfterSeconds: 30,
    })
    t.strictSame(asked, ['ns/reader'])
  },
)

t.test('while it waits the Secret stays with its own data, never dropped', async (t) => {
  const held = written(await sync(observed(), context))
  const desired = await sync({ accessKey: accessKey(), children: [held] }, context)
  t.strictSame(written(desired), held)
  t.equal(desired.status.keyFingerprint, fingerprintOf(KEY))
})

t.test(
  'a foreign Secret of that name stays untouched and the key is Failed with its name',
  async (t) => {
    const other = secret({ mine: 'x' })
    const desired = await sync(observed({ other }), context)
    t.match(desired.status, { phase: 'Failed', error: /^Secret key is there already/ })
    t.strictSame(desired.children, [])
    t.match(desired.events, [{ type: 'Warning', reason: 'SecretNotOurs' }])
  },
)

t.test('our own Secret that the cache does not show yet is not foreign', async (t) => {
  const other = secret({})
  Object.assign(other.metadata, { ownerReferences: [{ uid: 'uid-reader' }] })
  t.equal((await sync(observed({ other }), context)).children.length, 1)
})

t.test('a cluster of another namespace may name the namespaces it allows', async (t) => {
  const theirs = (allowFrom?: string) => {
    const annotations = allowFrom === undefined ? {} : { 'vec-operator.dev/allow-from': allowFrom }
    const found = cluster({ spec: jwtCluster.spec, annotations })
    return { ...found, metadata: { ...found.metadata, namespace: 'other' } }
  }
  const spec = { clusterRef: { name: 'a', namespace: 'other' }, access: 'r' } as const
  const phase = async (allowFrom?: string) =>
    (await settled({ accessKey: accessKey(spec), cluster: theirs(allowFrom) })).status.phase
  t.equal(await phase(), 'Ready')
  t.equal(await phase('x, ns'), 'Ready')
  t.equal(await phase('*'), 'Ready')
  t.equal(await phase('x'), 'Failed')
})

t.test('a key shorter than 32 bytes is a warning, once per key', async (t) => {
  const desired = await settled({ signingKey: 'short' })
  t.match(desired.events, [
    { type: 'Normal', reason: 'TokenIssued' },
    { type: 'Warning', reason: 'ShortApiKey', message: /5 bytes/ },
  ])
  const again = await settled({
    signingKey: 'short',
    accessKey: { ...accessKey(), status: desired.status },
  })
  t.equal(again.events, undefined)
})

t.test(
  'a token that the Secret came to hold is an Event, and so is what forbids one',
  async (t) => {
    const desired = await settled({})
    t.match(desired.events, [{ type: 'Normal', reason: 'TokenIssued', message: /current token/ }])
    const again = await settled({ accessKey: { ...accessKey(), status: desired.status } })
    t.equal(again.events, undefined)

    const closed = await sync(observed({ cluster: cluster() }), context)
    t.match(closed.events, [{ type: 'Warning', reason: 'ApiKeyMissing' }])
    const waiting = await sync({ accessKey: accessKey(), children: [] }, context)
    t.equal(waiting.events, undefined)
  },
)

t.test('secretName names the Secret; an older one of ours is kept, not deleted', async (t) => {
  const named = accessKey({ access: 'r', secretName: 'token-for-app' })
  const desired = await sync(observed({ accessKey: named }), context)
  t.equal(desired.children[0]?.metadata.name, 'token-for-app')
})

t.test('the room reads the key the pods run from vec-<name>-apikey', async (t) => {
  const asked: string[] = []
  const room = accessKeyRoom({
    secret: async (namespace, name) => {
      asked.push(`${namespace}/${name}`)
      return secret({ 'api-key': KEY })
    },
    liveSecret: async () => undefined,
    writeEvent: async () => undefined,
  })
  const key = 'VecCluster.vec-operator.dev/v1alpha1'
  const desired = await room.sync(
    {
      parent: accessKey(),
      children: { 'Secret.v1': {} },
      related: { [key]: { 'ns/a': jwtCluster } },
      finalizing: false,
    },
    context,
  )
  t.strictSame(asked, ['ns/vec-a-apikey'])
  await t.resolves(jwtVerify(tokenIn(written(desired)), new TextEncoder().encode(KEY)))
  t.equal(room.finalize, undefined)
})

t.test('customize names the cluster, in its own or the given namespace', async (t) => {
  t.match(customize(accessKey()), [{ namespace: 'ns', names: ['a'], resource: 'vecclusters' }])
  const spec = { clusterRef: { name: 'a', namespace: 'other' } }
  t.match(customize(accessKey(spec)), [{ namespace: 'other' }])
})

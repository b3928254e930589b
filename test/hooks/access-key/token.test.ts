/** The token of a VecAccessKey: its claims, its lifetime, and when it changes. */
import { decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose'
import t from 'tap'
import type { AccessKeySpec } from '../../../crds/access-key.ts'
import { keyFingerprint } from '../../../crds/contract/api-keys.ts'
import type { Observed } from '../../../hooks/access-key/observe.ts'
import { sync } from '../../../hooks/access-key/sync.ts'
import { tokenClaims, currentLifetime, signToken } from '../../../hooks/access-key/token.ts'
import { NOW, ago, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { KEY, accessKey, observed, storedSecret, readToken, syncTwice } from './keys.ts'

const created = Math.floor(Date.parse(ago(3600)) / 1000)

t.test('Output Secret: Opaque, keys token and url', async (t) => {
  const child = storedSecret(await sync(observed(), context))
  t.equal(child.type, 'Opaque')
  t.strictSame(Object.keys(child.data ?? {}).sort(), ['token', 'url'])
  const url = Buffer.from(child.data?.['url'] ?? '', 'base64').toString()
  t.equal(url, 'http://vec-a.ns.svc.cluster.local:6333')
  await t.resolves(jwtVerify(readToken(child), new TextEncoder().encode(KEY)))
  t.strictSame(decodeProtectedHeader(readToken(child)), { alg: 'HS256', typ: 'JWT' })
})

t.test(
  'a changed DNS domain of the Kubernetes cluster changes the url, not the token',
  async (t) => {
    const before = storedSecret(await sync(observed(), context))
    const settings = { ...context.settings, clusterDomain: 'k8s.example' }
    const desired = await sync(observed({ children: [before] }), { ...context, settings })
    const after = storedSecret(desired)
    const url = Buffer.from(after.data?.['url'] ?? '', 'base64').toString()
    t.equal(url, 'http://vec-a.ns.svc.k8s.example:6333')
    t.equal(readToken(after), readToken(before))
  },
)

t.test(
  'TokenIssued: the Secret holds a current token; the status is read back from it every 60 s',
  async (t) => {
    const spec = { access: 'r', ttl: '3h' } as const
    const desired = await syncTwice({ accessKey: accessKey(spec) })
    matchWhole(t, desired.status, {
      phase: 'Ready',
      secretRef: { name: 'reader', key: 'token' },
      issuedAt: '2026-03-01T11:00:00Z',
      expiresAt: '2026-03-01T14:00:00Z',
      renewAt: '2026-03-01T13:00:00Z',
      keyFingerprint: keyFingerprint(KEY),
      conditions: [{ type: 'Ready', status: 'True', reason: 'TokenIssued' }],
    })
    t.equal(desired.resyncAfterSeconds, 60)
  },
)

t.test('the next sync is not later than a renewal that is due within the minute', async (t) => {
  const spec = { access: 'r', ttl: '3h' } as const
  const now = new Date(NOW.getTime() + 3600_000 - 20_000)
  t.equal((await syncTwice({ accessKey: accessKey(spec) }, now)).resyncAfterSeconds, 20)
})

t.test('until the Secret is written the phase is Pending', async (t) => {
  const desired = await sync(observed(), context)
  matchWhole(t, desired.status, { phase: 'Pending', conditions: [{ reason: 'SecretNotWritten' }] })
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
    const token = await signToken(tokenClaims(key.spec, currentLifetime(key, NOW)), KEY)
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
  [
    'a third of ttl before expiry with renewBefore 0s, which an earlier CRD admitted',
    { ttl: '3h', renewBefore: '0s' },
    7200,
    7200,
    14_400,
  ],
  ['renewBefore before expiry', { ttl: '3h', renewBefore: '30m' }, 8999, 0, 9000],
  ['many lives later', { ttl: '3h', renewBefore: '30m' }, 9000 * 7 + 5, 9000 * 7, 9000 * 8],
  ['every 30 s at most', { ttl: '24h', renewBefore: '23h59m59s' }, 59, 30, 60],
  ['a clock before the creation', { ttl: '3h' }, -50, 0, 7200],
]

for (const [title, spec, age, issued, renew] of lifetimes) {
  t.test(`renewal time: ${title}`, async (t) => {
    const found = currentLifetime(
      accessKey({ access: 'r', ...spec }),
      new Date((created + age) * 1000),
    )
    t.equal(found.issuedAt, created + issued)
    t.equal(found.renewAt, renew === undefined ? undefined : created + renew)
  })
}

t.test(
  'two concurrent hooks, a restart and a resync every second return the same token',
  async (t) => {
    const spec = { access: 'm', ttl: '10h' } as const
    const at = async (seconds: number) => {
      const now = new Date(NOW.getTime() + seconds * 1000)
      return readToken(
        storedSecret(await sync(observed({ accessKey: accessKey(spec) }), { ...context, now })),
      )
    }
    t.equal(await at(0), await at(0))
    t.equal(await at(0), await at(1000))
    t.not(await at(0), await at(7 * 3600))
  },
)

const existing = { accessKey: accessKey({ access: 'r', ttl: '3h' }) }

const reissues: [when: string, parts: Partial<Observed>, seconds: number, isNew: boolean][] = [
  ['renewAt has passed', existing, 3600, true],
  ['the spec has changed', { accessKey: accessKey({ access: 'm', ttl: '3h' }) }, 0, true],
  ['the key fingerprint has changed', { ...existing, signingKey: `${KEY}2` }, 0, true],
  ['renewAt lies ahead: it is not', existing, 3599, false],
]

for (const [when, parts, seconds, isNew] of reissues) {
  t.test(`Ready: the token is re-issued when ${when}`, async (t) => {
    const before = storedSecret(await sync(observed(existing), context))
    const now = new Date(NOW.getTime() + seconds * 1000)
    const desired = await sync(observed({ ...parts, children: [before] }), { ...context, now })
    t.equal(desired.status.phase, 'Ready')
    t.equal(readToken(storedSecret(desired)) !== readToken(before), isNew)
    const after = await syncTwice(parts, now)
    matchWhole(t, after.status, { phase: 'Ready', conditions: [{ reason: 'TokenIssued' }] })
  })
}

t.test('Ready: a Secret that is missing is written again, with the same token', async (t) => {
  const before = await syncTwice(existing)
  const gone = { ...existing.accessKey, status: before.status }
  const desired = await sync(observed({ accessKey: gone }), context)
  t.equal(readToken(storedSecret(desired)), readToken(storedSecret(before)))
})

t.test('keyFingerprint is the first sixteen hex digits of the SHA-256 of the key', async (t) => {
  t.equal((await syncTwice({ signingKey: 'abc' })).status.keyFingerprint, 'ba7816bf8f01cfea')
})

t.test('another signing key, or another spec, is another token', async (t) => {
  const token = async (parts: Partial<Observed>) =>
    readToken(storedSecret(await sync(observed(parts), context)))
  t.equal(await token({}), await token({}))
  t.not(await token({}), await token({ signingKey: `${KEY}2` }))
  t.not(await token({}), await token({ accessKey: accessKey({ access: 'm' }) }))
})

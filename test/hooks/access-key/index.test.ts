/** The Secret of a VecAccessKey, what it waits for, and which Secrets it does not change. */
import { jwtVerify } from 'jose'
import t from 'tap'
import { accessKeyHooks, customize } from '../../../hooks/access-key/index.ts'
import type { Observed } from '../../../hooks/access-key/observe.ts'
import { sync } from '../../../hooks/access-key/sync.ts'
import { keyFingerprint } from '../../../crds/contract/api-keys.ts'
import { cluster, context, secret } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { accessKey, jwtCluster, KEY, observed, readToken, storedSecret, syncTwice } from './keys.ts'

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
    matchWhole(t, desired.status, {
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
    matchWhole(t, await sync(found, context), {
      status: { phase: 'Pending', conditions: [{ status: 'False', reason, message }] },
      resyncAfterSeconds: 30,
    })
  }
})

t.test(
  'for a cluster in a namespace that is not watched: Pending, and its key is not read',
  async (t) => {
    const asked: string[] = []
    const read = async (namespace: string, name: string) => {
      asked.push(`${namespace}/${name}`)
      return undefined
    }
    const hooks = accessKeyHooks({
      secret: read,
      liveSecret: read,
      writeEvent: async () => undefined,
    })
    const parent = accessKey({ clusterRef: { name: 'a', namespace: 'elsewhere' }, access: 'r' })
    const elsewhere = cluster({ namespace: 'elsewhere', spec: jwtCluster.spec })
    const related = { 'VecCluster.vec-operator.dev/v1alpha1': { 'elsewhere/a': elsewhere } }
    const served = { ...context, settings: { ...context.settings, namespaces: ['ns'] } }
    const request = { parent, children: {}, related, finalizing: false }
    matchWhole(t, await hooks.sync(request, served), {
      status: {
        phase: 'Pending',
        conditions: [
          {
            reason: 'ClusterNotServed',
            message: 'cluster elsewhere/a is in a namespace that this operator does not watch',
          },
        ],
      },
      resyncAfterSeconds: 30,
    })
    t.strictSame(asked, ['ns/reader'])
  },
)

t.test('while the access key is Pending its Secret remains with its data', async (t) => {
  const held = storedSecret(await sync(observed(), context))
  const desired = await sync({ accessKey: accessKey(), children: [held] }, context)
  t.strictSame(storedSecret(desired), held)
  t.equal(desired.status.keyFingerprint, keyFingerprint(KEY))
})

t.test(
  'a foreign Secret of that name is not changed, and the key is Failed with its name',
  async (t) => {
    const other = secret({ mine: 'x' })
    const desired = await sync(observed({ liveSecret: other }), context)
    t.match(desired.status, { phase: 'Failed', error: /^Secret key already exists/ })
    t.strictSame(desired.children, [])
    matchWhole(t, desired.events, [{ type: 'Warning', reason: 'SecretNotOurs' }])
  },
)

t.test('an owned Secret that the cache does not have yet is not foreign', async (t) => {
  const other = secret({})
  Object.assign(other.metadata, { ownerReferences: [{ uid: 'uid-reader' }] })
  t.equal((await sync(observed({ liveSecret: other }), context)).children.length, 1)
})

t.test('a cluster of another namespace may name the namespaces it allows', async (t) => {
  const theirs = (allowFrom?: string) => {
    const annotations =
      allowFrom === undefined ? {} : { 'vec-operator.dev/allowed-namespaces': allowFrom }
    const found = cluster({ spec: jwtCluster.spec, annotations })
    return { ...found, metadata: { ...found.metadata, namespace: 'other' } }
  }
  const spec = { clusterRef: { name: 'a', namespace: 'other' }, access: 'r' } as const
  const phase = async (allowFrom?: string) =>
    (await syncTwice({ accessKey: accessKey(spec), cluster: theirs(allowFrom) })).status.phase
  t.equal(await phase(), 'Ready')
  t.equal(await phase('x, ns'), 'Ready')
  t.equal(await phase('*'), 'Ready')
  t.equal(await phase('x'), 'Failed')
})

t.test('a key shorter than 32 bytes is a warning, once per token', async (t) => {
  const desired = await syncTwice({ signingKey: 'short' })
  matchWhole(t, desired.events, [
    { type: 'Normal', reason: 'TokenIssued' },
    { type: 'Warning', reason: 'ShortApiKey', message: /5 bytes/ },
  ])
  const again = await syncTwice({
    signingKey: 'short',
    accessKey: { ...accessKey(), status: desired.status },
  })
  t.equal(again.events, undefined)
})

t.test('an issued token is an Event, and so is the reason that forbids one', async (t) => {
  const desired = await syncTwice({})
  matchWhole(t, desired.events, [
    { type: 'Normal', reason: 'TokenIssued', message: /current token/ },
  ])
  const again = await syncTwice({ accessKey: { ...accessKey(), status: desired.status } })
  t.equal(again.events, undefined)

  const closed = await sync(observed({ cluster: cluster() }), context)
  matchWhole(t, closed.events, [{ type: 'Warning', reason: 'ApiKeyMissing' }])
  const waiting = await sync({ accessKey: accessKey(), children: [] }, context)
  t.equal(waiting.events, undefined)
})

t.test('secretName names the Secret', async (t) => {
  const named = accessKey({ access: 'r', secretName: 'token-for-app' })
  const desired = await sync(observed({ accessKey: named }), context)
  t.equal(desired.children[0]?.metadata.name, 'token-for-app')
})

t.test('the hooks read the key of the pods from vec-<name>-apikey', async (t) => {
  const asked: string[] = []
  const hooks = accessKeyHooks({
    secret: async (namespace, name) => {
      asked.push(`${namespace}/${name}`)
      return secret({ 'api-key': KEY })
    },
    liveSecret: async () => undefined,
    writeEvent: async () => undefined,
  })
  const key = 'VecCluster.vec-operator.dev/v1alpha1'
  const desired = await hooks.sync(
    {
      parent: accessKey(),
      children: { 'Secret.v1': {} },
      related: { [key]: { 'ns/a': jwtCluster } },
      finalizing: false,
    },
    context,
  )
  t.strictSame(asked, ['ns/vec-a-apikey'])
  await t.resolves(jwtVerify(readToken(storedSecret(desired)), new TextEncoder().encode(KEY)))
  t.equal(hooks.finalize, undefined)
})

t.test('customize names the cluster, in its own or the given namespace', async (t) => {
  matchWhole(t, customize(accessKey()), [
    { namespace: 'ns', names: ['a'], resource: 'vecclusters' },
  ])
  const spec = { clusterRef: { name: 'a', namespace: 'other' } }
  matchWhole(t, customize(accessKey(spec)), [{ namespace: 'other' }])
})

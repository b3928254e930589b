/** The Secret of a VecAccessKey from its creation to its last renewal, and its status. */
import t from 'tap'
import type { AccessKeyStatus } from '../../../crds/access-key.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Desired } from '../../../hooks/protocol.ts'
import { sync } from '../../../hooks/access-key/sync.ts'
import { keyFingerprint } from '../../../crds/contract/api-keys.ts'
import { NOW, ago, cluster, context, secret, settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { KEY, accessKey, jwtCluster, observed, syncTwice, readToken, storedSecret } from './keys.ts'

function statusFields({ status }: Desired<AccessKeyStatus>) {
  const [condition] = status.conditions ?? []
  return [status.phase, condition?.status, condition?.reason, condition?.message]
}

const reasons = ({ events = [] }: Desired<AccessKeyStatus>) => events.map(({ reason }) => reason)

t.test('the Secret has annotations about its token, and the operator’s label', async (t) => {
  const desired = await sync(
    observed({ accessKey: accessKey({ access: 'r', ttl: '3h' }) }),
    context,
  )
  const [child] = desired.children
  t.match(child?.['data'], { token: String, url: String })
  t.strictSame(
    { ...child, data: undefined },
    {
      ...{ apiVersion: 'v1', kind: 'Secret', type: 'Opaque', data: undefined },
      metadata: {
        name: 'reader',
        labels: { 'app.kubernetes.io/managed-by': 'vec-operator' },
        annotations: {
          'vec-operator.dev/issued-at': '2026-03-01T11:00:00Z',
          'vec-operator.dev/expires-at': '2026-03-01T14:00:00Z',
          'vec-operator.dev/renew-at': '2026-03-01T13:00:00Z',
          'vec-operator.dev/key-fingerprint': keyFingerprint(KEY),
          'vec-operator.dev/generation': '1',
        },
      },
    },
  )
})

t.test(
  'a token that is not written yet is Pending; a key with a replaced token stays Ready',
  async (t) => {
    const first = await sync(observed(), context)
    const words = ['False', 'SecretNotWritten', 'Secret reader is being written']
    t.strictSame(statusFields(first), ['Pending', ...words])
    t.notOk('secretRef' in first.status)
    t.equal(first.resyncAfterSeconds, 30)
    const held = storedSecret(first)
    const { metadata, ...rest } = accessKey({ access: 'm' })
    const changed = { ...rest, metadata: { ...metadata, generation: 2 } }
    const next = await sync(observed({ accessKey: changed, children: [held] }), context)
    t.strictSame(statusFields(next), ['Ready', ...words])
    t.equal(
      next.status.keyFingerprint,
      keyFingerprint(KEY),
      'the status describes the token in the Secret',
    )
  },
)

t.test('a renewal keeps Ready while the old token is valid, and is an Event', async (t) => {
  const spec = { access: 'r', ttl: '3h' } as const
  const parts = { accessKey: accessKey(spec) }
  const held = storedSecret(await sync(observed(parts), context))
  const { status } = await sync(observed({ ...parts, children: [held] }), context)
  const known = { ...accessKey(spec), status }
  const late = { ...context, now: new Date(NOW.getTime() + 3600_000) }
  const renewing = await sync(observed({ accessKey: known, children: [held] }), late)
  t.not(readToken(storedSecret(renewing)), readToken(held))
  t.strictSame(renewing.status, status, 'it changes with the Secret')
  t.equal(renewing.resyncAfterSeconds, 30)
  t.strictSame(reasons(renewing), [])
  const renewed = await sync(
    observed({ accessKey: known, children: [storedSecret(renewing)] }),
    late,
  )
  t.strictSame(reasons(renewed), ['TokenIssued'])
  t.match(renewed.status, { phase: 'Ready', issuedAt: '2026-03-01T13:00:00Z' })

  const over = { ...context, now: new Date(NOW.getTime() + 2 * 3600_000) }
  const expired = await sync(observed({ accessKey: known, children: [held] }), over)
  t.equal(statusFields(expired)[2], 'SecretNotWritten', 'an expired token is not current')
  const other = await sync(
    observed({ accessKey: known, signingKey: `${KEY}2`, children: [held] }),
    late,
  )
  t.equal(statusFields(other)[2], 'SecretNotWritten', 'a token of another key is not current')
})

t.test('a Secret that the API server refuses is reported', async (t) => {
  const first = await sync(observed(), context)
  const known = { ...accessKey(), status: first.status }
  const message =
    'Secret reader could not be created: kubectl describe vecaccesskey reader -n ns shows the cause in an Event, such as a quota or an admission webhook'
  const refused = await sync(observed({ accessKey: known }), context)
  t.strictSame(statusFields(refused), ['Pending', 'False', 'SecretNotWritten', message])
  t.equal(refused.children.length, 1, 'it is created again')
  const owner = { apiVersion: 'v1', kind: 'VecAccessKey', name: 'reader', uid: 'uid-reader' }
  const live = storedSecret(first)
  const liveSecret = { ...live, metadata: { ...live.metadata, ownerReferences: [owner] } }
  const uncached = await sync(observed({ accessKey: known, liveSecret }), context)
  t.equal(statusFields(uncached)[3], 'Secret reader is being written', 'the cache lags')
})

t.test('the Secret is written again when the address of its cluster has changed', async (t) => {
  const held = storedSecret(await sync(observed(), context))
  const tls = { enabled: true, secretRef: { name: 'cert' } }
  const moved = cluster({ spec: { ...jwtCluster.spec, tls } })
  const next = await sync(observed({ cluster: moved, children: [held] }), context)
  t.equal(statusFields(next)[2], 'SecretNotWritten')
  t.equal(readToken(storedSecret(next)), readToken(held), 'with the same token')
})

t.test('a new generation with the same token is recorded on the Secret', async (t) => {
  const held = storedSecret(await sync(observed(), context))
  const before = accessKey()
  const after = { ...before, metadata: { ...before.metadata, generation: 2 } }
  const next = await sync(observed({ accessKey: after, children: [held] }), context)
  t.equal(next.status.phase, 'Ready')
  matchWhole(t, next.children, [
    { metadata: { annotations: { 'vec-operator.dev/generation': '2' } } },
  ])
  t.equal(next.children.length, 1)
})

t.test('an older owned Secret stays next to the desired one', async (t) => {
  const older = storedSecret(await sync(observed(), context))
  const named = accessKey({ access: 'r', secretName: 'token-for-app' })
  const first = await sync(observed({ accessKey: named, children: [older] }), context)
  t.strictSame(
    first.children.map(({ metadata }) => metadata.name),
    ['token-for-app', 'reader'],
  )
  t.equal(first.status.phase, 'Pending')
  const both = [older, storedSecret(first)]
  const next = await sync(observed({ accessKey: named, children: both }), context)
  t.match(next.status, { phase: 'Ready', secretRef: { name: 'token-for-app', key: 'token' } })
  const waiting = await sync({ accessKey: named, children: both }, context)
  t.match(waiting.status, { phase: 'Pending', secretRef: { name: 'token-for-app' } })
  t.equal(waiting.children.length, 2)
})

t.test('Ready: one Secret, current, without an error', async (t) => {
  const desired = await syncTwice()
  t.strictSame(statusFields(desired), [
    ...['Ready', 'True', 'TokenIssued', 'Secret reader holds a current token'],
  ])
  t.equal(desired.resyncAfterSeconds, 60, 'without ttl it is checked every minute')
  t.equal(desired.children.length, 1)
  t.notOk('error' in desired.status)
})

t.test('a token that is due for renewal is checked after one second at the earliest', async (t) => {
  const parts = { accessKey: accessKey({ access: 'r', ttl: '3h' }) }
  const held = storedSecret(await sync(observed(parts), context))
  const now = new Date(NOW.getTime() + 3_600_000 - 100)
  const desired = await sync(observed({ ...parts, children: [held] }), { ...context, now })
  t.equal(desired.resyncAfterSeconds, 1)
})

t.test(
  'a namespace that is not allowed is reported once, with the annotation that would allow it',
  async (t) => {
    const annotations = { [ANNOTATIONS.allowedNamespaces]: 'third' }
    const theirs = cluster({ namespace: 'other', spec: jwtCluster.spec, annotations })
    const spec = { clusterRef: { name: 'a', namespace: 'other' }, access: 'r' } as const
    const desired = await sync(observed({ accessKey: accessKey(spec), cluster: theirs }), context)
    const message = `cluster other/a does not allow namespace ns: add it to the annotation ${ANNOTATIONS.allowedNamespaces} of the cluster`
    t.strictSame(statusFields(desired), ['Failed', 'False', 'RefNotPermitted', message])
    t.equal(desired.status.error, message)
    matchWhole(t, desired.events, [{ type: 'Warning', reason: 'RefNotPermitted', message }])
    const reported = { ...accessKey(spec), status: desired.status }
    t.strictSame(
      reasons(await sync(observed({ accessKey: reported, cluster: theirs }), context)),
      [],
    )
  },
)

t.test('a namespace that is no longer allowed loses its token', async (t) => {
  const spec = { clusterRef: { name: 'a', namespace: 'other' }, access: 'r' } as const
  const theirs = cluster({ namespace: 'other', spec: jwtCluster.spec })
  const parts = { accessKey: accessKey(spec), cluster: theirs }
  const held = storedSecret(await sync(observed(parts), context))
  const closed = { ...context, settings: { ...settings, crossNamespace: 'closed' as const } }
  const refused = await sync(observed({ ...parts, children: [held] }), closed)
  t.strictSame(refused.children, [])
  matchWhole(t, refused.pruned, [{ kind: 'Secret', name: held.metadata.name }])
  t.notOk('issuedAt' in refused.status, 'the status names no deleted token')
  t.match(refused.status.error, /or set the chart value crossNamespace to open$/)
})

t.test('a Secret that only another resource owns is not owned', async (t) => {
  const other = secret({})
  Object.assign(other.metadata, { ownerReferences: [{ uid: 'uid-of-another' }] })
  t.equal(statusFields(await sync(observed({ liveSecret: other }), context))[2], 'SecretNotOurs')
  const owners = [{ uid: 'uid-of-another' }, { uid: 'uid-reader' }]
  Object.assign(other.metadata, { ownerReferences: owners })
  t.not(
    statusFields(await sync(observed({ liveSecret: other }), context))[2],
    'SecretNotOurs',
    'it has this owner',
  )
})

t.test('a key that only waits has no error and no Event', async (t) => {
  const missing = { accessKey: accessKey(), children: [] }
  for (const found of [missing, { ...missing, cluster: jwtCluster }]) {
    const desired = await sync(found, context)
    t.equal(desired.status.phase, 'Pending')
    t.notOk('error' in desired.status)
    t.strictSame(reasons(desired), [])
  }
  const namespaces = { ...context, settings: { ...context.settings, namespaces: ['x'] } }
  t.strictSame(reasons(await sync(observed(), namespaces)), [])
})

t.test('each token, and each token signed by a short key, is a separate Event', async (t) => {
  const names = async (signingKey: string, created = ago(3600)) => {
    const parent = accessKey({ access: 'r', ttl: '3h' })
    const made = { ...parent, metadata: { ...parent.metadata, creationTimestamp: created } }
    const { events = [] } = await syncTwice({ accessKey: made, signingKey })
    return events.map(({ reason, metadata }) => `${reason} ${metadata.name}`)
  }
  const [token = '', warning = '', ...more] = await names('short')
  matchWhole(t, [token, warning], [/^TokenIssued /, /^ShortApiKey /])
  t.strictSame(more, [])
  t.strictSame(await names('short'), [token, warning], 'the same Events in every pass')
  const [renewed, again, ...rest] = await names('short', ago(3000))
  t.not(renewed, token)
  t.match(again, /^ShortApiKey /)
  t.not(again, warning, 'a renewed token is another warning')
  t.strictSame(rest, [])
  t.not((await names('other'))[1], warning)
})

t.test('a token that was reported is not reported again', async (t) => {
  const first = await syncTwice({ signingKey: 'short' })
  t.strictSame(reasons(first), ['TokenIssued', 'ShortApiKey'])
  const known = { ...accessKey(), status: first.status }
  t.strictSame(reasons(await syncTwice({ accessKey: known, signingKey: 'short' })), [])
})

t.test(
  'a token of another key or spec is reported, also if the status seen is older',
  async (t) => {
    const { status, events: firstEvents = [] } = await syncTwice({ signingKey: 'short' })
    const known = { ...accessKey(), status }
    const changed = { ...accessKey({ access: 'm' }), status }
    changed.metadata = { ...changed.metadata, generation: 2 }
    for (const parts of [
      { accessKey: known, signingKey: 'other' },
      { accessKey: changed, signingKey: 'short' },
    ]) {
      // The Secret is written, and its event starts the second sync before the status of the first is seen.
      const { status: next, events = [] } = await syncTwice(parts)
      t.equal(next.issuedAt, status.issuedAt)
      t.strictSame(
        events.map(({ reason }) => reason),
        ['TokenIssued', 'ShortApiKey'],
      )
      const former = firstEvents.map(({ metadata }) => metadata.name)
      for (const { metadata } of events) t.notOk(former.includes(metadata.name), 'another Event')
      const reported = { ...parts.accessKey, status: next }
      t.strictSame(reasons(await syncTwice({ ...parts, accessKey: reported })), [])
    }
  },
)

t.test('a key of 32 bytes is long enough', async (t) => {
  t.strictSame(reasons(await syncTwice({ signingKey: 'k'.repeat(32) })), ['TokenIssued'])
  t.strictSame(reasons(await syncTwice({ signingKey: 'k'.repeat(31) })), [
    ...['TokenIssued', 'ShortApiKey'],
  ])
})

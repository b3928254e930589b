/** Which Secrets the Job of a VecMigration is given, from where, and which of them as copies. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import {
  credentialBlocker,
  copiedCredentials,
  availableCredentials,
  copySources,
  allCredentials,
} from '../../../hooks/migration/endpoints.ts'
import { secret, settings, type ClusterOverrides } from '../../builders.ts'
import { ENDPOINT, WITH_API_KEY, migration, running } from './objects.ts'

const SECURED = {
  spec: { ...WITH_API_KEY.spec, tls: { enabled: true, secretRef: { name: 'cert' } } },
}

function far(name: string, parts: ClusterOverrides = {}) {
  const made = running(name, { ...SECURED, ...parts })
  made.metadata.namespace = 'far'
  return made
}

const here = migration()
const fromFar = migration({ spec: { source: { clusterRef: { name: 'b', namespace: 'far' } } } })
const toFar = migration({ spec: { targetClusterRef: { name: 'a', namespace: 'far' } } })
const clusters = { source: far('b'), target: running('a', SECURED) }

const key = (credential: string, namespace: string, name: string) => ({
  ...{ credential, namespace, name, key: 'api-key', isRequired: true },
})
const authority = (credential: string, namespace: string) => ({
  ...{ credential, namespace, name: 'cert', key: 'ca.crt', isRequired: false },
})

t.test('the credentials of each cluster are its key, and its authority if any', async (t) => {
  t.strictSame(allCredentials(fromFar, clusters), [
    key('engine', 'ns', 'vec-a-apikey'),
    authority('tls', 'ns'),
    key('source-engine', 'far', 'vec-b-apikey'),
    authority('source-tls', 'far'),
  ])
  t.strictSame(allCredentials(here, { source: running('b'), target: running('a') }), [])
  t.strictSame(allCredentials(here, {}), [])
})

t.test('all Secrets that spec.source.endpoint names are required', async (t) => {
  const parent = migration({ spec: { source: ENDPOINT } })
  t.strictSame(allCredentials(parent, { target: running('a') }), [
    { credential: 'source-engine', namespace: 'ns', name: 'old', key: 'token', isRequired: true },
    {
      ...{ credential: 'source-tls', namespace: 'ns', name: 'old-ca', key: 'bundle.pem' },
      isRequired: true,
    },
  ])
  const open = migration({ spec: { source: { endpoint: { url: 'http://db' } } } })
  t.strictSame(allCredentials(open, {}), [])
})

t.test('the Job gets the keys of Secrets that have a value', async (t) => {
  const empty = secret({})
  delete empty.data
  const given = availableCredentials(fromFar, clusters, {
    engine: secret({ 'api-key': 'k' }),
    tls: secret({ 'tls.crt': 'c' }),
    'source-engine': secret({ 'api-key': '' }),
    'source-tls': empty,
  })
  t.strictSame(
    given.map(({ credential }) => credential),
    ['engine'],
  )
})

t.test('Secrets of another namespace are copied', async (t) => {
  t.strictSame(copiedCredentials(here), [])
  t.strictSame(copiedCredentials(fromFar), ['source-engine', 'source-tls'])
  t.strictSame(copiedCredentials(toFar), ['engine', 'tls'])
  t.strictSame(copiedCredentials(migration({ spec: { source: ENDPOINT } })), [])
})

t.test('only Secrets of other namespaces are copied', async (t) => {
  const secrets = {
    engine: secret({ 'api-key': 'a' }),
    tls: secret({ 'ca.crt': 'a' }),
    'source-engine': secret({ 'api-key': 'b', other: 'x' }),
    'source-tls': secret({ 'ca.crt': 'b' }),
  }
  const original = (credential: keyof typeof secrets, key: string) => ({
    ...{ credential, keys: [key], secret: secrets[credential] },
  })
  t.strictSame(copySources(fromFar, clusters, secrets, settings), [
    original('source-engine', 'api-key'),
    original('source-tls', 'ca.crt'),
  ])
  t.strictSame(
    copySources(toFar, { source: running('b', WITH_API_KEY), target: far('a') }, secrets, settings),
    [original('engine', 'api-key'), original('tls', 'ca.crt')],
  )
  t.strictSame(copySources(fromFar, clusters, {}, settings), [])
  t.strictSame(copySources(fromFar, {}, secrets, settings), [], 'the clusters are gone')
})

t.test('nothing is copied for a recreated cluster, which may allow less', async (t) => {
  const closed = { annotations: { [ANNOTATIONS.allowedNamespaces]: 'third' } }
  const secrets = {
    engine: secret({ 'api-key': 'a' }),
    'source-engine': secret({ 'api-key': 'b' }),
  }
  const originals = (parent: typeof here, found: Parameters<typeof copySources>[1]) =>
    copySources(parent, found, secrets, settings).map(({ credential }) => credential)
  t.strictSame(originals(fromFar, { ...clusters, source: far('b', closed) }), [])
  t.strictSame(originals(toFar, { target: far('a', closed) }), [])
  t.strictSame(originals(toFar, { target: far('a') }), ['engine'])
})

t.test('Secrets of other purposes are no credentials of a source', async (t) => {
  const parent = migration({ spec: { source: ENDPOINT } })
  const blocker = (type: string, authority = 'Opaque', key = 'bundle.pem') => {
    const ref = { ...parent.spec.source.endpoint, caSecretRef: { name: 'old-ca', key } }
    const spec = { ...parent.spec, source: { endpoint: { ...ref, url: 'https://db' } } }
    return credentialBlocker(
      { ...parent, spec },
      { target: running('a') },
      {
        'source-engine': secret({ token: 'k' }, type),
        'source-tls': secret({ [key]: 'c', 'tls.key': 'private' }, authority),
      },
    )
  }
  t.equal(blocker('Opaque'), undefined)
  t.match(blocker('kubernetes.io/service-account-token')?.message, /^Secret ns\/old is of type kub/)
  t.match(blocker('kubernetes.io/tls')?.reason, 'InvalidSecret')
  t.equal(blocker('Opaque', 'kubernetes.io/tls', 'ca.crt'), undefined, 'a CA of cert-manager')
  t.match(blocker('Opaque', 'kubernetes.io/tls', 'tls.key')?.reason, 'InvalidSecret')
})

import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import {
  Connection,
  clusterConnection,
  serviceUrl,
  requiresApiKey,
  podUrl,
} from '../../../crds/contract/connection.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { customResourceDefinition } from '../../../crds/crd.ts'
import { VecCluster } from '../../../crds/cluster.ts'
import { admit } from '../../world/admission/admit.ts'
import { object, type Fields } from '../corpus/case.ts'

function cluster(spec: Fields): VecCluster {
  const created = object('VecCluster', { version: '1.16.0', ...spec }, 'main')
  const { metadata, ...rest } = admit(customResourceDefinition(VecCluster, '1.0.0'), created)
  return { ...rest, metadata: { ...metadata, namespace: 'search' } } as unknown as VecCluster
}

const certificate = { secretRef: { name: 'certificate' } }

t.test('a cluster without an apiKey is open and speaks http', async (t) => {
  const connection = clusterConnection(cluster({ replicas: 3 }))
  t.strictSame(connection, { namespace: 'search', name: 'main', replicas: 3, tls: false })
  t.equal(serviceUrl(connection, 'cluster.local'), 'http://vec-main.search.svc.cluster.local:6333')
  t.equal(
    podUrl(connection, 0, 'cluster.local'),
    'http://vec-main-0.vec-main-headless.search.svc.cluster.local:6333',
  )
})

t.test('the endpoint is https when tls.enabled, and ca.crt is looked for', async (t) => {
  const connection = clusterConnection(cluster({ tls: { enabled: true, ...certificate } }))
  t.match(connection, { tls: true, caSecret: 'certificate' })
  t.equal(serviceUrl(connection, 'k8s.example'), 'https://vec-main.search.svc.k8s.example:6333')
  t.equal(
    podUrl(connection, 1, 'k8s.example'),
    'https://vec-main-1.vec-main-headless.search.svc.k8s.example:6333',
  )
})

t.test('a certificate that is not enabled is not used', async (t) => {
  const connection = clusterConnection(cluster({ tls: certificate }))
  t.match(connection, { tls: false })
  t.notOk('caSecret' in connection)
})

t.test('the connection names the key in vec-<name>-apikey, also with secretRef', async (t) => {
  const key = { secret: 'vec-main-apikey', key: 'api-key' }
  for (const apiKey of [{ autoGenerate: true }, { secretRef: { name: 'own', key: 'k' } }]) {
    t.match(clusterConnection(cluster({ apiKey })), { key })
  }
})

t.test(
  'until a change of TLS or of the key is applied, nodes are called as they are',
  async (t) => {
    const tls = { enabled: true, ...certificate }
    const apiKey = { autoGenerate: true }
    const open = cluster({ replicas: 3 })
    const secured = cluster({ replicas: 3, tls, apiKey })
    const connect = (
      { metadata, spec }: VecCluster,
      former: unknown,
      { generation = 2, appliedGeneration = 1 } = {},
    ) => {
      const text = typeof former === 'string' ? former : JSON.stringify(former)
      const annotations = { [ANNOTATIONS.lastAppliedSpec]: text }
      return clusterConnection({
        ...{ ...open, spec, status: { appliedGeneration } },
        metadata: { ...metadata, generation, annotations },
      })
    }
    const [before, after] = [clusterConnection(open), clusterConnection(secured)]
    t.match(after, { tls: true, caSecret: 'certificate', key: { secret: 'vec-main-apikey' } })
    t.strictSame(connect(secured, open.spec), before, 'it may wait for a maintenance window')
    t.strictSame(connect(open, secured.spec), after)
    t.strictSame(connect(secured, open.spec, { appliedGeneration: 2 }), after, 'it is applied')
    t.equal(connect({ ...secured, spec: { ...secured.spec, replicas: 5 } }, open.spec).replicas, 5)
    for (const invalid of ['{', 'null', '{}', { tls: { enabled: 'no' } }]) {
      t.strictSame(connect(secured, invalid), after, 'a user has changed the annotation')
    }
    const { metadata, ...rest } = secured
    const bare = {
      ...rest,
      status: { appliedGeneration: 1 },
      metadata: { ...metadata, generation: 2 },
    }
    t.strictSame(clusterConnection(bare), after, 'it is unknown what was applied')
  },
)

t.test('a plan is read back only with a whole connection in it', async (t) => {
  const connection = clusterConnection(cluster({ apiKey: { autoGenerate: true } }))
  t.ok(Value.Check(Connection, connection))
  t.notOk(Value.Check(Connection, {}))
  t.notOk(Value.Check(Connection, { ...connection, replicas: '3' }))
  t.notOk(Value.Check(Connection, { ...connection, key: { secret: 'x' } }))
})

t.test('apiKey without secretRef and autoGenerate means no API key', async (t) => {
  t.notOk(requiresApiKey(cluster({ apiKey: {} }).spec))
  t.ok(requiresApiKey(cluster({ apiKey: { autoGenerate: true } }).spec))
})

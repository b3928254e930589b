/** The plan of a helm run. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { uninstallRun, desiredRun } from '../../../hooks/cluster/job.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import {
  applied,
  cluster,
  observed,
  progress,
  secret,
  settings,
  type ClusterOverrides,
} from '../../builders.ts'

function planOf(parts: ClusterOverrides, data: Record<string, string> = {}) {
  const secrets = new Map([['cert', secret(data, 'kubernetes.io/tls')]])
  return desiredRun(observed({ cluster: cluster(parts), secrets }), settings)
}

const tls = { enabled: true, secretRef: { name: 'cert' } }

t.test('nodes trust the authority of their certificates, if the Secret has one', async (t) => {
  const authority = (data: Record<string, string>) =>
    (planOf({ spec: { tls } }, data).values['config'] as { tls: { ca_cert: string } }).tls.ca_cert
  const pair = { 'tls.crt': 'c', 'tls.key': 'k' }
  t.equal(authority({ ...pair, 'ca.crt': 'a' }), '/qdrant/tls/ca.crt')
  t.equal(authority(pair), '/qdrant/tls/tls.crt')
})

t.test('a Secret without data has no authority', async (t) => {
  const empty = secret({}, 'kubernetes.io/tls')
  delete empty.data
  const secrets = new Map([['cert', empty]])
  const { values } = desiredRun(
    observed({ cluster: cluster({ spec: { tls } }), secrets }),
    settings,
  )
  t.match(values, { config: { tls: { ca_cert: '/qdrant/tls/tls.crt' } } })
})

t.test('a leading v of a version is removed, and nothing else', async (t) => {
  t.equal(planOf({ spec: { version: 'v1.19.0-dev' } }).version, '1.19.0-dev')
  t.equal(planOf({ spec: { version: '1.19.0-dev' } }).version, '1.19.0-dev')
})

t.test('a plan names the sizes and classes of the volumes; its hash covers them', async (t) => {
  const { persistence } = cluster().spec
  const grown = { persistence: { ...persistence, size: '20Gi' } }
  const snapshotPersistence = { enabled: true, size: '5Gi' }
  t.strictSame(planOf({}).volumes, [{ field: 'persistence', size: '10Gi' }])
  t.strictSame(planOf({ spec: { ...grown, snapshotPersistence } }).volumes, [
    { field: 'persistence', size: '20Gi' },
    { field: 'snapshotPersistence', size: '5Gi' },
  ])
  const gold = { persistence: { ...persistence, volumeAttributesClassName: 'gold' } }
  const silver = { ...snapshotPersistence, volumeAttributesClassName: 'silver' }
  t.strictSame(planOf({ spec: { ...gold, snapshotPersistence: silver } }).volumes, [
    { field: 'persistence', size: '10Gi', attributesClass: 'gold' },
    { field: 'snapshotPersistence', size: '5Gi', attributesClass: 'silver' },
  ])
  t.equal(planOf({ spec: gold }).podsHash, planOf({}).podsHash, 'no pod restarts')
  t.not(planOf({ spec: grown }).hash, planOf({}).hash)
  t.equal(planOf({ spec: grown }).podsHash, planOf({}).podsHash, 'no pod restarts')
})

t.test('the plan names how Prometheus verifies nodes with TLS', async (t) => {
  const metrics = { enabled: true, serviceMonitor: { enabled: true, interval: '30s', labels: {} } }
  const monitored = { tls, metrics }
  const serverName = 'vec-a.ns.svc.cluster.local'
  t.strictSame(planOf({ spec: monitored }, { 'ca.crt': 'a' }).monitorTls, {
    ...{ serverName, caSecret: 'cert' },
  })
  t.strictSame(planOf({ spec: monitored }).monitorTls, { serverName }, 'a public authority')
  t.not(planOf({ spec: monitored }).hash, planOf({ spec: monitored }, { 'ca.crt': 'a' }).hash)
  for (const spec of [
    { metrics },
    { tls },
    { tls, metrics: { ...metrics, enabled: false } },
    { tls, metrics: { ...metrics, serviceMonitor: { ...metrics.serviceMonitor, enabled: false } } },
  ]) {
    t.equal(planOf({ spec }).monitorTls, undefined)
  }
})

t.test('unknown accepted risks are ignored', async (t) => {
  const annotations = { [ANNOTATIONS.acceptRisk]: 'nonsense , shard-loss' }
  t.strictSame(planOf({ annotations }).acceptedRisks, ['shard-loss'])
  t.strictSame(planOf({}).acceptedRisks, [])
})

t.test('every plan names its resource; that of an uninstall needs no more', async (t) => {
  const named = { resource: 'vecclusters', namespace: 'ns', name: 'a', uid: 'uid-a' }
  t.match(planOf({}), named)
  const { hash, ...plan } = uninstallRun({ cluster: cluster() })
  t.strictSame(plan, { ...named, release: 'vec-a' })
  t.not(hash, uninstallRun({ cluster: cluster({ name: 'b' }) }).hash)
  t.equal(hash, uninstallRun({ cluster: cluster({ generation: 2 }) }).hash)
})

t.test('a cluster that was installed without the default affinity never gets it', async (t) => {
  const of = (parts: Partial<Observed>) =>
    desiredRun(observed({ cluster: cluster(), ...parts }), settings)
  const installed = { helmRelease: 'vec-a' }
  t.match(of({}), { defaultAffinity: true, values: { affinity: Object } }, 'first install')
  const { defaultAffinity: _, ...release } = applied()
  const former = of({ progress: progress({ applied: release }) })
  t.notOk('affinity' in former.values || 'defaultAffinity' in former, 'of an earlier release')
  const recorded = of({ progress: progress({ applied: applied() }) })
  t.match(recorded, { defaultAffinity: true, values: { affinity: Object } }, 'recorded')
  t.equal(recorded.hash, of({}).hash, 'the first install is not repeated')
  const unknown = of({ cluster: cluster({ status: installed }) })
  t.notOk('affinity' in unknown.values, 'installed, and its report is gone')
})

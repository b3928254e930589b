import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import { obstacleOf } from '../../../hooks/cluster/obstacles.ts'
import { cluster, statefulSet } from '../../builders.ts'

const bypasses: [config: Record<string, unknown>, message: string][] = [
  [
    { cluster: { enabled: false } },
    'spec.config.cluster.enabled would bypass spec.cluster.enabled',
  ],
  [{ cluster: { p2p: { port: 1 } } }, 'spec.config.cluster.p2p would bypass spec.cluster.p2p'],
  [{ service: { host: '::' } }, 'spec.config.service.host would bypass spec.service'],
  [{ service: { http_port: 1 } }, 'spec.config.service.http_port would bypass spec.service'],
  [{ service: { grpc_port: 1 } }, 'spec.config.service.grpc_port would bypass spec.service'],
  [
    { service: { enable_tls: true } },
    'spec.config.service.enable_tls would bypass spec.tls.enabled',
  ],
  [{ service: { api_key: 'x' } }, 'spec.config.service.api_key would bypass spec.apiKey'],
  [{ service: { alt_api_key: 'x' } }, 'spec.config.service.alt_api_key would bypass spec.apiKey'],
  [
    { service: { jwt_rbac: true } },
    'spec.config.service.jwt_rbac would bypass spec.apiKey.jwtRbac',
  ],
  [
    { service: { read_only_api_key: 'x' } },
    'spec.config.service.read_only_api_key would bypass spec.readOnlyApiKey',
  ],
  [{ tls: { cert: 'x' } }, 'spec.config.tls would bypass spec.tls'],
]

for (const [config, message] of bypasses) {
  t.test(`a config entry that bypasses a field stops helm: ${message}`, async (t) => {
    t.equal(obstacleOf(cluster({ spec: { config } }), undefined), `${message}: set that field`)
  })
}

t.test('entries of the configuration that no field sets are let through', async (t) => {
  for (const config of [{ service: null, cluster: 'x' }, { log_level: 'DEBUG' }]) {
    t.equal(obstacleOf(cluster({ spec: { config } }), undefined), undefined)
  }
})

t.test('config is evaluated by the chart: template text stops helm', async (t) => {
  const config = { log_level: '{{ lookup "v1" "Secret" "ns" "key" }}' }
  t.equal(
    obstacleOf(cluster({ spec: { config } }), undefined),
    'spec.config holds "{{", which the chart would run as a template',
  )
})

t.test('an image that YAML would read as more than an image stops helm', async (t) => {
  const refused = ['x:1"\n      hostPID: true', 'a b', 'repo:tag-1', 'a@sha256:0', '', '-a', 'a//b']
  for (const repository of refused) {
    const image = { repository, pullPolicy: 'IfNotPresent' as const }
    t.match(obstacleOf(cluster({ spec: { image } }), undefined), /^spec\.image\.repository must be/)
  }
  for (const repository of ['docker.io/qdrant/qdrant', 'localhost:5000/a/b_c', 'qdrant']) {
    const image = { repository, pullPolicy: 'IfNotPresent' as const }
    t.equal(obstacleOf(cluster({ spec: { image } }), undefined), undefined, repository)
  }
})

type Volume = VecCluster['spec']['snapshotPersistence']
const volumes: [title: string, wanted: Volume, live: string | undefined, message?: string][] = [
  [
    'switched on',
    { enabled: true, size: '10Gi' },
    undefined,
    'spec.snapshotPersistence.enabled is fixed at creation: StatefulSet vec-a has it off',
  ],
  [
    'switched off',
    { enabled: false, size: '10Gi' },
    '10Gi',
    'spec.snapshotPersistence.enabled is fixed at creation: StatefulSet vec-a has it on',
  ],
  [
    'of another size',
    { enabled: true, size: '20Gi' },
    '10Gi',
    'spec.snapshotPersistence.size is fixed at creation: StatefulSet vec-a has 10Gi',
  ],
  [
    'of another class',
    { enabled: true, size: '10Gi', storageClassName: 'fast' },
    '10Gi',
    'spec.snapshotPersistence.storageClassName is fixed at creation: StatefulSet vec-a has the default class',
  ],
  ['the same, written otherwise', { enabled: true, size: '10240Mi' }, '10Gi'],
]

for (const [title, snapshotPersistence, live, message] of volumes) {
  t.test(`a snapshot volume ${title} is compared with the StatefulSet before helm`, async (t) => {
    const wanted = cluster({ spec: { snapshotPersistence } })
    t.equal(obstacleOf(wanted, statefulSet(1, {}, live)), message)
  })
}

/** A StatefulSet whose pods have a volume for snapshots. */
function withSnapshots(volume: object) {
  const made = statefulSet(1, {}, '10Gi')
  const template = { metadata: { name: 'qdrant-snapshots' }, spec: volume }
  return { ...made, spec: { ...made.spec, volumeClaimTemplates: [template] } }
}

t.test('the class of the snapshot volume is compared where the spec names one', async (t) => {
  const size = '10Gi'
  const fast = { storageClassName: 'fast', resources: { requests: { storage: size } } }
  const obstacle = (storageClassName?: string) => {
    const named = storageClassName === undefined ? {} : { storageClassName }
    const snapshotPersistence = { enabled: true, size, ...named }
    return obstacleOf(cluster({ spec: { snapshotPersistence } }), withSnapshots(fast))
  }
  t.equal(obstacle('fast'), undefined)
  t.equal(obstacle(), undefined)
  t.match(obstacle('slow'), /storageClassName is fixed at creation: .* has fast$/)
})

t.test('a snapshot volume without a size is another size', async (t) => {
  const wanted = cluster({ spec: { snapshotPersistence: { enabled: true, size: '10Gi' } } })
  for (const volume of [{}, { resources: {} }]) {
    t.match(obstacleOf(wanted, withSnapshots(volume)), /size is fixed at creation: .* has none$/)
  }
})

t.test('a StatefulSet without volumes has none for snapshots', async (t) => {
  const bare = statefulSet()
  delete bare.spec.volumeClaimTemplates
  t.equal(obstacleOf(cluster(), bare), undefined)
})

t.test('nothing is compared before there is a StatefulSet', async (t) => {
  const snapshotPersistence = { enabled: true, size: '10Gi' }
  t.equal(obstacleOf(cluster({ spec: { snapshotPersistence } }), undefined), undefined)
})

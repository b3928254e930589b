import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import { validateSpec } from '../../../hooks/cluster/validation.ts'
import { resizedVolume } from '../../../hooks/cluster/volumes.ts'
import { isReshardingOn, reshardingError } from '../../../hooks/cluster/validation.ts'
import { cluster, statefulSet } from '../../builders.ts'

const OWN: Partial<VecCluster['spec']> = {
  tls: { enabled: true, secretRef: { name: 'tls' } },
  apiKey: { autoGenerate: true, jwtRbac: true },
}

const conflicts: [config: Record<string, unknown>, message: string][] = [
  [
    { cluster: { enabled: false } },
    'spec.config.cluster.enabled is false, but spec.cluster.enabled has true: remove the entry',
  ],
  [
    { cluster: { p2p: { port: 1 } } },
    'spec.config.cluster.p2p.port is 1, but spec.cluster.p2p.port has 6335: remove the entry',
  ],
  [
    { cluster: { p2p: { enable_tls: true } } },
    'spec.config.cluster.p2p.enable_tls is true, but spec.cluster.p2p.enableTls has false: remove the entry',
  ],
  [
    { service: { enable_tls: false } },
    'spec.config.service.enable_tls is false, but spec.tls.enabled has true: remove the entry',
  ],
  [
    { service: { jwt_rbac: false } },
    'spec.config.service.jwt_rbac is false, but spec.apiKey.jwtRbac has true: remove the entry',
  ],
  [
    { service: { http_port: 1 } },
    'spec.config.service.http_port is 1, but the Service of the chart has 6333: remove the entry',
  ],
  [
    { service: { grpc_port: null } },
    'spec.config.service.grpc_port is null, but the Service of the chart has 6334: remove the entry',
  ],
  [
    { service: { api_key: 'x' } },
    'spec.config.service.api_key would store a key in a ConfigMap: use spec.apiKey.secretRef',
  ],
  [
    { service: { alt_api_key: 'x' } },
    'spec.config.service.alt_api_key would store a key in a ConfigMap: use spec.apiKey.secretRef',
  ],
  [
    { service: { read_only_api_key: 'x' } },
    'spec.config.service.read_only_api_key would store a key in a ConfigMap: use spec.readOnlyApiKey.secretRef',
  ],
  ...['cluster', 'service', 'tls'].flatMap((entry): [Record<string, unknown>, string][] => [
    [{ [entry]: null }, `spec.config.${entry} must be a map`],
    [{ [entry]: ['x'] }, `spec.config.${entry} must be a map`],
  ]),
  [{ cluster: { p2p: 'x' } }, 'spec.config.cluster.p2p must be a map'],
]

for (const [config, message] of conflicts) {
  t.test(`a config entry that contradicts a field stops helm: ${message}`, async (t) => {
    t.equal(validateSpec(cluster({ spec: { ...OWN, config } }), undefined), message)
  })
}

t.test('all other entries are let through, also below tls and cluster.p2p', async (t) => {
  for (const config of [
    { log_level: 'DEBUG' },
    { tls: { cert_ttl: 60, ca_cert: '/qdrant/tls/other.crt' } },
    { cluster: { p2p: { connection_pool_size: 4 }, resharding_enabled: true } },
    { service: { host: '::', max_workers: 2 } },
  ]) {
    t.equal(validateSpec(cluster({ spec: { ...OWN, config } }), undefined), undefined)
  }
})

t.test('resharding is refused for versions that have not passed its runs', async (t) => {
  const spec = (parts: object) => cluster({ spec: { resharding: true, ...parts } }).spec
  t.equal(
    validateSpec(cluster({ spec: { resharding: true, version: '1.18.2' } }), undefined),
    'spec.resharding requires spec.version 1.18.3 or 1.19.0 or a later patch of it: set spec.resharding to false for 1.18.2',
  )
  t.equal(isReshardingOn(spec({ version: '1.18.3' })), true)
  t.equal(isReshardingOn(spec({ version: '1.19.0' })), true)
  t.equal(isReshardingOn(spec({ version: '1.20.0' })), false)
  const proven = ['1.18.3']
  for (const version of ['1.18.3', 'v1.18.4']) {
    t.equal(reshardingError(spec({ version }), proven), undefined, version)
    t.equal(isReshardingOn(spec({ version }), proven), true)
    t.equal(isReshardingOn(spec({ version, resharding: false }), proven), false)
  }
  for (const version of ['1.18.2', '1.17.1', '1.19.0', '2.18.3']) {
    t.equal(
      reshardingError(spec({ version }), proven),
      `spec.resharding requires spec.version 1.18.3 or a later patch of it: set spec.resharding to false for ${version}`,
    )
    t.equal(isReshardingOn(spec({ version }), proven), false)
    t.equal(reshardingError(spec({ version, resharding: false }), proven), undefined)
  }
  const { cluster: distribution } = cluster().spec
  t.equal(
    reshardingError(spec({ cluster: { ...distribution, enabled: false } }), proven),
    'spec.resharding requires spec.cluster.enabled true',
  )
  const config = { cluster: { resharding_enabled: false } }
  t.equal(
    validateSpec(cluster({ spec: { resharding: true, config } }), undefined),
    'spec.config.cluster.resharding_enabled is false, but spec.resharding has true: remove the entry',
  )
})

t.test('an entry that says the same as its field is let through', async (t) => {
  const config = {
    cluster: { enabled: true, p2p: { port: 6335, enable_tls: false } },
    service: { enable_tls: true, jwt_rbac: true, http_port: 6333, grpc_port: 6334 },
  }
  t.equal(validateSpec(cluster({ spec: { ...OWN, config } }), undefined), undefined)
})

t.test('nodes join only a first node that is distributed already', async (t) => {
  const withSpec = (applied: string) =>
    cluster({
      spec: { replicas: 3 },
      annotations: { 'vec-operator.dev/last-applied-spec': applied },
    })
  const alone = JSON.stringify({ cluster: { enabled: false } })
  t.equal(
    validateSpec(withSpec(alone), statefulSet(1)),
    'spec.replicas is 3, but spec.cluster.enabled is not applied yet: set spec.replicas to 1 until the cluster is Running with it',
  )
  const [{ metadata }, one] = [withSpec(alone), cluster()]
  t.equal(validateSpec({ ...one, metadata }, statefulSet(1)), undefined, 'one node')
  for (const applied of [JSON.stringify({ cluster: { enabled: true } }), '{', 'null']) {
    t.equal(validateSpec(withSpec(applied), statefulSet(1)), undefined, applied)
  }
})

t.test('config is evaluated by the chart: template text stops helm', async (t) => {
  const config = { log_level: '{{ lookup "v1" "Secret" "ns" "key" }}' }
  t.equal(
    validateSpec(cluster({ spec: { config } }), undefined),
    'spec.config contains "{{", which the chart would evaluate as a template: remove it',
  )
})

t.test(
  'topologySpreadConstraints are evaluated by the chart: template text stops helm',
  async (t) => {
    const topologySpreadConstraints = [{ topologyKey: '{{ lookup "v1" "Secret" "ns" "key" }}' }]
    t.equal(
      validateSpec(cluster({ spec: { topologySpreadConstraints } }), undefined),
      'spec.topologySpreadConstraints contains "{{", which the chart would evaluate as a template: remove it',
    )
  },
)

t.test('an image that YAML would read as more than an image stops helm', async (t) => {
  const refused = ['x:1"\n      hostPID: true', 'a b', 'repo:tag-1', 'a@sha256:0', '', '-a', 'a//b']
  for (const repository of refused) {
    const image = { repository, pullPolicy: 'IfNotPresent' as const }
    t.match(
      validateSpec(cluster({ spec: { image } }), undefined),
      /^spec\.image\.repository must be/,
    )
  }
  for (const repository of ['docker.io/qdrant/qdrant', 'localhost:5000/a/b_c', 'qdrant']) {
    const image = { repository, pullPolicy: 'IfNotPresent' as const }
    t.equal(validateSpec(cluster({ spec: { image } }), undefined), undefined, repository)
  }
})

type Volume = VecCluster['spec']['snapshotPersistence']
const volumes: [title: string, desired: Volume, live: string | undefined, message?: string][] = [
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
    'of a smaller size',
    { enabled: true, size: '9Gi' },
    '10Gi',
    'spec.snapshotPersistence.size cannot be lowered: StatefulSet vec-a has 10Gi',
  ],
  [
    'of another class',
    { enabled: true, size: '10Gi', storageClassName: 'fast' },
    '10Gi',
    'spec.snapshotPersistence.storageClassName is fixed at creation: StatefulSet vec-a has the default class',
  ],
  ['the same, written otherwise', { enabled: true, size: '10240Mi' }, '10Gi'],
  ['of a greater size', { enabled: true, size: '20Gi' }, '10Gi'],
]

for (const [title, snapshotPersistence, live, message] of volumes) {
  t.test(`a snapshot volume ${title} is compared with the StatefulSet before helm`, async (t) => {
    const desired = cluster({ spec: { snapshotPersistence } })
    t.equal(validateSpec(desired, statefulSet(1, {}, live)), message)
  })
}

t.test(
  'data volumes may grow, and never become smaller than those of the StatefulSet',
  async (t) => {
    const live = statefulSet()
    live.spec.volumeClaimTemplates = [
      {
        metadata: { name: 'qdrant-storage' },
        spec: { resources: { requests: { storage: '20Gi' } } },
      },
    ]
    const { persistence } = cluster().spec
    const errorOf = (size: string) =>
      validateSpec(cluster({ spec: { persistence: { ...persistence, size } } }), live)
    t.equal(errorOf('20Gi'), undefined)
    t.equal(errorOf('0.02Ti'), undefined)
    t.equal(
      errorOf('21474836479'),
      'spec.persistence.size cannot be lowered: StatefulSet vec-a has 20Gi',
    )
    t.equal(errorOf('10Gi'), 'spec.persistence.size cannot be lowered: StatefulSet vec-a has 20Gi')
  },
)

t.test('volumes have a size, also before there is a StatefulSet', async (t) => {
  const made = cluster().spec
  const errorOf = (spec: Partial<VecCluster['spec']>) => validateSpec(cluster({ spec }), undefined)
  for (const size of ['0', '0Gi', '00.0Ti']) {
    const persistence = { ...made.persistence, size }
    t.equal(errorOf({ persistence }), 'spec.persistence.size must be greater than 0', size)
    const snapshotPersistence = { enabled: true, size }
    const message = 'spec.snapshotPersistence.size must be greater than 0'
    t.equal(errorOf({ snapshotPersistence }), message, size)
    t.equal(errorOf({ snapshotPersistence: { enabled: false, size } }), undefined)
  }
  t.equal(errorOf({ persistence: { ...made.persistence, size: '0.5Gi' } }), undefined)
})

t.test('nodes do not listen for each other where they listen for clients', async (t) => {
  const errorOf = (port: number, enabled = true) =>
    validateSpec(
      cluster({ spec: { cluster: { enabled, p2p: { port, enableTls: false } } } }),
      undefined,
    )
  for (const port of [6333, 6334]) {
    t.equal(
      errorOf(port),
      `spec.cluster.p2p.port is ${port}, where nodes listen for clients: it is immutable, so delete this VecCluster and create it with another port`,
    )
    t.equal(errorOf(port, false), undefined, 'there is one node')
  }
  t.equal(errorOf(6335), undefined)
})

t.test('a size with a fraction is the amount that the API server writes for it', async (t) => {
  const live = statefulSet()
  const resources = { requests: { storage: '11489037516800m' } }
  live.spec.volumeClaimTemplates = [{ metadata: { name: 'qdrant-storage' }, spec: { resources } }]
  const { persistence } = cluster().spec
  const sized = (size: string) => cluster({ spec: { persistence: { ...persistence, size } } })
  t.equal(validateSpec(sized('10.7Gi'), live), undefined)
  t.equal(resizedVolume(sized('10.7Gi').spec, live, '10.7Gi'), undefined)
  t.match(validateSpec(sized('10.6Gi'), live), /^spec.persistence.size cannot be lowered/)
})

t.test('the VolumeAttributesClass of volumes may change, and not be removed', async (t) => {
  const live = statefulSet()
  const spec = {
    volumeAttributesClassName: 'gold',
    resources: { requests: { storage: '10Gi' } },
  }
  live.spec.volumeClaimTemplates = [{ metadata: { name: 'qdrant-storage' }, spec }]
  const { persistence } = cluster().spec
  const errorOf = (named: object) =>
    validateSpec(cluster({ spec: { persistence: { ...persistence, ...named } } }), live)
  t.equal(errorOf({ volumeAttributesClassName: 'gold' }), undefined)
  t.equal(errorOf({ volumeAttributesClassName: 'silver' }), undefined)
  t.equal(
    errorOf({}),
    'spec.persistence.volumeAttributesClassName cannot be removed: StatefulSet vec-a has gold',
  )
})

/** A StatefulSet whose pods have a volume for snapshots. */
function withSnapshots(volume: object) {
  const made = statefulSet(1, {}, '10Gi')
  const template = { metadata: { name: 'qdrant-snapshots' }, spec: volume }
  return { ...made, spec: { ...made.spec, volumeClaimTemplates: [template] } }
}

t.test('the class of the snapshot volume is compared where the spec names one', async (t) => {
  const size = '10Gi'
  const fast = { storageClassName: 'fast', resources: { requests: { storage: size } } }
  const blocker = (storageClassName?: string) => {
    const named = storageClassName === undefined ? {} : { storageClassName }
    const snapshotPersistence = { enabled: true, size, ...named }
    return validateSpec(cluster({ spec: { snapshotPersistence } }), withSnapshots(fast))
  }
  t.equal(blocker('fast'), undefined)
  t.equal(blocker(), undefined)
  t.match(blocker('slow'), /storageClassName is fixed at creation: .* has fast$/)
})

t.test('a snapshot volume without a size is another size', async (t) => {
  const desired = cluster({ spec: { snapshotPersistence: { enabled: true, size: '10Gi' } } })
  for (const volume of [{}, { resources: {} }]) {
    t.match(validateSpec(desired, withSnapshots(volume)), /size is fixed at creation: .* has none$/)
  }
})

t.test('a StatefulSet without volumes has none for snapshots', async (t) => {
  const bare = statefulSet()
  delete bare.spec.volumeClaimTemplates
  t.equal(validateSpec(cluster(), bare), undefined)
  const snapshotPersistence = { enabled: true, size: '10Gi' }
  t.match(validateSpec(cluster({ spec: { snapshotPersistence } }), bare), / vec-a has it off$/)
})

t.test('nothing is compared before there is a StatefulSet', async (t) => {
  const snapshotPersistence = { enabled: true, size: '10Gi' }
  const desired = cluster({ spec: { snapshotPersistence } })
  t.equal(validateSpec(desired, undefined), undefined)
  t.match(validateSpec(desired, statefulSet()), / vec-a has it off$/)
})

/** Corpus of VecCluster: its admission rules. */
import { pairCases, type Fields, type Pair } from './case.ts'

function windows(window: object) {
  return { maintenanceWindows: [{ schedule: '0 2 * * 6', duration: '3h', ...window }] }
}

export const SMALLEST_CLUSTER: Fields = { version: '1.16.0' }

const own = { secretRef: { name: 'keys', key: 'full' } }
const certificate = { enabled: true, secretRef: { name: 'certificate' } }

const fast = { storageClassName: 'fast' }
const slow = { storageClassName: 'slow' }

/** Everything else may change; this field may not. */
function immutable(path: string, refused: Fields, from: Fields = {}): Pair {
  return {
    title: `${path} is immutable`,
    from,
    accepted: { ...from, replicas: 1, version: '1.17.0', config: { log_level: 'DEBUG' } },
    refused,
    field: 'spec',
    because: `spec.${path} is immutable`,
  }
}

const generated = { autoGenerate: true }

export const CLUSTER_CASES = [
  ...pairCases('VecCluster', SMALLEST_CLUSTER, [
    {
      title: 'version is required',
      accepted: {},
      refused: { version: undefined },
      field: 'spec.version',
      because: 'Required value',
    },
    {
      title: 'version is three numbers, with or without leading v',
      accepted: { version: 'v1.16.3' },
      refused: { version: 'latest' },
      field: 'spec.version',
      because: 'should match',
    },
    {
      title: 'version may name a pre-release, not a range',
      accepted: { version: '1.17.0-rc.1' },
      refused: { version: '^1.17.0' },
      field: 'spec.version',
      because: 'should match',
    },
    {
      title: 'replicas more than 1 requires cluster.enabled true',
      accepted: { replicas: 1, cluster: { enabled: false } },
      refused: { replicas: 2, cluster: { enabled: false } },
      field: 'spec',
      because: 'spec.replicas greater than 1 requires spec.cluster.enabled true',
    },
    {
      title: 'apiKey has not both secretRef and autoGenerate',
      accepted: { apiKey: own },
      refused: { apiKey: { ...own, ...generated } },
      field: 'spec.apiKey',
      because: 'spec.apiKey: secretRef and autoGenerate exclude each other',
    },
    {
      title: 'readOnlyApiKey has not both secretRef and autoGenerate',
      accepted: { apiKey: own, readOnlyApiKey: own },
      refused: { apiKey: own, readOnlyApiKey: { ...own, ...generated } },
      field: 'spec.readOnlyApiKey',
      because: 'spec.readOnlyApiKey: secretRef and autoGenerate exclude each other',
    },
    {
      title: 'both keys of a rotation are accepted for five minutes at least',
      accepted: { apiKey: { ...own, rotation: { overlap: '5m' } } },
      refused: { apiKey: { ...own, rotation: { overlap: '4m59s' } } },
      field: 'spec.apiKey.rotation.overlap',
      because: 'spec.apiKey.rotation.overlap must be at least 5m',
    },
    {
      title: 'apiKey.jwtRbac requires secretRef or autoGenerate',
      accepted: { apiKey: { ...own, jwtRbac: true } },
      refused: { apiKey: { jwtRbac: true } },
      field: 'spec.apiKey',
      because: 'spec.apiKey.jwtRbac requires secretRef or autoGenerate',
    },
    {
      title: 'apiKey.jwtRbac is content with autoGenerate',
      accepted: { apiKey: { ...generated, jwtRbac: true } },
      refused: { apiKey: { autoGenerate: false, jwtRbac: true } },
      field: 'spec.apiKey',
      because: 'spec.apiKey.jwtRbac requires secretRef or autoGenerate',
    },
    {
      title: 'readOnlyApiKey needs apiKey',
      accepted: { apiKey: generated, readOnlyApiKey: generated },
      refused: { readOnlyApiKey: generated },
      field: 'spec',
      because: 'spec.readOnlyApiKey requires spec.apiKey',
    },
    {
      title: 'a readOnlyApiKey needs an apiKey that has a source',
      accepted: { apiKey: own, readOnlyApiKey: generated },
      refused: { apiKey: {}, readOnlyApiKey: own },
      field: 'spec',
      because: 'spec.readOnlyApiKey requires spec.apiKey',
    },
    {
      title: 'tls.enabled requires tls.secretRef.name',
      accepted: { tls: certificate },
      refused: { tls: { enabled: true } },
      field: 'spec',
      because: 'spec.tls.enabled requires spec.tls.secretRef.name',
    },
    {
      title: 'tls.secretRef has a name',
      accepted: { tls: { secretRef: { name: 'certificate' } } },
      refused: { tls: { enabled: true, secretRef: {} } },
      field: 'spec.tls.secretRef.name',
      because: 'Required value',
    },
    {
      title: 'cluster.p2p.enableTls uses the certificate of tls',
      accepted: { cluster: { p2p: { enableTls: true } }, tls: certificate },
      refused: { cluster: { p2p: { enableTls: true } } },
      field: 'spec',
      because: 'spec.cluster.p2p.enableTls requires spec.tls.enabled',
    },
    {
      title: 'a name is a DNS label of at most 48 characters',
      accepted: {},
      acceptedName: 'a'.repeat(48),
      refused: {},
      refusedName: 'a'.repeat(49),
      because: 'metadata.name must be a DNS label of at most 48 characters',
    },
    {
      title: 'a name holds no dot',
      accepted: {},
      acceptedName: 'a-1',
      refused: {},
      refusedName: 'a.b',
      because: 'metadata.name must be a DNS label of at most 48 characters',
    },
    {
      title: 'persistence.autoGrow grows by percent or by a quantity',
      accepted: { persistence: { autoGrow: { by: '50%', max: '1Ti' } } },
      refused: { persistence: { autoGrow: { by: '0%', max: '1Ti' } } },
      field: 'spec.persistence.autoGrow.by',
      because: 'should match',
    },
    {
      title: 'persistence.autoGrow has a maximum',
      accepted: { persistence: { autoGrow: { max: '20Gi' } } },
      refused: { persistence: { autoGrow: { above: 80 } } },
      field: 'spec.persistence.autoGrow.max',
      because: 'Required value',
    },
    {
      title: 'persistence.autoGrow begins before a volume is full',
      accepted: { persistence: { autoGrow: { above: 90, max: '20Gi' } } },
      refused: { persistence: { autoGrow: { above: 91, max: '20Gi' } } },
      field: 'spec.persistence.autoGrow.above',
      because: 'should be less than or equal to 90',
    },
    {
      title: 'resources are amounts',
      accepted: { resources: { requests: { cpu: 2, memory: '4Gi' }, limits: { cpu: '1.5' } } },
      refused: { resources: { requests: { memory: '4 GB' } } },
      field: 'spec.resources.requests.memory',
      because: 'should match',
    },
    {
      title: 'a maintenance window begins by a cron expression',
      accepted: windows({ schedule: '0 2 * * sat' }),
      refused: windows({ schedule: 'every night' }),
      field: 'spec.maintenanceWindows[0].schedule',
      because:
        'spec.maintenanceWindows: schedule must be a cron expression of five fields: minute, hour, day, month, weekday',
    },
    {
      title: 'a maintenance window lasts ten minutes at least',
      accepted: windows({ duration: '10m' }),
      refused: windows({ duration: '9m59s' }),
      field: 'spec.maintenanceWindows[0].duration',
      because: 'spec.maintenanceWindows: duration must be at least 10m',
    },
    {
      title: 'a time zone has no spaces',
      accepted: windows({ timeZone: 'America/Argentina/Buenos_Aires' }),
      refused: windows({ timeZone: 'Central European Time' }),
      field: 'spec.maintenanceWindows[0].timeZone',
      because: 'should match',
    },
  ]),
  ...pairCases('VecCluster', SMALLEST_CLUSTER, [
    {
      title: 'persistence.size is compared with the StatefulSet, not by the API server',
      from: { persistence: { size: '20Gi' } },
      accepted: { persistence: { size: '10Gi' } },
      refused: { persistence: { size: '10 GB' } },
      field: 'spec.persistence.size',
      because: 'should match',
    },
    immutable('persistence.storageClassName', { persistence: fast }),
    {
      ...immutable('persistence.storageClassName', { persistence: slow }, { persistence: fast }),
      title: 'persistence.storageClassName is immutable once set',
    },
    {
      ...immutable('persistence.storageClassName', { persistence: {} }, { persistence: fast }),
      title: 'persistence.storageClassName cannot be taken away',
    },
    immutable('persistence.accessModes', { persistence: { accessModes: ['ReadWriteOncePod'] } }),
    {
      title: 'cluster.enabled is not switched off',
      from: {},
      accepted: { cluster: { enabled: true } },
      refused: { cluster: { enabled: false } },
      field: 'spec',
      because: 'spec.cluster.enabled cannot be switched off: the engine has no way back',
    },
    {
      title: 'cluster.enabled is switched on with one node',
      from: { cluster: { enabled: false } },
      accepted: { cluster: { enabled: true } },
      refused: { cluster: { enabled: true }, replicas: 3 },
      field: 'spec',
      because:
        'spec.cluster.enabled is switched on with spec.replicas 1; add nodes once the cluster is Running',
    },
    immutable('cluster.p2p.port', { cluster: { p2p: { port: 6336 } } }),
    immutable(
      'cluster.p2p.enableTls',
      { tls: certificate, cluster: { p2p: { enableTls: true } } },
      { tls: certificate },
    ),
    {
      title: 'snapshotPersistence is fixed at creation, but not by the API server',
      from: {},
      accepted: { snapshotPersistence: { enabled: true } },
      refused: { snapshotPersistence: { enabled: 'yes' } },
      field: 'spec.snapshotPersistence.enabled',
      because: 'must be of type boolean',
    },
  ]),
]

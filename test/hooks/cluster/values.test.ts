import t from 'tap'
import type { VecCluster } from '../../../crds/cluster.ts'
import { chartValues } from '../../../hooks/cluster/values.ts'
import { cluster } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'

const p2p = { port: 6335, enable_tls: false }

/** Values of a spec with nothing but the defaults. */
const defaults = {
  fullnameOverride: 'vec-a',
  replicaCount: 1,
  image: { repository: 'docker.io/qdrant/qdrant', pullPolicy: 'IfNotPresent' },
  resources: {},
  persistence: { size: '10Gi', accessModes: ['ReadWriteOnce'] },
  snapshotPersistence: { enabled: false, size: '10Gi' },
  service: { type: 'ClusterIP', annotations: {} },
  apiKey: false,
  readOnlyApiKey: false,
  metrics: { serviceMonitor: { enabled: false, scrapeInterval: '30s', additionalLabels: {} } },
  config: { cluster: { enabled: true, p2p } },
}

interface Row {
  title: string
  spec: Partial<VecCluster['spec']>
  values: Record<string, unknown>
}

const secretRef = { name: 'key', key: 'api' }
const tlsMount = {
  additionalVolumes: [{ name: 'tls', secret: { secretName: 'cert' } }],
  additionalVolumeMounts: [{ name: 'tls', mountPath: '/qdrant/tls', readOnly: true }],
}
const tlsConfig = {
  cluster: { enabled: true, p2p },
  service: { enable_tls: true },
  tls: {
    cert: '/qdrant/tls/tls.crt',
    key: '/qdrant/tls/tls.key',
    ca_cert: '/qdrant/tls/ca.crt',
  },
}

const rows: Row[] = [
  {
    title: 'resharding is switched on in the engine only if the spec asks for it',
    spec: { resharding: true },
    values: { config: { cluster: { enabled: true, p2p, resharding_enabled: true } } },
  },
  { title: 'nothing but version: chart defaults and the name', spec: {}, values: {} },
  { title: 'replicas is replicaCount', spec: { replicas: 2 }, values: { replicaCount: 2 } },
  {
    title: 'from three nodes on there is a PodDisruptionBudget',
    spec: { replicas: 3 },
    values: {
      replicaCount: 3,
      podDisruptionBudget: {
        enabled: true,
        maxUnavailable: 1,
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
  },
  {
    title: 'podDisruptionBudget.enabled and .maxUnavailable take precedence',
    spec: { replicas: 2, podDisruptionBudget: { enabled: true, maxUnavailable: 2 } },
    values: {
      replicaCount: 2,
      podDisruptionBudget: {
        enabled: true,
        maxUnavailable: 2,
        unhealthyPodEvictionPolicy: 'AlwaysAllow',
      },
    },
  },
  {
    title: 'podDisruptionBudget.enabled: false is no value',
    spec: { replicas: 3, podDisruptionBudget: { enabled: false, maxUnavailable: 1 } },
    values: { replicaCount: 3 },
  },
  {
    title: 'image.unprivileged is image.useUnprivilegedImage and what restricted asks for',
    spec: { image: { repository: 'a/b', pullPolicy: 'Always', unprivileged: true } },
    values: {
      image: { repository: 'a/b', pullPolicy: 'Always', useUnprivilegedImage: true },
      podSecurityContext: { seccompProfile: { type: 'RuntimeDefault' } },
      containerSecurityContext: { capabilities: { drop: ['ALL'] } },
    },
  },
  {
    title: 'fields that are passed to the pods keep their names',
    spec: {
      topologySpreadConstraints: [{ maxSkew: 1 }],
      priorityClassName: 'databases',
      terminationGracePeriodSeconds: 120,
      minReadySeconds: 10,
      imagePullSecrets: [{ name: 'registry' }],
    },
    values: {
      topologySpreadConstraints: [{ maxSkew: 1 }],
      priorityClassName: 'databases',
      terminationGracePeriodSeconds: 120,
      minReadySeconds: 10,
      imagePullSecrets: [{ name: 'registry' }],
    },
  },
  {
    title: 'podLabels and podAnnotations keep their names',
    spec: { podLabels: { team: 'search' }, podAnnotations: { 'example.dev/scrape': 'yes' } },
    values: { podLabels: { team: 'search' }, podAnnotations: { 'example.dev/scrape': 'yes' } },
  },
  {
    title: 'image.repository and image.pullPolicy keep their names; no image.tag is set',
    spec: { image: { repository: 'mirror/engine', pullPolicy: 'Never' } },
    values: { image: { repository: 'mirror/engine', pullPolicy: 'Never' } },
  },
  {
    title: 'resources is resources',
    spec: { resources: { requests: { cpu: 1, memory: '2Gi' }, limits: { memory: '4Gi' } } },
    values: { resources: { requests: { cpu: 1, memory: '2Gi' }, limits: { memory: '4Gi' } } },
  },
  {
    title: 'persistence.size, accessModes and storageClassName keep their names',
    spec: {
      persistence: {
        size: '1Ti',
        accessModes: ['ReadWriteOncePod'],
        storageClassName: 'fast',
        onScaleIn: 'Keep',
        onDelete: 'Delete',
      },
    },
    values: {
      persistence: { size: '1Ti', accessModes: ['ReadWriteOncePod'], storageClassName: 'fast' },
    },
  },
  {
    title: 'snapshotPersistence is snapshotPersistence.enabled, .size and .storageClassName',
    spec: { snapshotPersistence: { enabled: true, size: '5Gi', storageClassName: 'slow' } },
    values: { snapshotPersistence: { enabled: true, size: '5Gi', storageClassName: 'slow' } },
  },
  {
    title: 'volumeAttributesClassName keeps its name',
    spec: {
      snapshotPersistence: { enabled: true, size: '5Gi', volumeAttributesClassName: 'silver' },
    },
    values: {
      snapshotPersistence: { enabled: true, size: '5Gi', volumeAttributesClassName: 'silver' },
    },
  },
  {
    title: 'service.type and service.annotations keep their names',
    spec: { service: { type: 'LoadBalancer', annotations: { a: 'b' } } },
    values: { service: { type: 'LoadBalancer', annotations: { a: 'b' } } },
  },
  {
    title: 'apiKey.autoGenerate is apiKey: true',
    spec: { apiKey: { autoGenerate: true, jwtRbac: false } },
    values: { apiKey: true },
  },
  {
    title: 'apiKey.secretRef is apiKey: {valueFrom: {secretKeyRef: {name, key}}}',
    spec: { apiKey: { autoGenerate: false, jwtRbac: false, secretRef } },
    values: { apiKey: { valueFrom: { secretKeyRef: secretRef } } },
  },
  {
    title: 'readOnlyApiKey has the same encoding as apiKey',
    spec: {
      apiKey: { autoGenerate: true, jwtRbac: false },
      readOnlyApiKey: { autoGenerate: false, secretRef },
    },
    values: { apiKey: true, readOnlyApiKey: { valueFrom: { secretKeyRef: secretRef } } },
  },
  {
    title: 'apiKey.jwtRbac is config.service.jwt_rbac',
    spec: { apiKey: { autoGenerate: true, jwtRbac: true } },
    values: {
      apiKey: true,
      config: { cluster: { enabled: true, p2p }, service: { jwt_rbac: true } },
    },
  },
  {
    title: 'metrics.serviceMonitor.enabled needs both enabled flags',
    spec: {
      metrics: { enabled: false, serviceMonitor: { enabled: true, interval: '10s', labels: {} } },
    },
    values: {
      metrics: {
        serviceMonitor: { enabled: false, scrapeInterval: '10s', additionalLabels: {} },
      },
    },
  },
  {
    title: 'metrics is serviceMonitor.enabled, .scrapeInterval and .additionalLabels',
    spec: {
      metrics: {
        enabled: true,
        serviceMonitor: { enabled: true, interval: '1m', labels: { team: 'x' } },
      },
    },
    values: {
      metrics: {
        serviceMonitor: { enabled: true, scrapeInterval: '1m', additionalLabels: { team: 'x' } },
      },
    },
  },
  {
    title: 'metrics is .scrapeTimeout where the interval is shorter than that of the chart',
    spec: {
      metrics: { enabled: true, serviceMonitor: { enabled: true, interval: '9s', labels: {} } },
    },
    values: {
      metrics: {
        serviceMonitor: {
          ...{ enabled: true, scrapeInterval: '9s', scrapeTimeout: '9s', additionalLabels: {} },
        },
      },
    },
  },
  {
    title: 'securityContext is runAsUser and runAsGroup of the container, and the rest of the pod',
    spec: {
      securityContext: {
        ...{ runAsUser: 5001, runAsGroup: 5002, fsGroup: 5003 },
        fsGroupChangePolicy: 'OnRootMismatch',
      },
    },
    values: {
      podSecurityContext: { fsGroup: 5003, fsGroupChangePolicy: 'OnRootMismatch' },
      containerSecurityContext: { runAsUser: 5001, runAsGroup: 5002 },
    },
  },
  {
    title: 'securityContext is added to what image.unprivileged sets',
    spec: {
      image: { repository: 'a/b', pullPolicy: 'Always', unprivileged: true },
      securityContext: { runAsUser: 5001, fsGroup: 5003 },
    },
    values: {
      image: { repository: 'a/b', pullPolicy: 'Always', useUnprivilegedImage: true },
      podSecurityContext: { seccompProfile: { type: 'RuntimeDefault' }, fsGroup: 5003 },
      containerSecurityContext: { capabilities: { drop: ['ALL'] }, runAsUser: 5001 },
    },
  },
  {
    title: 'nodeSelector, tolerations and affinity keep their names',
    spec: {
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'k', operator: 'Exists' }],
      affinity: { podAntiAffinity: {} },
    },
    values: {
      nodeSelector: { disk: 'ssd' },
      tolerations: [{ key: 'k', operator: 'Exists' }],
      affinity: { podAntiAffinity: {} },
    },
  },
  {
    title: 'cluster.enabled is config.cluster.enabled',
    spec: { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } },
    values: { config: { cluster: { enabled: false, p2p } } },
  },
  {
    title: 'cluster.p2p.port and cluster.p2p.enableTls are config.cluster.p2p.port and .enable_tls',
    spec: { cluster: { enabled: true, p2p: { port: 7000, enableTls: true } } },
    values: { config: { cluster: { enabled: true, p2p: { port: 7000, enable_tls: true } } } },
  },
  {
    title:
      'tls.enabled sets enable_tls, certificate, key and ca_cert, and mounts tls.secretRef.name',
    spec: { tls: { enabled: true, secretRef: { name: 'cert' } } },
    values: { ...tlsMount, config: tlsConfig },
  },
  {
    title: 'config is deep-merged over the entries of the operator, and the spec wins',
    spec: {
      tls: { enabled: true, secretRef: { name: 'cert' } },
      config: { service: { max_workers: 2 }, log_level: 'DEBUG', cluster: { tick_period_ms: 50 } },
    },
    values: {
      ...tlsMount,
      config: {
        ...tlsConfig,
        cluster: { ...tlsConfig.cluster, tick_period_ms: 50 },
        service: { enable_tls: true, max_workers: 2 },
        log_level: 'DEBUG',
      },
    },
  },
  {
    title: 'where config and the operator have the same entry, config wins',
    spec: {
      tls: { enabled: true, secretRef: { name: 'cert' } },
      config: { tls: { ca_cert: '/qdrant/tls/other.crt', cert_ttl: 60 } },
    },
    values: {
      ...tlsMount,
      config: {
        ...tlsConfig,
        tls: { ...tlsConfig.tls, ca_cert: '/qdrant/tls/other.crt', cert_ttl: 60 },
      },
    },
  },
]

for (const { title, spec, values } of rows) {
  t.test(title, async (t) => {
    t.strictSame(chartValues(cluster({ spec }), { hasCaCertificate: true }), {
      ...defaults,
      ...values,
    })
  })
}

t.test('a TLS Secret without ca.crt is its own authority', async (t) => {
  const spec = { tls: { enabled: true, secretRef: { name: 'cert' } } }
  t.match(chartValues(cluster({ spec }), { hasCaCertificate: false }), {
    config: { tls: { ca_cert: '/qdrant/tls/tls.crt' } },
  })
})

t.test('a list in config replaces the whole list', async (t) => {
  const spec = { config: { cluster: { p2p: { peers: [1, 2] } } } }
  matchWhole(t, chartValues(cluster({ spec }), { hasCaCertificate: false }), {
    config: { cluster: { p2p: { ...p2p, peers: [1, 2] } } },
  })
})

t.test('a value that is not a map replaces any former value', async (t) => {
  const spec = { config: { cluster: { p2p: null }, log_level: { default: 'INFO' } } }
  t.match(chartValues(cluster({ spec }), { hasCaCertificate: false }), {
    config: { cluster: { enabled: true, p2p: null }, log_level: { default: 'INFO' } },
  })
})

t.test('a certificate that is named but not enabled is not mounted', async (t) => {
  const isMounted = (tls: VecCluster['spec']['tls']) =>
    'additionalVolumes' in chartValues(cluster({ spec: { tls } }), { hasCaCertificate: false })
  t.equal(isMounted({ enabled: false, secretRef: { name: 'cert' } }), false)
  t.equal(isMounted({ enabled: true }), false)
  t.equal(isMounted({ enabled: true, secretRef: { name: 'cert' } }), true)
})

t.test(
  'the pods of a new cluster prefer different nodes and zones, unless the spec says otherwise',
  async (t) => {
    const options = { hasCaCertificate: false, defaultAffinity: true }
    const term = (topologyKey: string) => ({
      topologyKey,
      labelSelector: { matchLabels: { 'app.kubernetes.io/instance': 'vec-a' } },
    })
    t.strictSame(chartValues(cluster(), options), {
      ...defaults,
      affinity: {
        podAntiAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 100, podAffinityTerm: term('kubernetes.io/hostname') },
            { weight: 50, podAffinityTerm: term('topology.kubernetes.io/zone') },
          ],
        },
      },
    })
    const affinity = { nodeAffinity: {} }
    t.strictSame(chartValues(cluster({ spec: { affinity } }), options), { ...defaults, affinity })
  },
)

t.test(
  'the annotation restart is in the template of the pods, and nothing without it',
  async (t) => {
    const options = { hasCaCertificate: false }
    const plain = chartValues(cluster(), options)
    t.notOk('podAnnotations' in plain)
    const marked = cluster({ annotations: { 'vec-operator.dev/restart': '2026-03-01' } })
    t.strictSame(chartValues(marked, options), {
      ...plain,
      podAnnotations: { 'vec-operator.dev/restart': '2026-03-01' },
    })
    const annotated = { ...marked, spec: { ...marked.spec, podAnnotations: { a: 'b' } } }
    t.strictSame(chartValues(annotated, options), {
      ...plain,
      podAnnotations: { a: 'b', 'vec-operator.dev/restart': '2026-03-01' },
    })
  },
)

/** One VecCluster for every row of the specification's mapping of spec to chart values. */
import type { ClusterSpec } from '../../crds/cluster.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'

export interface Case {
  name: string
  spec: Partial<ClusterSpec>
  /** The cluster is new. */
  defaultAffinity?: boolean
  /** Annotations of the VecCluster. */
  annotations?: Record<string, string>
  /** The TLS Secret holds ca.crt. */
  hasAuthority?: boolean
}

const tls = { enabled: true, secretRef: { name: 'certificate' } }
const generated = { autoGenerate: true }
const secretRef = (name: string) => ({ autoGenerate: false, secretRef: { name, key: 'k' } })

export const CASES: readonly Case[] = [
  { name: 'defaults', spec: {} },
  { name: 'replicas', spec: { replicas: 3 } },
  { name: 'default affinity', spec: {}, defaultAffinity: true },
  { name: 'the annotation restart', spec: {}, annotations: { [ANNOTATIONS.restart]: '2' } },
  {
    name: 'podDisruptionBudget',
    spec: { replicas: 5, podDisruptionBudget: { maxUnavailable: 2 } },
  },
  {
    name: 'podDisruptionBudget off',
    spec: { replicas: 3, podDisruptionBudget: { enabled: false, maxUnavailable: 1 } },
  },
  {
    name: 'image.unprivileged',
    spec: {
      image: {
        repository: 'docker.io/qdrant/qdrant',
        pullPolicy: 'IfNotPresent',
        unprivileged: true,
      },
    },
  },
  {
    name: 'securityContext',
    spec: {
      securityContext: {
        ...{ runAsUser: 1_000_680_000, runAsGroup: 1_000_680_001, fsGroup: 1_000_680_002 },
        fsGroupChangePolicy: 'OnRootMismatch',
      },
    },
  },
  {
    name: 'what is passed through to the pods',
    spec: {
      topologySpreadConstraints: [
        {
          maxSkew: 1,
          topologyKey: 'topology.kubernetes.io/zone',
          whenUnsatisfiable: 'ScheduleAnyway',
          labelSelector: { matchLabels: { 'app.kubernetes.io/instance': 'vec-a' } },
        },
      ],
      priorityClassName: 'databases',
      terminationGracePeriodSeconds: 120,
      minReadySeconds: 10,
      imagePullSecrets: [{ name: 'registry' }],
    },
  },
  {
    name: 'podLabels and podAnnotations',
    spec: {
      podLabels: { 'example.dev/team': 'search', version: '1.0', active: 'true', empty: '' },
      podAnnotations: { 'example.dev/note': 'a: "b"\n- c', number: '0x10' },
    },
  },
  {
    name: 'image',
    spec: { image: { repository: 'registry.example/engine', pullPolicy: 'Always' } },
  },
  {
    name: 'resources',
    spec: { resources: { requests: { cpu: '100m', memory: '1Gi' }, limits: { memory: '2Gi' } } },
  },
  {
    name: 'persistence',
    spec: {
      persistence: {
        size: '20Gi',
        storageClassName: 'fast',
        accessModes: ['ReadWriteOncePod', 'ReadWriteMany'],
        onScaleIn: 'Keep',
      },
    },
  },
  {
    name: 'snapshotPersistence',
    spec: { snapshotPersistence: { enabled: true, size: '5Gi', storageClassName: 'slow' } },
  },
  {
    name: 'snapshotPersistence without a class',
    spec: { snapshotPersistence: { enabled: true, size: '5Gi' } },
  },
  {
    name: 'service',
    spec: { service: { type: 'LoadBalancer', annotations: { 'a.example/b': 'c' } } },
  },
  { name: 'service of type NodePort', spec: { service: { type: 'NodePort', annotations: {} } } },
  { name: 'apiKey.autoGenerate', spec: { apiKey: { ...generated, jwtRbac: false } } },
  { name: 'apiKey.secretRef', spec: { apiKey: { ...secretRef('own'), jwtRbac: false } } },
  {
    name: 'readOnlyApiKey.autoGenerate',
    spec: { apiKey: { ...generated, jwtRbac: false }, readOnlyApiKey: generated },
  },
  {
    name: 'readOnlyApiKey.secretRef',
    spec: {
      apiKey: { ...secretRef('own'), jwtRbac: false },
      readOnlyApiKey: secretRef('readers'),
    },
  },
  { name: 'apiKey.jwtRbac', spec: { apiKey: { ...generated, jwtRbac: true } } },
  {
    name: 'metrics',
    spec: {
      metrics: {
        enabled: true,
        serviceMonitor: { enabled: true, interval: '15s', labels: { release: 'prometheus' } },
      },
    },
  },
  {
    name: 'metrics with keys',
    spec: {
      apiKey: { ...generated, jwtRbac: false },
      readOnlyApiKey: generated,
      metrics: { enabled: true, serviceMonitor: { enabled: true, interval: '30s', labels: {} } },
    },
  },
  {
    name: 'metrics without the monitor',
    spec: {
      metrics: { enabled: true, serviceMonitor: { enabled: false, interval: '30s', labels: {} } },
    },
  },
  { name: 'nodeSelector', spec: { nodeSelector: { disk: 'ssd' } } },
  {
    name: 'tolerations',
    spec: { tolerations: [{ key: 'engine', operator: 'Exists', effect: 'NoSchedule' }] },
  },
  {
    name: 'affinity',
    spec: {
      affinity: {
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { a: 'b' } } },
          ],
        },
      },
    },
  },
  {
    name: 'cluster.enabled',
    spec: { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } },
  },
  {
    name: 'cluster.p2p',
    spec: { tls, cluster: { enabled: true, p2p: { port: 7000, enableTls: true } } },
    hasAuthority: true,
  },
  { name: 'tls', spec: { tls } },
  { name: 'tls with an authority', spec: { tls }, hasAuthority: true },
  {
    name: 'config',
    spec: {
      config: {
        log_level: 'DEBUG',
        service: { max_request_size_mb: 64 },
        storage: { performance: { max_search_threads: 2 } },
      },
    },
  },
  {
    name: 'config over the own entries',
    spec: { apiKey: { ...generated, jwtRbac: true }, config: { service: { jwt_rbac: false } } },
  },
]

/** The values of the engine's chart that this double supports, and how given values merge with the defaults. */

export interface PortValues {
  name: string
  port: number
  targetPort: number
  protocol: string
}

interface VolumeValues {
  size: string
  accessModes: string[]
  storageClassName?: string | null
  volumeAttributesClassName?: string | null
}

type KeyValue =
  | boolean
  | string
  | { valueFrom?: { secretKeyRef: { name: string; key: string } } }
  | null
  | undefined

export interface EnvValue {
  name: string
  value?: string
  valueFrom?: object
}

/** What the templates read. Unknown values are ignored, as the chart has no schema. */
export interface ChartValues {
  fullnameOverride: string
  replicaCount: number
  image: { repository: string; pullPolicy: string; tag: string; useUnprivilegedImage: boolean }
  resources: object
  persistence: VolumeValues
  snapshotPersistence: VolumeValues & { enabled: boolean }
  service: { type: string; annotations: Record<string, string>; ports: PortValues[] }
  apiKey?: KeyValue
  readOnlyApiKey?: KeyValue
  env: EnvValue[]
  metrics: {
    serviceMonitor: {
      enabled: boolean
      scrapeInterval: string
      scrapeTimeout: string
      additionalLabels: Record<string, string>
    }
  }
  nodeSelector: Record<string, string>
  tolerations: object[]
  affinity: object
  topologySpreadConstraints: object[]
  imagePullSecrets: object[]
  podAnnotations: Record<string, string>
  podLabels: Record<string, string>
  priorityClassName: string
  terminationGracePeriodSeconds?: number
  minReadySeconds?: number
  podSecurityContext: object
  containerSecurityContext: object
  podDisruptionBudget: {
    enabled: boolean
    maxUnavailable: number
    unhealthyPodEvictionPolicy: string
  }
  config: {
    cluster: { enabled?: boolean; p2p: { port?: number; enable_tls?: boolean } }
    service: { enable_tls?: boolean }
  }
  additionalVolumes: object[]
  additionalVolumeMounts: object[]
}

/** The chart does not accept these values; the message is helm's. */
export class ChartError extends Error {}

function port(name: string, number: number): PortValues {
  return { name, port: number, targetPort: number, protocol: 'TCP' }
}

const DEFAULTS = {
  fullnameOverride: '',
  replicaCount: 1,
  image: {
    repository: 'docker.io/qdrant/qdrant',
    pullPolicy: 'IfNotPresent',
    tag: '',
    useUnprivilegedImage: false,
  },
  resources: {},
  persistence: { accessModes: ['ReadWriteOnce'], size: '10Gi' },
  snapshotPersistence: { enabled: false, accessModes: ['ReadWriteOnce'], size: '10Gi' },
  service: {
    type: 'ClusterIP',
    annotations: {},
    ports: [port('http', 6333), port('grpc', 6334), port('p2p', 6335)],
  },
  env: [],
  metrics: {
    serviceMonitor: {
      enabled: false,
      additionalLabels: {},
      scrapeInterval: '30s',
      scrapeTimeout: '10s',
    },
  },
  nodeSelector: {},
  tolerations: [],
  affinity: {},
  topologySpreadConstraints: [],
  imagePullSecrets: [],
  podAnnotations: {},
  podLabels: {},
  priorityClassName: '',
  podSecurityContext: { fsGroup: 3000, fsGroupChangePolicy: 'Always' },
  containerSecurityContext: {
    allowPrivilegeEscalation: false,
    privileged: false,
    readOnlyRootFilesystem: true,
    runAsGroup: 2000,
    runAsNonRoot: true,
    runAsUser: 1000,
  },
  podDisruptionBudget: { enabled: false, maxUnavailable: 1, unhealthyPodEvictionPolicy: '' },
  config: {
    cluster: {
      enabled: true,
      p2p: { port: 6335, enable_tls: false },
      consensus: { tick_period_ms: 100 },
    },
    service: { enable_tls: false },
  },
  additionalVolumes: [],
  additionalVolumeMounts: [],
}

/** The chart's defaults with these values over them. */
export function chartValues(values: object): ChartValues {
  const merged = merge(DEFAULTS, values) as ChartValues
  const { config, image } = merged as unknown as {
    config: { cluster?: { p2p?: unknown } } | number
    image: { tag?: string }
  }
  if (typeof config !== 'object') {
    throw new ChartError(template('<.Values.config>: wrong type for value; expected map'))
  }
  if (typeof config.cluster?.p2p !== 'object') {
    throw new ChartError(
      template(
        "<.Values.config.cluster.p2p.enable_tls>: can't evaluate field enable_tls in type interface {}",
      ),
    )
  }
  if (image.tag && !/^v?\d+\.\d+(\.\d+)?/.test(image.tag)) {
    throw new ChartError(template('error calling semverCompare: invalid semantic version'))
  }
  // The chart evaluates config as a template of its own.
  if (JSON.stringify(config).includes('{{')) {
    throw new ChartError(template('error calling tpl: cannot parse template'))
  }
  return merged
}

function template(what: string): string {
  return `template: qdrant/templates/statefulset.yaml:29:28: executing "qdrant/templates/statefulset.yaml" at ${what}\n\nUse --debug flag to render out invalid YAML`
}

/** As helm does it: maps are merged, anything else replaces, and null removes a default. */
function merge(defaults: unknown, values: unknown): unknown {
  if (values === undefined) return defaults
  if (!isMap(defaults) || !isMap(values)) return values
  const keys = new Set([...Object.keys(defaults), ...Object.keys(values)])
  return Object.fromEntries(
    [...keys]
      .filter((key) => values[key] !== null)
      .map((key) => [key, merge(defaults[key], values[key])]),
  )
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

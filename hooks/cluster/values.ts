/** Maps the spec of a VecCluster to the values of the Helm chart. */
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import { keyReference, keyVariables, type ReleaseKeys } from '../../crds/contract/api-keys.ts'
import { ANNOTATIONS, releaseName } from '../../crds/contract/names.ts'
import { parseDuration } from '../../crds/units.ts'

type Values = Record<string, unknown>

const TLS_DIRECTORY = '/qdrant/tls'

/** What the values depend on, in addition to the resource. */
export interface ValueOptions {
  /** Whether the TLS Secret has a `ca.crt`. */
  hasCaCertificate: boolean
  /** Whether the pods prefer different Kubernetes nodes if the spec has no affinity. */
  defaultAffinity?: boolean
  /** The keys, if they are rotated without a gap; default: that of the spec. */
  keys?: ReleaseKeys | undefined
  /** Hash of the certificate, as an annotation of the pods. */
  certificateMark?: string | undefined
  /** Size of the data volumes; default: that of the spec. */
  dataVolumeSize?: string
}

/** The values of one release; values that are not set keep the chart's default for that version. */
export function chartValues({ metadata, spec }: VecCluster, options: ValueOptions): Values {
  return {
    // Without it the chart appends its own name to the name of every object.
    fullnameOverride: releaseName(metadata.name),
    // Helm scales the StatefulSet; spec.replicas stays, for the scale subresource too.
    replicaCount: spec.hibernate === true ? 0 : spec.replicas,
    image: image(spec.image),
    resources: spec.resources,
    persistence: persistence(spec.persistence, options),
    snapshotPersistence: spec.snapshotPersistence,
    service: spec.service,
    ...keyValues(metadata.name, spec.apiKey, options),
    readOnlyApiKey: apiKeyValue(spec.readOnlyApiKey),
    metrics: { serviceMonitor: serviceMonitor(spec.metrics) },
    ...(spec.nodeSelector !== undefined && { nodeSelector: spec.nodeSelector }),
    ...(spec.tolerations !== undefined && { tolerations: spec.tolerations }),
    ...affinity(spec.affinity, releaseName(metadata.name), options),
    ...podAnnotations({ metadata, spec }, options),
    ...passedThrough(spec),
    ...securityContexts(spec),
    ...disruptionBudget(spec),
    ...tlsMount(spec.tls),
    config: deepMerge(operatorConfig(spec, options), spec.config),
  }
}

/** Parts of the template of the pods: another value is another template. */
function podAnnotations(
  { metadata, spec }: Pick<VecCluster, 'metadata' | 'spec'>,
  { keys, certificateMark }: ValueOptions,
): Values {
  const mark = metadata.annotations?.[ANNOTATIONS.restart]
  const annotations = {
    ...spec.podAnnotations,
    ...(mark !== undefined && { [ANNOTATIONS.restart]: mark }),
    ...(keys?.restartedAfter !== undefined && {
      [ANNOTATIONS.keysRead]: String(keys.restartedAfter),
    }),
    ...(certificateMark !== undefined && { [ANNOTATIONS.certificate]: certificateMark }),
  }
  return Object.keys(annotations).length === 0 ? {} : { podAnnotations: annotations }
}

/** Added to the chart's security contexts for the Pod Security Standard `restricted`. */
const RESTRICTED = {
  pod: { seccompProfile: { type: 'RuntimeDefault' } },
  container: { capabilities: { drop: ['ALL'] } },
}

/** Added to those of the chart. The chart's init container uses the user and the group of the volumes. */
function securityContexts({ image, securityContext = {} }: ClusterSpec): Values {
  const { runAsUser, runAsGroup, ...ofPod } = securityContext
  const restricted = image.unprivileged === true ? RESTRICTED : undefined
  const pod = { ...restricted?.pod, ...ofPod }
  const container = {
    ...restricted?.container,
    ...(runAsUser !== undefined && { runAsUser }),
    ...(runAsGroup !== undefined && { runAsGroup }),
  }
  return {
    ...(Object.keys(pod).length > 0 && { podSecurityContext: pod }),
    ...(Object.keys(container).length > 0 && { containerSecurityContext: container }),
  }
}

/**
 * With the unprivileged image the chart has no container that runs as root. The chart compares the tag as a
 * version, so the digest is added to the rendered image (jobs/cluster/post-render.ts).
 */
function image(spec: ClusterSpec['image']): Values {
  const { unprivileged, digest: _, ...rest } = spec
  return unprivileged === true ? { ...rest, useUnprivilegedImage: true } : rest
}

/** Carried out by the operator: they must not change the values of existing releases. */
const OPERATOR_FIELDS = ['onScaleIn', 'onDelete', 'autoGrow']

function persistence(
  spec: ClusterSpec['persistence'],
  { dataVolumeSize = spec.size }: ValueOptions,
): Values {
  const fields = Object.entries(spec).filter(([field]) => !OPERATOR_FIELDS.includes(field))
  return { ...Object.fromEntries(fields), size: dataVolumeSize }
}

const PASSED_THROUGH = [
  'topologySpreadConstraints',
  'priorityClassName',
  'terminationGracePeriodSeconds',
  'minReadySeconds',
  'imagePullSecrets',
  'podLabels',
] as const

function passedThrough(spec: ClusterSpec): Values {
  return Object.fromEntries(
    PASSED_THROUGH.flatMap((field) => (spec[field] === undefined ? [] : [[field, spec[field]]])),
  )
}

const HOST_WEIGHT = 100
const ZONE_WEIGHT = 50

/**
 * Two nodes on one Kubernetes node, or in one zone, are lost together. A preference only: a small
 * Kubernetes cluster runs them all the same.
 */
function affinity(
  specified: ClusterSpec['affinity'],
  release: string,
  { defaultAffinity = false }: ValueOptions,
): Values {
  if (specified !== undefined) return { affinity: specified }
  if (!defaultAffinity) return {}
  const preference = (weight: number, topologyKey: string) => ({
    weight,
    podAffinityTerm: {
      topologyKey,
      labelSelector: { matchLabels: { 'app.kubernetes.io/instance': release } },
    },
  })
  const preferences = [
    preference(HOST_WEIGHT, 'kubernetes.io/hostname'),
    preference(ZONE_WEIGHT, 'topology.kubernetes.io/zone'),
  ]
  return {
    affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: preferences } },
  }
}

/** A majority of three nodes remains if one is evicted; of fewer, none may be missing. */
const DISRUPTION_BUDGET_NODES = 3

function disruptionBudget(spec: ClusterSpec): Values {
  if (!hasDisruptionBudget(spec)) return {}
  const { maxUnavailable } = spec.podDisruptionBudget
  return {
    // A node that is not ready must not keep a Kubernetes node from being drained.
    podDisruptionBudget: {
      enabled: true,
      maxUnavailable,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  }
}

/** Values of both keys of a rotation are read from the Secret of the operator, as the Secret of the user changes. */
function keyValues(cluster: string, apiKey: ClusterSpec['apiKey'], { keys }: ValueOptions): Values {
  if (keys === undefined) return { apiKey: apiKeyValue(apiKey) }
  const env = keyVariables(cluster, keys)
  return {
    apiKey: { valueFrom: { secretKeyRef: keyReference(cluster, keys.published) } },
    ...(env.length > 0 && { env }),
  }
}

function apiKeyValue(source: ClusterSpec['readOnlyApiKey']): unknown {
  if (source?.secretRef !== undefined) {
    const { name, key } = source.secretRef
    return { valueFrom: { secretKeyRef: { name, key } } }
  }
  return source?.autoGenerate ?? false
}

/** The chart's default, in seconds. */
const SCRAPE_TIMEOUT = 10

function serviceMonitor({ enabled, serviceMonitor: monitor }: ClusterSpec['metrics']): Values {
  // The Prometheus operator ignores a ServiceMonitor whose timeout is longer than its interval.
  const isShort = parseDuration(monitor.interval) < SCRAPE_TIMEOUT
  return {
    enabled: enabled && monitor.enabled,
    scrapeInterval: monitor.interval,
    ...(isShort && { scrapeTimeout: monitor.interval }),
    additionalLabels: monitor.labels,
  }
}

function tlsMount({ enabled, secretRef }: ClusterSpec['tls']): Values {
  if (!enabled || secretRef === undefined) return {}
  return {
    additionalVolumes: [{ name: 'tls', secret: { secretName: secretRef.name } }],
    additionalVolumeMounts: [{ name: 'tls', mountPath: TLS_DIRECTORY, readOnly: true }],
  }
}

/** The operator's own entries in the engine's configuration file. */
function operatorConfig(
  { cluster, apiKey, tls, resharding }: ClusterSpec,
  { hasCaCertificate }: ValueOptions,
): Values {
  const service = {
    ...(tls.enabled && { enable_tls: true }),
    ...(apiKey?.jwtRbac === true && { jwt_rbac: true }),
  }
  const caFile = hasCaCertificate ? 'ca.crt' : 'tls.crt'
  return {
    cluster: {
      enabled: cluster.enabled,
      p2p: { port: cluster.p2p.port, enable_tls: cluster.p2p.enableTls },
      // Off, it must not change the values of existing releases.
      ...(resharding === true && { resharding_enabled: true }),
    },
    ...(Object.keys(service).length > 0 && { service }),
    ...(tls.enabled && {
      tls: {
        cert: `${TLS_DIRECTORY}/tls.crt`,
        key: `${TLS_DIRECTORY}/tls.key`,
        // The CA the engine trusts between its nodes; without it nodes with p2p TLS do not start.
        ca_cert: `${TLS_DIRECTORY}/${caFile}`,
      },
    }),
  }
}

/** Whether the chart renders a PodDisruptionBudget. */
export function hasDisruptionBudget({ replicas, podDisruptionBudget }: ClusterSpec): boolean {
  return podDisruptionBudget.enabled ?? replicas >= DISRUPTION_BUDGET_NODES
}

/** Deep merge of maps; any other value in `overrides` replaces the base value. */
function deepMerge(base: Values, overrides: Values): Values {
  const merged = { ...base }
  for (const [key, value] of Object.entries(overrides)) {
    const baseValue = merged[key]
    merged[key] = isMap(baseValue) && isMap(value) ? deepMerge(baseValue, value) : value
  }
  return merged
}

export function isMap(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

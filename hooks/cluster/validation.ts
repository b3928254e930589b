/**
 * Validation before a helm run: rejects settings and Secrets that would do harm or cannot be applied, and
 * computes the fingerprints of the referenced Secrets. Volumes are checked in volumes.ts.
 */
import { createHash } from 'node:crypto'
import { Value } from '@sinclair/typebox/value'
import { parse } from 'yaml'
import type { ClusterSpec, VecCluster } from '../../crds/cluster.ts'
import { Risk } from '../../crds/contract/job.ts'
import { ANNOTATIONS, HTTP_PORT } from '../../crds/contract/names.ts'
import type { Secret, StatefulSet } from '../../crds/kubernetes.ts'
import { compareMinors, isOlder } from '../../crds/versions.ts'
import { isCredentialType } from '../../crds/storage.ts'
import { imageError, podTemplateError, type AppliedImage } from './pod-template.ts'
import { isMap } from './values.ts'
import { emptyVolumeError, volumeError } from './volumes.ts'

interface FixedEntry {
  /** Path in the engine's configuration. */
  entry: string
  /** The value the operator relies on. */
  value: (spec: ClusterSpec) => unknown
  /** Where that value comes from. */
  source: string
}

/**
 * Entries that the operator depends on: with other values the Service, the probes, the status and API calls
 * would disagree with the engine. Users may set all other entries, including those below `tls`.
 */
const FIXED_ENTRIES: readonly FixedEntry[] = [
  ...[
    ['cluster.enabled', (spec: ClusterSpec) => spec.cluster.enabled] as const,
    ['cluster.p2p.port', (spec: ClusterSpec) => spec.cluster.p2p.port] as const,
  ].map(([entry, value]) => ({ entry, value, source: `spec.${entry}` })),
  {
    entry: 'cluster.p2p.enable_tls',
    value: ({ cluster }) => cluster.p2p.enableTls,
    source: 'spec.cluster.p2p.enableTls',
  },
  {
    entry: 'cluster.resharding_enabled',
    // A user may switch it on for a driver of their own.
    value: ({ resharding, config }) =>
      resharding === true ? true : valueAt(config, 'cluster.resharding_enabled'),
    source: 'spec.resharding',
  },
  { entry: 'service.enable_tls', value: ({ tls }) => tls.enabled, source: 'spec.tls.enabled' },
  {
    entry: 'service.jwt_rbac',
    value: ({ apiKey }) => apiKey?.jwtRbac ?? false,
    source: 'spec.apiKey.jwtRbac',
  },
  { entry: 'service.http_port', value: () => HTTP_PORT, source: 'the Service of the chart' },
  { entry: 'service.grpc_port', value: () => GRPC_PORT, source: 'the Service of the chart' },
]
const GRPC_PORT = 6334
/** Keys here would be readable by anyone who may read ConfigMaps, and unknown to the operator. */
const KEY_ENTRIES: readonly (readonly [entry: string, field: string])[] = [
  ['service.api_key', 'spec.apiKey.secretRef'],
  ['service.alt_api_key', 'spec.apiKey.secretRef'],
  ['service.read_only_api_key', 'spec.readOnlyApiKey.secretRef'],
]
/** A value other than a map would remove the operator's entries in it. */
const MAP_ENTRIES = ['cluster', 'cluster.p2p', 'service', 'tls']

/**
 * The least patch of each minor version with which it has passed its runs on real engines under kills
 * (test/nodes/resharding.ts). Earlier patches lose points or queries during it.
 */
const PROVEN: readonly string[] = ['1.18.3', '1.19.0']

/** Why no helm run may start with this spec, with the field's name; undefined if it may start. */
export function validateSpec(
  cluster: VecCluster,
  statefulSet: StatefulSet | undefined,
  dataSize = cluster.spec.persistence.size,
): string | undefined {
  return (
    configError(cluster.spec) ??
    templateError(cluster.spec) ??
    imageError(cluster.spec, appliedImage(cluster)) ??
    podTemplateError(cluster.spec) ??
    reshardingError(cluster.spec) ??
    portError(cluster.spec) ??
    emptyVolumeError(cluster.spec) ??
    (statefulSet && (distributionError(cluster) ?? volumeError(cluster, statefulSet, dataSize)))
  )
}

/** Why spec.resharding cannot be used; undefined if it is off or may be. */
export function reshardingError(
  { resharding, version, cluster }: ClusterSpec,
  proven: readonly string[] = PROVEN,
): string | undefined {
  if (resharding !== true) return undefined
  if (!cluster.enabled) return 'spec.resharding requires spec.cluster.enabled true'
  const isProven = proven.some(
    (least) => compareMinors(least, version) === 0 && !isOlder(version, least),
  )
  if (isProven) return undefined
  return `spec.resharding requires spec.version ${proven.join(' or ')} or a later patch of it: set spec.resharding to false for ${version}`
}

/** The spec asks for it, and it may be used. */
export function isReshardingOn(spec: ClusterSpec, proven = PROVEN): boolean {
  return spec.resharding === true && reshardingError(spec, proven) === undefined
}

/**
 * One of the two servers would not start: the node is never ready, or answers gRPC clients as a peer, without an API key.
 */
function portError({ cluster }: ClusterSpec): string | undefined {
  const { port } = cluster.p2p
  if (!cluster.enabled || (port !== HTTP_PORT && port !== GRPC_PORT)) return undefined
  return `spec.cluster.p2p.port is ${port}, where nodes listen for clients: it is immutable, so delete this VecCluster and create it with another port`
}

function configError(spec: ClusterSpec): string | undefined {
  const { config } = spec
  for (const entry of MAP_ENTRIES) {
    const value = valueAt(config, entry)
    if (value !== undefined && !isMap(value)) return `spec.config.${entry} must be a map`
  }
  for (const [entry, field] of KEY_ENTRIES) {
    if (valueAt(config, entry) !== undefined) {
      return `spec.config.${entry} would store a key in a ConfigMap: use ${field}`
    }
  }
  for (const { entry, value, source } of FIXED_ENTRIES) {
    const [operatorValue, userValue] = [value(spec), valueAt(config, entry)]
    if (userValue !== undefined && userValue !== operatorValue) {
      return `spec.config.${entry} is ${JSON.stringify(userValue)}, but ${source} has ${JSON.stringify(operatorValue)}: remove the entry`
    }
  }
  return undefined
}

export function valueAt(config: unknown, path: string): unknown {
  return path
    .split('.')
    .reduce<unknown>((value, key) => (isMap(value) ? value[key] : undefined), config)
}

/** The chart evaluates templates in these fields with helm's permissions: a user could read any Secret. */
function templateError({
  config,
  affinity,
  topologySpreadConstraints,
}: ClusterSpec): string | undefined {
  const templated = { config, affinity, topologySpreadConstraints }
  for (const [field, value] of Object.entries(templated)) {
    if (JSON.stringify(value ?? {}).includes('{{')) {
      return `spec.${field} contains "{{", which the chart would evaluate as a template: remove it`
    }
  }
  return undefined
}

/**
 * The first node must run in distributed mode before others can join. Otherwise the new pods never become
 * Ready, and the StatefulSet replaces the first pod only after they are.
 */
function distributionError({ metadata, spec }: VecCluster): string | undefined {
  const applied = appliedSpec({ metadata })
  if (spec.replicas === 1 || valueAt(applied, 'cluster.enabled') !== false) return undefined
  return `spec.replicas is ${spec.replicas}, but spec.cluster.enabled is not applied yet: set spec.replicas to 1 until the cluster is Running with it`
}

/** Number of nodes that the last successful helm run applied; undefined if it is not known. */
export function appliedReplicas(cluster: VecCluster): number | undefined {
  const replicas = valueAt(appliedSpec(cluster), 'replicas')
  return typeof replicas === 'number' ? replicas : undefined
}

function appliedImage(cluster: VecCluster): AppliedImage {
  const applied = appliedSpec(cluster)
  return {
    version: valueAt(applied, 'version'),
    digest: valueAt(applied, 'image.digest'),
    unprivileged: valueAt(applied, 'image.unprivileged'),
  }
}

function appliedSpec({ metadata }: Pick<VecCluster, 'metadata'>): unknown {
  return parseAppliedSpec(metadata.annotations?.[ANNOTATIONS.lastAppliedSpec])
}

/** A user may have changed the annotation. */
export function parseAppliedSpec(text = 'null'): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What the user accepts by annotation. */
export function acceptedRisks({ metadata }: VecCluster): Risk[] {
  const risks = (metadata.annotations?.[ANNOTATIONS.acceptRisk] ?? '').split(',')
  return risks.map((risk) => risk.trim()).filter((risk) => Value.Check(Risk, risk))
}

export interface SecretRef {
  /** Field of the spec that references the Secret. */
  field: string
  name: string
  /** Keys the Secret must have. */
  keys: string[]
  kind: 'key' | 'certificate'
}

/** Every Secret that the spec references. */
export function referencedSecrets({ apiKey, readOnlyApiKey, tls }: ClusterSpec): SecretRef[] {
  const keys = Object.entries({ apiKey, readOnlyApiKey }).flatMap(([field, source]) =>
    source?.secretRef === undefined
      ? []
      : [
          {
            field: `spec.${field}.secretRef`,
            name: source.secretRef.name,
            keys: [source.secretRef.key],
            kind: 'key' as const,
          },
        ],
  )
  if (!tls.enabled || tls.secretRef === undefined) return keys
  return [
    ...keys,
    {
      field: 'spec.tls.secretRef',
      name: tls.secretRef.name,
      keys: ['tls.crt', 'tls.key'],
      kind: 'certificate',
    },
  ]
}

/**
 * Why helm must not run with these Secrets; undefined if it may. With a missing or empty key the engine
 * would start without authentication; a key that YAML parses differently would lock the operator out.
 */
export function validateSecrets(
  references: SecretRef[],
  secrets: ReadonlyMap<string, Secret>,
): string | undefined {
  for (const reference of references) {
    const error = secretError(reference, secrets.get(reference.name))
    if (error !== undefined) return `${reference.field}: Secret ${reference.name} ${error}`
  }
  return undefined
}

function secretError({ keys, kind }: SecretRef, secret: Secret | undefined): string | undefined {
  if (secret === undefined) return 'does not exist'
  if (kind === 'certificate' && secret.type !== 'kubernetes.io/tls') {
    return `is of type ${secret.type ?? 'Opaque'}, not kubernetes.io/tls`
  }
  if (kind === 'key' && !isCredentialType(secret.type ?? 'Opaque', keys)) {
    return `is of type ${secret.type ?? 'Opaque'}, which cannot hold credentials`
  }
  for (const key of keys) {
    const encoded = secret.data?.[key]
    if (encoded === undefined) return `has no key ${key}`
    if (encoded === '') return `has an empty key ${key}`
    if (kind === 'certificate') continue
    // Check the length before decoding, then exactly after decoding.
    const value =
      encoded.length > 2 * MAX_KEY_BYTES ? encoded : Buffer.from(encoded, 'base64').toString()
    if (value.length > MAX_KEY_BYTES) return `has a key ${key} of more than ${MAX_KEY_BYTES} bytes`
    if (value === '') return `has an empty key ${key}`
    const yamlError = yamlTextError(value)
    if (yamlError !== undefined) return `has a key ${key} ${yamlError}`
  }
  return undefined
}

/** Parsing a megabyte of YAML would take minutes. */
const MAX_KEY_BYTES = 4096
const NOT_YAML_SAFE = 'that YAML does not parse as the same text: use letters and digits'

/** The chart writes the key verbatim into a YAML file, without quotes. */
function yamlTextError(text: string): string | undefined {
  if (/[\r\n]/.test(text)) return 'that contains a line break'
  if (!/^[\x21-\x7e]+$/.test(text) || text.includes('{{')) return NOT_YAML_SAFE
  const readsAsText = (['1.1', '1.2'] as const).every((version) => {
    try {
      return (parse(`key: ${text}`, { version }) as { key: unknown }).key === text
    } catch {
      return false
    }
  })
  return readsAsText ? undefined : NOT_YAML_SAFE
}

/** The first 16 hex digits of the SHA-256 of the used values, by Secret name. */
export function fingerprints(
  references: SecretRef[],
  secrets: ReadonlyMap<string, Secret>,
): Record<string, string> {
  const used = new Map<string, string[]>()
  for (const { name, keys, kind } of references) {
    const ofReference = kind === 'certificate' ? [...keys, 'ca.crt'] : keys
    // Several references may name one Secret.
    used.set(name, [...(used.get(name) ?? []), ...ofReference])
  }
  return Object.fromEntries(
    [...used].map(([name, keys]) => {
      const data = secrets.get(name)?.data ?? {}
      const content = JSON.stringify(keys.map((key) => data[key] ?? null))
      return [name, createHash('sha256').update(content).digest('hex').slice(0, 16)]
    }),
  )
}

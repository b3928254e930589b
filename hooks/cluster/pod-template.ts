/** Checks the fields of a VecCluster that become part of the template of its pods. */
import { IMAGE_DIGEST, IMAGE_REPOSITORY } from '../../crds/cluster-sections.ts'
import type { ClusterSpec } from '../../crds/cluster.ts'
import { API_GROUP, isDnsName, SECRET_CHECKSUM } from '../../crds/contract/names.ts'
import { chartVersion } from '../../crds/versions.ts'

/** Why these fields cannot be used, with the name of the field; undefined if they can. */
export function podTemplateError({ podLabels, podAnnotations }: ClusterSpec): string | undefined {
  return (
    keysError('spec.podLabels', podLabels, LABELS) ??
    labelValueError(podLabels) ??
    keysError('spec.podAnnotations', podAnnotations, ANNOTATIONS)
  )
}

/** Of the spec that was applied last; a user may have changed it. */
export interface AppliedImage {
  version: unknown
  digest: unknown
  unprivileged: unknown
}

/**
 * Why this image cannot be used after the applied one. The CRD checks the texts too, but an object admitted
 * by an older CRD may contain anything.
 */
export function imageError(
  { version, image }: ClusterSpec,
  applied: AppliedImage,
): string | undefined {
  const { repository, digest } = image
  if (!new RegExp(IMAGE_REPOSITORY).test(repository)) {
    return 'spec.image.repository must be a registry and path without a tag: the chart would parse other text as YAML'
  }
  if (digest === undefined) return undefined
  if (!new RegExp(IMAGE_DIGEST).test(digest)) {
    return 'spec.image.digest must be sha256: and 64 hex digits in lower case'
  }
  if (applied.digest !== digest || typeof applied.version !== 'string') return undefined
  // Kubernetes ignores the tag of an image with a digest: the former image would run as the new version.
  const formerTag = imageTag(applied.version, applied.unprivileged)
  const tag = imageTag(version, image.unprivileged)
  if (formerTag === tag) return undefined
  return `spec.image.digest is the digest of ${formerTag}, but the spec requires ${tag}: set the digest of that image too, or remove spec.image.digest`
}

function imageTag(version: string, unprivileged: unknown): string {
  return `${chartVersion(version)}${unprivileged === true ? '-unprivileged' : ''}`
}

type Message = (field: string, key: string) => string

const byChart: Message = (field, key) =>
  `${field} has "${key}", which the engine chart sets: remove it`
const byKubernetes: Message = (field, key) =>
  `${field} has "${key}", which Kubernetes sets: remove it`

/** The StatefulSet and the Services select the pods by the first three. */
const LABELS = new Map([
  ['app', byChart],
  ['app.kubernetes.io/name', byChart],
  ['app.kubernetes.io/instance', byChart],
  ['controller-revision-hash', byKubernetes],
  ['statefulset.kubernetes.io/pod-name', byKubernetes],
  ['apps.kubernetes.io/pod-index', byKubernetes],
])

/** With another value, the pods would not be restarted for a change of the configuration or a key. */
const ANNOTATIONS = new Map([
  ['checksum/config', byChart],
  [SECRET_CHECKSUM, byChart],
])

const NAME = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/
/** A longer key is cut in messages. */
const MAX_KEY_TEXT = 80

function keysError(
  field: string,
  map: Record<string, string> | undefined,
  reserved: ReadonlyMap<string, Message>,
): string | undefined {
  for (const key of Object.keys(map ?? {})) {
    const message = reserved.get(key)
    if (message !== undefined) return message(field, key)
    if (!isKey(key)) {
      return `${field}: the key ${JSON.stringify(key.slice(0, MAX_KEY_TEXT))} must be a name of at most 63 letters, digits, "-", "_" and ".", with or without a DNS name and "/" before it`
    }
    if (isOfOperator(key)) return `${field} has "${key}", which belongs to the operator: remove it`
  }
  return undefined
}

function isKey(key: string): boolean {
  const [name = '', prefix, ...rest] = key.split('/').toReversed()
  if (rest.length > 0 || !NAME.test(name)) return false
  return prefix === undefined || isDnsName(prefix)
}

function isOfOperator(key: string): boolean {
  const [prefix = ''] = key.split('/')
  return prefix === API_GROUP || prefix.endsWith(`.${API_GROUP}`)
}

function labelValueError(labels: Record<string, string> = {}): string | undefined {
  for (const [key, value] of Object.entries(labels)) {
    if (value !== '' && !NAME.test(value)) {
      return `spec.podLabels: the value of "${key}" must be empty or at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends`
    }
  }
  return undefined
}

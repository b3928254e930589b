/** What a spec names, made so that nothing is missing: clusters, Secrets and backups, found by their fields. */
import type { ApiObject } from '../world/client.ts'
import {
  API_VERSION,
  apiKeySecretName,
  API_KEY_SECRET_KEY,
  releaseName,
} from '../../crds/contract/names.ts'
import { ago, cluster, secret, statefulSet } from '../builders.ts'
import { backup } from '../hooks/backup/objects.ts'
import { isRecord } from '../world/api/json.ts'

/** Everything a resource refers to. */
export function surroundingsOf({ metadata, spec }: ApiObject): ApiObject[] {
  const { namespace = '' } = metadata
  return referencesIn(spec).flatMap((reference) => objectsFor(reference, namespace))
}

/** What a helm run of a cluster leaves behind. */
export function releaseOf(namespace: string, name: string): ApiObject[] {
  const release = releaseName(name)
  return [
    { ...statefulSet(1), metadata: { name: release, namespace } },
    secretAt(namespace, apiKeySecretName(name), [API_KEY_SECRET_KEY]),
  ]
}

interface NamedReference {
  /** Name of the field. */
  field: string
  to: Record<string, unknown>
}

function referencesIn(value: unknown): NamedReference[] {
  if (Array.isArray(value)) return value.flatMap(referencesIn)
  if (!isRecord(value)) return []
  return Object.entries(value).flatMap(([field, inner]) => [
    ...(isRecord(inner) && typeof inner['name'] === 'string' ? [{ field, to: inner }] : []),
    ...referencesIn(inner),
  ])
}

function objectsFor({ field, to }: NamedReference, home: string): ApiObject[] {
  const name = String(to['name'])
  const namespace = typeof to['namespace'] === 'string' ? to['namespace'] : home
  if (/clusterRef$/i.test(field)) return [clusterAt(namespace, name), ...releaseOf(namespace, name)]
  if (/backupRef$/i.test(field)) {
    const found = backupAt(namespace, name)
    return [found, ...surroundingsOf(found)]
  }
  if (/secretRef$/i.test(field)) return [secretAt(home, name, keysOf(to))]
  return []
}

/** Names of the keys that are read, whatever the fields are called that hold them. */
function keysOf(reference: Record<string, unknown>): string[] {
  const named = Object.entries(reference).filter(([field]) => /key$/i.test(field))
  return [...named.map(([, key]) => String(key)), 'tls.crt', 'tls.key', 'ca.crt']
}

function clusterAt(namespace: string, name: string): ApiObject {
  const conditions = [
    {
      ...{ type: 'Ready', status: 'True' as const, reason: 'AllReady', message: 'as specified' },
      lastTransitionTime: ago(60),
    },
  ]
  const spec = { apiKey: { autoGenerate: true, jwtRbac: true } }
  const made = cluster({ name, spec, status: { phase: 'Running', conditions } })
  return { ...made, metadata: { name, namespace, annotations: allowed } }
}

const allowed = { 'vec-operator.dev/allowed-namespaces': '*' }

function backupAt(namespace: string, name: string): ApiObject {
  const made = backup({ status: { phase: 'Completed' } })
  return { ...made, apiVersion: API_VERSION, metadata: { name, namespace, annotations: allowed } }
}

/** What YAML reads as text, and the engine takes for a key. */
const VALUE = 'a-key-of-thirty-two-letters-long'

function secretAt(namespace: string, name: string, keys: string[]): ApiObject {
  const made = secret(Object.fromEntries(keys.map((key) => [key, VALUE])))
  return { ...made, metadata: { name, namespace } }
}

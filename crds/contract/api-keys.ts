/**
 * The API keys of a VecCluster while its key is rotated without a gap. Nodes accept two keys then. They
 * read both from a Secret of the operator, in which the name of a value says which key it is: a node that
 * restarts in the middle, from whichever template, starts with the keys that it had.
 */
import { hash } from 'node:crypto'
import { Type, type Static } from '@sinclair/typebox'
import type { Secret, StatefulSet } from '../kubernetes.ts'
import { isOlder } from '../versions.ts'
import { apiKeySecretName, keysSecretName } from './names.ts'

const FINGERPRINT_DIGITS = 16
const ENTRY_PREFIX = 'key-'
/** Names of a key of the engine's configuration. */
const MAIN_KEY_VARIABLE = 'QDRANT__SERVICE__API_KEY'
const SECOND_KEY_VARIABLE = 'QDRANT__SERVICE__ALT_API_KEY'

/** The first release of the engine with service.alt_api_key. */
const SECOND_KEY_SINCE = '1.17.0'

/** Type of the Secret with the keys. */
export const KEYS_SECRET_TYPE = 'vec-operator.dev/api-keys'

function Fingerprint() {
  return Type.String({ maxLength: FINGERPRINT_DIGITS })
}

/** Keys by their fingerprints. */
export const ReleaseKeys = Type.Object({
  /** The key in `vec-<name>-apikey`, with which the operator and clients call. */
  published: Fingerprint(),
  /** What the template of the pods accepts, the main key first. */
  accepted: Type.Array(Fingerprint(), { minItems: 1, maxItems: 2 }),
  /** The other accepted key, if it was published before. */
  former: Type.Optional(Fingerprint()),
  /** Pods that started without these keys are restarted: number of the helm run before the restart, an annotation of their template. */
  restartedAfter: Type.Optional(Type.Integer({ minimum: 0 })),
})
export type ReleaseKeys = Static<typeof ReleaseKeys>

/** What a helm run does about them. */
export const PlannedKeys = Type.Object({
  ...ReleaseKeys.properties,
  /** The published key that the plan was made for; absent if there was none. */
  replaces: Type.Optional(Fingerprint()),
  /** The Secret of the user, if the spec names one. */
  source: Type.Optional(Type.Object({ name: Type.String(), key: Type.String() })),
  /** Nodes do not read what changes in `vec-<name>-apikey`: they are not restarted for it. */
  keepsPods: Type.Optional(Type.Literal(true)),
})
export type PlannedKeys = Static<typeof PlannedKeys>

/** The first 16 hex digits of the SHA-256 of a key. */
export function keyFingerprint(key: string): string {
  return hash('sha256', key).slice(0, FINGERPRINT_DIGITS)
}

/** Name of a key in the Secret of the operator. */
export function keyEntry(fingerprint: string): string {
  return `${ENTRY_PREFIX}${fingerprint}`
}

/** The keys of the Secret by fingerprint. A value under the name of another is ignored. */
export function storedKeys(secret: Pick<Secret, 'type' | 'data'> | undefined): Map<string, string> {
  if (secret?.type !== KEYS_SECRET_TYPE) return new Map()
  return new Map(
    Object.entries(secret.data ?? {}).flatMap(([name, encoded]) => {
      const key = Buffer.from(encoded, 'base64').toString()
      const fingerprint = keyFingerprint(key)
      return name === keyEntry(fingerprint) ? [[fingerprint, key] as const] : []
    }),
  )
}

/** Whether nodes of this version can accept two keys. */
export function hasSecondKey(version: string): boolean {
  return !isOlder(version, SECOND_KEY_SINCE)
}

interface EnvVariable {
  name: string
  valueFrom: { secretKeyRef: { name: string; key: string; optional: true } }
}

/** Variables that win over the key in the configuration file; none if one key is accepted. */
export function keyVariables(cluster: string, { accepted }: Pick<ReleaseKeys, 'accepted'>) {
  const [main, second] = accepted
  if (main === undefined || second === undefined) return []
  const variable = (name: string, fingerprint: string): EnvVariable => ({
    name,
    // Without the value, a node starts with the published key alone rather than not at all.
    valueFrom: { secretKeyRef: { ...keyReference(cluster, fingerprint), optional: true } },
  })
  return [variable(MAIN_KEY_VARIABLE, main), variable(SECOND_KEY_VARIABLE, second)]
}

export function keyReference(cluster: string, fingerprint: string): { name: string; key: string } {
  return { name: keysSecretName(cluster), key: keyEntry(fingerprint) }
}

/** The keys that the newest template of the pods accepts by variables, the main key first. */
export function templateKeys(set: Pick<StatefulSet, 'spec'> | undefined): string[] {
  const variables = (set?.spec.template?.spec?.containers ?? []).flatMap(({ env = [] }) => env)
  return [MAIN_KEY_VARIABLE, SECOND_KEY_VARIABLE].flatMap((name) => {
    const variable = variables.find((entry) => entry.name === name)
    const entry = variable?.valueFrom?.secretKeyRef?.key
    return entry?.startsWith(ENTRY_PREFIX) ? [entry.slice(ENTRY_PREFIX.length)] : []
  })
}

/** Why nodes do not answer: `codes` are their status codes, `by` names them. */
export function keyRefused(cluster: string, codes: readonly number[], by: string): string {
  const answered = [...new Set(codes)].join(', ')
  return `the API key in Secret ${apiKeySecretName(cluster)} is refused (${answered}) by ${by}, which use another key`
}

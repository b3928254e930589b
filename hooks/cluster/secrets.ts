/**
 * The Secrets a release uses. A missing or empty key would start an engine that is open to everybody,
 * and one that YAML reads as something else would lock the operator out, so each is looked at
 * before helm runs (facts: API keys).
 */
import { createHash } from 'node:crypto'
import { parse } from 'yaml'
import type { ClusterSpec } from '../../crds/cluster.ts'
import type { Secret } from '../../crds/kubernetes.ts'

export interface SecretUse {
  /** Field of the spec that names the Secret. */
  field: string
  name: string
  /** Keys it must have. */
  keys: string[]
  kind: 'key' | 'certificate'
}

/** Every Secret that the spec names. */
export function usedSecrets({ apiKey, readOnlyApiKey, tls }: ClusterSpec): SecretUse[] {
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

/** Why helm must not run with these Secrets; undefined when it may. */
export function secretProblem(
  uses: SecretUse[],
  secrets: ReadonlyMap<string, Secret>,
): string | undefined {
  for (const use of uses) {
    const problem = problemOf(use, secrets.get(use.name))
    if (problem !== undefined) return `${use.field}: Secret ${use.name} ${problem}`
  }
  return undefined
}

function problemOf({ keys, kind }: SecretUse, secret: Secret | undefined): string | undefined {
  if (secret === undefined) return 'does not exist'
  if (kind === 'certificate' && secret.type !== 'kubernetes.io/tls') {
    return `is of type ${secret.type ?? 'Opaque'}, not kubernetes.io/tls`
  }
  for (const key of keys) {
    const encoded = secret.data?.[key]
    if (encoded === undefined) return `has no key ${key}`
    if (encoded === '') return `has an empty key ${key}`
    if (kind === 'certificate') continue
    // Before it is decoded, and once more to the byte.
    const value = encoded.length > 2 * MAX_KEY_BYTES ? encoded : decoded(encoded)
    if (value.length > MAX_KEY_BYTES) return `has a key ${key} of more than ${MAX_KEY_BYTES} bytes`
    if (value === '') return `has an empty key ${key}`
    const unfit = unfitForYaml(value)
    if (unfit !== undefined) return `has a key ${key} ${unfit}`
  }
  return undefined
}

/** Parsing a megabyte would take minutes. */
const MAX_KEY_BYTES = 4096
const UNFIT = 'that YAML would not read as the same text: use letters and digits'

/** The chart writes the key into a YAML file as it is, without quotes. */
function unfitForYaml(text: string): string | undefined {
  if (/[\r\n]/.test(text)) return 'that holds a line break'
  if (!/^[\x21-\x7e]+$/.test(text) || text.includes('{{')) return UNFIT
  const readsAsText = (['1.1', '1.2'] as const).every((version) => {
    try {
      return (parse(`key: ${text}`, { version }) as { key: unknown }).key === text
    } catch {
      return false
    }
  })
  return readsAsText ? undefined : UNFIT
}

/** One value of a Secret, decoded. */
export function contentOf(secret: Secret, key: string): string | undefined {
  const encoded = secret.data?.[key]
  return encoded === undefined ? undefined : decoded(encoded)
}

function decoded(encoded: string): string {
  return Buffer.from(encoded, 'base64').toString()
}

/** First sixteen hex digits of a SHA-256 over the values in use, by the name of the Secret. */
export function fingerprints(
  uses: SecretUse[],
  secrets: ReadonlyMap<string, Secret>,
): Record<string, string> {
  return Object.fromEntries(
    uses.map(({ name, keys, kind }) => {
      const data = secrets.get(name)?.data ?? {}
      const used = kind === 'certificate' ? [...keys, 'ca.crt'] : keys
      const content = JSON.stringify(used.map((key) => data[key] ?? null))
      return [name, createHash('sha256').update(content).digest('hex').slice(0, 16)]
    }),
  )
}

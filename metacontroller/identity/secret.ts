/**
 * What the hook service proves itself with, in one Secret: the authority of its certificates, the tokens
 * that Metacontroller sends, and the key that signs Jobs. The chart makes the Secret empty and the
 * service fills it, so that nothing random is made while a chart is rendered.
 */
import { randomBytes, X509Certificate } from 'node:crypto'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { Secret } from '../../crds/kubernetes.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { secrets } from '../ports/api-resources.ts'
import { createOrReplace } from '../ports/conditional-writes.ts'
import { newAuthority, type KeyPair } from './certificates.ts'

/** Content of the Secret, decoded. */
export type IdentityData = Record<string, string>

export interface IdentityRequirements {
  now: Date
  /** Another word than that of the last time makes a new token. */
  rotation: string
  /** Whether the service signs its own certificates. */
  ownTls: boolean
}

const DAY_MS = 86_400_000
const AUTHORITY_DAYS = 3650
/** What is left of the authority when the next one is made. */
const AUTHORITY_RENEW_BEFORE_DAYS = 730
const TOKEN_DAYS = 30
/** How long the token before the newest one is accepted. */
const TOKEN_OVERLAP_MS = DAY_MS

const KEYS = { ca: 'ca.crt', caKey: 'ca.key', jobs: 'job-key', rotation: 'rotation' } as const
/** `token.20261123T185341Z`: the time it was made, so that names sort by age. */
const TOKEN_NAME = /^token\.\d{8}T\d{6}Z$/

/** The same data with everything that must be in it; equal to what was given where nothing is due. */
export function completeData(
  data: IdentityData,
  { now, rotation, ownTls }: IdentityRequirements,
): IdentityData {
  const retained = Object.fromEntries(
    Object.entries(data).filter(([name]) => !TOKEN_NAME.test(name) || isAccepted(name, data, now)),
  )
  const needsToken = isTokenDue(retained, now) || (data[KEYS.rotation] ?? '') !== rotation
  return {
    ...retained,
    ...(needsToken && { [tokenName(now)]: randomSecret() }),
    [KEYS.rotation]: rotation,
    [KEYS.jobs]: retained[KEYS.jobs] ?? randomSecret(),
    ...(ownTls && renewedAuthority(retained, now)),
  }
}

/** Accepted tokens; the newest one, which Metacontroller is to send, comes first. */
export function acceptedTokens(data: IdentityData): { name: string; token: string }[] {
  return tokenNames(data).map((name) => ({ name, token: data[name] ?? '' }))
}

/** What signs Jobs; it outlives all tokens, since a Job may run for days. */
export function readJobKey(data: IdentityData): string | undefined {
  return data[KEYS.jobs]
}

/** The authority that signs, and the authorities that Metacontroller is to trust, PEM. */
export function readAuthority(
  data: IdentityData,
): { signer: KeyPair; caBundle: string } | undefined {
  const { [KEYS.ca]: caBundle, [KEYS.caKey]: key } = data
  const cert = splitPem(caBundle ?? '')[0]
  if (caBundle === undefined || key === undefined || cert === undefined) return undefined
  return { signer: { cert, key }, caBundle }
}

/** When a certificate ends, in milliseconds since 1970; 0 where it does not read. */
export function expiresAt(cert: string): number {
  try {
    return Date.parse(new X509Certificate(cert).validTo)
  } catch {
    return 0
  }
}

/** Whether that authority signed the certificate. */
export function isSignedBy(cert: string, authority: string): boolean {
  try {
    return new X509Certificate(cert).verify(new X509Certificate(authority).publicKey)
  } catch {
    return false
  }
}

/** A new authority comes before the old one, which is trusted as long as it is good. */
function renewedAuthority(data: IdentityData, now: Date): IdentityData {
  const current = readAuthority(data)
  const remainingMs = current === undefined ? 0 : expiresAt(current.signer.cert) - now.getTime()
  if (remainingMs > AUTHORITY_RENEW_BEFORE_DAYS * DAY_MS) return {}
  const { cert, key } = newAuthority(now, AUTHORITY_DAYS)
  const stillValid = splitPem(current?.caBundle ?? '').filter(
    (block) => expiresAt(block) > now.getTime(),
  )
  return { [KEYS.ca]: [cert, ...stillValid].join(''), [KEYS.caKey]: key }
}

function isAccepted(name: string, data: IdentityData, now: Date): boolean {
  const names = tokenNames(data)
  const next = names[names.indexOf(name) - 1]
  return next === undefined || now.getTime() - tokenCreatedAt(next) < TOKEN_OVERLAP_MS
}

function isTokenDue(data: IdentityData, now: Date): boolean {
  const [newest] = tokenNames(data)
  return newest === undefined || now.getTime() - tokenCreatedAt(newest) >= TOKEN_DAYS * DAY_MS
}

/** The newest one first. */
function tokenNames(data: IdentityData): string[] {
  return Object.keys(data)
    .filter((name) => TOKEN_NAME.test(name) && data[name] !== '')
    .toSorted()
    .toReversed()
}

function tokenName(now: Date): string {
  return `token.${now.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
}

function tokenCreatedAt(name: string): number {
  const [, date = '', time = ''] = /^token\.(\d{8})T(\d{6})Z$/.exec(name) ?? []
  const day = date.replace(/(\d{4})(\d\d)(\d\d)/, '$1-$2-$3')
  return Date.parse(`${day}T${time.replace(/(\d\d)(\d\d)(\d\d)/, '$1:$2:$3')}Z`)
}

function randomSecret(): string {
  return randomBytes(36).toString('base64url')
}

function splitPem(pem: string): string[] {
  const end = '-----END CERTIFICATE-----\n'
  return pem
    .split(end)
    .filter((block) => block.trim() !== '')
    .map((block) => block + end)
}

export interface NamespacedName {
  namespace: string
  name: string
}

/** Others write it too: a service that is started beside this one, or a person. */
const ATTEMPTS = 5

/** What is in the Secret once it is complete; `known` is put back where somebody emptied it. */
export async function completeSecret(
  kubernetes: Kubernetes,
  { namespace, name }: NamespacedName,
  cached: IdentityData,
  requirements: IdentityRequirements,
): Promise<IdentityData> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const found = await kubernetes.get(secrets(namespace), name, Secret)
    const data = decodeData(found?.data ?? {})
    const desired = completeData({ ...cached, ...data }, requirements)
    if (found !== undefined && isEqual(data, desired)) return data
    const object = {
      ...(found ?? { apiVersion: 'v1', kind: 'Secret', type: 'Opaque' }),
      metadata: found?.metadata ?? { namespace, name },
      data: encodeData(desired),
    }
    if (await createOrReplace(kubernetes, secrets(namespace), object)) return desired
  }
  throw new KubernetesError(`Secret ${namespace}/${name} is changed by somebody again and again`)
}

function isEqual(a: IdentityData, b: IdentityData): boolean {
  const names = Object.keys(a)
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name])
}

function decodeData(data: Record<string, string>): IdentityData {
  return mapValues(data, (value) => Buffer.from(value, 'base64').toString())
}

function encodeData(data: IdentityData): Record<string, string> {
  return mapValues(data, (value) => Buffer.from(value).toString('base64'))
}

function mapValues(data: Record<string, string>, transform: (value: string) => string) {
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, transform(value)]))
}

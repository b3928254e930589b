/**
 * The Secret with the credentials of the hook service: the CA of its certificates, the tokens that
 * Metacontroller sends, and the key that signs Jobs. The chart creates the Secret empty and the
 * service fills it, so that rendering the chart generates no random values.
 */
import { randomBytes, X509Certificate } from 'node:crypto'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { Secret } from '../../crds/kubernetes.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { secrets } from '../../jobs/clients/kubernetes/api-resources.ts'
import { isFromTheFuture } from '../../hooks/conditions.ts'
import { createOrReplace } from '../ports/common.ts'
import { newAuthority, type KeyPair } from './certificates.ts'

/** Decoded content of the Secret. */
export type IdentityData = Record<string, string>

export interface IdentityRequirements {
  now: Date
  /** A value that differs from the previous one creates a new token. */
  rotation: string
  /** Whether the service signs its own certificates. */
  ownTls: boolean
}

const DAY_MS = 86_400_000
/** A new CA is created when the current one has less than this left. */
const AUTHORITY_RENEW_BEFORE_DAYS = 730
const TOKEN_DAYS = 30
/** How long the previous token is accepted after a new one was created. */
const TOKEN_OVERLAP_MS = DAY_MS
/** A token that is further in the future was created by a clock that was ahead. */
const CLOCK_TOLERANCE_MS = 3_600_000

const KEYS = { ca: 'ca.crt', caKey: 'ca.key', jobs: 'job-key', rotation: 'rotation' } as const
/** `token.20261123T185341Z`: the creation time, so that names sort by age. */
const TOKEN_NAME = /^token\.\d{8}T\d{6}Z$/

/** Returns the data with everything that is required; equal to the input if nothing is due. */
export function completeData(
  found: IdentityData,
  { now, rotation, ownTls }: IdentityRequirements,
): IdentityData {
  const data = withoutFutureTokens(found, now)
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

/** Accepted tokens, newest first; Metacontroller is configured to send the first one. */
export function acceptedTokens(data: IdentityData): { name: string; token: string }[] {
  return tokenNames(data).map((name) => ({ name, token: data[name] ?? '' }))
}

/** The key that signs Jobs. It is not rotated with the tokens, because a Job may run for days. */
export function readJobKey(data: IdentityData): string | undefined {
  return data[KEYS.jobs]
}

/** The CA that signs, and the PEM bundle of all CAs that Metacontroller has to trust. */
export function readAuthority(
  data: IdentityData,
): { signer: KeyPair; caBundle: string } | undefined {
  const { [KEYS.ca]: caBundle, [KEYS.caKey]: key } = data
  const cert = splitPem(caBundle ?? '')[0]
  if (caBundle === undefined || key === undefined || cert === undefined) return undefined
  return { signer: { cert, key }, caBundle }
}

/** Expiry of a certificate in milliseconds since 1970; 0 if it cannot be parsed. */
export function expiresAt(cert: string): number {
  try {
    return Date.parse(new X509Certificate(cert).validTo)
  } catch {
    return 0
  }
}

/** Whether the certificate is valid already: a clock that was ahead makes one that is not. */
export function isValidYet(cert: string, now: Date): boolean {
  try {
    return Date.parse(new X509Certificate(cert).validFrom) <= now.getTime()
  } catch {
    return false
  }
}

/** Whether this CA signed the certificate. */
export function isSignedBy(cert: string, authority: string): boolean {
  try {
    return new X509Certificate(cert).verify(new X509Certificate(authority).publicKey)
  } catch {
    return false
  }
}

/** Puts a new CA before the old ones, which stay trusted until they expire. */
function renewedAuthority(data: IdentityData, now: Date): IdentityData {
  const current = readAuthority(data)
  const isUsable = current !== undefined && isValidYet(current.signer.cert, now)
  const remainingMs = isUsable ? expiresAt(current.signer.cert) - now.getTime() : 0
  if (remainingMs > AUTHORITY_RENEW_BEFORE_DAYS * DAY_MS) return {}
  const { cert, key } = newAuthority(now)
  const stillValid = splitPem(current?.caBundle ?? '').filter(
    (block) => expiresAt(block) > now.getTime(),
  )
  return { [KEYS.ca]: [cert, ...stillValid].join(''), [KEYS.caKey]: key }
}

/**
 * The newest token counts as created just now if its time is in the future: until then it would precede every new
 * token, and would never be replaced.
 */
function withoutFutureTokens(data: IdentityData, now: Date): IdentityData {
  const isFuture = (name: string) =>
    TOKEN_NAME.test(name) &&
    isFromTheFuture(tokenCreatedAt(name), now.getTime(), CLOCK_TOLERANCE_MS)
  const [newest = ''] = tokenNames(data)
  if (!isFuture(newest)) return data
  // A second ago: a token that is created now has another name.
  const renamed = { [tokenName(new Date(now.getTime() - 1000))]: data[newest] ?? '' }
  const others = Object.entries(data).filter(([name]) => !isFuture(name))
  return { ...Object.fromEntries(others), ...renamed }
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

/** Newest first. */
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

/**
 * Attempts after a conflict: a second instance of the service or a user may write the Secret too.
 */
const ATTEMPTS = 5

/**
 * Completes the Secret and returns its content; restores `cached` values that were removed from it.
 */
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
  throw new KubernetesError(`Secret ${namespace}/${name} is changed repeatedly by another client`)
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

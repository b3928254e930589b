/**
 * What the hook service proves itself with, in one Secret: the authority of its certificates, the tokens
 * that Metacontroller sends, and the key that signs Jobs. The chart makes the Secret empty and the
 * service fills it, so that nothing random is made while a chart is rendered.
 */
import { X509Certificate, randomBytes } from 'node:crypto'
import { newAuthority, type KeyPair } from './certificates.ts'

/** Content of the Secret, decoded. */
export type IdentityData = Record<string, string>

export interface Wish {
  now: Date
  /** Another word than that of the last time makes a new token. */
  rotation: string
  /** Whether the service signs its own certificates. */
  ownTls: boolean
}

const DAY_MS = 86_400_000
const AUTHORITY_DAYS = 3650
/** What is left of the authority when the next one is made. */
const AUTHORITY_LEFT_DAYS = 730
const TOKEN_DAYS = 30
/** How long the token before the newest one is accepted. */
const OVERLAP_MS = DAY_MS

const KEYS = { ca: 'ca.crt', caKey: 'ca.key', jobs: 'job-key', rotation: 'rotation' } as const
/** `token.20261123T185341Z`: the time it was made, so that names sort by age. */
const TOKEN = /^token\.\d{8}T\d{6}Z$/

/** The same data with everything that must be in it; equal to what was given where nothing is due. */
export function completed(data: IdentityData, { now, rotation, ownTls }: Wish): IdentityData {
  const kept = Object.fromEntries(
    Object.entries(data).filter(([name]) => !TOKEN.test(name) || isAccepted(name, data, now)),
  )
  const isDue = isTokenDue(kept, now) || (data[KEYS.rotation] ?? '') !== rotation
  return {
    ...kept,
    ...(isDue && { [tokenName(now)]: secretText() }),
    [KEYS.rotation]: rotation,
    [KEYS.jobs]: kept[KEYS.jobs] ?? secretText(),
    ...(ownTls && authorityData(kept, now)),
  }
}

/** Accepted tokens; the newest one, which Metacontroller is to send, comes first. */
export function tokensIn(data: IdentityData): { name: string; token: string }[] {
  return tokenNames(data).map((name) => ({ name, token: data[name] ?? '' }))
}

/** What signs Jobs; it outlives all tokens, since a Job may run for days. */
export function jobKeyIn(data: IdentityData): string | undefined {
  return data[KEYS.jobs]
}

/** The authority that signs, and the authorities that Metacontroller is to trust, PEM. */
export function authorityIn(data: IdentityData): { signer: KeyPair; trusted: string } | undefined {
  const { [KEYS.ca]: trusted, [KEYS.caKey]: key } = data
  const cert = blocksOf(trusted ?? '')[0]
  if (trusted === undefined || key === undefined || cert === undefined) return undefined
  return { signer: { cert, key }, trusted }
}

/** When a certificate ends, in milliseconds since 1970; 0 where it does not read. */
export function endOf(cert: string): number {
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
function authorityData(data: IdentityData, now: Date): IdentityData {
  const known = authorityIn(data)
  const left = known === undefined ? 0 : endOf(known.signer.cert) - now.getTime()
  if (left > AUTHORITY_LEFT_DAYS * DAY_MS) return {}
  const { cert, key } = newAuthority(now, AUTHORITY_DAYS)
  const old = blocksOf(known?.trusted ?? '').filter((block) => endOf(block) > now.getTime())
  return { [KEYS.ca]: [cert, ...old].join(''), [KEYS.caKey]: key }
}

function isAccepted(name: string, data: IdentityData, now: Date): boolean {
  const names = tokenNames(data)
  const next = names[names.indexOf(name) - 1]
  return next === undefined || now.getTime() - madeAt(next) < OVERLAP_MS
}

function isTokenDue(data: IdentityData, now: Date): boolean {
  const [newest] = tokenNames(data)
  return newest === undefined || now.getTime() - madeAt(newest) >= TOKEN_DAYS * DAY_MS
}

/** The newest one first. */
function tokenNames(data: IdentityData): string[] {
  return Object.keys(data)
    .filter((name) => TOKEN.test(name) && data[name] !== '')
    .toSorted()
    .toReversed()
}

function tokenName(now: Date): string {
  return `token.${now.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
}

function madeAt(name: string): number {
  const [, date = '', time = ''] = /^token\.(\d{8})T(\d{6})Z$/.exec(name) ?? []
  const day = date.replace(/(\d{4})(\d\d)(\d\d)/, '$1-$2-$3')
  return Date.parse(`${day}T${time.replace(/(\d\d)(\d\d)(\d\d)/, '$1:$2:$3')}Z`)
}

function secretText(): string {
  return randomBytes(36).toString('base64url')
}

function blocksOf(pem: string): string[] {
  const end = '-----END CERTIFICATE-----\n'
  return pem
    .split(end)
    .filter((block) => block.trim() !== '')
    .map((block) => block + end)
}

/**
 * The token of an access key: a function of spec, signing key and issue time, so that a stale cache,
 * a restart or a second service sign the same one (specification: authentication 3).
 */
import { createHash } from 'node:crypto'
import { SignJWT, type JWTPayload } from 'jose'
import type { AccessKeySpec, VecAccessKey } from '../../crds/access-key.ts'
import { parseDuration } from '../../crds/units.ts'

/** Each token is a write of its Secret: whatever ttl and renewBefore say, there is none more often. */
const MIN_RENEWAL_SECONDS = 30

/** When a token was issued and how long it is good, in seconds since the epoch. */
export interface Lifetime {
  issuedAt: number
  expiresAt?: number
  renewAt?: number
}

/**
 * The lifetime that holds now: the resource's creation and then one renewal after the other, the last
 * one that is not in the future. Without ttl a token never expires and is never renewed.
 */
export function currentLifetime({ metadata, spec }: VecAccessKey, now: Date): Lifetime {
  const created = Math.floor(Date.parse(metadata.creationTimestamp) / 1000)
  if (spec.ttl === undefined) return { issuedAt: created }
  const ttl = parseDuration(spec.ttl)
  const renewBefore = spec.renewBefore === undefined ? ttl / 3 : parseDuration(spec.renewBefore)
  const interval = Math.max(Math.floor(ttl - renewBefore), MIN_RENEWAL_SECONDS)
  const age = Math.max(Math.floor(now.getTime() / 1000) - created, 0)
  const issuedAt = created + Math.floor(age / interval) * interval
  return { issuedAt, expiresAt: issuedAt + ttl, renewAt: issuedAt + interval }
}

/**
 * Claims as the engine parses them. `access` is always there: a token without it may do everything.
 * `sub` is what the specification names, `subject` what the engine writes into its audit log.
 */
export function tokenClaims(spec: AccessKeySpec, { expiresAt }: Lifetime): JWTPayload {
  return {
    access:
      spec.access ??
      spec.collections?.map(({ name, access }) => ({ collection: name, access })) ??
      [],
    ...(spec.subject !== undefined && { sub: spec.subject, subject: spec.subject }),
    ...(expiresAt !== undefined && { exp: expiresAt }),
    ...(spec.valueExists !== undefined && {
      value_exists: {
        collection: spec.valueExists.collection,
        matches: spec.valueExists.matches.map(({ key, value }) => ({ key, value })),
      },
    }),
  }
}

/** Signs with HS256, the only algorithm the engine reads. */
export function signToken(claims: JWTPayload, key: string): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(new TextEncoder().encode(key))
}

/** First sixteen hex digits of the SHA-256 of a signing key. */
export function fingerprintOf(key: string): string {
  return createHash('sha256').update(key).digest('hex').slice(0, 16)
}

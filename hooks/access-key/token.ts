/**
 * The token of an access key: a function of spec, signing key and issue time, so that a stale cache, a
 * restarted service or a second instance produces the same token.
 */
import { SignJWT, type JWTPayload } from 'jose'
import type { AccessKeySpec, VecAccessKey } from '../../crds/access-key.ts'
import { parseDuration } from '../../crds/units.ts'

/** Lower bound of the renewal interval, regardless of ttl and renewBefore: each token is a Secret write. */
const MIN_RENEWAL_SECONDS = 30

/** When a token is issued, expires and is renewed, in seconds since the epoch. */
export interface Lifetime {
  issuedAt: number
  expiresAt?: number
  renewAt?: number
}

/**
 * The current lifetime. Renewals are counted from the creation of the resource at a fixed interval; the
 * latest one that is not in the future applies. Without ttl a token never expires and is never renewed.
 */
export function currentLifetime({ metadata, spec }: VecAccessKey, now: Date): Lifetime {
  const created = Math.floor(Date.parse(metadata.creationTimestamp) / 1000)
  if (spec.ttl === undefined) return { issuedAt: created }
  const ttl = parseDuration(spec.ttl)
  // 0s, which an earlier CRD admitted, would renew a token only when it has expired.
  const renewBefore = parseDuration(spec.renewBefore ?? '0s') || ttl / 3
  const interval = Math.max(Math.floor(ttl - renewBefore), MIN_RENEWAL_SECONDS)
  const age = Math.max(Math.floor(now.getTime() / 1000) - created, 0)
  const issuedAt = created + Math.floor(age / interval) * interval
  return { issuedAt, expiresAt: issuedAt + ttl, renewAt: issuedAt + interval }
}

/**
 * Claims as the engine parses them. `access` is always set: a token without it has full access. `sub` is
 * the standard claim; `subject` is the one that the engine writes into its audit log.
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

/** Signs with HS256, the only algorithm the engine accepts. */
export function signToken(claims: JWTPayload, key: string): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(new TextEncoder().encode(key))
}

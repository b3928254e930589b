/** Keys and tokens of an engine, and the collections they are tried on. */
import { SignJWT, type JWTPayload } from 'jose'
import { tokenClaims, signToken } from '../../../../hooks/access-key/token.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'

export const KEY = 'full-key-of-the-engine-with-enough-bytes'
export const READ_ONLY = 'read-only-key-of-the-engine-with-enough-bytes'
export const ALTERNATIVE = 'alternative-key-of-the-engine-with-enough-bytes'
export const SERVICE = { api_key: KEY, read_only_api_key: READ_ONLY, jwt_rbac: true }
/** With a second full key, as while keys are rotated. */
export const ROTATING = { ...SERVICE, alt_api_key: ALTERNATIVE }
export const LATER = Math.floor(Date.now() / 1000) + 3600
export const EARLIER = Math.floor(Date.now() / 1000) - 3600

type Spec = Parameters<typeof tokenClaims>[0]

const CLUSTER_REF = { name: 'a' }

/** A token as the VecAccessKey of this spec gets it. */
export function token(spec: Omit<Spec, 'clusterRef'>, key = KEY): Promise<string> {
  return signToken(tokenClaims({ clusterRef: CLUSTER_REF, ...spec }, { issuedAt: 0 }), key)
}

/** A token with any claims. */
export function odd(
  claims: JWTPayload | object,
  { key = KEY, alg = 'HS256' } = {},
): Promise<string> {
  return new SignJWT(claims as JWTPayload)
    .setProtectedHeader({ alg, typ: 'JWT' })
    .sign(new TextEncoder().encode(key))
}

export async function grounded(stage: Stage): Promise<void> {
  for (const name of ['own', 'other']) {
    await created(stage, name, { vectors: { size: 2, distance: 'Dot' } })
  }
}

/** Authentication: keys, and tokens signed with one of them. Authorization is in access.ts. */
import { createHmac } from 'node:crypto'
import { MANAGE, READ, type Access, type Level } from './access.ts'
import { bare, EngineFailure, type EngineAnswer } from './answers.ts'
import type { EngineConfig } from './config.ts'
import { isObject } from './read.ts'

const OPEN_PATHS = new Set(['', 'readyz', 'livez', 'healthz'])
const LEEWAY_SECONDS = 30

interface Call {
  path: string[]
  headers: Record<string, string | string[] | undefined>
}

const NO_CREDENTIAL = bare(401, 'Must provide an API key or an Authorization bearer token')
const UNKNOWN = bare(401, 'Invalid API key or JWT')
const FOREIGN = bare(403, 'InvalidSignature')
const EXPIRED = bare(403, 'ExpiredSignature')

/** What the caller may do; undefined where nothing is asked for. Throws a refusal. */
export function accessOf({ service = {} }: EngineConfig, call: Call): Access | undefined {
  const keys = [service.api_key, service.alt_api_key].filter(isSet).map(String)
  const readOnly = [service.read_only_api_key].filter(isSet).map(String)
  // No key at all: everything is open. This is what a missing Secret leads to.
  if (keys.length + readOnly.length === 0) return undefined
  if (OPEN_PATHS.has(call.path.join('/'))) return undefined
  const given = credential(call.headers)
  if (given === undefined) throw new EngineFailure(NO_CREDENTIAL)
  if (keys.includes(given)) return MANAGE
  if (readOnly.includes(given)) return READ
  if (service.jwt_rbac !== true) throw new EngineFailure(UNKNOWN)
  return byToken(given, keys)
}

/** Each key is tried; the caller gets the error of the last one. */
function byToken(token: string, keys: string[]): Access {
  let rejection: EngineAnswer = UNKNOWN
  for (const key of keys) {
    const claims = claimsOf(token, key)
    const access = 'status' in claims ? undefined : accessIn(claims.claims)
    if (access !== undefined) return access
    rejection = 'status' in claims ? claims : UNKNOWN
    if (rejection === EXPIRED) break
  }
  throw new EngineFailure(rejection)
}

function claimsOf(token: string, key: string): { claims: Record<string, unknown> } | EngineAnswer {
  const [header = '', payload = '', signature, ...rest] = token.split('.')
  if (signature === undefined || rest.length > 0) return UNKNOWN
  const claims = parsed(payload)
  if (parsed(header)?.['alg'] !== 'HS256' || claims === undefined) return UNKNOWN
  const expected = createHmac('sha256', key).update(`${header}.${payload}`).digest('base64url')
  if (expected !== signature) return FOREIGN
  const { exp } = claims
  if (exp !== undefined && !Number.isInteger(exp)) return UNKNOWN
  if (typeof exp === 'number' && exp + LEEWAY_SECONDS < Date.now() / 1000) return EXPIRED
  return { claims }
}

/** Undefined where the claims are none that the engine reads. */
function accessIn(claims: Record<string, unknown>): Access | undefined {
  const { access = 'm', sub, subject, value_exists: valueExists } = claims
  if (![sub, subject].every((text) => text === undefined || typeof text === 'string'))
    return undefined
  if (valueExists !== undefined && !isValueExists(valueExists)) return undefined
  const rest = isValueExists(valueExists) ? { valueExists } : {}
  if (access === 'r') return { ...READ, ...rest }
  // A token without an access claim may do everything.
  if (access === 'm') return { ...MANAGE, ...rest }
  if (!Array.isArray(access)) return undefined
  const entries = access as { collection?: unknown; access?: unknown; payload?: unknown }[]
  if (!entries.every(isEntry)) return undefined
  entries.forEach(({ collection, payload }, index) => {
    if (payload !== undefined) {
      const message = "The 'payload' constraint is deprecated and should not be used"
      throw new EngineFailure(bare(401, `access[${index}].payload: ${message}`))
    }
    if (entries.findIndex((other) => other.collection === collection) !== index) {
      const message = 'Collection name should be unique'
      throw new EngineFailure(bare(401, `access[${index}].collection: ${message}`))
    }
  })
  const collections = entries.map(({ collection, access }) => ({
    collection: String(collection),
    access: access as Level,
  }))
  return { collections, ...rest }
}

function isEntry({ collection, access }: { collection?: unknown; access?: unknown }): boolean {
  return typeof collection === 'string' && ['r', 'rw', 'prw'].includes(String(access))
}

function isValueExists(value: unknown): value is NonNullable<Access['valueExists']> {
  return (
    isObject(value) && typeof value['collection'] === 'string' && Array.isArray(value['matches'])
  )
}

function credential(headers: Call['headers']): string | undefined {
  const key = headers['api-key']
  if (typeof key === 'string') return key
  return /^Bearer (.*)$/.exec(String(headers['authorization'] ?? ''))?.[1]
}

function parsed(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** A YAML file may hold a key that reads as a number; the engine takes it as text, even an empty one. */
function isSet(key: string | undefined | null): key is string {
  return key !== undefined && key !== null
}

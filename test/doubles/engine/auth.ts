/** Who may call: the full key, the read-only key, and which paths ask for none. */
import { text, type EngineAnswer } from './answers.ts'
import type { EngineConfig } from './config.ts'

const OPEN_PATHS = new Set(['', 'readyz', 'livez', 'healthz'])

interface Call {
  method: string
  path: string[]
  headers: Record<string, string | string[] | undefined>
}

/** Why the call is refused; undefined when it may pass. */
export function refusal({ service = {} }: EngineConfig, call: Call): EngineAnswer | undefined {
  const keys = [service.api_key, service.alt_api_key].filter(isSet).map(String)
  const readOnly = [service.read_only_api_key].filter(isSet).map(String)
  // No key at all: everything is open. This is what a missing Secret leads to.
  if (keys.length + readOnly.length === 0) return undefined
  if (OPEN_PATHS.has(call.path.join('/'))) return undefined
  const given = credential(call.headers)
  if (given === undefined) {
    return text(401, 'Must provide an API key or an Authorization bearer token')
  }
  if (keys.includes(given)) return undefined
  if (!readOnly.includes(given)) return text(401, 'Invalid API key or JWT')
  if (call.method === 'GET') return undefined
  return text(403, 'Forbidden: Global manage access is required')
}

function credential(headers: Call['headers']): string | undefined {
  const key = headers['api-key']
  if (typeof key === 'string') return key
  return /^Bearer (.*)$/.exec(String(headers['authorization'] ?? ''))?.[1]
}

/** A YAML file may hold a key that reads as a number; the engine takes it as text. */
function isSet(key: string | undefined): key is string {
  return key !== undefined && key !== ''
}

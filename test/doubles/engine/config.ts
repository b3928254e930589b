/** The engine's configuration files, as far as the double obeys them. */
import { parse } from 'yaml'

export interface EngineConfig {
  cluster?: {
    enabled?: boolean
    p2p?: { port?: number; enable_tls?: boolean }
    resharding_enabled?: boolean
  }
  service?: {
    api_key?: string
    read_only_api_key?: string
    alt_api_key?: string
    jwt_rbac?: boolean
    enable_tls?: boolean
    http_port?: number
    grpc_port?: number
  }
  tls?: { cert?: string; key?: string }
}

const ENV_PREFIX = 'QDRANT__'

/** Later files win, map by map, and variables such as `QDRANT__SERVICE__API_KEY` win over all of them. */
export function parseConfig(files: string[], env: NodeJS.ProcessEnv = {}): EngineConfig {
  const parts = files.map((file) => parse(file) as unknown)
  return [...parts, ...variables(env)].reduce(merge, {}) as EngineConfig
}

function variables(env: NodeJS.ProcessEnv): unknown[] {
  return Object.entries(env)
    .filter(([name]) => name.startsWith(ENV_PREFIX))
    .map(([name, text = '']) => {
      const path = name.slice(ENV_PREFIX.length).toLowerCase().split('__')
      // The engine reads a key as text, whatever it looks like.
      const value: unknown = name.endsWith('_KEY') ? text : parse(text)
      return path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
    })
}

function merge(under: unknown, over: unknown): unknown {
  if (!isMap(under) || !isMap(over)) return over ?? under
  const keys = [...new Set([...Object.keys(under), ...Object.keys(over)])]
  return Object.fromEntries(keys.map((key) => [key, merge(under[key], over[key])]))
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

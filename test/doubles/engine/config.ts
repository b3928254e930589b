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

/** Later files win, map by map. */
export function parseConfig(...files: string[]): EngineConfig {
  return files.map((file) => parse(file) as unknown).reduce(merge, {}) as EngineConfig
}

function merge(under: unknown, over: unknown): unknown {
  if (!isMap(under) || !isMap(over)) return over ?? under
  const keys = [...new Set([...Object.keys(under), ...Object.keys(over)])]
  return Object.fromEntries(keys.map((key) => [key, merge(under[key], over[key])]))
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Preloaded into a process (`--import`), it makes host names this machine's: those that end in `.test`,
 * for stores that are reached by the name of a bucket, and under another address those of a cluster,
 * for an engine on its own port beside others; LOOPBACK_CLUSTER names another one, or one for each pod,
 * separated by commas. A resolver is an edge of the process.
 */
import dns, { type LookupOptions } from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'

type Found = (error: NodeJS.ErrnoException | null, ...found: unknown[]) => void

const real = dns.lookup as (host: string, options: LookupOptions, found: Found) => void

const PODS = (process.env['LOOPBACK_CLUSTER'] ?? '127.0.0.2').split(',')

function addressOf(host: string): string | undefined {
  if (host.endsWith('.test')) return '127.0.0.1'
  if (!host.endsWith('.svc.cluster.local')) return undefined
  const ordinal = Number(/^[^.]*-(\d+)\./.exec(host)?.[1] ?? 0)
  return PODS[ordinal] ?? PODS[0]
}

function lookup(host: string, options: LookupOptions, found: Found): void {
  const address = addressOf(host)
  if (address === undefined) real(host, options, found)
  else if (options.all === true) found(null, [{ address, family: 4 }])
  else found(null, address, 4)
}

Object.assign(dns, { lookup })
syncBuiltinESMExports()

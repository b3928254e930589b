/**
 * Preloaded into a process (`--import`), it makes every host name that ends in `.test` this machine's:
 * for stores that are reached by the name of a bucket. A resolver is an edge of the process.
 */
import dns, { type LookupOptions } from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'

type Found = (error: NodeJS.ErrnoException | null, ...found: unknown[]) => void

const real = dns.lookup as (host: string, options: LookupOptions, found: Found) => void

function lookup(host: string, options: LookupOptions, found: Found): void {
  if (!host.endsWith('.test')) real(host, options, found)
  else if (options.all === true) found(null, [{ address: '127.0.0.1', family: 4 }])
  else found(null, '127.0.0.1', 4)
}

Object.assign(dns, { lookup })
syncBuiltinESMExports()

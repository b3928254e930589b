/**
 * Uploads as the Job of a backup makes them, in a separate process: bytes come from one address and go to
 * another, and what is printed is the most memory it had. Argument: `Order` as JSON.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'undici'
import { Bucket } from '../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../jobs/log.ts'
import { systemClock } from '../../jobs/clock.ts'
import { KEYS } from '../contract/bucket/real.ts'

export interface Order {
  /** Where bytes come from: `<source>?bytes=<n>`. */
  source: string
  /** The store. */
  endpoint: string
  /** Limit of the process. */
  memoryBytes: number
  /** What is said of each object before its first byte. */
  sizes: { sizeBytes?: number; expectedBytes?: number }
  /** Objects that are desired at once. */
  desired: number
  /** Parts that each of them has: what is said may be far more. */
  parts: number
}

export interface Took {
  /** The most that was resident, in bytes. */
  peak: number
  streams: number
  partBytes: number
  bytes: number
  seconds: number
  cpuSeconds: number
}

async function main(order: Order): Promise<Took> {
  const { source, endpoint, memoryBytes, sizes, desired } = order
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint, forcePathStyle: true },
    credentials: async () => KEYS,
    time: systemClock,
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    memoryBytes,
  })
  const expected = sizes.sizeBytes ?? sizes.expectedBytes
  const all = Array<number | undefined>(desired).fill(expected)
  const streams = bucket.memory.concurrentUploads(all, desired)
  const { partBytes } = bucket.memory.planParts('s3://backups/k', { ...sizes, streams })
  const each = order.parts * partBytes
  const began = performance.now()
  const moved = await Promise.all(
    Array.from({ length: streams }, async (_, index) => {
      const { body } = await request(`${source}?bytes=${each}`)
      return bucket.upload({ key: `k-${index}`, source: hashed(body), ...sizes, streams })
    }),
  )
  const seconds = (performance.now() - began) / 1000
  const { user, system } = process.cpuUsage()
  bucket.close()
  return {
    ...{ peak: peak(), streams, partBytes, seconds, cpuSeconds: (user + system) / 1e6 },
    bytes: moved.reduce((sum, bytes) => sum + bytes, 0),
  }
}

/** As a backup does with all that passes. */
async function* hashed(body: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const hash = createHash('sha256')
  for await (const chunk of body) {
    hash.update(chunk)
    yield chunk
  }
  hash.digest('hex')
}

function peak(): number {
  const status = readFileSync('/proc/self/status', 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

process.stdout.write(JSON.stringify(await main(JSON.parse(process.argv[2] ?? '{}') as Order)))

/** The store of the embedded world: our S3 double on loopback, behind the gate. */
import { startBucketServer } from '../../doubles/bucket/server.ts'
import type { ApiClient } from '../client.ts'
import type { Clock } from '../clock.ts'
import { openBuckets, type Buckets } from './buckets.ts'

const accessKeyId = 'embedded'
const secretAccessKey = 'secret-of-the-embedded-world'

export async function openEmbeddedBuckets(api: ApiClient, clock: Clock): Promise<Buckets> {
  const server = await startBucketServer({
    buckets: [],
    keys: { [accessKeyId]: secretAccessKey },
    now: () => clock.now(),
  })
  const store = { endpoint: server.url, accessKeyId, secretAccessKey }
  const buckets = await openBuckets({ api, store, gateHost: '127.0.0.1' })
  return {
    ...buckets,
    async close() {
      await buckets.close()
      await server.close()
    },
  }
}

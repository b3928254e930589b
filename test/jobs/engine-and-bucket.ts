/** An engine double and a bucket double, closed at the end of the test. */
import type { Test } from 'tap'
import { startBucketServer, type BucketServerOptions } from '../doubles/bucket/server.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { startEngineNode } from '../doubles/engine/node.ts'

export async function startEngine(
  t: Test,
  count: number,
  options: ConstructorParameters<typeof EngineCluster>[0] = {},
) {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0, ...options })
  const nodes = await Promise.all(
    Array.from({ length: count }, (_, ordinal) => startEngineNode({ ordinal, cluster: engine })),
  )
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))
  const ports = nodes.map(({ port }) => port)
  return { engine, nodes, ports, urls: ports.map((port) => `http://127.0.0.1:${port}`) }
}

/** `Manifest` is the form of the manifest at `key`. */
export async function startBucket<Manifest extends { manifestSha256?: string }>(
  t: Test,
  key: () => string,
  options?: BucketServerOptions,
) {
  const s3 = await startBucketServer(options)
  t.teardown(() => s3.close())
  const store = () => {
    const found = s3.buckets.get('backups')
    if (found === undefined) throw new Error('there is no bucket')
    return found
  }
  const manifest = () => JSON.parse(store().text(key()) ?? '{}') as Manifest
  return {
    s3,
    store,
    manifest,
    /** Changes the manifest and removes its checksum, as an editor of the file may do. */
    rewrite: (change: (manifest: Manifest) => unknown) => {
      const changed = manifest()
      delete changed.manifestSha256
      change(changed)
      store().put(key(), Buffer.from(JSON.stringify(changed)))
    },
  }
}

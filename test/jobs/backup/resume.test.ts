/** Restarts of Jobs and engines: an object that is complete in the bucket is not uploaded twice. */
import { once } from 'node:events'
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock } from '../../../jobs/clock.ts'
import type { S3Call } from '../../doubles/bucket/operations.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { setMaking, snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { instantClock } from '../job-world.ts'
import { MIB, backupFixture, type BackupFixture } from './fixture.ts'

const isSnapshotCreation = ({ method, path }: EngineRequest) =>
  method === 'POST' && path[2] === 'snapshots'
const isSnapshotDownload = ({ method, path }: EngineRequest) =>
  method === 'GET' && path[3] !== undefined

/** A call that never ends, and a promise that resolves when it begins. */
function gate() {
  const reached = Promise.withResolvers<undefined>()
  const never = Promise.withResolvers<undefined>()
  return {
    reached: reached.promise,
    hold: () => {
      reached.resolve(undefined)
      return { after: never.promise }
    },
    open: () => never.resolve(undefined),
  }
}

type OnBucket = (call: Pick<S3Call, 'operation' | 'key'>) => boolean

/** Starts a pod and kills it at a call to the bucket. */
async function killAt({ world, s3 }: BackupFixture, signal: NodeJS.Signals, isThere: OnBucket) {
  const { reached, hold, open } = gate()
  s3.misbehave((call) => (isThere(call) ? hold() : undefined))
  const { child } = world.start()
  await Promise.race([reached, once(child, 'close')])
  child.kill(signal)
  const [code] = (await once(child, 'close')) as [number | null]
  open()
  s3.misbehave()
  return code
}

async function assertComplete(t: Tap, fixture: BackupFixture) {
  const { engine, store, world } = fixture
  t.equal(store().uploads.size, 0, 'no upload is left open')
  t.equal(snapshotFiles(engine).size, 0, 'the engine keeps no file')
  t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done, 'every object is whole')
  const named = fixture.manifest().collections.flatMap(({ snapshots }) => snapshots)
  t.strictSame(
    fixture.keys().filter((key) => key.endsWith('.snapshot')),
    named.map(({ key }) => key).sort(),
    'and there are no others',
  )
}

type Tap = Parameters<typeof backupFixture>[0]

t.test('six restarts: each pod resumes where the last one was killed', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ['a', 'b'], snapshotBytes: 9 * MIB })
  const { s3, world } = fixture
  const points: OnBucket[] = [
    ({ key }) => key.endsWith('/owner.json'),
    ({ operation, key }) => operation === 'UploadPart' && key.includes('/a/node-0/'),
    ({ operation, key }) => operation === 'CompleteMultipartUpload' && key.includes('/a/node-0/'),
    ({ operation, key }) => operation === 'PutObject' && key.endsWith('/a/collection.json'),
    ({ operation, key }) => operation === 'HeadObject' && key.includes('/b/node-1/'),
    ({ operation, key }) => operation === 'PutObject' && key.endsWith('/manifest.json'),
  ]
  for (const point of points) t.equal(await killAt(fixture, 'SIGKILL', point), null)
  const { code, log } = await world.run({}, { pod: 'pod-7', time: systemClock })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /collection b is already in the bucket/)
  const begun = s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload')
  // Four snapshots, and three that were in progress when their pod was killed.
  t.ok(begun.length <= 7, `${begun.length} uploads`)
  t.match(await world.progress(), { state: 'Done', message: 'Backed up 2/2 collections' })
  await assertComplete(t, fixture)
})

for (const method of ['Node', 'Shard'] as const) {
  t.test(
    `numbers of a configuration are as users wrote them, after a restart (${method})`,
    async (t) => {
      const fixture = await backupFixture(t, { engineCollections: [], method })
      const { nodes, store, world } = fixture
      const metadata =
        '{"id":9007199254740993,"ratio":1.0,"nested":[{"least":-9223372036854775808}]}'
      const limits = '{"max_points_count":18446744073709551615}'
      const created = await fetch(`http://127.0.0.1:${nodes[0]?.port}/collections/docs`, {
        method: 'PUT',
        headers: { 'content-type': 'application/json' },
        body: `{"vectors":{"size":2,"distance":"Dot"},"metadata":${metadata},"strict_mode_config":${limits}}`,
      })
      t.ok(created.ok)
      const isManifest: OnBucket = ({ key }) => key.endsWith('/manifest.json')
      t.equal(await killAt(fixture, 'SIGKILL', isManifest), null)
      const { code, log } = await world.run({}, { pod: 'pod-2', time: systemClock })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.match(log, /collection docs is already in the bucket/)
      const manifest = store().text('nightly/b/manifest.json') ?? ''
      t.ok(manifest.includes(`"metadata":${metadata}`), manifest)
      t.ok(manifest.includes(`"strict_mode_config":${limits}`), manifest)
      t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
    },
  )
}

t.test('a pod of a drained node cleans up in time, and the next pod resumes', async (t) => {
  const fixture = await backupFixture(t, { engineCollections: ['a', 'b'], snapshotBytes: 9 * MIB })
  const { engine, store, s3, world } = fixture
  const code = await killAt(
    fixture,
    'SIGTERM',
    ({ operation, key }) => operation === 'UploadPart' && key.includes('/b/'),
  )
  t.equal(code, EXIT.crash)
  t.equal(store().uploads.size, 0)
  t.equal(snapshotFiles(engine).size, 0)
  s3.calls.length = 0
  t.equal((await world.run({}, { pod: 'pod-2', time: systemClock })).code, EXIT.done)
  const moved = s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload')
  t.ok(moved.length > 0 && moved.every(({ key }) => key.includes('/b/')))
  await assertComplete(t, fixture)
})

for (const [what, damage] of [
  ['is gone', (objects: Map<string, unknown>, key: string) => objects.delete(key)],
  ['has another size', (_: unknown, key: string, put: (key: string) => void) => put(key)],
] as const) {
  t.test(`a snapshot whose object in the bucket ${what} is recreated`, async (t) => {
    const fixture = await backupFixture(t)
    const { s3, store, world } = fixture
    const killed = new AbortController()
    s3.misbehave(({ operation, key }) => {
      const isSecond = operation === 'PutObject' && /node-1\/.*\.snapshot$/.test(key)
      if (isSecond) killed.abort(new Error('SIGTERM'))
      return undefined
    })
    t.equal((await world.run({}, { signal: killed.signal })).code, EXIT.crash)
    s3.misbehave()
    const [first = ''] = fixture.keys().filter((key) => /node-0\/.*\.snapshot$/.test(key))
    t.not(first, '')
    damage(store().objects, first, (key) => void store().put(key, Buffer.from('short')))
    const { code, log } = await world.run({}, { pod: 'pod-2', time: systemClock })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.notMatch(log, /already in the bucket/)
    await assertComplete(t, fixture)
  })
}

for (const [when, isThere] of [
  ['made', isSnapshotCreation],
  ['streamed', isSnapshotDownload],
] as const) {
  t.test(
    `an engine node killed while its snapshot is ${when} comes back, and the backup is whole`,
    async (t) => {
      const fixture = await backupFixture(t, { snapshotBytes: 9 * MIB })
      const { engine, nodes, world } = fixture
      const [node] = nodes
      let killed = 0
      // A node that is killed while it creates a snapshot leaves no file.
      const restarted = Promise.withResolvers<undefined>()
      setMaking(engine, {
        until: () => (when === 'made' && killed < 2 ? restarted.promise : undefined),
      })
      node?.misbehave((request) => {
        if (!isThere(request)) return undefined
        if (killed++ === 0) setImmediate(() => void node.close())
        return { cut: 'within' }
      })
      const time = instantClock(async () => {
        if (killed !== 1) return
        killed += 1
        const port = node?.port ?? 0
        const again = await startEngineNode({ ordinal: 0, cluster: engine, port })
        t.teardown(() => again.close())
        restarted.resolve(undefined)
      })
      const { code, log } = await world.run({}, { time: { ...time, now: () => new Date() } })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.match(log, /retrying (snapshot|shard)/)
      await assertComplete(t, fixture)
    },
  )
}

t.test('a snapshot that disappeared is created again', async (t) => {
  const fixture = await backupFixture(t)
  let asked = 0
  fixture.nodes[0]?.misbehave((request) => {
    if (isSnapshotDownload(request) && asked++ === 0) snapshotFiles(fixture.engine).clear()
    return undefined
  })
  t.equal((await fixture.world.run()).code, EXIT.done)
  await assertComplete(t, fixture)
})

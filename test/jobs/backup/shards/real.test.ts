/** `backup run` by shard from a real engine of three nodes, which ENGINE_BIN names, with failures. */
import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { isShardManifest, type ShardSnapshot } from '../../../../crds/contract/manifest.ts'
import { parseManifest } from '../../../../jobs/manifest-check.ts'
import { systemClock } from '../../../../jobs/clock.ts'
import { realSubject, type RealSubject } from '../../../contract/engine/real.ts'
import { startBucketServer, type BucketServer } from '../../../doubles/bucket/server.ts'
import { ask } from '../../restore/collection-state.ts'
import { backupWorld } from '../backup-world.ts'

const bin = process.env['ENGINE_BIN']
const real = { time: systemClock }
const DOCS = '/collections/docs'

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to back up', { skip: true })
} else {
  t.setTimeout(600_000)
  t.test('from a real engine of three nodes', { timeout: 580_000 }, async (t) => examine(t, bin))
}

interface Fixture {
  engine: RealSubject
  s3: BucketServer
}

async function examine(t: Test, bin: string) {
  const engine = await realSubject(bin, { size: 'three', service: {} })
  const s3 = await startBucketServer()
  t.teardown(async () => {
    await engine.close()
    await s3.close()
  })
  const scene = { engine, s3 }
  await fill(engine.urls[0] ?? '')

  await t.test('a shard that moves meanwhile is streamed from where it is', async (t) => {
    const [shard = -1, from = -1, to = -1] = await movableShards(engine)
    const first = shard === 0 ? 1 : 0
    const world = await opened(t, scene, 'moved', 1)
    const moved = duringUpload(s3, first, async () => {
      const [from_peer_id, to_peer_id] = [await peerOf(engine, from), await peerOf(engine, to)]
      const move_shard = { shard_id: shard, from_peer_id, to_peer_id }
      await ask(engine.urls[0] ?? '', 'POST', `${DOCS}/cluster?timeout=60`, { move_shard })
      await waitUntil(async () => (await holdersOf(engine, shard)).join() !== [from].join())
    })
    const { code, log } = await world.run({}, real)
    t.equal(code, EXIT.done, log.slice(-2000))
    await moved()
    t.strictSame((await holdersOf(engine, shard)).includes(from), false, 'it has moved')
    await assertComplete(t, scene, world)
  })

  await t.test(
    'a node that is killed while it streams, and whose copies turn Dead, is left for another',
    async (t) => {
      const world = await opened(t, scene, 'killed', 2)
      const said: string[] = []
      let killed = -1
      const done = duringUpload(s3, 2, async () => {
        killed = Number(/node (\d): streaming shard 2/.exec(said.join())?.[1])
        const pid = engine.pids[killed]
        if (pid === undefined) throw new Error(`no line names the node: ${said.join()}`)
        process.kill(pid, 'SIGKILL')
        const other = engine.urls[(killed + 1) % 3] ?? ''
        const points = [{ id: 1, vector: [9, 9], payload: { written: 'meanwhile' } }]
        await ask(other, 'PUT', `${DOCS}/points?wait=true`, { points }).catch(() => undefined)
        await waitUntil(async () =>
          JSON.stringify(await ask(other, 'GET', `${DOCS}/cluster`)).includes('Dead'),
        )
      })
      const { code, log } = await world.run({}, { ...real, onLine: (line) => said.push(line) })
      await done()
      t.equal(code, EXIT.done, log.slice(-3000))
      t.match(log, /(broke off|ended early|did not stay Active|got no answer)[^\n]*/)
      const [, , snapshot] = await snapshotsIn(s3, 'killed')
      t.not(snapshot?.nodeIndex, killed, 'it came from another pod')
      await assertComplete(t, scene, world)
    },
  )
}

async function opened(t: Test, { engine, s3 }: Fixture, prefix: string, parallelism: number) {
  const ports = engine.urls.map((url) => Number(new URL(url).port))
  return backupWorld(t, { ports, endpoint: s3.url, method: 'Shard', prefix, parallelism })
}

/** Holds the first part of a shard until that is done; the answer ends when it was, or with its error. */
function duringUpload(
  s3: BucketServer,
  shard: number,
  act: () => Promise<void>,
): () => Promise<void> {
  const acting = Promise.withResolvers<undefined>()
  let isHeld = false
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'UploadPart' || !key.includes(`/shard-${shard}/`) || isHeld) return undefined
    isHeld = true
    act().then(() => acting.resolve(undefined), acting.reject)
    return { after: acting.promise.catch(() => undefined) }
  })
  return () => acting.promise
}

async function assertComplete(t: Test, { s3 }: Fixture, world: Awaited<ReturnType<typeof opened>>) {
  t.equal(s3.buckets.get('backups')?.uploads.size, 0, 'no upload is left open')
  const proof = await world.verify(`s3://backups/${world.folder.slice(0, -1)}`)
  t.equal(proof.code, EXIT.done, proof.log.slice(-2000))
}

async function snapshotsIn(s3: BucketServer, prefix: string): Promise<ShardSnapshot[]> {
  const text = s3.buckets.get('backups')?.text(`${prefix}/b/manifest.json`) ?? '{}'
  const manifest = parseManifest(JSON.parse(text))
  return isShardManifest(manifest) ? (manifest.collections[0]?.snapshots ?? []) : []
}

interface View {
  peer_id: number
  local_shards: { shard_id: number; state: string }[]
}

async function views({ urls }: RealSubject): Promise<View[]> {
  return Promise.all(urls.map(async (url) => (await ask(url, 'GET', `${DOCS}/cluster`)) as View))
}

async function peerOf(engine: RealSubject, node: number): Promise<number> {
  return (await views(engine))[node]?.peer_id ?? 0
}

async function holdersOf(engine: RealSubject, shard: number): Promise<number[]> {
  return (await views(engine)).flatMap(({ local_shards }, node) =>
    local_shards.some(({ shard_id }) => shard_id === shard) ? [node] : [],
  )
}

/** A shard, a node that holds it, and one that does not. */
async function movableShards(engine: RealSubject): Promise<number[]> {
  const holders = await holdersOf(engine, 1)
  const to = [0, 1, 2].find((node) => !holders.includes(node)) ?? 0
  return [1, holders[0] ?? 0, to]
}

async function waitUntil(isTrue: () => Promise<boolean>): Promise<void> {
  for (let left = 300; !(await isTrue()); left -= 1) {
    if (left === 0) throw new Error('it did not come to that within a minute')
    await systemClock.sleep(200)
  }
}

const POINTS = 600

/** Three shards in two copies, each too large for what is in the buffers of a connection. */
async function fill(url: string): Promise<void> {
  const body = { vectors: { size: 2, distance: 'Dot' }, shard_number: 3, replication_factor: 2 }
  await ask(url, 'PUT', `${DOCS}?timeout=60`, body)
  for (let from = 0; from < POINTS; from += 20) {
    const points = Array.from({ length: 20 }, (_, index) => ({
      ...{ id: from + index, vector: [index, 1] },
      payload: { text: randomBytes(150_000).toString('base64') },
    }))
    await ask(url, 'PUT', `${DOCS}/points?wait=true`, { points })
  }
}

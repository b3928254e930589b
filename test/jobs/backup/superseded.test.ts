/**
 * A pod that was presumed dead, as on an unreachable node, continues after the pod that replaced it has
 * completed the backup. It deletes nothing of that backup.
 */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { backupFixture, type BackupFixture } from './fixture.ts'
import { assertComplete, shardFixture } from './shards/fixture.ts'

/** Runs one pod until the nth write of an object, another one from the start to its end, then the rest of the first. */
async function overtaken(
  t: Test,
  { s3, world }: Pick<BackupFixture, 's3' | 'world'>,
  { file, write, meanwhile }: { file: string; write: number; meanwhile?: () => void },
): Promise<void> {
  const reached = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  let writes = 0
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'PutObject' || !key.endsWith(file) || (writes += 1) !== write) {
      return undefined
    }
    reached.resolve(undefined)
    return { after: released.promise }
  })
  const first = world.run({}, { pod: 'pod-1' })
  await reached.promise
  meanwhile?.()
  const second = await world.run({}, { pod: 'pod-2' })
  t.equal(second.code, EXIT.done, second.log)
  released.resolve(undefined)
  const { code, log } = await first
  t.equal(code, EXIT.crash)
  t.match(log, /pod pod-2 works on this run: this pod stops/)
}

for (const [where, shard] of [
  ['before it streams the next shard', 0],
  ['before it removes stale objects', 1],
] as const) {
  t.test(`by shard, a pod that was replaced deletes nothing ${where}`, async (t) => {
    const fixture = await shardFixture(t, { shards: 2, parallelism: 1 })
    // The second checkpoint of a shard says that it is complete.
    await overtaken(t, fixture, { file: `shard-${shard}/checkpoint.json`, write: 2 })
    await assertComplete(t, fixture)
  })
}

t.test('by node, a pod that was replaced does not discard the round of the other', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2 })
  const { engine, world } = fixture
  // Requested, accepted, made, uploaded.
  await overtaken(t, fixture, {
    file: 'node-1/checkpoint.json',
    write: 4,
    meanwhile() {
      engine.removeCollection('docs')
      engine.createCollection('docs', 2, 1)
    },
  })
  const { code, log } = await world.verify('s3://backups/nightly/b')
  t.equal(code, EXIT.done, log)
})

t.test('a pod that was replaced while it reads the aliases writes no manifest', async (t) => {
  const { nodes, s3, world } = await backupFixture(t)
  const reached = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  let readings = 0
  nodes[0]?.misbehave(({ path }) => {
    // At the beginning and at the end.
    if (path.join('/') !== 'aliases' || (readings += 1) !== 2) return undefined
    reached.resolve(undefined)
    return { until: released.promise }
  })
  const first = world.run({}, { pod: 'pod-1' })
  await reached.promise
  t.equal((await world.run({}, { pod: 'pod-2' })).code, EXIT.done)
  released.resolve(undefined)
  t.equal((await first).code, EXIT.crash)
  const written = s3.calls.filter(
    ({ operation, key }) => operation === 'PutObject' && key.endsWith('manifest.json'),
  )
  t.equal(written.length, 1)
})

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}, no manifest is written if an object is gone by then`, async (t) => {
    const { s3, store, world, keys } = await backupFixture(t, { method })
    let gone = ''
    s3.misbehave(({ operation, key }) => {
      if (operation !== 'PutObject' || !key.endsWith('collection.json')) return undefined
      gone = keys().find((name) => name.endsWith('.snapshot')) ?? ''
      store().objects.delete(gone)
      return undefined
    })
    const { code } = await world.run()
    t.equal(code, EXIT.failed)
    t.not(gone, '')
    const error = `s3://backups/${gone} was deleted or replaced during the backup`
    t.match(await world.progress(), { state: 'Failed', reason: 'BucketFailed', message: error })
    t.notOk(keys().includes('nightly/b/manifest.json'))
  })
}

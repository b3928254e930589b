/**
 * Snapshots of a real engine, which ENGINE_BIN names, and a manifest with only the fields that
 * another program writes: everything is deleted, restored into three nodes, and compared point by point.
 */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { NAMES, fill } from './collections.ts'
import { FROM_BUCKET, makeExternal } from './external-manifest.ts'
import { ask, placement, readCollectionState } from './collection-state.ts'
import { restoreWorld } from './restore-world.ts'

const bin = process.env['ENGINE_BIN']

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to restore into', { skip: true })
} else {
  t.setTimeout(300_000)
  t.test('a manifest of another program on three real nodes', { timeout: 280_000 }, async (t) =>
    examine(t, bin),
  )
}

async function examine(t: Test, bin: string) {
  const engine = await realSubject(bin, { size: 'three', service: {} })
  const s3 = await startBucketServer()
  t.teardown(async () => {
    await engine.close()
    await s3.close()
  })
  const { urls } = engine
  const [url = ''] = urls
  const world = await restoreWorld(t, {
    ports: urls.map((one) => Number(new URL(one).port)),
    endpoint: s3.url,
  })
  await fill(urls)
  const backup = await world.run({}, { time: systemClock })
  t.equal(backup.code, EXIT.done, backup.code === EXIT.done ? 'done' : backup.log)
  const before = new Map<string, object>()
  const placements = new Map<string, object>()
  for (const name of NAMES) {
    before.set(name, { ...(await readCollectionState(urls, name)), aliases: [] })
    placements.set(name, await placement(urls, name))
  }
  const store = s3.buckets.get('backups')
  if (store === undefined) throw new Error('there is no bucket')
  makeExternal(store, ({ collections }) => {
    for (const snapshot of collections[0]?.snapshots ?? []) delete snapshot.checksum
  })
  for (const name of NAMES) await ask(url, 'DELETE', `/collections/${encodeURIComponent(name)}`)
  const restore = await world.restore(FROM_BUCKET)
  const { code, log } = await restore.run({ time: systemClock })
  t.equal(code, EXIT.done, code === EXIT.done ? 'done' : log)
  for (const name of NAMES) {
    t.strictSame(await readCollectionState(urls, name), before.get(name), name)
    t.strictSame(await placement(urls, name), placements.get(name), `placement of ${name}`)
  }
  t.match(await restore.result(), { total: 4, completed: 4 })
}

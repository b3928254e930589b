/** Whatever the store of a purge answers, the process stays below the memory that its pod has, and the backups of others are purged. */
import t from 'tap'
import { startBucketServer } from '../doubles/bucket/server.ts'
import { startGround } from './ground.ts'
import { Patient, showAttacks, stillServes } from './patient.ts'
import {
  addTenants,
  finalize,
  hostileStore,
  ownerOf,
  STORE_ATTACKS,
  TENANTS,
} from './store-attacks.ts'

const ground = await startGround(t.testdir({}))
const patient = new Patient(ground)
t.teardown(async () => {
  await patient.stop()
  await ground.close()
})

showAttacks(t, STORE_ATTACKS, ground, patient)

t.test('the purge of another namespace does not wait for stores that are silent', async (t) => {
  const silent = await hostileStore(() => undefined)
  t.teardown(silent.close)
  addTenants(ground, [...TENANTS, 'other'])
  const [namespace = ''] = TENANTS
  for (let at = 0; at < TENANTS.length; at += 1)
    await finalize(ground, { namespace, name: `silent-${at}` }, silent.url)
  t.equal(silent.paths.length, 1, 'one at a time for a namespace')
  const store = await startBucketServer()
  t.teardown(() => store.close())
  const folder = store.buckets.get('backups')
  folder?.put('honest/owner.json', Buffer.from(ownerOf('/backups/honest/owner.json')))
  folder?.put('honest/manifest.json', Buffer.from('{}'))
  const backup = { namespace: 'other', name: 'honest' }
  let rounds = 1
  while ((await finalize(ground, backup, store.url)).finalized !== true) rounds += 1
  t.comment(`finalized at hook ${rounds}`)
  t.strictSame(folder?.keys(), [])
  await stillServes(t, ground, patient)
})

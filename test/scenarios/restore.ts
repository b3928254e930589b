/** VecRestore: a backup that comes back whole, in its turn, and read in peace. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { matchWhole } from '../match-whole.ts'
import { backupResource, backupStatus, said, untilEnded } from './backup-parts.ts'
import { movingResource } from './moving-parts.ts'
import { restoreFaults } from './restore-faults.ts'
import { backedUp } from './restore-parts.ts'
import { restoreShards } from './restore-shards.ts'
import { eventsAbout, jobsIn, untilGone, type Scenario } from './scenario.ts'

const whole: Scenario = {
  title:
    'H9: a backup comes back in another cluster of as many nodes: points, copies, indexes and aliases',
  async run(world, t) {
    const namespace = await world.namespace('restored')
    await backedUp(world, namespace)
    const { reference, of, untilCompleted } = movingResource('VecRestore', namespace, 'r')
    await world.apply(of({ backupRef: { name: 'one' }, targetClusterRef: { name: 'b' } }))
    const status = await untilCompleted(world)
    matchWhole(t, status, {
      sourceBackup: 'one',
      startTime: String,
      completionTime: String,
      restoredCollections: [{ name: 'books', status: 'Completed', pointsCount: 30 }],
      progress: { collectionsTotal: 1, collectionsCompleted: 1, percentage: 100 },
    })
    t.match(said(await world.get(reference)), {
      status: 'True',
      reason: 'RestoreCompleted',
      message: 'Restored 1/1',
    })
    for (const pod of ['vec-b-0', 'vec-b-1']) {
      const path = '/collections/books%20today/points/count'
      t.match(
        await world.engine({ namespace, name: pod }, 'POST', path, { exact: true }),
        { result: { count: 30 } },
        `${pod} has them all, by the alias`,
      )
    }
    t.match(await world.engine({ namespace, name: 'vec-b-0' }, 'GET', '/collections/books'), {
      result: {
        config: { params: { shard_number: 2, replication_factor: 2 } },
        payload_schema: { author: { data_type: 'keyword' } },
      },
    })
    t.match(await eventsAbout(world, reference), { RestoreCompleted: /Restored 1\/1/ })
    const visible = JSON.stringify([await world.get(reference), await world.serviceLog()])
    t.notMatch(visible, /X-Amz-Signature/, 'no presigned address is shown')
  },
}

const waitsForBackup: Scenario = {
  title:
    'while a restore reads a backup, its objects stay though it is deleted, and a backup of that cluster waits',
  async run(world, t) {
    const namespace = await world.namespace('in-turn')
    const { bucket, backup } = await backedUp(world, namespace)
    const { promise: hold, resolve: release } = Promise.withResolvers<undefined>()
    const isRead = ({ method, key }: { method: string; key: string }) =>
      method === 'GET' && key.endsWith('.snapshot')
    bucket.misbehave((call) => (isRead(call) ? { hold } : undefined))
    const restore = movingResource('VecRestore', namespace, 'r')
    const { reference, of, statusOf } = restore
    await world.apply(of({ backupRef: { name: 'one' }, targetClusterRef: { name: 'b' } }))
    await world.waitFor(
      reference,
      'Restoring',
      (object) => statusOf(object).phase === 'Restoring',
      180,
    )

    const other = backupResource('VecBackup', { namespace, name: 'two' }, bucket)
    await world.apply(other.of({ clusterRef: { name: 'b' } }))
    const waiting = await world.waitFor(
      other.reference,
      'waiting for its turn',
      (object) => said(object)?.reason === 'ClusterBusy',
      180,
    )
    t.equal(said(waiting)?.message, `waiting for VecRestore ${namespace}/r`)

    await world.delete(backup.reference)
    const purged = (object: AnyObject | undefined) =>
      backupStatus(object).conditions?.find(({ type }) => type === 'Purged')
    const live = await world.waitFor(
      backup.reference,
      'kept',
      (object) => purged(object)?.reason === 'WaitingForRestore',
      180,
    )
    t.equal(purged(live)?.message, `waiting for VecRestore ${namespace}/r`)
    t.ok((await bucket.keys('one/')).includes('one/manifest.json'))

    bucket.misbehave()
    release(undefined)
    await restore.untilCompleted(world)
    await untilGone(world, backup.reference, 300)
    t.strictSame(await bucket.keys('one/'), [])
    await untilEnded(world, other.reference)
  },
}

const guest: Scenario = {
  title:
    'a backup of another namespace is restored only where it allows that, and its credentials stay where they are',
  async run(world, t) {
    const owner = await world.namespace('owner')
    const namespace = await world.namespace('guest')
    const { bucket, backup } = await backedUp(world, owner, namespace)
    const spec = {
      backupRef: { name: 'one', namespace: owner },
      targetClusterRef: { name: 'b' },
    }
    const allowed = movingResource('VecRestore', namespace, 'allowed')
    await world.apply(allowed.of(spec))
    const waiting = await world.waitFor(
      allowed.reference,
      'RefNotPermitted',
      (object) => allowed.statusOf(object).conditions?.[0]?.reason === 'RefNotPermitted',
      180,
    )
    matchWhole(t, allowed.statusOf(waiting), {
      phase: 'Pending',
      conditions: ['Complete', 'Reconciling'].map((type) => ({
        type,
        message: /does not allow namespace guest/,
      })),
    })
    t.strictSame(
      (await jobsIn(world, namespace)).filter((name) => /-restore-[0-9a-f]{5}-\d+$/.test(name)),
      [],
      'no Job was made for it',
    )

    const annotations = { [ANNOTATIONS.allowedNamespaces]: namespace }
    await world.patch(backup.reference, { metadata: { annotations } })
    await allowed.untilCompleted(world)
    const path = '/collections/books/points/count'
    const pod = { namespace, name: 'vec-b-0' }
    const counted = await world.engine(pod, 'POST', path, { exact: true })
    t.match(counted, { result: { count: 30 } })
    const secrets = JSON.stringify(await world.list('v1', 'Secret', namespace))
    const key = Buffer.from(bucket.access.secretAccessKey).toString('base64')
    t.notOk(secrets.includes(key), 'the copy went with the end of the Job')
  },
}

export const restoreScenarios: Scenario[] = [
  whole,
  waitsForBackup,
  guest,
  ...restoreFaults,
  ...restoreShards,
]

/** What a VecBackup waits for and whose credentials it may use: cluster, Secrets, its turn, other namespaces. */
import {
  backupJobs,
  backupResource,
  backupStatus,
  eventually,
  fill,
  filledCluster,
  heldUpload,
  said,
  untilEnded,
  untilSaid,
  uploads,
  verify,
} from './backup-parts.ts'
import { running, type Scenario } from './scenario.ts'

const waits: Scenario = {
  title:
    'a backup is Pending and says what it waits for: cluster, then credentials; then it starts',
  async run(world, t) {
    const namespace = await world.namespace('waits-for')
    const bucket = await world.bucket(namespace)
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const credentialsSecretRef = { name: 'later' }
    await world.apply(of({ storage: { s3: { ...bucket.target, credentialsSecretRef } } }))
    const first = await untilSaid(world, reference, 'ClusterNotFound')
    t.equal(backupStatus(first).phase, 'Pending')
    t.match(said(first)?.message, `cluster ${namespace}/a not found`)
    await running(world, namespace, 'a')
    await fill(world, namespace, 'docs')
    const second = await untilSaid(world, reference, 'SecretNotFound')
    t.equal(backupStatus(second).phase, 'Pending')
    t.match(said(second)?.message, `Secret ${namespace}/later not found`)
    t.strictSame(await bucket.keys(), [])
    const secret = { apiVersion: 'v1', kind: 'Secret', namespace, name: 'bucket' }
    const { data } = (await world.get(secret)) as unknown as { data: Record<string, string> }
    // The names AWS gives them are the second choice.
    await world.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: 'later' },
      data: {
        AWS_ACCESS_KEY_ID: data['CLOUD_ACCESS_KEY_ID'],
        AWS_SECRET_ACCESS_KEY: data['CLOUD_SECRET_ACCESS_KEY'],
      },
    })
    await untilEnded(world, reference)
  },
}

const oneAtATime: Scenario = {
  title: 'H18: two backups of one cluster at once take turns; who waits says for whom',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'turns')
    const first = backupResource('VecBackup', { namespace, name: 'first' }, bucket)
    const second = backupResource('VecBackup', { namespace, name: 'second' }, bucket)
    const held = heldUpload(bucket)
    await world.apply(first.of())
    await eventually(world, 'the first uploads', held.begun)
    await world.apply(second.of())
    const waiting = await untilSaid(world, second.reference, 'ClusterBusy')
    t.equal(said(waiting)?.message, `waiting for VecBackup ${namespace}/first`)
    t.equal(backupStatus(waiting).phase, 'Pending')
    t.equal(backupStatus(await world.get(first.reference)).phase, 'InProgress')
    t.equal((await backupJobs(world, namespace)).length, 1)
    held.release()
    await untilEnded(world, first.reference)
    await untilEnded(world, second.reference)
    t.strictSame(Object.values(uploads(bucket)), [1, 1])
    t.equal((await verify(bucket, 'first')).code, 0)
    t.equal((await verify(bucket, 'second')).code, 0)
  },
}

const elsewhere: Scenario = {
  title:
    'a backup of a cluster in another namespace: its key from there, bucket credentials from here, unless the cluster forbids it',
  async run(world, t) {
    const theirs = await world.namespace('theirs')
    const ours = await world.namespace('ours')
    const bucket = await world.bucket(ours)
    const cluster = await running(world, theirs, 'a', { apiKey: { autoGenerate: true } })
    await fill(world, theirs, 'docs')
    const clusterRef = { name: 'a', namespace: theirs }
    // The chart allows no other namespace by default.
    const allowed = { 'vec-operator.dev/allowed-namespaces': ours }
    await world.patch(cluster, { metadata: { annotations: allowed } })
    const { reference, of } = backupResource('VecBackup', { namespace: ours, name: 'b' }, bucket)
    await world.apply(of({ clusterRef }))
    await untilEnded(world, reference)
    t.equal((await verify(bucket, 'b')).code, 0)
    await eventually(world, 'the copies of the key are deleted', async () => {
      const secrets = await world.list('v1', 'Secret', ours)
      return secrets.every(({ metadata }) => !metadata.name.startsWith('b-backup-'))
    })

    const annotations = { 'vec-operator.dev/allowed-namespaces': 'another-namespace' }
    await world.patch(cluster, { metadata: { annotations } })
    const second = backupResource('VecBackup', { namespace: ours, name: 'second' }, bucket)
    await world.apply(second.of({ clusterRef }))
    const waiting = await untilSaid(world, second.reference, 'RefNotPermitted')
    t.equal(backupStatus(waiting).phase, 'Pending')
    t.match(said(waiting)?.message, `cluster ${theirs}/a does not allow namespace ${ours}`)
    await world.patch(cluster, { metadata: { annotations: allowed } })
    await untilEnded(world, second.reference)
  },
}

export const backupWaits: Scenario[] = [waits, oneAtATime, elsewhere]

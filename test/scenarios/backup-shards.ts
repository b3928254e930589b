/** A VecBackup by shard: the content of the bucket, status and log, and what the next Job reuses of a killed one. */
import { parseManifest } from '../../jobs/manifest-check.ts'
import { matchWhole } from '../match-whole.ts'
import {
  backupJobs,
  backupResource,
  engineFiles,
  eventually,
  fill,
  heldUpload,
  points,
  said,
  untilEnded,
  uploads,
  verify,
} from './backup-parts.ts'
import { running, type Scenario } from './scenario.ts'

const THREE_NODES = { replicas: 3, cluster: { enabled: true }, apiKey: { autoGenerate: true } }

const whole: Scenario = {
  title:
    'by shard, three nodes, replication factor 2, shard keys: every shard once in the bucket, no file on a node, provable from there alone',
  async run(world, t) {
    const namespace = await world.namespace('by-shard')
    const bucket = await world.bucket(namespace)
    await running(world, namespace, 'a', THREE_NODES)
    const two = { shard_number: 2, replication_factor: 2 }
    const spread = await fill(world, namespace, 'books', { ...two, shard_number: 4 })
    await spread.upsert({ points: points(40) })
    const keyed = await fill(world, namespace, 'my cities', { ...two, sharding_method: 'custom' })
    for (const [index, shard_key] of ['berlin', 7].entries()) {
      await keyed.call('PUT', '/shards?timeout=60', { shard_key })
      await keyed.upsert({ points: points(10 + index), shard_key })
    }
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of({ method: 'Shard', parallelism: 3 }))
    const status = await untilEnded(world, reference)
    t.match(status, { phase: 'Completed', totalSize: /^[\d.]+ (B|[KMG]iB)$/ })
    t.match(said(await world.get(reference)), { message: 'Backed up 2/2 collections' })

    const manifest = parseManifest(await bucket.json('b/manifest.json'))
    matchWhole(t, manifest, {
      ...{ manifestVersion: 2, method: 'Shard', nodeCount: 3 },
      collections: [
        { name: 'books', replicationFactor: 2, exactPointsCount: 40, aliases: ['books today'] },
        {
          name: 'my cities',
          shardKeys: [
            { key: 'berlin', exactPointsCount: 10 },
            { key: 7, exactPointsCount: 11 },
          ],
        },
      ],
    })
    const keys = (await bucket.keys()).filter((key) => key.endsWith('.snapshot'))
    const ids = manifest.collections.flatMap(({ name, shards }) =>
      shards.map(({ shardId }) => `b/${name}/shard-${shardId}/${name}-${shardId}.snapshot`),
    )
    // Each pod of a Job writes under a name of its own.
    const named = keys.map((key) => key.replace(/-[0-9a-f]{8}\.snapshot$/, '.snapshot'))
    t.strictSame(named, ids.sort(), 'each shard once, and no others')
    t.equal(keys.length, 8)
    const reported = status.collections?.flatMap(({ snapshots = [] }) => snapshots) ?? []
    t.strictSame(reported.map(({ key }) => key).sort(), keys, 'the status names them')
    t.ok(
      reported.every(({ shard, node }) => shard !== undefined && node < 3),
      'with shard and pod',
    )
    for (const name of ['books', 'my cities']) {
      t.strictSame(await engineFiles(world, namespace, 3, name), [], 'the nodes made no file')
    }
    const proof = await verify(bucket, 'b')
    t.equal(proof.code, 0, proof.output)
    t.match(proof.output, /all 8 objects are complete/)
  },
}

const killed: Scenario = {
  title: 'a backup Job by shard that is killed: the next pod skips the shards that are whole',
  async run(world, t) {
    const namespace = await world.namespace('killed-by-shard')
    const bucket = await world.bucket(namespace)
    await running(world, namespace, 'a')
    const docs = await fill(world, namespace, 'docs', { shard_number: 3 })
    await docs.upsert({ points: points(30) })
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const held = heldUpload(bucket, 'b/docs/shard-1/')
    await world.apply(of({ method: 'Shard' }))
    await eventually(world, 'the second shard is being uploaded', held.begun)
    const object = await world.waitFor(
      reference,
      'reports its progress',
      (found) => /1 of 3 shards/.test(said(found)?.message ?? ''),
      180,
    )
    t.match(said(object)?.message, /^collection 1 of 1 \(docs\), 1 of 3 shards: .* of about /)
    const [job = ''] = await backupJobs(world, namespace)
    await world.faults.killJobPod(namespace, job)
    held.release()
    t.match(await untilEnded(world, reference), { phase: 'Completed' })
    const streamed = Object.entries(uploads(bucket)).filter(([key]) => key.includes('/shard-0/'))
    t.strictSame(
      streamed.map(([, times]) => times),
      [1],
      'what was whole is not moved again',
    )
    t.match(await world.logs(namespace, job), /already in the bucket/)
    const snapshots = (await bucket.keys()).filter((key) => key.endsWith('.snapshot'))
    t.equal(snapshots.length, 3, 'nothing is left of the attempt that was killed')
    t.equal((await verify(bucket, 'b')).code, 0)
  },
}

export const backupShards: Scenario[] = [whole, killed]

/** A VecBackup without failures: the content of the bucket, status and log. */
import { parseManifest } from '../../jobs/manifest-check.ts'
import { matchWhole } from '../match-whole.ts'
import type { World } from '../world/world.ts'
import {
  eventually,
  backupResource,
  backupStatus,
  deleted,
  engineFiles,
  fill,
  filledCluster,
  heldUpload,
  points,
  said,
  untilEnded,
  untilInProgress,
  verify,
  backupJobs,
} from './backup-parts.ts'
import { eventsAbout, running, type Scenario } from './scenario.ts'

const THREE_NODES = { replicas: 3, cluster: { enabled: true }, apiKey: { autoGenerate: true } }

/** Two collections over three nodes: one spread by the engine, one by shard keys. */
async function fillBoth(world: World, namespace: string): Promise<void> {
  const spread = await fill(world, namespace, 'books', { shard_number: 3, replication_factor: 2 })
  await spread.upsert({ points: points(30) })
  const custom = { sharding_method: 'custom', shard_number: 2, replication_factor: 2 }
  const keyed = await fill(world, namespace, 'my cities', custom)
  for (const [index, shard_key] of ['berlin', 7].entries()) {
    await keyed.call('PUT', '/shards?timeout=60', { shard_key })
    await keyed.upsert({ points: points(10, 1 + 10 * index), shard_key })
  }
}

const whole: Scenario = {
  title:
    'H16: three nodes, replication factor 2, shard keys, aliases and indexes: every node of every collection in the bucket, provable from there alone',
  async run(world, t) {
    const namespace = await world.namespace('backed-up')
    const bucket = await world.bucket(namespace)
    await running(world, namespace, 'a', THREE_NODES)
    await fillBoth(world, namespace)
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const s3 = { ...bucket.target, prefix: 'nightly/prod' }
    // A phase that begins and ends between two reads is reported only as its end.
    const held = heldUpload(bucket)
    await world.apply(of({ storage: { s3 } }))
    await untilInProgress(world, reference)
    held.release()
    const status = await untilEnded(world, reference)

    const folder = 'nightly/prod/b/'
    const snapshots = status.collections?.flatMap((collection) => collection.snapshots ?? []) ?? []
    const keys = await bucket.keys()
    t.strictSame(
      keys.filter((key) => key.endsWith('.snapshot')),
      snapshots.map(({ key }) => key).sort(),
      'every snapshot of the status is an object, and there are no others',
    )
    t.ok(keys.every((key) => key.startsWith(folder)))
    t.equal(
      bucket.calls().findLast(({ method }) => method === 'PUT')?.key,
      `${folder}manifest.json`,
    )
    matchWhole(t, status, {
      phase: 'Completed',
      s3Path: `s3://${bucket.name}/nightly/prod/b`,
      totalSize: /^[\d.]+ (B|[KMG]iB)$/,
      collections: ['books', 'my cities'].map((name) => ({
        name,
        status: 'Completed',
        size: /B$/,
      })),
    })
    t.strictSame(
      snapshots.map(({ node, key }) => [node, key.slice(0, key.lastIndexOf('/'))]),
      ['books', 'my cities'].flatMap((name) =>
        [0, 1, 2].map((node) => [node, `${folder}${name}/node-${node}`]),
      ),
    )
    t.match(said(await world.get(reference)), {
      status: 'True',
      reason: 'BackupCompleted',
      message: 'Backed up 2/2 collections',
    })
    t.match(await eventsAbout(world, reference), {
      BackupStarted: /s3:\/\//,
      BackupCompleted: /Backed up 2\/2 collections/,
    })
    for (const name of ['books', 'my cities']) {
      t.strictSame(await engineFiles(world, namespace, 3, name), [], 'the nodes keep no file of it')
    }

    const manifest = parseManifest(await bucket.json(`${folder}manifest.json`))
    matchWhole(t, manifest, {
      backupName: 'b',
      cluster: { name: 'a', namespace },
      nodeCount: 3,
      engineVersion: world.versions.newer,
      collections: [
        { name: 'books', aliases: ['books today'], pointsCount: 30 },
        {
          name: 'my cities',
          aliases: ['my cities today'],
          payloadIndexes: { author: { dataType: 'keyword' } },
          config: { params: { sharding_method: 'custom', replication_factor: 2 } },
        },
      ],
    })
    const [, cities] = manifest.collections
    t.strictSame(
      new Map(cities?.shardKeys.map(({ key, shardIds }) => [key, shardIds.length])),
      new Map<string | number, number>([
        ['berlin', 2],
        [7, 2],
      ]),
    )
    t.ok(
      cities?.shards.every(({ nodes }) => nodes.length === 2),
      'each shard on two nodes',
    )

    const proof = await verify(bucket, 'nightly/prod/b')
    t.equal(proof.code, 0, proof.output)
    t.match(proof.output, /all 6 objects are complete/)
    await bucket.put(snapshots[4]?.key ?? '', 'something else')
    const unsure = await verify(bucket, 'nightly/prod/b')
    t.equal(unsure.code, 1)
    t.match(unsure.output, /my cities\/node-1\/.* has 14 bytes, not \d+/)
  },
}

const progress: Scenario = {
  title:
    'while a backup runs its status reports which collection of how many, which node, and what is done, also when the store accepts nothing',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'progress', ['one', 'two'])
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    const held = heldUpload(bucket, 'b/two/')
    await world.apply(of())
    const object = await world.waitFor(
      reference,
      'reports its progress',
      (found) => /^collection 2 of 2 \(two\), node 1 of 1: .* of /.test(said(found)?.message ?? ''),
      120,
    )
    const status = backupStatus(object)
    t.match(status, { phase: 'InProgress', startTime: String, s3Path: `s3://${bucket.name}/b` })
    t.match(said(object), { status: 'False', reason: 'BackupRunning' })
    matchWhole(t, status.collections, [
      { name: 'one', status: 'Completed', size: /B$/, snapshots: [{ node: 0 }] },
      { name: 'two', status: 'InProgress' },
    ])
    held.release()
    await untilEnded(world, reference)
  },
}

const story: Scenario = {
  title: 'kubectl logs of a backup Job covers the whole run, and no secret',
  async run(world, t) {
    const namespace = await world.namespace('story')
    const bucket = await world.bucket(namespace)
    await running(world, namespace, 'a', { apiKey: { autoGenerate: true } })
    await fill(world, namespace, 'docs')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    await untilEnded(world, reference)
    const [job = ''] = await backupJobs(world, namespace)
    let log = ''
    // The kubelet may bring the last lines later than the end of the pod.
    await eventually(
      world,
      'the log of the Job can be read to its end',
      async () => (log = await world.logs(namespace, job)).includes('run completed'),
      60,
    )
    const messages = [
      /run started/,
      /collection 1 of 1 \(docs\)/,
      /creating the snapshot/,
      /uploaded b\/docs\/node-0\//,
      /engine snapshot deleted/,
      /manifest written/,
      /Backed up 1\/1 collections/,
    ]
    const positions = messages.map((words) => log.search(words))
    t.notOk(positions.includes(-1), log)
    t.strictSame(
      positions,
      positions.toSorted((one, other) => one - other),
      'in this order',
    )
    const visible = JSON.stringify([await world.get(reference), log, await world.serviceLog()])
    t.notOk(visible.includes(bucket.access.secretAccessKey))
    const jobObject = { apiVersion: 'batch/v1', kind: 'Job', namespace, name: job }
    t.notOk(JSON.stringify(await world.get(jobObject)).includes(bucket.access.secretAccessKey))
  },
}

const chosen: Scenario = {
  title:
    'only the collections named are backed up; one that is missing fails by its name, the others are kept',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'chosen', ['one', 'two'])
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of({ collections: ['none', 'two'] }))
    const status = await untilEnded(world, reference, 'Failed')
    matchWhole(t, status, {
      error: /there is no collection none/,
      collections: [
        { name: 'none', status: 'Failed', error: /there is no collection none/ },
        { name: 'two', status: 'Completed' },
      ],
    })
    t.match(said(await world.get(reference)), {
      reason: 'BackupFailed',
      message: 'Backed up 1/2 collections',
    })
    matchWhole(t, await bucket.json('b/manifest.json'), { collections: [{ name: 'two' }] })
    const verified = await verify(bucket, 'b')
    t.equal(verified.code, 1, 'a backup with a missing collection is not complete')
    t.match(verified.output, /none/)
    await deleted(world, reference)
    t.strictSame(await bucket.keys(), [], 'deleting a Failed backup still removes its objects')
  },
}

export const backupScenarios: Scenario[] = [whole, progress, story, chosen]

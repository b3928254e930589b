/** `restore plan` of a backup by shard: the node of each shard, bytes per node, and capacity. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { backupResource, fill, points, untilEnded } from '../../scenarios/backup-parts.ts'
import { running } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { cliFor } from './cli-user.ts'

t.test('a backup of one node by shard is planned into three', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const namespace = await world.namespace('planned')
  const bucket = await world.bucket(namespace)
  const type = cliFor(t, world.api, namespace)
  await running(world, namespace, 'a')
  await running(world, namespace, 'b', { replicas: 3, cluster: { enabled: true } })
  const { upsert } = await fill(world, namespace, 'docs', { shard_number: 3 })
  await upsert({ points: points(30) })
  const { reference, of } = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
  await world.apply(of({ method: 'Shard' }))
  await untilEnded(world, reference)

  const file = join(t.testdirName, 'restore.yaml')
  const spec = { backupRef: { name: 'one' }, targetClusterRef: { name: 'b' }, replicationFactor: 2 }
  const restore = { apiVersion: API_VERSION, kind: 'VecRestore', metadata: { name: 'r' }, spec }
  writeFileSync(file, stringify(restore))
  const planned = await type('restore', 'plan', '--file', file)
  t.equal(planned.code, EXIT_CODES.success, planned.err)
  t.match(planned.out, /^backup one of \S+, engine 1\.18\.3, 1 nodes\ninto cluster \S+\/b\n/)
  t.match(planned.out, /\nCOLLECTION +SHARD +KEY +SIZE +NODE +REPLICAS ON\n/)
  for (const shard of [0, 1, 2]) {
    t.match(planned.out, new RegExp(`\\ndocs +${shard} +- +\\S+ \\S+ +[012] +[012]\\n`))
  }
  t.match(planned.out, /\n +NODE +RECEIVES +CAPACITY\nok +0 +\S+ \S+ +100 GiB\nok +1 .*\nok +2 /)

  const key = 'one/manifest.json'
  const written = await bucket.json(key)
  const { manifestSha256: __, ...manifest } = written as Record<string, unknown>
  const forged = { backupName: 'one\u001b[2J\nbackup two', engineVersion: '1.18.3\u009b1m' }
  await bucket.put(key, JSON.stringify({ ...manifest, ...forged }))
  const { out } = await type('restore', 'plan', '--file', file)
  t.match(out, /^backup one\\u\{1b\}\[2J backup two of \S+, engine 1\.18\.3\\u\{9b\}1m, 1 nodes\n/)
  await bucket.put(key, JSON.stringify(written))

  const { replicationFactor: _, ...refs } = spec
  const single = { ...restore, spec: { ...refs, shards: [{ collection: 'docs', ids: [0] }] } }
  const singleFile = join(t.testdirName, 'single.yaml')
  writeFileSync(singleFile, stringify(single))
  const refused = await type('restore', 'plan', '--file', singleFile)
  t.equal(refused.code, EXIT_CODES.failure)
  t.match(refused.err, /spec\.shards is set/)

  const json = await type('restore', 'plan', '--file', file, '--json')
  const { shards } = JSON.parse(json.out) as { shards: { node: number; copies: number[] }[] }
  t.strictSame(shards.map(({ node }) => node).toSorted(), [0, 1, 2], 'one on each node')
  t.ok(shards.every(({ node, copies }) => copies.length === 1 && !copies.includes(node)))
})

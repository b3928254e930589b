/** The drill of docs/disaster-recovery.md, step by step, with the files it names. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import type { VecRestore } from '../../crds/restore.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { EXIT_CODES } from '../../jobs/kubectl/command.ts'
import { cliFor, runCommand } from '../jobs/kubectl/cli-user.ts'
import { matchWhole } from '../match-whole.ts'
import { backupResource, fill, points, untilEnded } from '../scenarios/backup-parts.ts'
import { running, SMALL } from '../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { ROOT } from './pages.ts'

const NODES = 3
const POINTS = 30

t.test('a cluster is restored with its points from the bucket alone', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const [shop, drill] = [await world.namespace('shop'), await world.namespace('drill')]
  const bucket = await world.bucket(shop)
  await bucket.grantAccess(drill)
  await running(world, shop, 'a', { version: '1.18.2', replicas: NODES })
  const books = await fill(world, shop, 'books', { shard_number: NODES })
  await books.upsert({ points: points(POINTS) })
  const nightly = backupResource('VecBackup', { namespace: shop, name: 'last-night' }, bucket)
  await world.apply(nightly.of())
  const { s3Path = '' } = await untilEnded(world, nightly.reference)

  // 2. Verify it from the bucket.
  const { endpoint, accessKeyId, secretAccessKey } = bucket.access
  const keys = { CLOUD_ACCESS_KEY_ID: accessKeyId, CLOUD_SECRET_ACCESS_KEY: secretAccessKey }
  const verify = ['backup', 'verify', s3Path, '--endpoint', endpoint, '--path-style']
  const proved = await runCommand(verify, keys)
  t.equal(proved.code, EXIT_CODES.success, proved.out + proved.err)
  t.match(proved.out, /engineVersion=1\.18\.2 nodes=3 /)

  // 3. Create a cluster.
  const cluster = file('cluster', drill) as { metadata: { name: string }; spec: object }
  t.match(cluster.spec, { replicas: NODES, version: '1.18.2' })
  await running(world, drill, cluster.metadata.name, { ...SMALL, ...cluster.spec })

  // 4. Plan and 5. restore.
  const restore = file('restore', drill) as VecRestore
  const path = s3Path.replace(`s3://${bucket.name}/`, '').replace(/\/$/, '')
  const s3 = { ...restore.spec.source?.s3, ...bucket.target, path, prefix: undefined }
  const target = { ...restore, spec: { ...restore.spec, source: { s3 } } }
  const type = cliFor(t, world.api, drill)
  const written = join(t.testdirName, 'restore.yaml')
  writeFileSync(written, stringify(target))
  const planned = await type('restore', 'plan', '--file', written)
  t.equal(planned.code, EXIT_CODES.success, planned.out + planned.err)
  t.match(planned.out, /\nok +books +books .* is created\n/)
  await world.apply(target)
  const { name } = restore.metadata
  const reference = { apiVersion: API_VERSION, kind: 'VecRestore', namespace: drill, name }
  const done = (await world.waitFor(
    reference,
    'ended',
    (object) => ['Completed', 'Failed'].includes((object as VecRestore).status?.phase ?? ''),
    600,
  )) as VecRestore
  matchWhole(t, done.status, {
    phase: 'Completed',
    restoredCollections: [{ name: 'books', pointsCount: POINTS }],
  })
  const pod = { namespace: drill, name: `vec-${cluster.metadata.name}-0` }
  t.match(await world.engine(pod, 'POST', '/collections/books/points/count', { exact: true }), {
    result: { count: POINTS },
  })
})

/** The file of the repository, in a namespace of this world. */
function file(name: string, namespace: string): object {
  const object = parse(readFileSync(`${ROOT}docs/drill/${name}.yaml`, 'utf8')) as {
    metadata: object
  }
  return { ...object, metadata: { ...object.metadata, namespace } }
}

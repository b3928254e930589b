/** A bucket that only the identity of a ServiceAccount may access, from the backup to its deletion. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { startBucketServer } from '../doubles/bucket/server.ts'
import { startIdentityServer } from '../doubles/identity/server.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { deleted, filledCluster, said, untilEnded, untilSaid } from './backup-parts.ts'

const folder = mkdtempSync(join(tmpdir(), 'vec-identity-'))
writeFileSync(join(folder, 'token'), 'pod-token')
const store = await startBucketServer({ keys: {} })
const identity = await startIdentityServer({
  ...{ store, token: 'pod-token', lifetimeSeconds: 24 * 3600 },
})
const world = await startEmbeddedWorld({
  // What admission sets in the pods of the ServiceAccount.
  env: {
    AWS_CONTAINER_CREDENTIALS_FULL_URI: `${identity.url}/v1/credentials`,
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(folder, 'token'),
  },
})
t.teardown(async () => {
  await world.close()
  await identity.close()
  await store.close()
  rmSync(folder, { recursive: true, force: true })
})

const keys = () => store.buckets.get('backups')?.keys() ?? []

t.test('no Job before the annotation, then backup, restore, and a purge by a Job', async (t) => {
  const { namespace } = await filledCluster(world, 'identity')
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', namespace, name: 'docs-backup' }
  const withAnnotations = (annotations: Record<string, string>) => ({
    ...{ apiVersion: 'v1', kind: 'ServiceAccount' },
    metadata: { namespace, name: 'docs-backup', annotations },
  })
  await world.apply(withAnnotations({}))
  const s3 = {
    ...{ bucket: 'backups', endpoint: store.url, forcePathStyle: true },
    serviceAccountName: 'docs-backup',
  }
  const reference = { apiVersion: API_VERSION, kind: 'VecBackup', namespace, name: 'one' }
  await world.apply({
    ...{ apiVersion: API_VERSION, kind: 'VecBackup', metadata: { namespace, name: 'one' } },
    spec: { clusterRef: { name: 'a' }, storage: { s3 } },
  })
  const blocked = await untilSaid(world, reference, 'ServiceAccountNotAllowed')
  t.match(said(blocked)?.message, /does not allow data Jobs/)
  t.strictSame(identity.calls, [])

  await world.patch(account, {
    metadata: { annotations: { 'vec-operator.dev/data-jobs': 'allow' } },
  })
  await untilEnded(world, reference)
  t.ok(keys().includes('one/manifest.json'))
  const jobs = await world.list('batch/v1', 'Job', namespace)
  const accountOf = ({ spec }: AnyObject & { spec?: unknown }) =>
    (spec as { template: { spec: { serviceAccountName: string } } }).template.spec
      .serviceAccountName
  t.strictSame(
    jobs.filter(({ metadata }) => metadata.name.startsWith('one-backup')).map(accountOf),
    ['docs-backup'],
  )

  const restore = { ...reference, kind: 'VecRestore', name: 'again' }
  await world.apply({
    ...{ apiVersion: API_VERSION, kind: 'VecRestore', metadata: { namespace, name: 'again' } },
    spec: {
      ...{ backupRef: { name: 'one' }, targetClusterRef: { name: 'a' } },
      collectionMapping: { docs: 'copy' },
    },
  })
  await untilEnded(world, restore)

  await deleted(world, reference)
  t.strictSame(keys(), [], 'the Job has deleted every object')
  t.ok(await world.get(account), 'the ServiceAccount is not a child')
  const bindings = await world.list('rbac.authorization.k8s.io/v1', 'RoleBinding', namespace)
  t.strictSame(
    bindings.filter(({ metadata }) => metadata.name.startsWith('backup-')),
    [],
    'and is bound to nothing',
  )
})

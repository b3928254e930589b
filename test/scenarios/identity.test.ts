/**
 * A bucket that only the identity of a ServiceAccount may access, at a store with a private authority, from the
 * backup to its deletion.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { startBucketServer } from '../doubles/bucket/server.ts'
import { startIdentityServer } from '../doubles/identity/server.ts'
import { runCommand, writeKubeconfig } from '../jobs/kubectl/cli-user.ts'
import { ONE } from '../metacontroller/certificates.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { deleted, filledCluster, said, untilEnded, untilSaid } from './backup-parts.ts'

const folder = mkdtempSync(join(tmpdir(), 'vec-identity-'))
writeFileSync(join(folder, 'token'), 'pod-token')
const store = await startBucketServer({ keys: {}, tls: ONE })
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

t.test(
  'no Job before annotation and authority, then backup, restore, and a purge by a Job',
  async (t) => {
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
      caConfigMapRef: { name: 'authority', key: 'root.pem' },
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
    const waiting = await untilSaid(world, reference, 'ConfigMapNotFound')
    t.equal(
      said(waiting)?.message,
      `spec.storage.s3.caConfigMapRef: ConfigMap ${namespace}/authority not found`,
    )
    t.strictSame(identity.calls, [])
    await world.apply({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: 'authority' } },
      data: { 'root.pem': ONE.cert },
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

    // A user has keys of their own, and trusts the store by the authority that the backup names.
    const file = join(folder, 'kubeconfig')
    writeKubeconfig(file, world.api, namespace)
    store.keys.set('id', 'secretsecret')
    const planned = await runCommand(['restore', 'plan', 'again'], {
      ...{ CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'secretsecret' },
      KUBECONFIG: file,
    })
    t.equal(planned.code, 0, planned.err)
    t.match(planned.out, /^backup one of \S+, engine /)

    await deleted(world, reference)
    t.strictSame(keys(), [], 'the Job has deleted every object')
    t.ok(await world.get(account), 'the ServiceAccount is not a child')
    const bindings = await world.list('rbac.authorization.k8s.io/v1', 'RoleBinding', namespace)
    t.strictSame(
      bindings.filter(({ metadata }) => metadata.name.startsWith('backup-')),
      [],
      'and is bound to nothing',
    )
  },
)

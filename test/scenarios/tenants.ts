/**
 * Attacks by a tenant who may edit all of our kinds in one namespace and nothing elsewhere: what the tenant got,
 * which is nothing, and that the others are served.
 */
import { ANNOTATIONS, LABELS } from '../../crds/contract/names.ts'
import { backupResource, deleted, fill, filledCluster, untilEnded } from './backup-parts.ts'
import { engineIn, resource, secretIn, untilPhase } from './inside.ts'
import { makeCluster, running, untilGone, type Scenario } from './scenario.ts'
import {
  closed,
  forgedJob,
  forgedReport,
  manifest,
  neighbours,
  secretValues,
  waitForMessage,
} from './tenant-parts.ts'

const KEYED = { apiKey: { autoGenerate: true, jwtRbac: true } }
const FORBIDDEN = { message: /cannot|forbidden/ }
const NOT_ALLOWED = /RefNotPermitted|does not allow namespace/
const VECTORS = { vectors: [{ size: 4, distance: 'Dot' }] }
/** The service's memory of Secrets, and a look at every resource. */
const LATER_SECONDS = 90

const forged: Scenario = {
  title: 'a tenant gets no key of a cluster by forged Jobs and reports',
  async run(world, t) {
    const { owner, own, attacker } = await neighbours(world, 'forged')
    const cluster = await running(world, owner, 'a', KEYED)
    await world.patch(cluster, { metadata: { annotations: closed(world) } })
    const { data } = await secretIn(world, owner, 'vec-a-apikey')
    const key = data['api-key'] ?? ''
    t.ok(key.length >= 16)
    await t.rejects(attacker.list('v1', 'Secret', { namespace: owner }), FORBIDDEN)
    await t.rejects(attacker.get(cluster), FORBIDDEN)

    const there = { name: 'a', namespace: owner }
    const bucket = await world.bucket(own)
    const wishes = [
      manifest('VecRestore', own, 'r', {
        targetClusterRef: there,
        backupRef: { name: 'no-such-backup' },
      }),
      manifest('VecBackup', own, 'b', { clusterRef: there, storage: { s3: bucket.target } }),
      manifest('VecMigration', own, 'm', {
        source: { clusterRef: there },
        targetClusterRef: there,
        collectionMapping: { one: 'two' },
      }),
    ]
    for (const { reference, object } of wishes) {
      const { metadata } = await attacker.create(object)
      await waitForMessage(world, reference, NOT_ALLOWED)
      const uid = metadata.uid ?? ''
      const name = `${reference.name}-run-1`
      const job = await forgedJob(attacker, { namespace: own, name }, { uid })
      const report = forgedReport(uid, job.metadata.uid ?? '', world.now())
      await attacker.patch(reference, report)
      // It was adopted, and stopped since the cluster does not allow the namespace.
      await untilGone(world, { apiVersion: 'batch/v1', kind: 'Job', namespace: own, name }, 240)
    }
    t.notOk((await secretValues(world, own)).some((value) => value.includes(key)))
    const token = resource('VecAccessKey', own, 'token')
    await attacker.create(token.of({ clusterRef: there, access: 'm' }))
    await waitForMessage(world, token.reference, NOT_ALLOWED)
    t.equal((await secretIn(world, own, 'token')).secret, undefined)
    t.strictSame(bucket.calls(), [], 'nothing of the cluster went to the bucket of the tenant')
  },
}

const withdrawn: Scenario = {
  title: 'a tenant whose permission is withdrawn keeps no token, and gets none again',
  async run(world, t) {
    const { owner, own, attacker } = await neighbours(world, 'withdrawn')
    const cluster = await running(world, owner, 'a', KEYED)
    const allow = (list: string | null) =>
      world.patch(cluster, { metadata: { annotations: { [ANNOTATIONS.allowedNamespaces]: list } } })
    await allow(own)
    const token = resource('VecAccessKey', own, 'token')
    await attacker.create(token.of({ clusterRef: { name: 'a', namespace: owner }, access: 'r' }))
    await untilPhase(world, token.reference, 'Ready')
    t.ok((await secretIn(world, own, 'token')).data['token'])
    await t.rejects(
      attacker.patch(cluster, {
        metadata: { annotations: { [ANNOTATIONS.allowedNamespaces]: '*' } },
      }),
      FORBIDDEN,
    )
    await allow('')
    await waitForMessage(world, token.reference, NOT_ALLOWED)
    const secret = { apiVersion: 'v1', kind: 'Secret', namespace: own, name: 'token' }
    await untilGone(world, secret, 180)
    await attacker.patch(token.reference, { spec: { access: 'm' } })
    await world.advance(LATER_SECONDS)
    t.equal(await world.get(secret), undefined)
  },
}

const squatter: Scenario = {
  title: 'a tenant blocks no collection, alias or deletion in a cluster of others',
  async run(world, t) {
    const { owner, own, attacker } = await neighbours(world, 'squatter')
    const cluster = await running(world, owner, 'a')
    await world.patch(cluster, { metadata: { annotations: closed(world) } })
    const there = { name: 'a', namespace: owner }
    const squat = resource('VecCollection', own, 'docs')
    const spec = { ...VECTORS, deletionPolicy: 'Delete', aliases: ['current'] }
    await attacker.create(squat.of({ ...spec, clusterRef: there }))
    await waitForMessage(world, squat.reference, NOT_ALLOWED)
    const docs = resource('VecCollection', owner, 'docs')
    await world.apply(docs.of({ ...VECTORS, aliases: ['current'] }))
    await untilPhase(world, docs.reference, 'Ready')
    const engine = engineIn(world, owner)
    t.strictSame(await engine.aliases(), { current: 'docs' })
    await attacker.delete(squat.reference)
    await untilGone(world, squat.reference, 180)
    t.ok(await engine.exists('docs'), 'what the tenant deletes is not deleted in the engine')
  },
}

const blocker: Scenario = {
  title: 'a tenant keeps no backup from being purged and no restore from starting',
  async run(world, t) {
    const { namespace: owner, bucket, cluster } = await filledCluster(world, 'blocked-owner')
    await world.patch(cluster, { metadata: { annotations: closed(world) } })
    const own = await world.namespace('blocked-tenant')
    const attacker = await world.tenant(own, 'edit')
    const retained = backupResource('VecBackup', { namespace: owner, name: 'kept' }, bucket)
    const gone = backupResource('VecBackup', { namespace: owner, name: 'gone' }, bucket)
    for (const { reference, of } of [retained, gone]) {
      await world.apply(of({ method: 'Shard' }))
      await untilEnded(world, reference)
    }
    const there = { name: 'a', namespace: owner }
    const { prefix: _, ...s3 } = bucket.target
    const wishes = [
      manifest('VecRestore', own, 'by-name', {
        targetClusterRef: there,
        backupRef: { name: 'gone', namespace: owner },
      }),
      manifest('VecRestore', own, 'by-place', {
        targetClusterRef: there,
        source: { s3: { ...s3, path: 'gone' } },
      }),
      manifest('VecMigration', own, 'm', {
        source: { clusterRef: there },
        targetClusterRef: there,
        collectionMapping: { docs: 'copy' },
      }),
    ]
    for (const { reference, object } of wishes) {
      const { metadata } = await attacker.create(object)
      // Not a child of the resource, so that no controller stops it.
      const labels = { 'controller-uid': 'none' }
      const name = `${reference.name}-run-1`
      const uid = metadata.uid ?? ''
      await forgedJob(attacker, { namespace: own, name }, { uid, labels })
    }
    await deleted(world, gone.reference)
    t.strictSame(await bucket.keys('gone/'), [])
    const restore = manifest('VecRestore', owner, 'r', {
      targetClusterRef: { name: 'a' },
      backupRef: { name: 'kept' },
      collectionMapping: { docs: 'copy' },
    })
    await world.apply(restore.object)
    await waitForMessage(world, restore.reference, /RestoreCompleted/, 600)
    t.ok(await engineIn(world, owner).exists('copy'))
  },
}

const slots: Scenario = {
  title: 'a tenant takes no slot of helm runs by Jobs that look like ours',
  async run(world, t) {
    const { owner, own, attacker } = await neighbours(world, 'slots')
    for (let index = 0; index < 12; index += 1) {
      const labels = { [LABELS.release]: `vec-none-${index}`, 'controller-uid': 'none' }
      const forgery = { uid: `none-${index}`, component: 'helm' as const, labels }
      await forgedJob(attacker, { namespace: own, name: `cluster-upgrade-${index}` }, forgery)
    }
    await running(world, owner, 'a')
    t.equal(
      (await world.list('batch/v1', 'Job', own)).length,
      12,
      'and all of them are still there',
    )
  },
}

const injected: Scenario = {
  title: 'a tenant writes no YAML into the pods of a cluster by its image',
  async run(world, t) {
    const { own, attacker } = await neighbours(world, 'injected', 'kinds')
    const repository = 'x:1"\n      hostPID: true\n      serviceAccountName: "default'
    const { object } = manifest('VecCluster', own, 'a', {
      version: world.versions.newer,
      image: { repository },
    })
    await t.rejects(attacker.create(object), { status: 422, message: /repository/ })
    t.strictSame(await world.list('apps/v1', 'StatefulSet', own), [])
  },
}

const reader: Scenario = {
  title: 'a tenant who may not read Secrets has none of other purposes sent anywhere',
  async run(world, t) {
    const { own, attacker } = await neighbours(world, 'reader', 'kinds')
    await running(world, own, 'a')
    await fill(world, own, 'docs')
    const bucket = await world.bucket(own)
    const value = 'VALUE-OF-ANOTHER-PURPOSE'
    for (const [name, type] of [
      ['release', 'helm.sh/release.v1'],
      ['ssh', 'kubernetes.io/ssh-auth'],
    ] as const) {
      const stringData = { 'ssh-privatekey': value }
      const metadata = { namespace: own, name }
      await world.apply({ apiVersion: 'v1', kind: 'Secret', metadata, type, stringData })
      const credentialsSecretRef = {
        name,
        accessKeyIdKey: 'ssh-privatekey',
        secretAccessKeyKey: 'ssh-privatekey',
      }
      const s3 = { ...bucket.target, credentialsSecretRef }
      const backup = manifest('VecBackup', own, `of-${name}`, {
        clusterRef: { name: 'a' },
        storage: { s3 },
      })
      await attacker.create(backup.object)
      await waitForMessage(world, backup.reference, /InvalidSecret: .* is of type /)
      const migration = manifest('VecMigration', own, `of-${name}`, {
        source: {
          endpoint: {
            url: 'http://collector.example',
            apiKeySecretRef: { name, key: 'ssh-privatekey' },
          },
        },
        targetClusterRef: { name: 'a' },
      })
      await attacker.create(migration.object)
      await waitForMessage(world, migration.reference, /InvalidSecret: .* is of type /)
    }
    t.strictSame(bucket.calls(), [])
    t.strictSame(await world.list('batch/v1', 'Job', own).then(dataJobs), [])
  },
}

const account: Scenario = {
  title: 'a Job that is taken over changes nothing but its report',
  only: 'cluster',
  async run(world, t) {
    const namespace = await world.namespace('account')
    const cluster = await makeCluster(world, namespace, 'a', { replicas: 1 })
    await running(world, namespace, 'a')
    const accounts = await world.list('v1', 'ServiceAccount', namespace)
    const name =
      accounts.find((one) => one.metadata.name.startsWith('cluster-'))?.metadata.name ?? ''
    const job = await world.user({ namespace, name })
    const annotate = (annotations: object) => job.patch(cluster, { metadata: { annotations } })
    await t.rejects(annotate({ [ANNOTATIONS.allowedNamespaces]: '*' }), {
      message: /only the annotations it reports in/,
    })
    await t.rejects(annotate({ [ANNOTATIONS.acceptRisk]: 'shard-loss' }), {
      message: /only the annotations/,
    })
    await t.rejects(job.patch(cluster, { spec: { image: { repository: 'evil' } } }), {
      message: /may not change the spec/,
    })
    await t.rejects(job.patch(cluster, { metadata: { finalizers: [] } }), { message: /finalizers/ })
    await t.rejects(job.patch(cluster, { metadata: { labels: { a: 'b' } } }), { message: /labels/ })
    const before = (await world.get(cluster))?.metadata.annotations ?? {}
    await annotate({ [ANNOTATIONS.progress]: before[ANNOTATIONS.progress] })
    t.strictSame((await world.get(cluster))?.metadata.annotations, before)
    await world.waitFor(
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'RoleBinding',
        namespace,
        name: `${name}-helm`,
      },
      'no rights of helm while no run is due',
      (object) => object === undefined,
    )
  },
}

const diverted: Scenario = {
  title: 'a tenant diverts no call of the service to an engine of others',
  // The embedded world has no DNS: its service reaches pods through the API server.
  only: 'cluster',
  async run(world, t) {
    const { owner, own, attacker } = await neighbours(world, 'diverted')
    await Promise.all([running(world, owner, 'a'), running(world, own, 'a')])
    const service = { apiVersion: 'v1', kind: 'Service', namespace: own, name: 'vec-a' }
    const gone = { clusterIP: null, clusterIPs: null, selector: null, ipFamilies: null }
    const externalName = `vec-a.${owner}.svc.cluster.local`
    await attacker.patch(service, {
      spec: { ...gone, type: 'ExternalName', externalName, ipFamilyPolicy: null },
    })
    const stray = resource('VecCollection', own, 'stray')
    await attacker.create(stray.of({ ...VECTORS, deletionPolicy: 'Delete' }))
    await waitForMessage(world, stray.reference, /is of type ExternalName, which is not called/)
    t.notOk(await engineIn(world, owner).exists('stray'))
    await attacker.patch(stray.reference, { metadata: { finalizers: null } })
  },
}

function dataJobs(jobs: { metadata: { name: string } }[]): string[] {
  return jobs
    .map(({ metadata }) => metadata.name)
    .filter((name) => !/-upgrade-[0-9a-f]{5}-\d+$/.test(name))
}

export const tenants: Scenario[] = [
  forged,
  withdrawn,
  squatter,
  blocker,
  slots,
  injected,
  reader,
  account,
  diverted,
]

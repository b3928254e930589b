/** The end of a VecBackup: what deletion, expiry and a namespace that ends do to its objects. */
import type { World } from '../world/world.ts'
import {
  backupResource,
  deleted,
  eventually,
  fill,
  filledCluster,
  untilEnded,
} from './backup-parts.ts'
import { eventsAbout, running, untilGone, type Scenario } from './scenario.ts'

const RETAIN = { 'vec-operator.dev/retain-objects': 'true' }
/** A Secret is checked again after a minute. */
const SECRET_SECONDS = 65
const DAY_SECONDS = 86_400
/** Expiry is checked every five minutes. */
const EXPIRY_SECONDS = 330

const retained: Scenario = {
  title: 'the annotation retain-objects keeps the objects when the backup goes, and only then',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'retained')
    const retainedBackup = backupResource('VecBackup', { namespace, name: 'kept' }, bucket)
    const gone = backupResource('VecBackup', { namespace, name: 'gone' }, bucket)
    await world.apply(retainedBackup.of({}, RETAIN))
    await world.apply(gone.of())
    for (const { reference } of [retainedBackup, gone]) await untilEnded(world, reference)
    const before = await bucket.keys('kept/')
    t.ok(before.length > 0)
    for (const { reference } of [retainedBackup, gone]) await deleted(world, reference)
    t.strictSame(await bucket.keys(), before)
  },
}

const outlives: Scenario = {
  title: 'a backup that has ended outlives its cluster, and is purged without it',
  async run(world, t) {
    const { namespace, bucket, cluster } = await filledCluster(world, 'outlives')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    // A sync with Metacontroller's older copy, without the condition, sets the time of the condition again.
    const ended = async () => withoutTimes(await untilEnded(world, reference))
    const before = await ended()
    await deleted(world, cluster)
    t.ok(await world.get(reference))
    t.strictSame(await ended(), before)
    await deleted(world, reference)
    t.strictSame(await bucket.keys(), [])
  },
}

function withoutTimes(status: { conditions?: object[] }): object {
  const conditions = status.conditions?.map((condition) => ({
    ...condition,
    lastTransitionTime: '',
  }))
  return { ...status, conditions }
}

const unlocked: Scenario = {
  title:
    'deleted without its credentials Secret a backup goes with a warning, and its objects stay',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'unlocked')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    await untilEnded(world, reference)
    const before = await bucket.keys()
    await world.delete({ apiVersion: 'v1', kind: 'Secret', namespace, name: 'bucket' })
    await world.advance(SECRET_SECONDS)
    await deleted(world, reference)
    t.strictSame(await bucket.keys(), before)
    const message = `Secret ${namespace}/bucket not found; the objects in s3://${bucket.name}/b were not deleted`
    t.match(await eventsAbout(world, reference), { CredentialsMissing: message })
    t.match(await world.serviceLog(), message)
  },
}

const barred: Scenario = {
  title:
    'a store that refuses the purge is asked again: the backup stays, says why, and goes when it may',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'barred')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    await untilEnded(world, reference)
    bucket.misbehave(({ query }) =>
      'delete' in query ? { status: 403, code: 'AccessDenied' } : undefined,
    )
    await world.delete(reference)
    await eventually(world, 'the purge error is reported', async () =>
      /403 AccessDenied.*retain-objects: "true" to retain the objects/.test(
        (await eventsAbout(world, reference))['PurgeFailed'] ?? '',
      ),
    )
    t.ok(await world.get(reference))
    bucket.misbehave()
    await untilGone(world, reference, 180)
    t.strictSame(await bucket.keys(), [])
  },
}

const namespaceEnds: Scenario = {
  title:
    'a namespace deleted with backups in it goes; deletionPolicy Delete deletes objects, or the log says what is left',
  async run(world, t) {
    const home = await world.namespace('home')
    const namespace = await world.namespace('ending')
    const bucket = await world.bucket(namespace)
    const cluster = await running(world, home, 'a')
    await world.patch(cluster, {
      metadata: { annotations: { 'vec-operator.dev/allowed-namespaces': '*' } },
    })
    await fill(world, home, 'docs')
    const clusterRef = { name: 'a', namespace: home }
    const plain = backupResource('VecBackup', { namespace, name: 'plain' }, bucket)
    await world.apply(plain.of({ clusterRef }))
    await untilEnded(world, plain.reference)
    const asked = backupResource('VecBackup', { namespace, name: 'asked' }, bucket)
    await world.apply(asked.of({ clusterRef, deletionPolicy: 'Delete' }))
    await untilEnded(world, asked.reference)
    const itself = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: namespace }
    await world.delete(itself)
    await untilGone(world, itself, 400)
    const keys = await bucket.keys()
    t.ok(keys.includes('plain/manifest.json'))
    // Kubernetes deletes the contents of a namespace in any order.
    if (keys.some((key) => key.startsWith('asked/')))
      t.match(await world.serviceLog(), secretWentFirst(namespace, `${bucket.name}/asked`))
    t.match(await eventsOnNamespace(world, namespace), { ObjectsRetained: remaining('plain') })
  },
}

const namespaceWithoutSecret: Scenario = {
  title: 'a namespace deleted after its credentials Secret goes, and says which objects remain',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'unlocked-namespace')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of({ deletionPolicy: 'Delete' }))
    await untilEnded(world, reference)
    const before = await bucket.keys()
    await world.delete({ apiVersion: 'v1', kind: 'Secret', namespace, name: 'bucket' })
    await world.advance(SECRET_SECONDS)
    const itself = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: namespace }
    await world.delete(itself)
    await untilGone(world, itself, 400)
    t.strictSame(await bucket.keys(), before)
    t.match(await world.serviceLog(), secretWentFirst(namespace, `${bucket.name}/b`))
    t.match(await eventsOnNamespace(world, namespace), { CredentialsMissing: remaining('b') })
  },
}

function secretWentFirst(namespace: string, path: string): string {
  return `namespace ${namespace} is being deleted and its Secret bucket was deleted first; the remaining objects in s3://${path} were not deleted`
}

function remaining(backup: string): string {
  return `VecBackup ${backup} was deleted with its namespace, and objects of it remain in its bucket; the log of the operator says where`
}

/** The namespace is gone; Events on it are not. */
function eventsOnNamespace(world: World, name: string): Promise<Record<string, string>> {
  return eventsAbout(world, { apiVersion: 'v1', kind: 'Namespace', namespace: 'default', name })
}

const expires: Scenario = {
  title: 'with retentionDays a backup expires so many days after completion and deletes itself',
  async run(world, t) {
    const { namespace, bucket, cluster } = await filledCluster(world, 'expires')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of({ retentionDays: 1 }))
    const { completionTime = '', expiresAt = '' } = await untilEnded(world, reference)
    t.equal(Date.parse(expiresAt) - Date.parse(completionTime), DAY_SECONDS * 1000)
    await deleted(world, cluster)
    // A day is too long to wait in a world that uses the machine's clock.
    if (world.kind === 'cluster') return
    await world.advance(DAY_SECONDS - EXPIRY_SECONDS)
    t.ok(await world.get(reference), 'not before its time')
    await untilGone(world, reference, 2 * EXPIRY_SECONDS)
    t.strictSame(await bucket.keys(), [])
  },
}

export const backupEnd: Scenario[] = [
  retained,
  outlives,
  unlocked,
  barred,
  namespaceEnds,
  namespaceWithoutSecret,
]

/** It advances the clock by a day, during which much else happens in this world. */
export const backupExpiry: Scenario[] = [expires]

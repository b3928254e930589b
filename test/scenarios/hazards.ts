/**
 * Hazards of running such an engine, each by its letter (docs/hazards.md names them all): what could
 * lose data, and what is done instead. Hazards that other scenarios show bear their letter there.
 */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Manifest } from '../../crds/contract/manifest.ts'
import type { RestoreStatus } from '../../crds/restore.ts'
import { matchWhole } from '../match-whole.ts'
import type { PassingState, Reference, World, WorldBucket } from '../world/world.ts'
import { backupResource, fill, points, untilEnded } from './backup-parts.ts'
import { conditionIn, jobsIn, running, type Scenario } from './scenario.ts'

const TWO_NODES = { replicas: 2, cluster: { enabled: true } }
const TWO_COPIES = { shard_number: 2, replication_factor: 2 }

/** A cluster of two nodes with thirty points twice, and a finished backup of it. */
async function backedUp(world: World, namespace: string, spec: object = {}) {
  const bucket = await world.bucket(namespace)
  await running(world, namespace, 'a', TWO_NODES)
  const { upsert } = await fill(world, namespace, 'books', TWO_COPIES)
  await upsert({ points: points(30) })
  const { of, reference } = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
  await world.apply(of(spec))
  return { bucket, reference }
}

/** Restores under another name, and waits for the end. */
async function restored(world: World, namespace: string, spec: object): Promise<RestoreStatus> {
  const kind = 'VecRestore'
  const reference: Reference = { apiVersion: API_VERSION, kind, namespace, name: 'r' }
  const collectionMapping = { books: 'library' }
  await world.apply({
    ...{ apiVersion: API_VERSION, kind, metadata: { namespace, name: 'r' } },
    spec: { targetClusterRef: { name: 'a' }, collectionMapping, ...spec },
  })
  const ended = (found: AnyObject | undefined) =>
    ['Completed', 'Failed'].includes(statusOf(found).phase ?? '')
  return statusOf(await world.waitFor(reference, 'ended', ended, 600))
}

function statusOf(object: AnyObject | undefined): RestoreStatus {
  return (object as { status?: RestoreStatus } | undefined)?.status ?? {}
}

const OF_ONE = { backupRef: { name: 'one' } }

const ofFailed: Scenario = {
  title: 'H3: a restore of a backup that failed ends at once, says so, and makes no Job',
  async run(world, t) {
    const namespace = await world.namespace('of-failed')
    const { reference } = await backedUp(world, namespace, { collections: ['missing'] })
    await untilEnded(world, reference, 'Failed')
    const status = await restored(world, namespace, OF_ONE)
    t.match(status, { phase: 'Failed', error: /^backup is Failed, not Completed/ })
    const jobs = await jobsIn(world, namespace)
    t.strictSame(
      jobs.filter((name) => /-restore-[0-9a-f]{5}-\d+$/.test(name)),
      [],
    )
  },
}

const priorities: Scenario = {
  title:
    'H8: priority replica and no_sync are refused where they would stop consensus or leave copies that differ',
  async run(world, t) {
    const namespace = await world.namespace('priorities')
    const { reference } = await backedUp(world, namespace)
    await untilEnded(world, reference)
    const status = await restored(world, namespace, { ...OF_ONE, priority: 'no_sync' })
    t.equal(status.phase, 'Failed')
    t.match(JSON.stringify(status), /priority no_sync is refused for collection books/)
    const answer = await world.engine({ namespace, name: 'vec-a-1' }, 'GET', '/cluster')
    t.match(answer, { result: { consensus_thread_status: { consensus_thread_status: 'working' } } })
  },
}

/** Whether the URL of a call carries its permission, as for an engine that downloads a snapshot. */
function isPresigned({ query }: { query: Record<string, string> }): boolean {
  return Object.keys(query).includes('X-Amz-Signature')
}

const carried: Scenario = {
  title:
    'H10, H13: nodes that may not fetch are brought their snapshots, and every copy is Active on every node',
  async run(world, t) {
    const namespace = await world.namespace('carried')
    const { bucket, reference } = await backedUp(world, namespace)
    await untilEnded(world, reference)
    bucket.misbehave((call) =>
      isPresigned(call) ? { status: 403, code: 'AccessDenied' } : undefined,
    )
    const status = await restored(world, namespace, OF_ONE)
    bucket.misbehave()
    matchWhole(t, status, { phase: 'Completed', restoredCollections: [{ pointsCount: 30 }] })
    for (const name of ['vec-a-0', 'vec-a-1']) {
      const answer = await world.engine({ namespace, name }, 'GET', '/collections/library/cluster')
      t.strictSame(new Set(statesIn(answer)), new Set(['Active']), `as ${name} sees it`)
      t.equal(statesIn(answer).length, 4, 'two shards, two copies of each')
    }
  },
}

interface Placed {
  result: { local_shards: { state: string }[]; remote_shards: { state: string }[] }
}

function statesIn(answer: unknown): string[] {
  const { local_shards: here, remote_shards: there } = (answer as Placed).result
  return [...here, ...there].map(({ state }) => state)
}

const newer: Scenario = {
  title: 'H17: a backup of a newer engine is refused by the version in its manifest',
  async run(world, t) {
    const namespace = await world.namespace('newer')
    const { bucket, reference } = await backedUp(world, namespace)
    await untilEnded(world, reference)
    await claimEngine(bucket, '1.99.0')
    const status = await restored(world, namespace, OF_ONE)
    t.match(status, {
      phase: 'Failed',
      error: /^Backup was taken by engine 1\.99\.0 but the target/,
    })
  },
}

async function claimEngine(bucket: WorldBucket, engineVersion: string): Promise<void> {
  const manifest = (await bucket.json('one/manifest.json')) as Manifest
  // Without its checksum: a manifest that was edited is refused for that.
  const collections = manifest.collections.map((one) => ({ ...one, engineVersion }))
  const edited = { ...manifest, engineVersion, collections, manifestSha256: undefined }
  await bucket.put('one/manifest.json', JSON.stringify(edited))
}

const copies: Scenario = {
  title: 'H19: a copy that is lost is shown as lost, whatever the replication factor says',
  async run(world, t) {
    const namespace = await world.namespace('copies')
    await running(world, namespace, 'a', TWO_NODES)
    const reference: Reference = {
      apiVersion: API_VERSION,
      kind: 'VecCollection',
      namespace,
      name: 'books',
    }
    await world.apply({
      ...{ apiVersion: API_VERSION, kind: 'VecCollection', metadata: { namespace, name: 'books' } },
      spec: {
        clusterRef: { name: 'a' },
        vectors: [{ size: 4, distance: 'Dot' }],
        shardNumber: 1,
        replicationFactor: 2,
      },
    })
    const replicated = (status: string) => (object: AnyObject | undefined) =>
      conditionIn(object, 'Replicated')?.status === status
    await world.waitFor(reference, 'whole', replicated('True'), 600)

    const pod = { namespace, name: 'vec-a-0' }
    const path = '/collections/books/cluster'
    const { result } = (await world.engine(pod, 'GET', path)) as { result: { peer_id: number } }
    const drop_replica = { shard_id: 0, peer_id: result.peer_id }
    const notWhole: PassingState = { what: 'not whole', isReached: replicated('False') }
    const object = await world.waitForPassing(reference, notWhole, () =>
      world.engine(pod, 'POST', path, { drop_replica }),
    )
    t.match(conditionIn(object, 'Replicated'), { reason: 'ReplicasMissing', message: /1 of 2/ })
  },
}

export const hazards: Scenario[] = [ofFailed, priorities, carried, newer, copies]

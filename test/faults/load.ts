/**
 * A mixed load of all seven kinds: clusters and collections are created, filled, backed up, restored,
 * migrated, upgraded and deleted. The load records which writes were acknowledged; the oracle checks them.
 */
import { API_VERSION } from '../../crds/contract/names.ts'
import { recordAt, valueAt } from '../world/api/json.ts'
import type { ApiObject } from '../world/client.ts'
import { callEngine } from '../world/engine-call.ts'
import { applyObject } from '../world/apply.ts'
import type { Reference } from '../world/world.ts'
import { BucketStore } from '../doubles/bucket/store.ts'
import {
  backup,
  backupByShard,
  BUCKET,
  bucketSecret,
  clusterA,
  COLLECTION,
  migration,
  NAMESPACE,
  reference,
  resources,
  restore,
  restoreByShard,
} from './resources.ts'
import type { FaultWorld } from './world.ts'

/** The operator broke a guarantee. */
export class Broken extends Error {}

/** The namespace is being deleted: from here on the run checks its end and the bucket. */
export class NamespaceEnds extends Error {}

/** Writes that were acknowledged to the load. */
export interface Acknowledged {
  /** Ids of the points in the collection of cluster `a`. */
  points: Set<number>
  /** Ids of the points that existed before the backup began. */
  backedUp: Set<number>
}

/** After any faults, the load reaches each of its states within this many simulated seconds. */
export const BOUND_SECONDS = 7200
const ENDED = ['Completed', 'Failed']

export async function runLoad(world: FaultWorld): Promise<Acknowledged> {
  const endpoint = world.bucket.url
  const acknowledged = { points: new Set<number>(), backedUp: new Set<number>() }
  world.bucket.buckets.set(BUCKET, new BucketStore())
  await apply(world, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } })
  for (const each of [bucketSecret(), ...resources(endpoint)]) await apply(world, each)
  await untilPhase(world, reference('VecCluster', 'a'), ['Running'])
  await untilPhase(world, reference('VecCollection', COLLECTION), ['Ready'])
  await write(world, acknowledged, 1, 20)
  acknowledged.backedUp = new Set(acknowledged.points)
  await apply(world, backup(endpoint))
  await apply(world, migration())
  await untilPhase(world, reference('VecBackup', 'one'), ENDED)
  await write(world, acknowledged, 21, 30)
  await apply(world, restore())
  await apply(world, backupByShard(endpoint))
  await untilPhase(world, reference('VecRestore', 'back'), ENDED)
  await untilPhase(world, reference('VecBackup', 'shards'), ENDED)
  await apply(world, restoreByShard())
  await untilPhase(world, reference('VecRestore', 'again'), ENDED)
  await untilPhase(world, reference('VecMigration', 'copy'), ENDED)
  await apply(world, clusterA('1.18.3'))
  await untilPhase(world, reference('VecCluster', 'b'), ['Running'])
  await untilPhase(world, reference('VecAccessKey', 'reader'), ['Ready'])
  await until(world, 'cluster a runs 1.18.3', () => {
    const cluster = find(world, reference('VecCluster', 'a'))
    return phaseOf(cluster) === 'Running' && valueAt(cluster, 'status.version') === '1.18.3'
  })
  await until(world, 'a scheduled backup is completed', () => {
    const schedule = find(world, reference('VecBackupSchedule', 'often'))
    return valueAt(schedule, 'status.lastBackupStatus') === 'Completed'
  })
  await rest(world)
  return acknowledged
}

/** Suspends the schedule and waits until all work in progress has ended. */
async function rest(world: FaultWorld): Promise<void> {
  const spec = { suspend: true }
  await world.during(world.client.patch(reference('VecBackupSchedule', 'often'), { spec }))
  await until(world, 'every Job has ended', () => world.jobs.size === 0 && isAtRest(world))
  // Ended Jobs are kept for a day.
  world.jump(DAY_SECONDS + 60)
  await until(world, 'Jobs that ended long ago are gone', () => jobsOf(world).length <= FAILED_RUNS)
}

/** Jobs that may remain: the last failed helm runs of the two clusters. */
const FAILED_RUNS = 6
const DAY_SECONDS = 86_400

export function jobsOf({ api: { resources: all } }: FaultWorld): ApiObject[] {
  return all.store.list(all.kinds.of('batch/v1', 'Job'), NAMESPACE)
}

function isAtRest({ api: { resources: all } }: FaultWorld): boolean {
  const backups = all.store.list(all.kinds.of(API_VERSION, 'VecBackup'), NAMESPACE)
  return backups.every((one) => ENDED.includes(phaseOf(one) ?? ''))
}

export async function apply(world: FaultWorld, object: object): Promise<void> {
  try {
    await world.during(applyObject(world.client, object))
  } catch (error) {
    if (namespaceEnds(world)) throw new NamespaceEnds()
    throw error
  }
}

/** Waits until a resource is in one of these phases. */
export async function untilPhase(world: FaultWorld, what: Reference, phases: string[]) {
  const name = `${what.kind} ${what.name} is ${phases.join(' or ')}`
  await until(world, name, () => phases.includes(phaseOf(find(world, what)) ?? ''))
}

export async function until(world: FaultWorld, what: string, met: () => boolean) {
  const inTime = await world.until(() => namespaceEnds(world) || met(), BOUND_SECONDS)
  if (namespaceEnds(world)) throw new NamespaceEnds()
  if (inTime) return
  throw new Broken(`not so after ${BOUND_SECONDS} s: ${what}`)
}

function namespaceEnds({ api: { resources: all } }: FaultWorld): boolean {
  const found = all.find(all.kinds.of('v1', 'Namespace'), '', NAMESPACE)
  return found === undefined || found.metadata.deletionTimestamp !== undefined
}

export function find({ api }: FaultWorld, what: Reference): ApiObject | undefined {
  const { resources: all } = api
  return all.find(all.kinds.of(what.apiVersion, what.kind), what.namespace, what.name)
}

export function phaseOf(object: ApiObject | undefined): string | undefined {
  return recordAt(object, 'status')['phase'] as string | undefined
}

/** Each point has its own content, so that the oracle notices a point stored under the wrong id. */
export function pointOf(id: number) {
  return { id, vector: [id, 1, 2, 3], payload: { author: `author ${id}`, pages: id * 10 } }
}

/** Upserts points as a client of the engine does: retries until they are acknowledged. */
async function write(world: FaultWorld, { points }: Acknowledged, from: number, to: number) {
  const ids = Array.from({ length: to - from + 1 }, (_, index) => from + index)
  const body = { points: ids.map(pointOf) }
  const path = `/collections/${COLLECTION}/points?wait=true`
  const pod = { namespace: NAMESPACE, name: 'vec-a-0' }
  for (let tries = 0; ; tries += 1) {
    try {
      const call = { method: 'PUT', path, body, key: undefined }
      await world.during(callEngine(world.api, pod, call))
      for (const id of ids) points.add(id)
      return
    } catch (error) {
      if (namespaceEnds(world)) throw new NamespaceEnds()
      if (tries > 600) throw error
      await world.until(() => false, 1)
    }
  }
}

/**
 * What must be true after any faults, derived only from the specification and from acknowledged writes.
 * The oracle checks each change while the load runs, the state at its end, and the state after all
 * resources are deleted.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { backupFolder, manifestKey } from '../../crds/contract/backup-keys.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/contract/names.ts'
import { integerText } from '../doubles/engine/json.ts'
import type { Point } from '../doubles/engine/points.ts'
import { pointsIn, pointsOn } from '../doubles/engine/shard-points.ts'
import { snapshotFiles } from '../doubles/engine/snapshots.ts'
import { valueAt } from '../world/api/json.ts'
import type { ApiObject } from '../world/client.ts'
import type { Strike } from './faults.ts'
import { find, phaseOf, pointOf, type Acknowledged } from './load.ts'
import { BUCKET, COLLECTION, NAMESPACE, reference } from './resources.ts'
import type { FaultWorld } from './world.ts'

const ENDED = ['Completed', 'Failed']

/** Checks each change in the API server. Returns a list that grows with each violation. */
export function watchChildren(world: FaultWorld): string[] {
  const found: string[] = []
  const { resources } = world.api
  const phases = new Map<string, string>()
  resources.store.subscribe(({ type, object }) => {
    if (object.kind === 'Job' && type === 'ADDED') found.push(...doubles(world, object))
    const { uid = '' } = object.metadata
    const before = phases.get(uid)
    const phase = phaseOf(object) ?? ''
    if (object.kind.startsWith('Vec') && before !== undefined && ENDED.includes(before)) {
      if (phase !== before) found.push(`${nameOf(object)} was ${before} and is ${phase}`)
    }
    phases.set(uid, phase)
  })
  return found
}

/** The notes about snapshots of each VecBackup that is deleted: retention may prune it before the end of the load. */
export function watchDeletedNotes(world: FaultWorld): string[] {
  const notes: string[] = []
  world.api.resources.store.subscribe(({ type, object }) => {
    if (object.kind === 'VecBackup' && type === 'DELETED') notes.push(...snapshotNotes(object))
  })
  return notes
}

/** A parent never has two unfinished Jobs. */
function doubles({ api: { resources } }: FaultWorld, job: ApiObject): string[] {
  const parent = job.metadata.labels?.[LABELS.parent]
  const unfinished = resources.store
    .list(resources.kinds.of('batch/v1', 'Job'), NAMESPACE)
    .filter(({ metadata }) => metadata.labels?.[LABELS.parent] === parent)
    .filter((one) => !isFinished(one))
  return unfinished.length <= 1
    ? []
    : [`two Jobs at once: ${unfinished.map(({ metadata }) => metadata.name).join(', ')}`]
}

function isFinished(job: ApiObject): boolean {
  const conditions = (valueAt(job, 'status.conditions') ?? []) as { type: string }[]
  return conditions.some(({ type }) => type === 'Complete' || type === 'Failed')
}

/** Violations at the end of the load, when all work has ended. */
export function judge(
  world: FaultWorld,
  acknowledged: Acknowledged,
  struck: readonly Strike[],
  deletedNotes: readonly string[],
): string[] {
  return [
    ...pointsWrong(world, acknowledged),
    ...endsWrong(world, struck),
    ...objectsLost(world),
    ...leftBehind(world, deletedNotes),
  ]
}

/** Compares whole points, in both directions, in every replica of every shard on every node. */
function pointsWrong(world: FaultWorld, { points, backedUp }: Acknowledged): string[] {
  const found = compare(world, ['a', COLLECTION], { from: points, to: points })
  for (const [kind, name, collection] of COPIES) {
    if (phaseOf(find(world, reference(kind, name))) !== 'Completed') continue
    // The backup by node ends before the later points are written; the migration runs while they are written.
    const from = name === 'again' ? points : backedUp
    const to = name === 'back' ? backedUp : points
    found.push(
      ...compare(world, ['b', collection], { from, to }).map((line) => `${kind} ${name}: ${line}`),
    )
  }
  return found
}

function compare(
  { controllers }: FaultWorld,
  [cluster, name]: readonly [string, string],
  { from, to }: { from: Set<number>; to: Set<number> },
): string[] {
  const engine = controllers.engines.cluster(NAMESPACE, `vec-${cluster}`)
  const collection = engine?.find(name)
  if (engine === undefined || collection === undefined)
    return [`no collection ${name} in ${cluster}`]
  const wrong: string[] = []
  const seen = new Set<number>()
  for (const shard of collection.shards) {
    const inShard = new Set(pointsIn(collection, shard).map(({ id }) => Number(id)))
    for (const { id: peer, ordinal } of engine.peers()) {
      if (!shard.peers.includes(peer)) continue
      const where = `${name} in ${cluster}, shard ${shard.id} on node ${ordinal}`
      const there = pointsOn(collection, shard, { ordinal, id: peer })
      const ids = new Set(there.map(({ id }) => Number(id)))
      const lost = [...inShard].filter((id) => from.has(id) && !ids.has(id))
      const unknown = [...ids].filter((id) => !to.has(id))
      const changed = there.filter((point) => !isWritten(point)).map(({ id }) => Number(id))
      if (lost.length > 0) wrong.push(`${where}: points lost: ${lost.join(' ')}`)
      if (unknown.length > 0) wrong.push(`${where}: unknown points: ${unknown.join(' ')}`)
      if (changed.length > 0) wrong.push(`${where}: points changed: ${changed.join(' ')}`)
      for (const id of ids) seen.add(id)
    }
  }
  const missing = [...from].filter((id) => !seen.has(id))
  if (missing.length > 0) wrong.push(`points lost in ${cluster}: ${missing.join(' ')}`)
  return wrong
}

function isWritten({ id, vector, payload }: Point): boolean {
  const expected = pointOf(Number(id))
  return isDeepStrictEqual(plain({ vector, payload }), {
    vector: expected.vector,
    payload: expected.payload,
  })
}

/** Converts the number types of the engine double, which preserve every digit, to plain numbers. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, inner]) => [key, plain(inner)]))
  }
  const integer = integerText(value)
  if (integer !== undefined) return Number(integer)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, plain(inner)]))
}

const COPIES = [
  ['VecRestore', 'back', COLLECTION],
  ['VecRestore', 'again', 'again'],
  ['VecMigration', 'copy', 'copied'],
] as const

/** A Job retries an unavailable store for about 50 s; shorter outages must not fail it. */
const STORE_RETRY_SECONDS = 45

/** The errors with which a strike may make a data job fail. */
function excusesOf({ fault, seconds }: Strike): RegExp[] {
  const ofBackup = /backup is Failed/
  switch (fault) {
    case 'engine disk full':
      return [/No space left on device.*does not fit/, ofBackup]
    case 'bucket down':
      return seconds < STORE_RETRY_SECONDS ? [] : [/got no answer/, ofBackup]
    default:
      return []
  }
}

/** Each data job completes, unless a strike excuses its failure; then `status.error` gives the cause. */
function endsWrong(world: FaultWorld, struck: readonly Strike[]): string[] {
  const excuses = struck.flatMap(excusesOf)
  return [
    reference('VecBackup', 'one'),
    reference('VecBackup', 'shards'),
    reference('VecRestore', 'back'),
    reference('VecRestore', 'again'),
    reference('VecMigration', 'copy'),
  ].flatMap((one) => {
    const object = find(world, one)
    const phase = phaseOf(object)
    const error = String(valueAt(object, 'status.error'))
    if (phase === 'Completed' || excuses.some((excuse) => excuse.test(error))) return []
    return [`${one.kind} ${one.name} is ${phase ?? 'nothing'}: ${JSON.stringify(object?.status)}`]
  })
}

/** Each object in the manifest of a completed backup exists with its hash until the backup is deleted. */
function objectsLost(world: FaultWorld): string[] {
  return completedBackups(world).flatMap((one) => lostBy(world, one))
}

/** Completed backups that are not being deleted. */
function completedBackups({ api: { resources } }: FaultWorld): ApiObject[] {
  return resources.store
    .list(resources.kinds.of(API_VERSION, 'VecBackup'), NAMESPACE)
    .filter((one) => phaseOf(one) === 'Completed' && one.metadata.deletionTimestamp === undefined)
}

/** Objects of a completed backup that are missing or changed. */
function lostBy({ bucket }: FaultWorld, backup: ApiObject): string[] {
  const objects = bucket.buckets.get(BUCKET)?.objects ?? new Map<string, { body: Buffer }>()
  const prefix = valueAt(backup, 'spec.storage.s3.prefix') as string
  const folder = backupFolder({ prefix, name: backup.metadata.name })
  const manifest = objects.get(manifestKey(folder))
  if (manifest === undefined) return [`${nameOf(backup)} has no manifest`]
  return filesOf(JSON.parse(manifest.body.toString()))
    .filter(({ key, sha256 }) => hashOf(objects.get(key)?.body) !== sha256)
    .map(({ key }) => `${nameOf(backup)} has lost ${key}`)
}

/** The backups whose objects must outlive the deletion of their namespace. */
export interface Survivors {
  /** Completed backups at the deletion of the namespace. None of the load has a deletionPolicy. */
  backups: ApiObject[]
  /** Names of those that their schedule pruned: their objects may be deleted. */
  pruned: Set<string>
}

/** Records the backups of the namespace when its deletion begins. */
export function watchSurvivors(world: FaultWorld): Survivors {
  const survivors: Survivors = { backups: [], pruned: new Set() }
  world.api.resources.store.subscribe(({ object, previous }) => {
    const { kind, metadata } = object
    if (kind === 'VecBackup' && metadata.annotations?.[ANNOTATIONS.pruned] !== undefined) {
      survivors.pruned.add(metadata.name)
    }
    const isEnd = metadata.deletionTimestamp !== undefined && !previous?.metadata.deletionTimestamp
    if (kind === 'Namespace' && metadata.name === NAMESPACE && isEnd) {
      survivors.backups = completedBackups(world)
    }
  })
  return survivors
}

/** Violations after the namespace is gone: its backups are whole in the bucket, and nothing works for it any more. */
export function judgeNamespaceEnd(world: FaultWorld, { backups, pruned }: Survivors): string[] {
  const running = [...world.jobs].map(({ pod }) => `Job still runs: ${pod.metadata.name}`)
  return [
    ...backups
      .filter(({ metadata }) => !pruned.has(metadata.name))
      .flatMap((one) => lostBy(world, one)),
    ...running,
  ]
}

interface File {
  key: string
  sha256: string
}

/** A manifest lists each object with its key and hash. */
function filesOf(value: unknown): File[] {
  if (typeof value !== 'object' || value === null) return []
  const { key, sha256 } = value as Partial<File>
  const own = typeof key === 'string' && typeof sha256 === 'string' ? [{ key, sha256 }] : []
  return [...own, ...Object.values(value).flatMap(filesOf)]
}

function hashOf(body: Buffer | undefined): string {
  return body === undefined ? '' : createHash('sha256').update(body).digest('hex')
}

/**
 * No Job runs, and no upload, snapshot or copy of a Secret remains, apart from snapshots that a node
 * would not delete and that the status of a VecBackup asks or, until it was deleted, asked the user to delete.
 */
function leftBehind(world: FaultWorld, deletedNotes: readonly string[]): string[] {
  const { bucket, controllers, jobs } = world
  const { resources } = world.api
  const running = [...jobs].map(({ pod }) => `Job still runs: ${pod.metadata.name}`)
  const uploads = [...(bucket.buckets.get(BUCKET)?.uploads.values() ?? [])]
  const files = ['a', 'b'].flatMap((name) => {
    const cluster = controllers.engines.cluster(NAMESPACE, `vec-${name}`)
    return cluster === undefined ? [] : [...snapshotFiles(cluster).keys()]
  })
  const { store, kinds } = resources
  const backups = store.list(kinds.of(API_VERSION, 'VecBackup'), NAMESPACE)
  const reported = [...deletedNotes, ...backups.flatMap(snapshotNotes)]
  const copies = resources.store
    .list(resources.kinds.of('v1', 'Secret'), NAMESPACE)
    .map(({ metadata }) => metadata.name)
    .filter((name) => /^(backup|restore|migration)-/.test(name))
  return [
    ...running,
    ...uploads.map(({ key }) => `upload left: ${key}`),
    ...files
      .filter((file) => !reported.some((note) => isNamedIn(note, file)))
      .map((file) => `snapshot left: ${file}`),
    ...copies.map((name) => `copy of a Secret left: ${name}`),
  ]
}

/** What a VecBackup says about snapshots that are still on nodes. */
function snapshotNotes(backup: ApiObject): string[] {
  return JSON.stringify(backup).split('still on nodes').slice(1)
}

/** `<node>/<collection>/<name>`: by its name, or as the one of a collection on a node. */
function isNamedIn(note: string, file: string): boolean {
  const [node = '', collection = '', name = ''] = file.split('/')
  return (
    note.includes(name) || (note.includes(`of ${collection} `) && note.includes(`node ${node}`))
  )
}

/** Violations after all resources are deleted. */
export function judgeFarewell({ bucket, controllers }: FaultWorld): string[] {
  const objects = [...(bucket.buckets.get(BUCKET)?.objects.keys() ?? [])]
  const collection = controllers.engines.cluster(NAMESPACE, 'vec-a')?.find(COLLECTION)
  return [
    ...objects.map((key) => `object left: ${key}`),
    ...(collection === undefined ? [] : [`collection ${COLLECTION} was not deleted`]),
  ]
}

function nameOf({ kind, metadata }: ApiObject): string {
  return `${kind} ${metadata.name}`
}

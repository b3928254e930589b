/**
 * The tour of the demo, as data: what a person would type, what it does to the world, and the phases
 * that follow. A new kind joins it with its sample and its steps.
 */
import type { BackupScheduleStatus } from '../../../crds/backup-schedule.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/names.ts'
import type { Reference, World, WorldBucket } from '../world.ts'

/** Where a tour takes place. */
export interface Place {
  world: World
  namespace: string
  /** Objects of docs/samples, by file name without its ending. */
  samples: ReadonlyMap<string, AnyObject>
  /** Absent where the world has no store. */
  bucket?: WorldBucket
}

export interface Step {
  says: string
  /** Arguments of kubectl. */
  types: string
  act: (place: Place) => Promise<unknown>
  /** File of the sample whose resource it is about. */
  sample: string
  /** Phases it then shows, in this order; `gone` is the end of it. */
  phases: string[]
  /** What must hold besides, compared with the resource as it was before this step. */
  shows?: (object: AnyObject | undefined, before: AnyObject | undefined) => boolean
  /** What must be true elsewhere before the tour goes on. */
  proves?: (place: Place) => Promise<void>
  /** Left out where the world has no store for it. */
  needsBucket?: true
  seconds: number
}

export const GONE = 'gone'

const BACKUP_STEPS: Step[] = [
  {
    says: 'A VecBackup: a Job streams a snapshot of every node into a bucket and tells how far it is.',
    types: 'apply -f docs/samples/backup.yaml',
    sample: 'backup',
    act: (place) => place.world.apply(stored(place, 'backup')),
    phases: ['InProgress', 'Completed'],
    proves: (place) => holds(place, /\/manifest\.json$/, 1),
    needsBucket: true,
    seconds: 300,
  },
  {
    says: 'A VecBackupSchedule: at its slot, here each full minute, it makes a backup named after it.',
    types: 'apply -f docs/samples/backup-schedule.yaml',
    sample: 'backup-schedule',
    act: (place) => place.world.apply(everyMinute(stored(place, 'backup-schedule'))),
    phases: ['Active'],
    shows: (object) => scheduleOf(object).lastBackupStatus === 'Completed',
    needsBucket: true,
    seconds: 300,
  },
  {
    says: 'From now on it keeps one: with the next slot the older one goes, together with its objects.',
    types: 'edit vecbackupschedule docs-nightly',
    sample: 'backup-schedule',
    act: (place) =>
      place.world.patch(referenceOf(sampleOf(place, 'backup-schedule')), {
        spec: { retentionPolicy: { keepLast: 1 } },
      }),
    phases: ['Active'],
    shows: (object, before) =>
      scheduleOf(object).lastBackupName !== scheduleOf(before).lastBackupName &&
      scheduleOf(object).recentBackups?.length === 1,
    needsBucket: true,
    seconds: 300,
  },
  {
    says: 'The schedule is deleted, and its backups with it.',
    types: 'delete vecbackupschedule docs-nightly',
    sample: 'backup-schedule',
    act: (place) => place.world.delete(referenceOf(sampleOf(place, 'backup-schedule'))),
    phases: [GONE],
    needsBucket: true,
    seconds: 180,
  },
  {
    says: 'The first backup is deleted, and its objects with it: the bucket is empty.',
    types: 'delete vecbackup docs-before-upgrade',
    sample: 'backup',
    act: (place) => place.world.delete(referenceOf(sampleOf(place, 'backup'))),
    phases: [GONE],
    proves: (place) => holds(place, /./, 0),
    needsBucket: true,
    seconds: 180,
  },
]

export const TOUR: Step[] = [
  {
    says: 'A VecCluster is made. A Job runs helm; the StatefulSet and its pods follow.',
    types: 'apply -f docs/samples/cluster.yaml',
    sample: 'cluster',
    act: (place) => place.world.apply(sampleOf(place, 'cluster')),
    phases: ['Pending', 'Running'],
    seconds: 600,
  },
  {
    says: 'Its spec.version is raised, 1.18.2 to 1.18.3. Another helm run, and pod after pod is replaced.',
    types: 'edit veccluster docs',
    sample: 'cluster',
    act: (place) =>
      place.world.patch(referenceOf(sampleOf(place, 'cluster')), {
        spec: { version: place.world.versions.newer },
      }),
    phases: ['Upgrading', 'Running'],
    seconds: 600,
  },
  {
    says: 'A VecCollection in it: vectors, payload indexes and an alias, made by calls to the engine.',
    types: 'apply -f docs/samples/collection.yaml',
    sample: 'collection',
    act: (place) => place.world.apply(sampleOf(place, 'collection')),
    phases: ['Ready'],
    seconds: 300,
  },
  {
    says: 'Somebody deletes an index behind its back: within a minute it is there again.',
    types: 'exec vec-docs-0 -- curl -X DELETE localhost:6333/collections/books/index/author',
    sample: 'collection',
    act: (place) => engineOf(place, 'DELETE', '/collections/books/index/author'),
    phases: ['Ready'],
    proves: indexIsBack,
    seconds: 180,
  },
  {
    says: 'The size of a vector cannot change: Degraded, naming both sizes, and nothing is touched.',
    types: 'edit veccollection books',
    sample: 'collection',
    act: (place) => resize(place, 512),
    phases: ['Degraded'],
    seconds: 180,
  },
  {
    says: 'The size is put back, and all is well.',
    types: 'edit veccollection books',
    sample: 'collection',
    act: (place) => resize(place, 384),
    phases: ['Ready'],
    seconds: 180,
  },
  {
    says: 'A VecAccessKey: a token that may read this one collection, in a Secret of its own.',
    types: 'apply -f docs/samples/access-key.yaml',
    sample: 'access-key',
    act: (place) => place.world.apply(shortLived(sampleOf(place, 'access-key'))),
    phases: ['Ready'],
    seconds: 120,
  },
  {
    says: 'A third of its life before it ends, the token is renewed.',
    types: 'get vecaccesskey books-reader --watch',
    sample: 'access-key',
    act: async () => undefined,
    phases: ['Ready'],
    shows: (object, before) => issueOf(object) !== issueOf(before),
    seconds: 300,
  },
  ...BACKUP_STEPS,
  {
    says: 'The VecCollection is deleted, and the collection with it: its deletionPolicy says so.',
    types: 'delete veccollection books',
    sample: 'collection',
    act: (place) => place.world.delete(referenceOf(sampleOf(place, 'collection'))),
    phases: [GONE],
    seconds: 180,
  },
  {
    says: 'The VecCluster is deleted. A last Job uninstalls the release; the volumes are kept.',
    types: 'delete veccluster docs',
    sample: 'cluster',
    act: (place) => place.world.delete(referenceOf(sampleOf(place, 'cluster'))),
    phases: [GONE],
    seconds: 600,
  },
]

/** The sample as it is applied: in the namespace of the tour. */
export function sampleOf({ samples, namespace }: Place, name: string): AnyObject {
  const sample = samples.get(name)
  if (sample === undefined) throw new Error(`docs/samples has no ${name}.yaml`)
  return { ...sample, metadata: { ...sample.metadata, namespace } }
}

export function referenceOf({ apiVersion, kind, metadata }: AnyObject): Reference {
  return { apiVersion, kind, namespace: metadata.namespace ?? '', name: metadata.name }
}

export function phaseOf(object: AnyObject | undefined): string | undefined {
  if (object === undefined) return GONE
  return (object as AnyObject & { status?: { phase?: string } }).status?.phase
}

/** Acts, then waits until the phases were seen one after the other. */
export async function take(step: Step, place: Place): Promise<void> {
  const ahead = [...step.phases]
  const reference = referenceOf(sampleOf(place, step.sample))
  const before = await place.world.get(reference)
  await step.act(place)
  await place.world.until(
    reference,
    step.phases.join(', then '),
    (object) => {
      // Called on every state, also on one that lasts for a moment.
      if (ahead[0] !== undefined && phaseOf(object) === ahead[0]) ahead.shift()
      return ahead.length === 0 && (step.shows?.(object, before) ?? true)
    },
    step.seconds,
  )
  await step.proves?.(place)
}

/** Backups that are owned go after their owner. */
const GONE_SECONDS = 60
/** A collection is looked after once a minute, and a little earlier or later. */
const LOOKED_AFTER_SECONDS = 75

async function indexIsBack(place: Place): Promise<void> {
  await place.world.pass(LOOKED_AFTER_SECONDS)
  const answer = await engineOf(place, 'GET', '/collections/books')
  if (!JSON.stringify(answer).includes('"author"')) throw new Error('the index is not back')
}

function engineOf({ world, namespace }: Place, method: string, path: string): Promise<unknown> {
  return world.engine({ namespace, name: 'vec-docs-0' }, method, path)
}

function resize(place: Place, size: number): Promise<AnyObject> {
  const sample = sampleOf(place, 'collection') as AnyObject & { spec: { vectors: object[] } }
  const vectors = sample.spec.vectors.map((vector) => ({ ...vector, size }))
  return place.world.patch(referenceOf(sample), { spec: { vectors } })
}

/** Nobody watches a demo for half an hour. */
function shortLived(key: AnyObject): AnyObject {
  const { spec } = key as AnyObject & { spec: object }
  return { ...key, spec: { ...spec, ttl: '90s' } } as AnyObject
}

/** The sample as it is applied: into the bucket of this world. */
function stored(place: Place, name: string): AnyObject {
  const sample = sampleOf(place, name) as AnyObject & {
    spec: { storage: { s3: { prefix: string } } }
  }
  const s3 = { ...place.bucket?.target, prefix: sample.spec.storage.s3.prefix }
  return { ...sample, spec: { ...sample.spec, storage: { s3 } } } as AnyObject
}

/** Nobody watches a demo until three o'clock at night. */
function everyMinute(schedule: AnyObject): AnyObject {
  const { spec } = schedule as AnyObject & { spec: object }
  return { ...schedule, spec: { ...spec, schedule: '* * * * *' } } as AnyObject
}

function scheduleOf(object: AnyObject | undefined): BackupScheduleStatus {
  return (object as { status?: BackupScheduleStatus } | undefined)?.status ?? {}
}

/** So many keys of the bucket look like that, once those that go have gone. */
async function holds({ bucket, world }: Place, pattern: RegExp, count: number): Promise<void> {
  for (let left = GONE_SECONDS; ; left -= 1) {
    const keys = (await bucket?.keys()) ?? []
    if (keys.filter((key) => pattern.test(key)).length === count) return
    if (left <= 0) throw new Error(`the bucket still has ${keys.join(', ')}`)
    await world.pass(1)
  }
}

function issueOf(object: AnyObject | undefined): string | undefined {
  return (object as { status?: { issuedAt?: string } } | undefined)?.status?.issuedAt
}

/** Every kind the demo shows, and in this order. */
export const SHOWN = [
  { apiVersion: API_VERSION, kind: 'VecCluster' },
  { apiVersion: API_VERSION, kind: 'VecCollection' },
  { apiVersion: API_VERSION, kind: 'VecAccessKey' },
  { apiVersion: API_VERSION, kind: 'VecBackupSchedule' },
  { apiVersion: API_VERSION, kind: 'VecBackup' },
  { apiVersion: 'batch/v1', kind: 'Job' },
  { apiVersion: 'apps/v1', kind: 'StatefulSet' },
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
]

/**
 * Which finished backups are retained: those that a rule of the retention policy selects, those that hold
 * the last copy of a collection, and those that a restore needs. Days, ISO weeks and months are those of the
 * slots, in UTC. A backup that is not retained gets an annotation before it is deleted.
 */
import type { BackupScheduleSpec, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { ANNOTATIONS, nameHash, splitHashes } from '../../crds/contract/names.ts'
import type { Child } from '../protocol.ts'
import { desiredBackup } from './backups.ts'

export type RetentionPolicy = NonNullable<BackupScheduleSpec['retentionPolicy']>

export interface FinishedBackup {
  name: string
  slot: Date
  phase: 'Completed' | 'Failed'
}

/**
 * The names of the retained backups. Each rule is applied to all finished backups and again to the completed
 * ones alone. So a failed backup may be retained, but never in place of a completed one, and each rule
 * retains at least the newest completed backup.
 */
export function retainedNames(
  finished: FinishedBackup[],
  policy: RetentionPolicy = {},
): Set<string> {
  const newestFirst = finished.toSorted((a, b) => b.slot.getTime() - a.slot.getTime())
  const completed = newestFirst.filter(({ phase }) => phase === 'Completed')
  const rules = rulesOf(policy)
  if (rules.length === 0) return namesOf(finished)
  const retained = [newestFirst, completed].flatMap((backups) =>
    rules.flatMap(({ count, periodOf }) => newestPerPeriod(backups, periodOf).slice(0, count)),
  )
  return namesOf(retained)
}

interface Rule {
  count: number
  periodOf: (backup: FinishedBackup) => string
}

function rulesOf({ keepLast, keepDaily, keepWeekly, keepMonthly }: RetentionPolicy): Rule[] {
  const rules = [
    { count: keepLast, periodOf: ({ name }: FinishedBackup) => name },
    { count: keepDaily, periodOf: ({ slot }: FinishedBackup) => dayOf(slot) },
    { count: keepWeekly, periodOf: ({ slot }: FinishedBackup) => weekOf(slot) },
    { count: keepMonthly, periodOf: ({ slot }: FinishedBackup) => dayOf(slot).slice(0, 7) },
  ]
  return rules.flatMap(({ count, periodOf }) => (count === undefined ? [] : [{ count, periodOf }]))
}

/** The first backup of each period, in the given order. */
function newestPerPeriod(backups: FinishedBackup[], periodOf: Rule['periodOf']): FinishedBackup[] {
  const periods = new Map<string, FinishedBackup>()
  for (const backup of backups) {
    const period = periodOf(backup)
    if (!periods.has(period)) periods.set(period, backup)
  }
  return [...periods.values()]
}

function dayOf(instant: Date): string {
  return instant.toISOString().slice(0, 10)
}

/** Identifies an ISO week by its Monday, also across a change of the year. */
function weekOf(instant: Date): string {
  const monday = new Date(instant)
  monday.setUTCDate(instant.getUTCDate() - ((instant.getUTCDay() + 6) % 7))
  return dayOf(monday)
}

function namesOf(backups: FinishedBackup[]): Set<string> {
  return new Set(backups.map(({ name }) => name))
}

export interface BackupContents {
  name: string
  /** uid of the VecCluster; absent if an older operator version made the backup. */
  clusterUid?: string
  /** Names of the completed collections by hash; undefined if the name is not listed. */
  collections: Map<string, string | undefined>
  /** Hashes of those that had no points. */
  empty: ReadonlySet<string>
}

/** A backup that no rule retains, and its collections that no newer backup has. */
export interface LastCopy {
  name: string
  /** The known names; `count` is the number of all collections. */
  collections: string[]
  count: number
  /** Those that newer backups have too, but without points: the known names, and the number of all. */
  emptied: string[]
  emptiedCount: number
  /** The newest backup is of a different cluster: a recreated one, or one with another name. */
  isFormerCluster: boolean
}

export function backupContents({ metadata, status = {} }: VecBackup): BackupContents {
  const completed = (status.collections ?? []).filter(
    (collection) => collection.status === 'Completed',
  )
  const listed = completed.map(({ name }) => [nameHash(name), name] as const)
  const unlisted = splitHashes(status.collectionHashes).map((hash) => [hash, undefined] as const)
  return {
    name: metadata.name,
    ...(status.clusterUid !== undefined && { clusterUid: status.clusterUid }),
    collections: new Map([...unlisted, ...listed]),
    empty: new Set(splitHashes(status.emptyCollectionHashes)),
  }
}

/**
 * Backups that are not retained but have a collection that no newer backup has. `completed` is sorted newest
 * first. Collections of different clusters are different even if their names are equal. A backup of a
 * cluster that lost its collections is complete but empty: retention by count and date alone would then
 * delete, one by one, all backups that still have the collections. So would it after a client has created a
 * lost collection again: a collection without points does not replace one with points.
 */
export function findLastCopies(
  completed: BackupContents[],
  retained: ReadonlySet<string>,
): LastCopy[] {
  const covered = new Set<string>()
  const coveredWithPoints = new Set<string>()
  const [newest] = completed
  // A backup without a cluster uid counts for the cluster of the next newer backup.
  let cluster = completed.find(({ clusterUid }) => clusterUid !== undefined)?.clusterUid ?? ''
  const current = cluster
  return completed.flatMap((backup) => {
    cluster = backup.clusterUid ?? cluster
    const key = (hash: string) => `${cluster}/${hash}`
    const uncovered = [...backup.collections].filter(
      ([hash]) => !(backup.empty.has(hash) ? covered : coveredWithPoints).has(key(hash)),
    )
    const emptied = uncovered.filter(([hash]) => covered.has(key(hash)))
    for (const [hash] of uncovered) {
      covered.add(key(hash))
      if (!backup.empty.has(hash)) coveredWithPoints.add(key(hash))
    }
    if (uncovered.length === 0 || retained.has(backup.name) || backup === newest) return []
    const counts = { count: uncovered.length, emptiedCount: emptied.length }
    const names = { collections: knownNames(uncovered), emptied: knownNames(emptied) }
    return [{ name: backup.name, ...counts, ...names, isFormerCluster: cluster !== current }]
  })
}

function knownNames(collections: [hash: string, name: string | undefined][]): string[] {
  return collections.flatMap(([, name]) => (name === undefined ? [] : [name]))
}

/** A backup that is deleted next, with the reason: its hook must not mistake this for a user's deletion. */
export function prunedBackup(
  schedule: VecBackupSchedule,
  backup: VecBackup,
  reason: string,
): Child {
  const unchanged = desiredBackup(schedule, backup)
  const annotations = { ...unchanged.metadata.annotations, [ANNOTATIONS.pruned]: reason }
  return { ...unchanged, metadata: { ...unchanged.metadata, annotations } }
}

/** Whether deleting this backup now would retain its objects although retention must delete them. */
export function needsPrunedAnnotation(
  schedule: VecBackupSchedule,
  { metadata, spec }: VecBackup,
): boolean {
  const isRetained = [spec.deletionPolicy, schedule.spec.deletionPolicy].includes('Retain')
  return isRetained && metadata.annotations?.[ANNOTATIONS.pruned] === undefined
}

/** A backup that no rule retains, and that is deleted once what needs it has ended. */
export interface NeededBackup {
  name: string
  /** The VecRestores, or the restore drill, as the message names them. */
  neededBy: string
}

/** Finished backups that no rule selects and that are not deleted; no backup is in both lists. */
export interface RetainedBeyondPolicy {
  lastCopies: LastCopy[]
  needed: NeededBackup[]
}

/** Number of backups and collections that a message names; the rest is only counted. */
const MAX_NAMED = 3

export function lastCopiesMessage(lastCopies: LastCopy[]): string {
  const [first] = lastCopies
  if (first === undefined) return ''
  const named = formatBackups(lastCopies.map(formatLastCopy))
  return `no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: ${named}; to delete one: kubectl delete qb/${first.name}`
}

export function neededMessage(needed: NeededBackup[]): string {
  return `no rule of spec.retentionPolicy keeps these backups; they are deleted after the restores that name them: ${formatNeeded(needed)}`
}

/** Last copies come first: only they need a user. */
export function lastCopiesAndNeededMessage({ lastCopies, needed }: RetainedBeyondPolicy): string {
  return `${lastCopiesMessage(lastCopies)}; others are deleted after the restores that name them: ${formatNeeded(needed)}`
}

function formatNeeded(needed: NeededBackup[]): string {
  return formatBackups(needed.map(({ name, neededBy }) => `${name} (${neededBy})`))
}

function formatBackups(backups: string[]): string {
  const named = backups.slice(0, MAX_NAMED)
  const rest = backups.length - named.length
  return (rest > 0 ? [...named, `and ${rest} more backups`] : named).join('; ')
}

function formatLastCopy(copy: LastCopy): string {
  const { name, collections, count, emptied, emptiedCount, isFormerCluster } = copy
  const former = isFormerCluster ? ' of a former cluster' : ''
  const empty =
    emptiedCount === 0
      ? ''
      : `; newer backups have no points of ${formatCollections(emptied, emptiedCount)}`
  return `${name} (${formatCollections(collections, count)}${former}${empty})`
}

function formatCollections(names: string[], count: number): string {
  const named = names.slice(0, MAX_NAMED)
  const rest = count - named.length
  const unnamed = named.length === 0 ? `${rest} collections` : `${rest} more`
  return (rest > 0 ? [...named, unnamed] : named).join(', ')
}

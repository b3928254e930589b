/**
 * Which finished backups are retained: those that a rule of the retention policy selects, and those that hold
 * the last copy of a collection. Days, ISO weeks and months are those of the slots, in UTC.
 */
import type { BackupScheduleSpec } from '../../crds/backup-schedule.ts'
import type { VecBackup } from '../../crds/backup.ts'
import { nameHash, splitHashes } from '../../crds/contract/names.ts'

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
}

/** A backup that no rule retains, and its collections that no newer backup has. */
export interface LastCopy {
  name: string
  /** The known names; `count` is the number of all collections. */
  collections: string[]
  count: number
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
  }
}

/**
 * Backups that are not retained but have a collection that no newer backup has. `completed` is sorted newest
 * first. Collections of different clusters are different even if their names are equal. A backup of a
 * cluster that lost its collections is complete but empty: retention by count and date alone would then
 * delete, one by one, all backups that still have the collections.
 */
export function findLastCopies(
  completed: BackupContents[],
  retained: ReadonlySet<string>,
): LastCopy[] {
  const covered = new Set<string>()
  const [newest] = completed
  // A backup without a cluster uid counts for the cluster of the next newer backup.
  let cluster = completed.find(({ clusterUid }) => clusterUid !== undefined)?.clusterUid ?? ''
  const current = cluster
  return completed.flatMap((backup) => {
    cluster = backup.clusterUid ?? cluster
    const uncovered = [...backup.collections].filter(([hash]) => !covered.has(`${cluster}/${hash}`))
    for (const [hash] of uncovered) covered.add(`${cluster}/${hash}`)
    if (uncovered.length === 0 || retained.has(backup.name) || backup === newest) return []
    const collections = uncovered.flatMap(([, name]) => (name === undefined ? [] : [name]))
    const isFormerCluster = cluster !== current
    return [{ name: backup.name, collections, count: uncovered.length, isFormerCluster }]
  })
}

/** Number of backups and collections that a message names; the rest is only counted. */
const MAX_NAMED = 3

export function lastCopiesMessage(lastCopies: LastCopy[]): string {
  const [first, ...others] = lastCopies
  if (first === undefined) return ''
  const named = lastCopies.slice(0, MAX_NAMED).map(formatLastCopy).join('; ')
  const andMore =
    others.length >= MAX_NAMED ? `; and ${lastCopies.length - MAX_NAMED} more backups` : ''
  return `no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: ${named}${andMore}; to delete one: kubectl delete qb/${first.name}`
}

function formatLastCopy({ name, collections, count, isFormerCluster }: LastCopy): string {
  const named = collections.slice(0, MAX_NAMED)
  const rest = count - named.length
  const unnamed = named.length === 0 ? `${rest} collections` : `${rest} more`
  const all = rest > 0 ? [...named, unnamed] : named
  const former = isFormerCluster ? ' of a former cluster' : ''
  return `${name} (${all.join(', ')}${former})`
}

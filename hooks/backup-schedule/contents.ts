/**
 * Which collections each completed backup has, and which backups are the last ones that have one. A backup
 * of a cluster that lost its collections is complete and has none: retention by count and date alone would
 * then delete, one by one, all backups that still have them.
 */
import type { VecBackup } from '../../crds/backup.ts'
import { hashesIn, nameHash } from '../../crds/rules/name-hashes.ts'

export interface Contents {
  name: string
  /** uid of the VecCluster; absent where an older release backed it up. */
  clusterUid?: string
  /** Names of its completed collections by their hashes; undefined where the name is not listed. */
  collections: Map<string, string | undefined>
}

/** A backup that no rule keeps, and what no newer one has. */
export interface Held {
  name: string
  /** As far as they are known; `count` is all of them. */
  collections: string[]
  count: number
  /** The newest backup is of another cluster: of one that was recreated, or of another name. */
  isFormerCluster: boolean
}

export function contentsOf({ metadata, status = {} }: VecBackup): Contents {
  const completed = (status.collections ?? []).filter((one) => one.status === 'Completed')
  const listed = completed.map(({ name }) => [nameHash(name), name] as const)
  const unlisted = hashesIn(status.collectionHashes).map((hash) => [hash, undefined] as const)
  return {
    name: metadata.name,
    ...(status.clusterUid !== undefined && { clusterUid: status.clusterUid }),
    collections: new Map([...unlisted, ...listed]),
  }
}

/**
 * Those of the completed backups, newest first, that are not kept and have a collection that no newer one
 * has. Collections of two clusters are two, whatever the names.
 */
export function lastHolders(completed: Contents[], kept: ReadonlySet<string>): Held[] {
  const seen = new Set<string>()
  const [newest] = completed
  // What does not tell its cluster counts as of the one that was backed up next.
  let cluster = completed.find(({ clusterUid }) => clusterUid !== undefined)?.clusterUid ?? ''
  const current = cluster
  return completed.flatMap((backup) => {
    cluster = backup.clusterUid ?? cluster
    const fresh = [...backup.collections].filter(([hash]) => !seen.has(`${cluster}/${hash}`))
    for (const [hash] of fresh) seen.add(`${cluster}/${hash}`)
    if (fresh.length === 0 || kept.has(backup.name) || backup === newest) return []
    const collections = fresh.flatMap(([, name]) => (name === undefined ? [] : [name]))
    const isFormerCluster = cluster !== current
    return [{ name: backup.name, collections, count: fresh.length, isFormerCluster }]
  })
}

/** So many backups and collections are named in a message; the rest is counted. */
const NAMED = 3

export function heldMessage(held: Held[]): string {
  const [first, ...others] = held
  if (first === undefined) return ''
  const named = held.slice(0, NAMED).map(wordsOf).join('; ')
  const more = others.length >= NAMED ? `; and ${held.length - NAMED} more backups` : ''
  return `no rule of spec.retentionPolicy keeps these backups, but they are not deleted, because no newer one has what they have: ${named}${more}. To release one, delete it by hand: kubectl delete qb/${first.name}`
}

function wordsOf({ name, collections, count, isFormerCluster }: Held): string {
  const named = collections.slice(0, NAMED)
  const rest = count - named.length
  const unnamed = named.length === 0 ? `${rest} collections` : `${rest} more`
  const all = rest > 0 ? [...named, unnamed] : named
  const former = isFormerCluster ? ' of a former cluster' : ''
  return `${name} (${all.join(', ')}${former})`
}

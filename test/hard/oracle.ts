/**
 * Compares what every node has on its own disk with what was written: whole points, both ways. It knows
 * the ledger and the copies, and nothing of how they came to be.
 */
import type { Allowed, Ledger } from './ledger.ts'
import { canonical, versionOf, type StoredPoint } from './point.ts'

/** The replica of one shard on one node, read from that node alone. */
export interface Replica {
  node: number
  shard: number
  key?: string
  points: ReadonlyMap<number, StoredPoint>
}

export type FindingKind =
  /** An acknowledged point is on no node, or not on this replica. */
  | 'lost'
  /** A deleted point is there. */
  | 'deleted point is back'
  /** A point that nobody wrote. */
  | 'phantom'
  /** A vector or a payload that nobody wrote. */
  | 'changed'
  /** A value that was overwritten and acknowledged before, or one that was written only later. */
  | 'wrong version'
  /** Replicas of one shard differ. */
  | 'replicas differ'
  /** One point in two shards. */
  | 'in two shards'

export interface Finding {
  kind: FindingKind
  id: number
  key?: string
  shard?: number
  node?: number
  detail: string
}

export interface Expected {
  ledger: Ledger
  /** Name under which the points were written. */
  collection: string
  /** The copy was taken between these two moments of the ledger. */
  from: number
  to: number
}

export function compare(expected: Expected, replicas: readonly Replica[]): Finding[] {
  const findings: Finding[] = []
  const placed = new Map<string, number>()
  for (const group of shardsOf(replicas)) {
    for (const id of idsOf(group)) {
      const [{ shard, key }] = group
      findings.push(...compareIn(expected, group, id))
      const name = locationOf(id, key)
      const before = placed.get(name)
      if (before !== undefined) {
        const detail = `in shard ${before} and in shard ${shard}`
        findings.push({ kind: 'in two shards', ...about(id, key), shard, detail })
      }
      placed.set(name, shard)
    }
  }
  return [...findings, ...absent(expected, placed)]
}

/**
 * The same while nothing is written. A point whose last write failed may differ between replicas until its
 * client repeats the write; those are counted.
 */
export function compareAtRest(
  ledger: Ledger,
  collection: string,
  replicas: readonly Replica[],
): { found: Finding[]; uncertain: number } {
  const now = ledger.now()
  const all = compare({ ledger, collection, from: now, to: now }, replicas)
  const found = all.filter(
    ({ kind, id, key }) =>
      kind !== 'replicas differ' || !ledger.isUncertain({ collection, id, ...keyed(key) }),
  )
  return { found, uncertain: all.length - found.length }
}

const MAX_PRINTED = 6

/** Their number, and the first of them, a line each; none if there are none. */
export function summaryOf(what: string, found: readonly Finding[]): string[] {
  if (found.length === 0) return []
  const first = found.slice(0, MAX_PRINTED).map((finding) => `  ${textOf(finding)}`)
  return [`${what}: ${found.length} findings`, ...first]
}

/** How many points were compared: each on each node. */
export function comparisons(replicas: readonly Replica[]): number {
  return replicas.reduce((sum, { points }) => sum + points.size, 0)
}

export function textOf({ kind, id, key, shard, node, detail }: Finding): string {
  const where = [
    ...(key === undefined ? [] : [`key ${key}`]),
    ...(shard === undefined ? [] : [`shard ${shard}`]),
    ...(node === undefined ? [] : [`node ${node}`]),
  ]
  return `${kind}: point ${id}${where.length > 0 ? ` (${where.join(', ')})` : ''}: ${detail}`
}

type Group = [Replica, ...Replica[]]

function shardsOf(replicas: readonly Replica[]): Group[] {
  const groups = new Map<number, Group>()
  for (const replica of replicas) {
    const group = groups.get(replica.shard)
    if (group === undefined) groups.set(replica.shard, [replica])
    else group.push(replica)
  }
  return [...groups.values()]
}

function idsOf(group: Group): Set<number> {
  return new Set(group.flatMap(({ points }) => [...points.keys()]))
}

/** One point of one shard on each of its nodes. */
function compareIn(expected: Expected, group: Group, id: number): Finding[] {
  const [{ shard, key }] = group
  const { ledger, collection, from, to } = expected
  const name = { collection, id, ...keyed(key) }
  const allowed = ledger.allowed(name, from, to)
  const findings = group.flatMap(({ node, points }) => {
    const judgement = judge(allowed, points.get(id), ledger.knows(name))
    return judgement === undefined ? [] : [{ ...judgement, ...about(id, key), shard, node }]
  })
  const values = new Set(group.map(({ points }) => canonical(points.get(id) ?? null)))
  if (values.size > 1) {
    const detail = group
      .map(({ node, points }) => `node ${node} has ${describe(points.get(id))}`)
      .join(', ')
    findings.push({
      kind: 'replicas differ',
      ...about(id, key),
      shard,
      detail,
      node: group[0].node,
    })
  }
  return findings
}

function judge(
  allowed: Allowed,
  point: StoredPoint | undefined,
  isKnown: boolean,
): Pick<Finding, 'kind' | 'detail'> | undefined {
  const detail = `found ${describe(point)}, allowed is ${[...allowed].map(nameOf).join(' or ')}`
  if (point === undefined) return allowed.has(null) ? undefined : { kind: 'lost', detail }
  const version = versionOf(point)
  if (version === undefined) return { kind: isKnown ? 'changed' : 'phantom', detail }
  if (allowed.has(version)) return undefined
  if (!isKnown) return { kind: 'phantom', detail }
  const isGone = allowed.size === 1 && allowed.has(null)
  return { kind: isGone ? 'deleted point is back' : 'wrong version', detail }
}

/** Points that must be there and are in no shard. */
function absent(expected: Expected, placed: ReadonlyMap<string, number>): Finding[] {
  const { ledger, collection, from, to } = expected
  return ledger.names(collection).flatMap((name): Finding[] => {
    if (placed.has(locationOf(name.id, name.key))) return []
    const allowed = ledger.allowed(name, from, to)
    if (allowed.has(null)) return []
    const detail = `on no node, allowed is ${[...allowed].map(nameOf).join(' or ')}`
    return [{ kind: 'lost', ...about(name.id, name.key), detail }]
  })
}

function about(id: number, key: string | undefined) {
  return { id, ...keyed(key) }
}

function keyed(key: string | undefined) {
  return key === undefined ? {} : { key }
}

function locationOf(id: number, key: string | undefined): string {
  return JSON.stringify([key ?? null, id])
}

function describe(point: StoredPoint | undefined): string {
  if (point === undefined) return 'nothing'
  const version = versionOf(point)
  return version === undefined
    ? `a point that was never written: ${canonical(point)}`
    : nameOf(version)
}

function nameOf(version: number | null): string {
  return version === null ? 'absent' : `version ${version}`
}

/** How `status` looks on a terminal. */
import type { EngineView, NodeView, ShardView } from './engine-view.ts'
import { NO_PHASE, type Summary } from './resource.ts'
import type { Picture } from './picture.ts'
import { age, columns, oneLine } from './table.ts'

/** Of a message in the list; `status <kind>/<name>` shows the whole. */
const LIST_WIDTH = 120

/** One line for each resource; the namespace stands there where there are several. */
export function list(summaries: Summary[], namespace: string | undefined, now: Date): string {
  if (summaries.length === 0) {
    return `No resources${namespace === undefined ? '' : ` in namespace ${namespace}`}.\n`
  }
  const rows = summaries.map((one) => [
    ...(namespace === undefined ? [one.namespace] : []),
    `${one.kind}/${one.name}`,
    one.phase,
    age(one.createdAt, now),
    oneLine(one.message, LIST_WIDTH),
  ])
  const head = ['RESOURCE', 'PHASE', 'AGE', 'MESSAGE']
  return columns([namespace === undefined ? ['NAMESPACE', ...head] : head, ...rows])
}

export function drawing({ resource, cluster, engine, jobs }: Picture, now: Date): string {
  const conditions = resource.conditions.map(({ type, status, reason, message }) => [
    `${type}=${status}`,
    reason,
    oneLine(message),
  ])
  const blocks = [
    headline(resource, now) + columns(conditions, '  '),
    resource.cures.map(({ reason, cure }) => `${reason}: ${cure}\n`).join(''),
    factsText(resource.facts),
    table(
      ['PART', 'STATUS', ''],
      resource.parts.map((part) => [part.name, part.status, oneLine(part.says)]),
    ),
    cluster === undefined ? '' : headline(cluster, now) + factsText(cluster.facts),
    ...(engine === undefined ? [] : [nodesText(engine), shardsText(engine)]),
    jobsText(jobs, now),
  ]
  return blocks.filter((block) => block !== '').join('\n')
}

function factsText(facts: Record<string, string>): string {
  return columns(
    Object.entries(facts).map(([name, value]) => [name, oneLine(value)]),
    '  ',
  )
}

/** Nothing where there are no rows. */
function table(head: string[], rows: string[][]): string {
  return rows.length === 0 ? '' : columns([head, ...rows])
}

function headline({ kind, namespace, name, phase, createdAt }: Summary, now: Date): string {
  const state = phase === NO_PHASE ? 'no phase yet' : phase
  return `${kind} ${namespace}/${name}  ${state}  (${age(createdAt, now)} old)\n`
}

function nodesText({ nodes }: EngineView): string {
  if (nodes.length === 0) return 'Nodes: none\n'
  const rows = nodes.map((node) => [
    node.pod,
    node.ready ? 'yes' : 'no',
    node.version ?? '-',
    node.peer === undefined ? '-' : `${node.peer}${node.isLeader === true ? ' leader' : ''}`,
    node.error === undefined ? (node.consensus ?? '-') : oneLine(node.error),
  ])
  return table(['NODE', 'READY', 'VERSION', 'PEER', 'CONSENSUS'], rows)
}

/** A line for each shard, a column for each node. */
function shardsText({ nodes, shards, notes }: EngineView): string {
  const said = notes.map((note) => `${note}\n`).join('')
  if (shards.length === 0) return said
  const peers = peersOf(nodes, shards)
  const head = ['COLLECTION', 'SHARD', ...peers.map(({ name }) => name)]
  const rows = shards.map(({ collection, shard, key, copies }, at) => [
    shards[at - 1]?.collection === collection ? '' : collection,
    key === undefined ? String(shard) : `${shard} (${key})`,
    ...peers.map(({ peer }) => copies[peer] ?? '-'),
  ])
  return table(head, rows) + said
}

/** Pods in their order, then peers that no pod says it is: one that left, or does not answer. */
function peersOf(nodes: NodeView[], shards: ShardView[]): { peer: string; name: string }[] {
  const known = nodes.flatMap(({ pod, peer }) =>
    peer === undefined ? [] : [{ peer: String(peer), name: pod.toUpperCase() }],
  )
  const others = new Set(shards.flatMap(({ copies }) => Object.keys(copies)))
  for (const { peer } of known) others.delete(peer)
  // A node that runs alone does not tell its peer.
  if (nodes.length === 1 && known.length === 0) {
    return [...others].map((peer) => ({ peer, name: (nodes[0]?.pod ?? '').toUpperCase() }))
  }
  return [...known, ...[...others].map((peer) => ({ peer, name: `PEER ${peer}` }))]
}

function jobsText(jobs: Picture['jobs'], now: Date): string {
  const rows = jobs.map(({ name, verb, state, createdAt, message }) => [
    name,
    verb,
    state,
    age(createdAt, now),
    oneLine(message),
  ])
  return table(['JOB', 'VERB', 'STATE', 'AGE', 'REPORT'], rows)
}

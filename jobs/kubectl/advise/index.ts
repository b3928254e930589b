/** `advise`: what to change in a cluster or collection, from what the operator and the engine report. */
import { VecCluster } from '../../../crds/cluster.ts'
import { VecCollection } from '../../../crds/collection.ts'
import type { NamespacedName } from '../../../crds/schema.ts'
import type { Kubernetes } from '../../clients/kubernetes/client.ts'
import {
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  type CliCommand,
  type Invocation,
} from '../command.ts'
import { formatOutput, oneLine, outputFlags } from '../output.ts'
import { parseReference, readCluster, readClusterOf, readCollection } from '../resource.ts'
import {
  backups,
  cores,
  disk,
  disruptionBudget,
  memory,
  nodeCount,
  sharedKubernetesNode,
  version,
  zones,
} from './cluster-rules.ts'
import { COLLECTION_RULES } from './collection-rules.ts'
import type { Advice, Facts } from './facts.ts'
import { observe } from './observe.ts'

export const advise: CliCommand = {
  name: 'advise',
  operands: '<kind>/<name>',
  operandCount: { min: 1, max: 2 },
  summary: 'advise on a VecCluster or a VecCollection, without changing anything',
  details: [
    'Compares what the nodes report with the spec: memory and disk, shards and nodes, replicas and zones, filters without an index, backups, disruption budget and version. Each item has what was seen, why it matters, and what to set. With a VecCollection, only the items about it.',
    'Fails only if something could not be read; that is listed, because the items about it are missing then.',
  ],
  flags: { ...CLUSTER_FLAGS, ...outputFlags() },
  run: showAdvice,
}

const CLUSTER_RULES = [
  ...[nodeCount, backups, disk, memory, cores, sharedKubernetesNode, zones],
  ...[disruptionBudget, version],
]

interface AdviceReport {
  cluster: { namespace: string; name: string }
  collection?: string
  nodes: number
  items: Advice[]
  unread: string[]
}

/** The cluster to observe, and the only collection to advise on. */
interface Subject {
  cluster: VecCluster
  collection?: string
}

async function showAdvice(call: Invocation): Promise<number> {
  const { resource, name } = parseReference(call.operands, 'advise')
  if (resource.kind !== VecCluster.kind && resource.kind !== VecCollection.kind) {
    throw new CliError('advise: name a VecCluster or a VecCollection', EXIT_CODES.usage)
  }
  const { kubernetes, namespace } = await call.connect()
  const { cluster, collection } =
    resource.kind === VecCluster.kind
      ? { cluster: await readCluster(kubernetes, { namespace, name }), collection: undefined }
      : await readSubject(kubernetes, { namespace, name })
  const { facts, unread } = await observe(kubernetes, cluster, call)
  const items = advice(facts)
  const report: AdviceReport = {
    cluster: { namespace: cluster.metadata.namespace, name: cluster.metadata.name },
    ...(collection !== undefined && { collection }),
    nodes: facts.nodes.length,
    items: items.filter((item) => collection === undefined || item.collection === collection),
    unread,
  }
  call.print(formatOutput(call, report, () => formatReport(report)))
  return unread.length === 0 ? EXIT_CODES.success : EXIT_CODES.failure
}

/** The items of all rules: a pure function of what was observed. Warnings first; otherwise in the order of the rules. */
export function advice(facts: Facts): Advice[] {
  const all = [
    ...CLUSTER_RULES.flatMap((rule) => rule(facts)),
    ...facts.collections.flatMap((collection) =>
      COLLECTION_RULES.flatMap((rule) => rule(collection, facts)),
    ),
  ]
  return [
    ...all.filter(({ level }) => level === 'warning'),
    ...all.filter(({ level }) => level === 'note'),
  ]
}

async function readSubject(kubernetes: Kubernetes, reference: NamespacedName): Promise<Subject> {
  const collection = await readCollection(kubernetes, reference)
  const { collectionName = reference.name } = collection.spec
  return { cluster: await readClusterOf(kubernetes, collection), collection: collectionName }
}

function formatReport({ cluster, collection, nodes, items, unread }: AdviceReport): string {
  const subject = collection === undefined ? '' : `, collection ${collection}`
  const count = (level: Advice['level']) => items.filter((item) => item.level === level).length
  return [
    `cluster ${cluster.namespace}/${cluster.name}${subject}, nodes that answered: ${nodes}\n\n`,
    ...items.map(formatItem),
    ...unread.map((text) => `x  not read: ${oneLine(text)}\n`),
    unread.length === 0 ? '' : '\n',
    `${count('warning')} warnings, ${count('note')} notes; nothing was changed\n`,
  ].join('')
}

function formatItem({ rule, level, collection, seen, why, set }: Advice): string {
  const symbol = level === 'warning' ? '!' : '-'
  const about = collection === undefined ? '' : `, collection ${oneLine(collection)}`
  return [
    `${symbol}  ${rule}${about}`,
    `   seen: ${oneLine(seen)}`,
    `   why:  ${why}`,
    `   set:  ${set}`,
    '\n',
  ].join('\n')
}

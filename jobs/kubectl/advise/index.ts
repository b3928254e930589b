/** `advise`: what to change in a cluster or collection, from what the operator and the engine report. */
import { VecCluster } from '../../../crds/cluster.ts'
import { VecCollection } from '../../../crds/collection.ts'
import { clusters, collections } from '../../clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../clients/kubernetes/client.ts'
import {
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  type CliCommand,
  type Invocation,
} from '../command.ts'
import { formatOutput, oneLine, outputFlags } from '../output.ts'
import { parseReference } from '../resource.ts'
import type { Advice } from './facts.ts'
import { observe } from './observe.ts'
import { advice } from './rules.ts'

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
      ? { cluster: await readCluster(kubernetes, namespace, name), collection: undefined }
      : await readSubject(kubernetes, namespace, name)
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

async function readSubject(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<Subject> {
  const found = await kubernetes.get(collections(namespace), name, VecCollection.schema)
  if (found === undefined) throw new CliError(`VecCollection ${namespace}/${name} not found`)
  const { clusterRef, collectionName = name } = found.spec
  const cluster = await readCluster(kubernetes, clusterRef.namespace ?? namespace, clusterRef.name)
  return { cluster, collection: collectionName }
}

async function readCluster(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<VecCluster> {
  const cluster = await kubernetes.get(clusters(namespace), name, VecCluster.schema)
  if (cluster === undefined) throw new CliError(`VecCluster ${namespace}/${name} not found`)
  return cluster
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

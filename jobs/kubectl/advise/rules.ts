/** All rules of `advise`: a pure function of what was observed. */
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

const CLUSTER_RULES = [
  ...[nodeCount, backups, disk, memory, cores, sharedKubernetesNode, zones],
  ...[disruptionBudget, version],
]

/** Warnings first; otherwise in the order of the rules. */
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

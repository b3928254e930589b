/** The Job on the shards of a VecCluster: its plan, its RBAC and the Job itself. */
import { clusterConnection } from '../../../crds/contract/connection.ts'
import {
  apiKeySecretName,
  claimName,
  releaseName,
  shortHash,
} from '../../../crds/contract/names.ts'
import type { ShardsPlan } from '../../../crds/contract/shards-job.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import { parseQuantity } from '../../../crds/units.ts'
import type { StatefulSet } from '../../../crds/kubernetes.ts'
import { timestamp } from '../../conditions.ts'
import { newJob, jobRbac, type JobRbac } from '../../job.ts'
import type { Child, Settings } from '../../protocol.ts'
import { recordedLosses } from '../nodes.ts'
import type { Observed } from '../ports.ts'
import { dataClaimTemplate, dataTemplateSize } from '../volumes.ts'
import type { ShardsSummary, ShardsTarget } from './summary.ts'

/** With an account of its own: it may remove pods and volumes, and a helm Job may not. */
export function shardsRbac(cluster: VecCluster): JobRbac {
  return jobRbac(cluster, { kind: 'cluster', plural: 'vecclusters', helm: false, shards: true })
}

/**
 * The hash covers what the Job is to achieve: not the clock, and not where the pods run at the
 * moment.
 */
export function shardsPlan(
  { cluster, statefulSet }: Pick<Observed, 'cluster' | 'statefulSet'>,
  {
    target,
    summary,
    endsAt,
  }: { target: ShardsTarget; summary: Pick<ShardsSummary, 'nodes' | 'defects'>; endsAt?: Date },
  run: number,
): ShardsPlan {
  const { namespace, name, uid } = cluster.metadata
  const connection = clusterConnection(cluster)
  const content = {
    release: releaseName(name),
    cluster: { ...connection, replicas: statefulSet?.spec.replicas ?? connection.replicas },
    ...target,
    onScaleIn: cluster.spec.persistence.onScaleIn,
  }
  const volumeBytes = volumeBytesOf(cluster, statefulSet)
  const template = dataClaimTemplate(statefulSet)
  const losses = recordedLosses(cluster, summary, target.lost).map((loss) => ({
    ...loss,
    claim: claimName(template, releaseName(name), loss.ordinal),
  }))
  return {
    ...{ resource: 'vecclusters', namespace, name, uid, run },
    hash: shortHash('shards', JSON.stringify(content)),
    ...content,
    ...(losses.length > 0 && { losses }),
    defects: summary.defects,
    ...(endsAt !== undefined && { endsAt: timestamp(endsAt) }),
    zones: zonesOf(summary.nodes),
    ...(volumeBytes !== undefined && { volumeBytes }),
  }
}

/** Capacity of each data volume; undefined if the spec of an older CRD has no valid size. */
export function volumeBytesOf(
  { spec, status }: VecCluster,
  statefulSet: StatefulSet | undefined,
): number | undefined {
  // What autoGrow has planned counts once the StatefulSet has it.
  const live = status?.volumeSize === undefined ? undefined : dataTemplateSize(statefulSet)
  const bytes = Math.floor(
    Math.max(parseQuantity(spec.persistence.size), parseQuantity(live ?? spec.persistence.size)),
  )
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined
}

export function shardsJob(
  { metadata }: VecCluster,
  plan: ShardsPlan,
  [account]: JobRbac,
  settings: Settings,
): Child {
  return newJob(
    {
      kind: 'cluster',
      verb: 'shards',
      plan,
      largeField: 'the plan of the Job on shards',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.helm,
      credentials: {
        engine: apiKeySecretName(metadata.name),
        ...(plan.cluster.caSecret !== undefined && { tls: plan.cluster.caSecret }),
      },
    },
    settings,
  )
}

/** Topology zone of each pod, by ordinal. */
export function zonesOf(nodes: ShardsSummary['nodes']): Record<string, string> {
  return Object.fromEntries(
    nodes.flatMap(({ ordinal, zone }) => (zone === undefined ? [] : [[String(ordinal), zone]])),
  )
}

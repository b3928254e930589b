/** The children of a VecCluster: the rights of its helm Jobs, and the Jobs. */
import type { UninstallPlan, UpgradePlan } from '../../crds/command.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { keySecretName } from '../../crds/names.ts'
import { newJob } from '../job.ts'
import type { Child, Settings } from '../protocol.ts'
import { rightsOf, type Rights } from '../rights.ts'

export function clusterRights(cluster: VecCluster): Rights {
  return rightsOf(cluster, { kind: 'cluster', plural: 'vecclusters', helm: true })
}

export function upgradeJob(
  { metadata, spec }: VecCluster,
  plan: UpgradePlan,
  [account]: Rights,
  settings: Settings,
): Child {
  return newJob(
    {
      kind: 'cluster',
      verb: 'upgrade',
      plan,
      largeField: 'spec.config',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.helm,
      release: plan.release,
      // To ask the engine for its shards before a node is removed.
      credentials: {
        engine: keySecretName(metadata.name),
        ...(spec.tls.enabled && spec.tls.secretRef && { tls: spec.tls.secretRef.name }),
      },
    },
    settings,
  )
}

export function uninstallJob(plan: UninstallPlan, [account]: Rights, settings: Settings): Child {
  return newJob(
    {
      kind: 'cluster',
      verb: 'uninstall',
      plan,
      largeField: 'metadata.name',
      serviceAccount: account.metadata.name,
      resources: settings.jobResources.helm,
      release: plan.release,
      credentials: {},
    },
    settings,
  )
}

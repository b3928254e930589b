/** The accounts of the operator on a cluster, with the permissions from the chart and the hooks. */
import { API_GROUP, HELM_CLUSTER_ROLE, SHARDS_CLUSTER_ROLE } from '../../crds/contract/names.ts'
import { RESOURCES } from '../../crds/crd.ts'
import type { Holder, Rule } from './compare.ts'

export interface Roles {
  /** Rules of a ClusterRole by its name. */
  rules: (name: string) => Promise<Rule[]>
}

const ACCOUNT = '^system:serviceaccount:'
const CACHED = 'it reads its cache'
const RENDERED = 'rendered by some releases of the chart, or by spec.metrics'
const ADOPTS = 'adopts or releases a child'
const EVIDENCE = 'test/metacontroller/rbac.test.ts shows which call needs it'

/** For a release of that name in that namespace. */
export async function holders(
  { rules }: Roles,
  { release, namespace }: { release: string; namespace: string },
): Promise<Holder[]> {
  const helm = await rules(HELM_CLUSTER_ROLE)
  const shards = await rules(SHARDS_CLUSTER_ROLE)
  return [
    {
      name: 'the service',
      user: new RegExp(`${ACCOUNT}${namespace}:${release}$`),
      rules: [...(await rules(release)), ...(await rules(`${release}-crds`))],
      // Copies, foreign Leases, expiry: what no scenario may happen to need.
      rare: [[/^(update|delete|create|get|list) /, EVIDENCE]],
    },
    {
      name: 'Metacontroller',
      user: new RegExp(`${ACCOUNT}metacontroller:metacontroller$`),
      rules: await rules(`${release}-metacontroller`),
      rare: [
        [/^get \S+\.(metacontroller\.k8s\.io|apiextensions\.k8s\.io|apps)$/, CACHED],
        [/^get (namespaces|secrets)$/, CACHED],
        [/^(get|update) (serviceaccounts|(jobs|roles|rolebindings)\.\S+)$/, ADOPTS],
        [/^delete jobs\.batch$/, 'one beyond the history of its resource, after many runs'],
        [/^delete secrets$/, 'an access key that is deleted takes its Secret along'],
        [/^patch events$/, 'an Event that is repeated'],
        [new RegExp(`^patch \\S+\\.${API_GROUP}$`), 'it gives it to Jobs'],
        [/^update \S+\/finalizers\./, 'only with the plugin OwnerReferencesPermissionEnforcement'],
        [/^update vecaccesskeys\./, 'a finalizer of a release that had one'],
        [/^(create|delete) vecbackups\./, 'a schedule makes and prunes them, by the hour'],
      ],
    },
    ...jobs([...helm, ...shards]),
  ]
}

/**
 * The accounts of Jobs: each may read and patch the resource it works for. Those of a VecCluster may
 * also do what the chart's ClusterRoles for helm and for the work on shards permit.
 */
function jobs(ofClusters: Rule[]): Holder[] {
  const working = RESOURCES.filter(({ kind }) =>
    /^Vec(Cluster|Backup|Restore|Migration)$/.test(kind),
  )
  return working.map(({ kind, plural }) => {
    const report = { apiGroups: [API_GROUP], resources: [plural], verbs: ['get', 'patch'] }
    const word = kind.slice('Vec'.length).toLowerCase()
    return {
      name: `Jobs of a ${kind}`,
      user: new RegExp(`${ACCOUNT}[^:]+:${word}-[0-9a-f]+$`),
      rules: kind === 'VecCluster' ? [report, ...ofClusters] : [report],
      rare: [
        [/ (poddisruptionbudgets|ingresses|servicemonitors)\./, RENDERED],
        [/^(list|get) pods$/, 'asked before a release that is stuck is healed'],
        [/^delete pods$/, 'restarts the pod of a lost node that was replaced'],
        [/^(get|patch) statefulsets\/scale\.apps$/, 'removes a node'],
        [
          /^(get|patch|delete) persistentvolumeclaims$/,
          'removes or marks the volume of a removed node',
        ],
        [/^patch (secrets|services|configmaps|serviceaccounts)$/, 'where an upgrade changes them'],
      ],
      vain: [
        [/^list customresourcedefinitions\./, 'helm would learn kinds it does not render'],
        [/^get namespaces$/, 'helm looks at it before an uninstall, and goes on'],
      ],
    }
  })
}

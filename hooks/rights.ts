/**
 * What a Job may do: its own ServiceAccount, a Role that lets it read and patch the one resource it
 * reports on, and for helm a RoleBinding to the chart's ClusterRole. A Job must not start before it
 * may report.
 */
import type { AnyObject } from '../crds/kubernetes.ts'
import { API_GROUP, HELM_CLUSTER_ROLE, LABELS, MANAGED_BY, shortHash } from '../crds/names.ts'
import type { Child } from './protocol.ts'

/** Children of a kind whose work Jobs do, as its CompositeController declares them. */
export const JOB_CHILD_KINDS = [
  'Job.batch/v1',
  'ServiceAccount.v1',
  'Role.rbac.authorization.k8s.io/v1',
  'RoleBinding.rbac.authorization.k8s.io/v1',
] as const

const HELM_SUFFIX = '-helm'

interface Parent {
  kind: string
  metadata: { name: string; namespace: string; uid: string }
}

export interface RightsNeeded {
  /** Short word for the kind in names, such as `cluster`. */
  kind: string
  plural: string
  /** Also what the engine's chart renders, in this namespace. */
  helm: boolean
}

export type Rights = [account: Child, ...Child[]]

/** The four (or three) objects, in the order they are made. */
export function rightsOf(parent: Parent, { kind, plural, helm }: RightsNeeded): Rights {
  const rules = [
    {
      apiGroups: [API_GROUP],
      resources: [plural],
      resourceNames: [parent.metadata.name],
      verbs: ['get', 'patch'],
    },
  ]
  // The rules are part of the name: rights are never updated in place, a new release makes new ones.
  const name = rightsName(parent, kind, JSON.stringify({ rules, helm }))
  const labels = { [LABELS.managedBy]: MANAGED_BY, [LABELS.component]: 'job' }
  const metadata = { name, namespace: parent.metadata.namespace, labels }
  const subjects = [{ kind: 'ServiceAccount', name, namespace: parent.metadata.namespace }]
  const bind = (bindingName: string, roleKind: string, roleName: string): Child => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { ...metadata, name: bindingName },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: roleKind, name: roleName },
    subjects,
  })
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false },
    { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata, rules },
    bind(name, 'Role', name),
    ...(helm ? [bind(`${name}${HELM_SUFFIX}`, 'ClusterRole', HELM_CLUSTER_ROLE)] : []),
  ]
}

/** The binding that lets a Job manage what the engine's chart renders. */
export function isHelmBinding({ kind, metadata }: AnyObject): boolean {
  return kind === 'RoleBinding' && metadata.name.endsWith(HELM_SUFFIX)
}

function rightsName(parent: Parent, kind: string, rules: string): string {
  return `${kind}-${shortHash(parent.metadata.uid, rules)}`
}

/** Whether each of the rights was observed and is there to stay. */
export function areObserved(rights: Child[], observed: AnyObject[]): boolean {
  return rights.every((right) =>
    observed.some(
      ({ kind, metadata }) =>
        kind === right.kind &&
        metadata.name === right.metadata.name &&
        metadata.deletionTimestamp === undefined,
    ),
  )
}

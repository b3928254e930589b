/**
 * RBAC of a Job: its own ServiceAccount (or the one that a user named for its cloud identity), a Role to read and patch the one resource that it reports
 * on, and for helm and for the work on shards a RoleBinding to a ClusterRole of the chart. A Job must not start before it has
 * permission to report.
 */
import type { AnyObject } from '../crds/kubernetes.ts'
import {
  API_GROUP,
  HELM_CLUSTER_ROLE,
  LABELS,
  MANAGED_BY,
  SHARDS_CLUSTER_ROLE,
  shortHash,
} from '../crds/contract/names.ts'
import type { Child } from './protocol.ts'

/** Children of a kind that runs Jobs, as its CompositeController declares them. */
export const JOB_CHILD_KINDS = [
  'Job.batch/v1',
  'ServiceAccount.v1',
  'Role.rbac.authorization.k8s.io/v1',
  'RoleBinding.rbac.authorization.k8s.io/v1',
] as const

const HELM_SUFFIX = '-helm'
const SHARDS_SUFFIX = '-shards'

interface Parent {
  kind: string
  metadata: { name: string; namespace: string; uid: string }
}

export interface RbacOptions {
  /** Short form of the kind in names, such as `cluster`. */
  kind: string
  plural: string
  /** Also permits what the engine's chart renders, in this namespace. */
  helm: boolean
  /** Also permits what the removal of a node needs, in this namespace; with an account of its own. */
  shards?: boolean
  /**
   * Name of an existing ServiceAccount that the Job runs under. The Role is bound to it as long as the
   * Job needs it, and no account is created.
   */
  account?: string | undefined
}

export type JobRbac = [Child, ...Child[]]

/** The objects, in order of creation; first the ServiceAccount, unless one is given. */
export function jobRbac(
  parent: Parent,
  { kind, plural, helm, shards = false, account }: RbacOptions,
): JobRbac {
  const rules = [
    {
      apiGroups: [API_GROUP],
      resources: [plural],
      resourceNames: [parent.metadata.name],
      verbs: ['get', 'patch'],
    },
  ]
  // The rules are part of the name: RBAC objects are never updated in place; a new release creates
  // new ones.
  const identity = { helm, ...(shards && { shards }), ...(account !== undefined && { account }) }
  const name = rbacName(parent, kind, JSON.stringify({ rules, ...identity }))
  const labels = { [LABELS.managedBy]: MANAGED_BY, [LABELS.component]: 'job' }
  const { namespace } = parent.metadata
  const metadata = { name, namespace, labels }
  const subjects = [{ kind: 'ServiceAccount', name: account ?? name, namespace }]
  const roleBinding = (bindingName: string, roleKind: string, roleName: string): Child => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { ...metadata, name: bindingName },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: roleKind, name: roleName },
    subjects,
  })
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata, rules }
  const bindings = [
    roleBinding(name, 'Role', name),
    ...(helm ? [roleBinding(`${name}${HELM_SUFFIX}`, 'ClusterRole', HELM_CLUSTER_ROLE)] : []),
    ...(shards ? [roleBinding(`${name}${SHARDS_SUFFIX}`, 'ClusterRole', SHARDS_CLUSTER_ROLE)] : []),
  ]
  if (account !== undefined) return [role, ...bindings]
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false },
    role,
    ...bindings,
  ]
}

/** The RoleBinding that lets a Job manage what the engine's chart renders. */
export function isHelmBinding({ kind, metadata }: AnyObject): boolean {
  return kind === 'RoleBinding' && metadata.name.endsWith(HELM_SUFFIX)
}

function rbacName(parent: Parent, kind: string, rules: string): string {
  return `${kind}-${shortHash(parent.metadata.uid, rules)}`
}

/** Whether each RBAC object was observed and is not being deleted. */
export function allObserved(objects: Child[], observed: AnyObject[]): boolean {
  return objects.every((object) =>
    observed.some(
      ({ kind, metadata }) =>
        kind === object.kind &&
        metadata.name === object.metadata.name &&
        metadata.deletionTimestamp === undefined,
    ),
  )
}

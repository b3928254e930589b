/** Role-based access control: what an account may do by the Roles and bindings in the API, as Kubernetes decides it. */
import type { IncomingMessage } from 'node:http'
import { ApiFailure } from './failure.ts'
import { recordAt } from './json.ts'
import type { Resources } from './resources.ts'
import type { Route } from './routes.ts'

/** A ServiceAccount. */
export interface Account {
  namespace: string
  name: string
}

interface Access {
  verb: string
  group: string
  /** With its subresource: `vecclusters/status`. */
  resource: string
  namespace: string
  name: string
}

interface Rule {
  apiGroups?: string[]
  resources?: string[]
  resourceNames?: string[]
  verbs: string[]
}

interface RoleRef {
  kind: string
  name: string
}

const GROUP = 'rbac.authorization.k8s.io'
const API_VERSION = `${GROUP}/v1`

/** Throws the 403 of Kubernetes if the account may not do this. */
export function authorize(
  resources: Resources,
  account: Account,
  {
    route,
    method = '',
    query,
  }: { route: Route; query: URLSearchParams } & Pick<IncomingMessage, 'method'>,
): void {
  const { kind, namespace, name, sub } = route
  // The embedded nodes have no addresses: what would reach an engine directly goes through the API.
  if (sub === 'proxy') return
  const access = {
    verb: verbOf(method, name, query),
    group: kind.group,
    resource: sub === '' ? kind.plural : `${kind.plural}/${sub}`,
    // A namespace is an object of the whole cluster.
    namespace: kind.namespaced ? namespace : '',
    name,
  }
  if (!isAllowed(rulesOf(resources, account, access.namespace), access)) {
    throw forbidden(account, access)
  }
}

/** No account gives permissions that it does not have: a new Role, or a binding to one. */
export function checkEscalation(
  resources: Resources,
  account: Account,
  { route, body }: { route: Route; body: unknown },
): void {
  const { kind, namespace } = route
  if (kind.group !== GROUP) return
  const own = rulesOf(resources, account, namespace)
  const given = kind.kind === 'Role' ? rulesIn(body) : boundRules(resources, own, namespace, body)
  const missing = given.flatMap(accessesOf).find((access) => !isAllowed(own, access))
  if (missing === undefined) return
  const { verb, group, resource } = missing
  const message = `user "${userOf(account)}" is attempting to grant RBAC permissions not currently held: {APIGroups:["${group}"], Resources:["${resource}"], Verbs:["${verb}"]}`
  throw new ApiFailure(403, 'Forbidden', message)
}

/** The rules of the Role that a new binding names, unless the account may bind it. */
function boundRules(resources: Resources, own: Rule[], namespace: string, body: unknown): Rule[] {
  const { kind, name } = recordAt(body, 'roleRef') as unknown as RoleRef
  const plural = kind === 'ClusterRole' ? 'clusterroles' : 'roles'
  const bind = { verb: 'bind', group: GROUP, resource: plural, namespace: '', name }
  return isAllowed(own, bind) ? [] : roleRules(resources, { kind, name }, namespace)
}

function verbOf(method: string, name: string, query: URLSearchParams): string {
  switch (method) {
    case 'GET':
      if (name !== '') return 'get'
      return ['true', '1'].includes(query.get('watch') ?? '') ? 'watch' : 'list'
    case 'POST':
      return 'create'
    case 'PUT':
      return 'update'
    case 'PATCH':
      return 'patch'
    default:
      return name === '' ? 'deletecollection' : 'delete'
  }
}

/** The rules of every binding that counts in a namespace; empty for the whole cluster. */
function rulesOf(resources: Resources, account: Account, namespace: string): Rule[] {
  const { store, kinds } = resources
  const isBound = (binding: object) => subjectsOf(binding).some((one) => isAccount(one, account))
  const everywhere = store.list(kinds.of(API_VERSION, 'ClusterRoleBinding')).filter(isBound)
  const here =
    namespace === ''
      ? []
      : store.list(kinds.of(API_VERSION, 'RoleBinding'), namespace).filter(isBound)
  return [...everywhere, ...here].flatMap((binding) =>
    roleRules(resources, recordAt(binding, 'roleRef') as unknown as RoleRef, namespace),
  )
}

function roleRules(
  { store, kinds }: Resources,
  { kind, name }: RoleRef,
  namespace: string,
): Rule[] {
  const at = kind === 'ClusterRole' ? '' : namespace
  const role = store.get(kinds.of(API_VERSION, kind), at, name)
  return role === undefined ? [] : rulesIn(role)
}

function rulesIn(role: unknown): Rule[] {
  return (role as { rules?: Rule[] }).rules ?? []
}

function subjectsOf(binding: object): (Account & { kind: string })[] {
  return (binding as { subjects?: (Account & { kind: string })[] }).subjects ?? []
}

function isAccount(subject: Account & { kind: string }, { namespace, name }: Account): boolean {
  return (
    subject.kind === 'ServiceAccount' && subject.namespace === namespace && subject.name === name
  )
}

function isAllowed(rules: Rule[], { verb, group, resource, name }: Access): boolean {
  const has = (list: string[] | undefined, word: string) =>
    list?.some((one) => one === '*' || one === word) === true
  return rules.some(
    ({ apiGroups, resources, resourceNames, verbs }) =>
      has(verbs, verb) &&
      has(apiGroups, group) &&
      has(resources, resource) &&
      (resourceNames === undefined || resourceNames.includes(name)),
  )
}

/** Everything that a rule permits, one by one. */
function accessesOf({
  apiGroups = [],
  resources = [],
  resourceNames = [''],
  verbs,
}: Rule): Access[] {
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      resourceNames.flatMap((name) =>
        verbs.map((verb) => ({ verb, group, resource, namespace: '', name })),
      ),
    ),
  )
}

function userOf({ namespace, name }: Account): string {
  return `system:serviceaccount:${namespace}:${name}`
}

function forbidden(account: Account, { verb, group, resource, namespace, name }: Access) {
  const what = `${resource}${group === '' ? '' : `.${group}`}${name === '' ? '' : ` "${name}"`}`
  const where = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`
  const message = `${what} is forbidden: User "${userOf(account)}" cannot ${verb} resource "${resource}" in API group "${group}" ${where}`
  return new ApiFailure(403, 'Forbidden', message)
}

/** Which kinds the embedded API serves: a table of built-in ones, and those of CustomResourceDefinitions. */
import { loadModels } from './models.ts'
import type { ApiObject } from '../client.ts'

export interface Kind {
  /** Empty for the core group. */
  group: string
  version: string
  kind: string
  plural: string
  singular: string
  shortNames: string[]
  namespaced: boolean
  /** Whether metadata.generation counts the changes of the spec. */
  generation: boolean
  /** Whether status is written apart. */
  status: boolean
  /** The definition of a custom kind. */
  definition?: ApiObject
}

interface Row {
  plural: string
  short?: string
  cluster?: true
  generation?: true
  status?: true
}

const BUILT_IN: Record<string, Record<string, Row>> = {
  v1: {
    Namespace: { plural: 'namespaces', short: 'ns', cluster: true, status: true },
    Secret: { plural: 'secrets' },
    ConfigMap: { plural: 'configmaps', short: 'cm' },
    Service: { plural: 'services', short: 'svc', status: true },
    ServiceAccount: { plural: 'serviceaccounts', short: 'sa' },
    Pod: { plural: 'pods', short: 'po', status: true },
    Event: { plural: 'events', short: 'ev' },
    PersistentVolumeClaim: { plural: 'persistentvolumeclaims', short: 'pvc', status: true },
    Node: { plural: 'nodes', short: 'no', cluster: true, status: true },
  },
  'apps/v1': {
    Deployment: { plural: 'deployments', short: 'deploy', generation: true, status: true },
    StatefulSet: { plural: 'statefulsets', short: 'sts', generation: true, status: true },
    ControllerRevision: { plural: 'controllerrevisions' },
  },
  'batch/v1': { Job: { plural: 'jobs', generation: true, status: true } },
  'rbac.authorization.k8s.io/v1': {
    Role: { plural: 'roles' },
    RoleBinding: { plural: 'rolebindings' },
    ClusterRole: { plural: 'clusterroles', cluster: true },
    ClusterRoleBinding: { plural: 'clusterrolebindings', cluster: true },
  },
  'coordination.k8s.io/v1': { Lease: { plural: 'leases' } },
  'discovery.k8s.io/v1': { EndpointSlice: { plural: 'endpointslices' } },
  'apiextensions.k8s.io/v1': {
    CustomResourceDefinition: {
      plural: 'customresourcedefinitions',
      short: 'crd',
      cluster: true,
      generation: true,
      status: true,
    },
  },
  // Kept, and never asked: only a real API server evaluates CEL.
  'admissionregistration.k8s.io/v1': {
    ValidatingAdmissionPolicy: { plural: 'validatingadmissionpolicies', cluster: true },
    ValidatingAdmissionPolicyBinding: {
      plural: 'validatingadmissionpolicybindings',
      cluster: true,
    },
  },
  'storage.k8s.io/v1': { StorageClass: { plural: 'storageclasses', short: 'sc', cluster: true } },
  'networking.k8s.io/v1': { NetworkPolicy: { plural: 'networkpolicies', generation: true } },
  'policy/v1': {
    PodDisruptionBudget: {
      plural: 'poddisruptionbudgets',
      short: 'pdb',
      generation: true,
      status: true,
    },
  },
}

await loadModels(Object.values(BUILT_IN).flatMap((rows) => Object.keys(rows)))

export class Kinds {
  readonly #builtIn: Kind[] = Object.entries(BUILT_IN).flatMap(([apiVersion, rows]) =>
    Object.entries(rows).map(([kind, row]) => builtIn(apiVersion, kind, row)),
  )
  #all = this.#builtIn
  /** By plural, and by name. */
  #found = lookup(this.#all)

  all(): Kind[] {
    return this.#all
  }

  /** By plural, as in a path. */
  find(group: string, version: string, plural: string): Kind | undefined {
    return this.#found.get(`${apiVersionOf({ group, version })}/${plural}`)
  }

  /** By name, as in an object. Throws for an unknown kind: only for callers that know it exists. */
  of(apiVersion: string, name: string): Kind {
    const kind = this.#found.get(`${apiVersion}/${name}`)
    if (kind === undefined) throw new Error(`no kind ${name} in ${apiVersion}`)
    return kind
  }

  /** Serves exactly the kinds of these definitions in addition to the built-in ones. */
  define(definitions: ApiObject[]): void {
    this.#all = [...this.#builtIn, ...definitions.flatMap(customKinds)]
    this.#found = lookup(this.#all)
  }
}

/** Names begin with a capital, plurals do not: one key is never two. */
function lookup(kinds: Kind[]): Map<string, Kind> {
  return new Map(
    // The first definition of a name stays served, as before the others were added.
    kinds
      .toReversed()
      .flatMap((kind) => [
        [`${apiVersionOf(kind)}/${kind.plural}`, kind] as const,
        [`${apiVersionOf(kind)}/${kind.kind}`, kind] as const,
      ]),
  )
}

export function apiVersionOf({ group, version }: Pick<Kind, 'group' | 'version'>): string {
  return group === '' ? version : `${group}/${version}`
}

function builtIn(apiVersion: string, kind: string, row: Row): Kind {
  const [version, group] = apiVersion.split('/').reverse()
  return {
    group: group ?? '',
    version: version ?? '',
    kind,
    plural: row.plural,
    singular: kind.toLowerCase(),
    shortNames: row.short === undefined ? [] : [row.short],
    namespaced: row.cluster !== true,
    generation: row.generation === true,
    status: row.status === true,
  }
}

interface DefinitionSpec {
  group: string
  scope: string
  names: { kind: string; plural: string; singular?: string; shortNames?: string[] }
  versions: { name: string; served: boolean; subresources?: { status?: object } }[]
}

function customKinds(definition: ApiObject): Kind[] {
  const { group, scope, names, versions } = definition.spec as DefinitionSpec
  return versions
    .filter(({ served }) => served)
    .map(({ name, subresources }) => ({
      group,
      version: name,
      kind: names.kind,
      plural: names.plural,
      singular: names.singular ?? names.kind.toLowerCase(),
      shortNames: names.shortNames ?? [],
      namespaced: scope === 'Namespaced',
      generation: true,
      status: subresources?.status !== undefined,
      definition,
    }))
}

/**
 * One CompositeController for each kind, made from one table. The chart renders them with its values
 * (generate.ts), the worlds of the tests use them as they are.
 */
import { API_GROUP, API_VERSION } from '../crds/contract/names.ts'

/** The CRD's words for what a controller watches, makes and calls. */
export interface CompositeController {
  apiVersion: 'metacontroller.k8s.io/v1alpha1'
  kind: 'CompositeController'
  metadata: { name: string; labels: Record<string, string> }
  spec: {
    parentResource: { apiVersion: string; resource: string; ignoreStatusChanges: true }
    childResources?: ChildResource[]
    generateSelector: true
    resyncPeriodSeconds: number
    hooks: { customize: Hook; sync: Hook; finalize?: Hook }
  }
}

export interface ChildResource {
  apiVersion: string
  resource: string
  updateStrategy: { method: 'OnDelete' | 'InPlace' }
}

export interface Hook {
  version: 'v2'
  webhook: {
    url: string
    timeout: string
    responseUnMarshallMode: 'strict'
    authorization?: { type: 'Bearer'; secretRef: SecretKey }
    caBundle?: { inline: string }
  }
}

export interface SecretKey {
  name: string
  namespace: string
  key: string
}

export interface Installation {
  /** Where Metacontroller finds the hook service, without a trailing slash. */
  url: string
  /** Release of the operator. */
  version: string
  tokenFingerprint: string
  namespacesHash: string
  /** Secret with the bearer token; absent only where the service runs with --insecure-hooks. */
  token?: SecretKey
  /** PEM of the authority that signed the service's certificate. */
  caBundle?: string
  /** Plurals of the kinds that are served. */
  kinds: readonly string[]
}

interface Kind {
  plural: string
  /** Whether something outside the owned children must be cleaned up before the resource may go. */
  finalize: boolean
  children: ChildResource[]
}

// A Job cannot be changed, and a kept one is returned without its template: only OnDelete fits.
const jobAndRbac: ChildResource[] = [
  onDelete('batch/v1', 'jobs'),
  onDelete('v1', 'serviceaccounts'),
  onDelete('rbac.authorization.k8s.io/v1', 'roles'),
  onDelete('rbac.authorization.k8s.io/v1', 'rolebindings'),
]

const KINDS: readonly Kind[] = [
  { plural: 'vecclusters', finalize: true, children: jobAndRbac },
  { plural: 'veccollections', finalize: true, children: [] },
  { plural: 'vecaccesskeys', finalize: false, children: [inPlace('v1', 'secrets')] },
  { plural: 'vecbackups', finalize: true, children: jobAndRbac },
  {
    plural: 'vecbackupschedules',
    finalize: true,
    children: [inPlace(API_VERSION, 'vecbackups')],
  },
  { plural: 'vecrestores', finalize: true, children: jobAndRbac },
  { plural: 'vecmigrations', finalize: true, children: jobAndRbac },
]

/** Every plural there is, in the order of the specification. */
export const PLURALS: readonly string[] = KINDS.map(({ plural }) => plural)

/** The hook answers within 5 s; the rest is for the way there and back. */
const HOOK_TIMEOUT = '10s'
/** A safety net under resyncAfterSeconds; from 30 minutes on Metacontroller ignores it. */
const RESYNC_SECONDS = 300

export function controllers(installation: Installation): CompositeController[] {
  const unknown = installation.kinds.find((kind) => !PLURALS.includes(kind))
  if (unknown !== undefined) {
    throw new Error(`kinds: ${unknown} is none of ${PLURALS.join(', ')}`)
  }
  return KINDS.filter(({ plural }) => installation.kinds.includes(plural)).map((kind) =>
    controller(kind, installation),
  )
}

/** What Metacontroller puts on each parent of this kind that has a finalize hook. */
export function finalizerName(plural: string): string {
  return `metacontroller.io/compositecontroller-${controllerName(plural)}`
}

function controller(
  { plural, children, finalize }: Kind,
  installation: Installation,
): CompositeController {
  return {
    apiVersion: 'metacontroller.k8s.io/v1alpha1',
    kind: 'CompositeController',
    metadata: {
      name: controllerName(plural),
      labels: { 'app.kubernetes.io/name': 'vec-operator' },
    },
    spec: {
      parentResource: { apiVersion: API_VERSION, resource: plural, ignoreStatusChanges: true },
      ...(children.length > 0 && { childResources: children }),
      generateSelector: true,
      resyncPeriodSeconds: RESYNC_SECONDS,
      hooks: {
        customize: hook(plural, 'customize', installation),
        sync: hook(plural, 'sync', installation),
        ...(finalize && { finalize: hook(plural, 'finalize', installation) }),
      },
    },
  }
}

/** Part of the finalizer's name, which may have 63 characters: at most 43 here. */
export function controllerName(plural: string): string {
  return `${plural}.${API_GROUP}`
}

function hook(plural: string, name: string, installation: Installation): Hook {
  const { url, version, tokenFingerprint, namespacesHash, token, caBundle } = installation
  // Metacontroller reads credentials once and knows nothing of our release: only another spec makes
  // it start again and sync every parent. The service ignores the query.
  const query = `release=${version}&token=${tokenFingerprint}&namespaces=${namespacesHash}`
  return {
    // The three hooks have one version, or related objects are dropped or leaked.
    version: 'v2',
    webhook: {
      url: `${url}/${plural}/${name}?${query}`,
      timeout: HOOK_TIMEOUT,
      responseUnMarshallMode: 'strict',
      ...(token && { authorization: { type: 'Bearer' as const, secretRef: token } }),
      ...(caBundle !== undefined && { caBundle: { inline: caBundle } }),
    },
  }
}

function onDelete(apiVersion: string, resource: string): ChildResource {
  return { apiVersion, resource, updateStrategy: { method: 'OnDelete' } }
}

function inPlace(apiVersion: string, resource: string): ChildResource {
  return { apiVersion, resource, updateStrategy: { method: 'InPlace' } }
}

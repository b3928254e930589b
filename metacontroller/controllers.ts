/**
 * One CompositeController per kind, built from one table. The chart template is generated from them
 * (generate.ts), with Helm values for what depends on the installation. The simulated worlds of the
 * tests use them directly.
 */
import { API_GROUP, API_VERSION } from '../crds/contract/names.ts'

/** A CompositeController with the fields that this operator sets. */
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
  /** URL at which Metacontroller reaches the hook service, without a trailing slash. */
  url: string
  /** Release of the operator. */
  version: string
  tokenFingerprint: string
  namespacesHash: string
  /** Secret with the bearer token; absent only if the service runs with --insecure-hooks. */
  token?: SecretKey
  /** PEM certificate of the CA that signed the certificate of the service. */
  caBundle?: string
  /** Plurals of the kinds to serve. */
  kinds: readonly string[]
}

interface Kind {
  plural: string
  /**
   * Whether something other than the owned children must be cleaned up before a resource is
   * removed.
   */
  finalize: boolean
  children: ChildResource[]
}

// A Job is immutable, and hooks return an unchanged Job without its template. Only OnDelete is
// therefore possible.
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
    // The objects of a restore drill are created once and deleted.
    children: [
      inPlace(API_VERSION, 'vecbackups'),
      onDelete(API_VERSION, 'vecclusters'),
      onDelete(API_VERSION, 'vecrestores'),
    ],
  },
  { plural: 'vecrestores', finalize: true, children: jobAndRbac },
  { plural: 'vecmigrations', finalize: true, children: jobAndRbac },
]

/** The plurals of all kinds, in the order of the table. */
export const PLURALS: readonly string[] = KINDS.map(({ plural }) => plural)

/** The hook answers within 5 s; the rest is a margin for the network. */
const HOOK_TIMEOUT = '10s'
/**
 * Fallback for resyncAfterSeconds. Metacontroller ignores values of 30 minutes and more
 * (docs/metacontroller-notes.md).
 */
const RESYNC_SECONDS = 300

export function controllers(installation: Installation): CompositeController[] {
  const unknown = installation.kinds.find((kind) => !PLURALS.includes(kind))
  if (unknown !== undefined) {
    throw new Error(`kinds: ${unknown} is not one of ${PLURALS.join(', ')}`)
  }
  return KINDS.filter(({ plural }) => installation.kinds.includes(plural)).map((kind) =>
    controller(kind, installation),
  )
}

/** The finalizer that Metacontroller adds to each parent of a kind with a finalize hook. */
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

/**
 * Used in the name of the finalizer, which is limited to 63 characters; 43 remain for this name.
 */
export function controllerName(plural: string): string {
  return `${plural}.${API_GROUP}`
}

function hook(plural: string, name: string, installation: Installation): Hook {
  const { url, version, tokenFingerprint, namespacesHash, token, caBundle } = installation
  // Metacontroller reads the credentials once and does not notice a new release of this operator.
  // Only a changed spec makes it rebuild the controller and sync every parent
  // (docs/metacontroller-notes.md). The service ignores the query.
  const query = `release=${version}&token=${tokenFingerprint}&namespaces=${namespacesHash}`
  return {
    // The three hooks need the same version; otherwise related objects are dropped or leaked.
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

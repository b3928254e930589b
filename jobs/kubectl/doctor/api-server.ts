/** Checks that the API server responds and is new enough, and that the CRDs belong to this release. */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { API_GROUP } from '../../../crds/contract/names.ts'
import { crdName, outdatedCrdReason, RESOURCES } from '../../../crds/crd.ts'
import { isOlder } from '../../../crds/versions.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { parseResponse, requireSuccess } from '../../clients/kubernetes/responses.ts'
import { unreadable, type CheckContext, type CheckResult } from './check.ts'

const MIN_KUBERNETES_VERSION = '1.26.0'
const VersionResponse = Type.Object({ gitVersion: Type.String() })

export async function checkApi({ kubernetes, signal }: CheckContext): Promise<CheckResult[]> {
  const about = 'Kubernetes'
  const { status, text } = await kubernetes.call('GET', '/version', { signal })
  if (status !== 200) {
    // No other check can succeed.
    throw new KubernetesError(`GET /version answered ${status}: ${text.slice(0, 200)}`, { status })
  }
  const version: unknown = JSON.parse(text)
  if (!Value.Check(VersionResponse, version)) {
    return [{ about, level: 'warning', says: 'the API server does not report its version' }]
  }
  const { gitVersion } = version
  return isOlder(gitVersion, MIN_KUBERNETES_VERSION)
    ? [{ about, level: 'wrong', says: `${gitVersion} is older than ${MIN_KUBERNETES_VERSION}` }]
    : [{ about, level: 'fine', says: gitVersion }]
}

export async function checkCrds({ kubernetes, release }: CheckContext): Promise<CheckResult[]> {
  const about = 'CRDs'
  const definitions = { apiVersion: 'apiextensions.k8s.io/v1', plural: 'customresourcedefinitions' }
  try {
    const reasons = await Promise.all(
      RESOURCES.map(async ({ plural }) =>
        outdatedCrdReason(
          plural,
          await kubernetes.get(definitions, crdName(plural), AnyObject),
          release,
        ),
      ),
    )
    const outdated = reasons.filter((reason) => reason !== undefined)
    if (outdated.length > 0) return outdated.map((says) => ({ about, level: 'wrong', says }))
    return [
      {
        about,
        level: 'fine',
        says: `all ${RESOURCES.length} are from release ${release} or newer`,
      },
    ]
  } catch (error) {
    return unreadable(about, error)
  }
}

interface Permission {
  verb: string
  group: string
  resource: string
  subresource?: string
  /** The feature that requires the permission. */
  neededFor: string
}

const REQUIRED_PERMISSIONS: readonly Permission[] = [
  { verb: 'list', group: API_GROUP, resource: 'vecclusters', neededFor: 'status and doctor' },
  { verb: 'create', group: API_GROUP, resource: 'vecbackups', neededFor: 'backup now' },
  { verb: 'list', group: 'batch', resource: 'jobs', neededFor: 'the Jobs of status' },
  { verb: 'list', group: '', resource: 'pods', neededFor: 'the nodes of status' },
  {
    verb: 'get',
    group: '',
    resource: 'pods',
    subresource: 'log',
    neededFor: 'logs and support-bundle',
  },
  { verb: 'get', group: 'apps', resource: 'statefulsets', neededFor: 'plan and advise' },
  {
    verb: 'get',
    group: '',
    resource: 'pods',
    subresource: 'proxy',
    neededFor: 'the shards of status',
  },
  { verb: 'get', group: '', resource: 'secrets', neededFor: 'engines that require an API key' },
  {
    verb: 'get',
    group: '',
    resource: 'services',
    subresource: 'proxy',
    neededFor: 'engines in doctor',
  },
  {
    verb: 'list',
    group: 'coordination.k8s.io',
    resource: 'leases',
    neededFor: 'the Leases of doctor',
  },
]

const AccessReview = Type.Object({ status: Type.Object({ allowed: Type.Boolean() }) })
const ACCESS_REVIEW_PATH = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'

export async function checkPermissions(context: CheckContext): Promise<CheckResult[]> {
  const about = 'your permissions'
  try {
    const reviews = await Promise.all(
      REQUIRED_PERMISSIONS.map(async (permission) => ({
        right: permission,
        allowed: await isAllowed(permission, context),
      })),
    )
    const denied = reviews.filter(({ allowed }) => !allowed)
    if (denied.length === 0) return [{ about, level: 'fine', says: 'sufficient for every command' }]
    return denied.map(({ right: permission }) => ({
      about,
      level: 'warning',
      says: `no permission to ${permission.verb} ${formatResource(permission)}: needed for ${permission.neededFor}`,
    }))
  } catch (error) {
    return unreadable(about, error)
  }
}

async function isAllowed(
  permission: Permission,
  { kubernetes, namespace, signal }: CheckContext,
): Promise<boolean> {
  const { verb, group, resource, subresource } = permission
  const body = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: {
      resourceAttributes: {
        verb,
        group,
        resource,
        ...(subresource !== undefined && { subresource }),
        ...(namespace !== undefined && { namespace }),
      },
    },
  }
  const response = await kubernetes.call('POST', ACCESS_REVIEW_PATH, { body, signal })
  const request = `POST ${ACCESS_REVIEW_PATH}`
  return parseResponse(AccessReview, requireSuccess(response, request), request).status.allowed
}

function formatResource({ resource, subresource }: Permission): string {
  return subresource === undefined ? resource : `${resource}/${subresource}`
}

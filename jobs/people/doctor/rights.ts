/** What the caller may do, asked of the API server itself: what `status`, `doctor` and `backup now` call. */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { API_GROUP } from '../../../crds/names.ts'
import { unread, type Finding, type Patient } from './finding.ts'

interface Right {
  verb: string
  group: string
  resource: string
  subresource?: string
  /** What does not work without it. */
  for: string
}

const RIGHTS: readonly Right[] = [
  { verb: 'list', group: API_GROUP, resource: 'vecclusters', for: 'status and doctor' },
  { verb: 'create', group: API_GROUP, resource: 'vecbackups', for: 'backup now' },
  { verb: 'list', group: 'batch', resource: 'jobs', for: 'the Jobs of status' },
  { verb: 'list', group: '', resource: 'pods', for: 'the nodes of status' },
  { verb: 'get', group: '', resource: 'pods', subresource: 'proxy', for: 'the shards of status' },
  { verb: 'get', group: '', resource: 'secrets', for: 'engines that ask for a key' },
  { verb: 'get', group: '', resource: 'services', subresource: 'proxy', for: 'engines in doctor' },
  { verb: 'list', group: 'coordination.k8s.io', resource: 'leases', for: 'the Leases of doctor' },
]

const Review = Type.Object({ status: Type.Object({ allowed: Type.Boolean() }) })
const PATH = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'

export async function checkRights(patient: Patient): Promise<Finding[]> {
  const about = 'your rights'
  try {
    const answers = await Promise.all(
      RIGHTS.map(async (right) => ({ right, allowed: await isAllowed(right, patient) })),
    )
    const refused = answers.filter(({ allowed }) => !allowed)
    if (refused.length === 0) return [{ about, level: 'fine', says: 'enough for every command' }]
    return refused.map(({ right }) => ({
      about,
      level: 'warning',
      says: `you may not ${right.verb} ${called(right)}: needed for ${right.for}`,
    }))
  } catch (error) {
    return unread(about, error)
  }
}

async function isAllowed(
  right: Right,
  { kubernetes, namespace, signal }: Patient,
): Promise<boolean> {
  const { verb, group, resource, subresource } = right
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
  const { status, text } = await kubernetes.call('POST', PATH, { body, signal })
  if (status >= 400) return false
  const review: unknown = JSON.parse(text)
  return Value.Check(Review, review) && review.status.allowed
}

function called({ resource, subresource }: Right): string {
  return subresource === undefined ? resource : `${resource}/${subresource}`
}

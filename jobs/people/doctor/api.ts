/** Whether the API server answers and is new enough, and whether the CRDs are of this release. */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KubernetesError } from '../../../crds/errors.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { crdName, crdProblem, isOlder } from '../../../crds/release.ts'
import { RESOURCES } from '../../../crds/resources.ts'
import { unread, type Finding, type Patient } from './finding.ts'

const OLDEST = '1.26.0'
const Version = Type.Object({ gitVersion: Type.String() })

export async function checkApi({ kubernetes, signal }: Patient): Promise<Finding[]> {
  const about = 'Kubernetes'
  const { status, text } = await kubernetes.call('GET', '/version', { signal })
  if (status !== 200) {
    // Nothing else can be asked either.
    throw new KubernetesError(`GET /version answered ${status}: ${text.slice(0, 200)}`, { status })
  }
  const version: unknown = JSON.parse(text)
  if (!Value.Check(Version, version)) {
    return [{ about, level: 'warning', says: 'the API server does not tell its version' }]
  }
  const { gitVersion } = version
  return isOlder(gitVersion, OLDEST)
    ? [{ about, level: 'wrong', says: `${gitVersion} is older than ${OLDEST}` }]
    : [{ about, level: 'fine', says: gitVersion }]
}

export async function checkCrds({ kubernetes, release }: Patient): Promise<Finding[]> {
  const about = 'CRDs'
  const definitions = { apiVersion: 'apiextensions.k8s.io/v1', plural: 'customresourcedefinitions' }
  try {
    const problems = await Promise.all(
      RESOURCES.map(async ({ plural }) =>
        crdProblem(plural, await kubernetes.get(definitions, crdName(plural), AnyObject), release),
      ),
    )
    const found = problems.filter((problem) => problem !== undefined)
    if (found.length > 0) return found.map((says) => ({ about, level: 'wrong', says }))
    return [{ about, level: 'fine', says: `all ${RESOURCES.length} are of ${release} or newer` }]
  } catch (error) {
    return unread(about, error)
  }
}

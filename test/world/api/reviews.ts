/** SelfSubjectAccessReviews: the caller may do everything but what a test has refused. */
import { recordAt, type Json } from './json.ts'

export const REVIEWS = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'

/** In the set of refused rights: no review is answered. */
export const CREATE_REVIEW = 'create selfsubjectaccessreviews'

/** The review as the API server answers it; `refused` are rights such as `get secrets` or `get pods/proxy`. */
export function reviewed(review: Json, refused: ReadonlySet<string>): Json {
  const asked = recordAt(review, 'spec.resourceAttributes')
  const what = [asked['resource'], asked['subresource']].filter((part) => typeof part === 'string')
  const right = `${String(asked['verb'])} ${what.join('/')}`
  return { ...review, status: { allowed: !refused.has(right) } }
}

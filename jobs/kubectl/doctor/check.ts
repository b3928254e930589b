/** What the doctor found, and what a check is given. */
import { KubernetesError } from '../../../crds/contract/errors.ts'
import type { Kubernetes } from '../../clients/kubernetes/client.ts'
import type { Invocation } from '../command.ts'

export interface CheckResult {
  /** What was looked at, in a word or two. */
  about: string
  /** `wrong` fails the command; a `warning` is to be looked at. */
  level: 'fine' | 'warning' | 'wrong'
  says: string
}

export interface CheckContext extends Pick<Invocation, 'log' | 'time' | 'signal'> {
  kubernetes: Kubernetes
  /** Only this namespace; absent for all. */
  namespace?: string
  /** Release of this program. */
  release: string
  /** Whether stores that resources name may be called with the Secrets that they name. */
  readsBuckets: boolean
}

export type Check = (context: CheckContext) => Promise<CheckResult[]>

/** What cannot be read is told, and the other checks go on. */
export function unreadable(about: string, error: unknown): CheckResult[] {
  if (!(error instanceof KubernetesError)) throw error
  if (error.status !== 403) return [{ about, level: 'wrong', says: error.message }]
  // The API server says who may not do what; the call itself tells people nothing more.
  const reason = error.message.replace(/^.*? answered 403: /, '')
  return [{ about, level: 'warning', says: `not seen: ${reason}` }]
}

/** A kind by its plural, in the namespace that is looked at or in all. */
export function apiResource(apiVersion: string, plural: string, { namespace }: CheckContext) {
  return { apiVersion, plural, ...(namespace !== undefined && { namespace }) }
}

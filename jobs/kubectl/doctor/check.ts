/** Input and results of the checks of `doctor`. */
import { KubernetesError } from '../../../crds/contract/errors.ts'
import type { Kubernetes } from '../../clients/kubernetes/client.ts'
import type { Invocation } from '../command.ts'

export interface CheckResult {
  /** The checked object, in a word or two. */
  about: string
  /** `wrong` fails the command; a `warning` needs attention. */
  level: 'fine' | 'warning' | 'wrong'
  says: string
}

export interface CheckContext extends Pick<Invocation, 'log' | 'time' | 'signal'> {
  kubernetes: Kubernetes
  /** Limits the checks to one namespace; absent for all. */
  namespace?: string
  /** Release of this program. */
  release: string
  /** Whether to query the buckets of resources with the Secrets that they name. */
  readsBuckets: boolean
}

export type Check = (context: CheckContext) => Promise<CheckResult[]>

/** Reports an unreadable object; the other checks continue. */
export function unreadable(about: string, error: unknown): CheckResult[] {
  if (!(error instanceof KubernetesError)) throw error
  if (error.status !== 403) return [{ about, level: 'wrong', says: error.message }]
  // The API server names the missing permission; the request adds no information for the user.
  const reason = error.message.replace(/^.*? answered 403: /, '')
  return [{ about, level: 'warning', says: `not checked: ${reason}` }]
}

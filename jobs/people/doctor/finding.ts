/** What the doctor found, and what a check is given. */
import { KubernetesError } from '../../../crds/errors.ts'
import type { Kubernetes } from '../../clients/kubernetes.ts'
import type { PeopleCall } from '../command.ts'

export interface Finding {
  /** What was looked at, in a word or two. */
  about: string
  /** `wrong` fails the command; a `warning` is to be looked at. */
  level: 'fine' | 'warning' | 'wrong'
  says: string
}

export interface Patient extends Pick<PeopleCall, 'log' | 'time' | 'signal'> {
  kubernetes: Kubernetes
  /** Only this namespace; absent for all. */
  namespace?: string
  /** Release of this program. */
  release: string
  /** Whether stores that resources name may be called with the Secrets that they name. */
  callsBuckets: boolean
}

export type Check = (patient: Patient) => Promise<Finding[]>

/** What cannot be read is told, and the other checks go on. */
export function unread(about: string, error: unknown): Finding[] {
  if (!(error instanceof KubernetesError)) throw error
  if (error.status !== 403) return [{ about, level: 'wrong', says: error.message }]
  // The API server says who may not do what; the call itself tells people nothing more.
  const words = error.message.replace(/^.*? answered 403: /, '')
  return [{ about, level: 'warning', says: `not seen: ${words}` }]
}

/** A kind by its plural, in the namespace that is looked at or in all. */
export function place(apiVersion: string, plural: string, { namespace }: Patient) {
  return { apiVersion, plural, ...(namespace !== undefined && { namespace }) }
}

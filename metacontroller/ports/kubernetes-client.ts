/**
 * The Kubernetes API as the service reads it, where its rights may be gone. With the chart value
 * operator.namespaces they are a RoleBinding in each namespace. It is deleted with the namespace, before
 * resources that have finalizers, and does not come back with a new namespace of that name. What cannot be
 * read then must stop neither the resources of other namespaces nor the deletion of the namespace itself.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { secondsSince } from '../../hooks/conditions.ts'
import type { ApiAccess, ApiResource, ListSelector } from '../../jobs/clients/kubernetes/client.ts'
import { hasStatus } from './common.ts'
import { InstrumentedKubernetes, type OnCall } from '../metrics/instrumented-clients.ts'
import { namespaces } from './api-resources.ts'

/** After its deletion a namespace counts as empty: by then the pods of its Jobs have been stopped. */
const TERMINATING_GRACE_SECONDS = 120
/**
 * A namespace that exists and refuses every list for so long counts as empty for others. Just started API
 * servers refuse calls too, for some seconds.
 */
const FORBIDDEN_GRACE_SECONDS = 600
/** Names come from Leases as well, which others may write: past it the oldest is forgotten. */
const MAX_FORBIDDEN_NAMESPACES = 1000

/** `gone`: nothing in it can be at work any more. */
type NamespaceState = 'gone' | 'ending' | 'there'

interface ForbiddenNamespace {
  /** In milliseconds since 1970. */
  since: number
  isLogged: boolean
}

export class ServiceKubernetes extends InstrumentedKubernetes {
  readonly #log: Logger
  readonly #now: () => Date
  /** Namespaces whose last list was forbidden; the first one to be so comes first. */
  readonly #forbidden = new Map<string, ForbiddenNamespace>()

  constructor(
    access: ApiAccess,
    log: Logger,
    { onCall, now }: { onCall: OnCall; now: () => Date },
  ) {
    super(access, log, onCall)
    this.#log = log
    this.#now = now
  }

  /** What is forbidden in a namespace that is gone is undefined. */
  override async get<Schema extends TSchema>(
    resource: ApiResource,
    name: string,
    schema: Schema,
  ): Promise<Static<Schema> | undefined> {
    try {
      return await super.get(resource, name, schema)
    } catch (error) {
      const state = await this.#namespaceState(resource, error)
      if (state === 'gone') return undefined
      throw state === 'ending' ? terminatingError(resource, error) : error
    }
  }

  /** What is forbidden in a namespace that is gone is empty; and so, for a list, where it long was. */
  override async collect<Item>(
    resource: ApiResource,
    selection: ListSelector,
    pick: (object: object) => Item | undefined,
  ): Promise<Item[]> {
    const { namespace } = resource
    try {
      const found = await super.collect(resource, selection, pick)
      if (namespace !== undefined) this.#forbidden.delete(namespace)
      return found
    } catch (error) {
      const state = await this.#namespaceState(resource, error)
      if (state === 'gone' || (state === 'there' && this.#isForbiddenForLong(namespace, error)))
        return []
      throw state === 'ending' ? terminatingError(resource, error) : error
    }
  }

  /** Of the namespace of a call that failed; undefined where it failed for any other reason. */
  async #namespaceState(
    { namespace }: ApiResource,
    error: unknown,
  ): Promise<NamespaceState | undefined> {
    if (namespace === undefined || !hasStatus(error, 403)) return undefined
    const found = await super.get(namespaces(), namespace, AnyObject).catch(unknownIfForbidden)
    if (found === undefined) return 'gone'
    if (found === 'unknown' || found.metadata.deletionTimestamp === undefined) return 'there'
    const seconds = secondsSince(found.metadata.deletionTimestamp, this.#now())
    return seconds >= TERMINATING_GRACE_SECONDS ? 'gone' : 'ending'
  }

  #isForbiddenForLong(namespace = '', err: unknown): boolean {
    const now = this.#now().getTime()
    const entry = this.#forbidden.get(namespace) ?? { since: now, isLogged: false }
    this.#forbidden.set(namespace, entry)
    const [oldest] = this.#forbidden.keys()
    if (this.#forbidden.size > MAX_FORBIDDEN_NAMESPACES && oldest !== undefined)
      this.#forbidden.delete(oldest)
    if (now - entry.since < FORBIDDEN_GRACE_SECONDS * 1000) return false
    if (!entry.isLogged) this.#log.warn({ err, namespace }, NAMESPACE_SKIPPED)
    entry.isLogged = true
    return true
  }
}

const NAMESPACE_SKIPPED =
  'namespace cannot be read and is left out: run helm upgrade, which creates the RoleBinding there, or remove the namespace from operator.namespaces'

function terminatingError({ namespace = '' }: ApiResource, cause: unknown): KubernetesError {
  const message = `namespace ${namespace} is being deleted and the operator has no rights there any more: its Jobs count as stopped ${TERMINATING_GRACE_SECONDS} s after the deletion`
  return new KubernetesError(message, { cause, status: 403 })
}

function unknownIfForbidden(error: unknown): 'unknown' {
  if (hasStatus(error, 403)) return 'unknown'
  throw error
}

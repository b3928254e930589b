/**
 * Kubernetes API client of the service that handles lost permissions. With the chart value
 * operator.namespaces, the service has a RoleBinding per namespace. Kubernetes deletes it with the
 * namespace, before resources that have finalizers, and it does not return with a new namespace of
 * the same name. Reads that fail for that reason must block neither the deletion of the namespace
 * itself nor, once it is gone, resources in other namespaces.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { KubernetesError, UnreadableNamespace } from '../../crds/contract/errors.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { secondsSince } from '../../hooks/conditions.ts'
import { FairLimiter } from '../../hooks/fair-limiter.ts'
import type {
  ApiAccess,
  ApiResource,
  GetOptions,
  ListSelector,
} from '../../jobs/clients/kubernetes/client.ts'
import { hasStatus } from './common.ts'
import { InstrumentedKubernetes, type OnCall } from '../metrics/instrumented-clients.ts'
import { namespaces } from '../../jobs/clients/kubernetes/api-resources.ts'

/**
 * A namespace counts as empty this long after its deletion: by then the pods of its Jobs have
 * stopped.
 */
const TERMINATING_GRACE_SECONDS = 120
/**
 * After this long it is certain that an existing namespace rejects every list: API servers also
 * reject calls for some seconds after they start.
 */
const FORBIDDEN_GRACE_SECONDS = 600
/**
 * Namespace names also come from Leases, which users can write; above this limit the oldest entry
 * is dropped.
 */
const MAX_FORBIDDEN_NAMESPACES = 1000

/** Pages of lists that are in memory at the same time, of 4 MiB of text each. */
const MAX_PAGES_AT_ONCE = 2
/** A hook has ended long before. */
const PAGE_WAIT_MS = 30_000

/** `gone`: nothing in the namespace can still be running. */
type NamespaceState = 'gone' | 'ending' | 'there'

interface ForbiddenNamespace {
  /** In milliseconds since 1970. */
  since: number
  isLogged: boolean
}

export class ServiceKubernetes extends InstrumentedKubernetes {
  readonly #log: Logger
  readonly #now: () => Date
  readonly #pageLimiter = new FairLimiter(MAX_PAGES_AT_ONCE)
  /** Namespaces whose latest list was forbidden, in the order in which that began. */
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

  /** Returns undefined if the read is forbidden because the namespace is gone. */
  override async get<Schema extends TSchema>(
    resource: ApiResource,
    name: string,
    schema: Schema,
    options?: GetOptions,
  ): Promise<Static<Schema> | undefined> {
    try {
      return await super.get(resource, name, schema, options)
    } catch (error) {
      const state = await this.#namespaceState(resource, error)
      if (state === 'gone') return undefined
      throw state === 'ending' ? terminatingError(resource, error) : error
    }
  }

  /**
   * Returns an empty list if the list is forbidden because the namespace is gone. Throws
   * `UnreadableNamespace` if it exists and has been forbidden for long: work in it may be running.
   */
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
      if (state === 'gone') return []
      const isForLong = state === 'there' && this.#isForbiddenForLong(namespace, error)
      if (isForLong && selection.skipsUnreadable === true) return []
      if (isForLong) throw new UnreadableNamespace(namespace, error)
      throw state === 'ending' ? terminatingError(resource, error) : error
    }
  }

  /** Tenants make objects large, and a hook that waits too long for their list is called again. */
  protected override async readPage(read: () => Promise<void>): Promise<void> {
    const wait = AbortSignal.timeout(PAGE_WAIT_MS)
    try {
      await this.#pageLimiter.run(undefined, wait, read)
    } catch (error) {
      if (error !== wait.reason) throw error
      const message = `a list waited for more than ${PAGE_WAIT_MS / 1000} s for other lists`
      throw new KubernetesError(message, { cause: error })
    }
  }

  /**
   * State of the namespace of a forbidden call; undefined if the call failed for another reason.
   */
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
  'namespace cannot be read, and what depends on it waits: run helm upgrade, which creates the RoleBinding there, or remove the namespace from operator.namespaces'

function terminatingError({ namespace = '' }: ApiResource, cause: unknown): KubernetesError {
  const message = `namespace ${namespace} is being deleted and the operator has no rights there any more: its Jobs count as stopped ${TERMINATING_GRACE_SECONDS} s after the deletion`
  return new KubernetesError(message, { cause, status: 403 })
}

function unknownIfForbidden(error: unknown): 'unknown' {
  if (hasStatus(error, 403)) return 'unknown'
  throw error
}

/**
 * The Kubernetes API as the service reads it, where its rights may be gone. With the chart value
 * operator.namespaces they are a RoleBinding in each namespace. It is deleted with the namespace, before
 * resources that have finalizers, and does not come back with a new namespace of that name. What cannot be
 * read then must stop neither the resources of other namespaces nor the deletion of the namespace itself.
 */
import type { Static, TSchema } from '@sinclair/typebox'
import type { Logger } from 'pino'
import { KubernetesError } from '../crds/errors.ts'
import { AnyObject } from '../crds/kubernetes.ts'
import { secondsSince } from '../hooks/conditions.ts'
import type { Access, Collection, Selection } from '../jobs/clients/kubernetes.ts'
import { hasStatus } from './common-ports.ts'
import { CountedKubernetes, type Called } from './counted.ts'
import { namespaces } from './places.ts'

/** After its deletion a namespace counts as empty: by then the pods of its Jobs have been stopped. */
const ENDING_SECONDS = 120
/**
 * A namespace that exists and refuses every list for so long counts as empty for others. Just started API
 * servers refuse calls too, for some seconds.
 */
const REFUSED_SECONDS = 600
/** Names come from Leases as well, which others may write: past it the oldest is forgotten. */
const MAX_REFUSALS = 1000

/** `gone`: nothing in it can be at work any more. */
type State = 'gone' | 'ending' | 'there'

interface Refusal {
  /** In milliseconds since 1970. */
  since: number
  isLogged: boolean
}

export class ServiceKubernetes extends CountedKubernetes {
  readonly #log: Logger
  readonly #now: () => Date
  /** Namespaces whose last list was forbidden; the first one to be so comes first. */
  readonly #refusals = new Map<string, Refusal>()

  constructor(access: Access, log: Logger, { called, now }: { called: Called; now: () => Date }) {
    super(access, log, called)
    this.#log = log
    this.#now = now
  }

  /** What is forbidden in a namespace that is gone is undefined. */
  override async get<Schema extends TSchema>(
    collection: Collection,
    name: string,
    schema: Schema,
  ): Promise<Static<Schema> | undefined> {
    try {
      return await super.get(collection, name, schema)
    } catch (error) {
      const state = await this.#stateOf(collection, error)
      if (state === 'gone') return undefined
      throw state === 'ending' ? endingError(collection, error) : error
    }
  }

  /** What is forbidden in a namespace that is gone is empty; and so, for a list, where it long was. */
  override async collect<Kept>(
    collection: Collection,
    selection: Selection,
    pick: (object: object) => Kept | undefined,
  ): Promise<Kept[]> {
    const { namespace } = collection
    try {
      const found = await super.collect(collection, selection, pick)
      if (namespace !== undefined) this.#refusals.delete(namespace)
      return found
    } catch (error) {
      const state = await this.#stateOf(collection, error)
      if (state === 'gone' || (state === 'there' && this.#isLongRefused(namespace, error)))
        return []
      throw state === 'ending' ? endingError(collection, error) : error
    }
  }

  /** Of the namespace of a call that failed; undefined where it failed for any other reason. */
  async #stateOf({ namespace }: Collection, error: unknown): Promise<State | undefined> {
    if (namespace === undefined || !hasStatus(error, 403)) return undefined
    const found = await super.get(namespaces(), namespace, AnyObject).catch(unknownIfForbidden)
    if (found === undefined) return 'gone'
    if (found === 'unknown' || found.metadata.deletionTimestamp === undefined) return 'there'
    const seconds = secondsSince(found.metadata.deletionTimestamp, this.#now())
    return seconds >= ENDING_SECONDS ? 'gone' : 'ending'
  }

  #isLongRefused(namespace = '', err: unknown): boolean {
    const now = this.#now().getTime()
    const refusal = this.#refusals.get(namespace) ?? { since: now, isLogged: false }
    this.#refusals.set(namespace, refusal)
    const [oldest] = this.#refusals.keys()
    if (this.#refusals.size > MAX_REFUSALS && oldest !== undefined) this.#refusals.delete(oldest)
    if (now - refusal.since < REFUSED_SECONDS * 1000) return false
    if (!refusal.isLogged) this.#log.warn({ err, namespace }, LEFT_OUT)
    refusal.isLogged = true
    return true
  }
}

const LEFT_OUT =
  'namespace cannot be read and is left out: run helm upgrade, which creates the RoleBinding there, or remove the namespace from operator.namespaces'

function endingError({ namespace = '' }: Collection, cause: unknown): KubernetesError {
  const message = `namespace ${namespace} is being deleted and the operator has no rights there any more: its Jobs count as stopped ${ENDING_SECONDS} s after the deletion`
  return new KubernetesError(message, { cause, status: 403 })
}

function unknownIfForbidden(error: unknown): 'unknown' {
  if (hasStatus(error, 403)) return 'unknown'
  throw error
}

/**
 * Which of several replicas of the service answers hooks: the holder of a Lease, as client-go elects leaders. No clocks
 * are compared: a replica takes the Lease when it has seen no renewal for the duration of the Lease, and the holder
 * stops before that, when it could not renew for RENEW_DEADLINE_MS.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Lease } from '../../crds/kubernetes.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import { leases } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { createOrReplace } from '../ports/common.ts'
import { delay, type Log, type Timers } from '../runtime.ts'
import type { OwnerReference } from './endpoint.ts'

export const LEASE_SECONDS = 15
export const RENEW_DEADLINE_MS = 10_000
export const RETRY_MS = 2_000
/** A renewal that gets no answer is repeated on another connection, in time for the deadline. */
const CALL_TIMEOUT_MS = 4_000

export interface ElectionOptions {
  kubernetes: Kubernetes
  lease: NamespacedName
  /** Differs between replicas, and between two starts of one. */
  identity: string
  /** Deletes the Lease with its owner. */
  owner?: OwnerReference
  now: () => Date
  /** Milliseconds of a clock that is never set. */
  elapsed: () => number
  timers: Timers
  log: Log
}

const LeaderLease = Type.Composite([
  Lease,
  Type.Object({
    spec: Type.Optional(
      Type.Object({
        holderIdentity: Type.Optional(Type.String()),
        leaseDurationSeconds: Type.Optional(Type.Integer()),
        acquireTime: Type.Optional(Type.String()),
        renewTime: Type.Optional(Type.String()),
        leaseTransitions: Type.Optional(Type.Integer()),
      }),
    ),
  }),
])
type LeaderLease = Static<typeof LeaderLease>

/** `conflict`: another client changed the Lease in the same moment. */
type Attempt = 'held' | 'taken' | 'conflict'

export class Election {
  readonly #options: ElectionOptions
  /** When the last successful renewal was sent. */
  #renewedAt = 0
  /** The Lease as it was last seen to change, and when that was. */
  #seen = { spec: '', at: 0 }

  constructor(options: ElectionOptions) {
    this.#options = options
  }

  /** Resolves once this replica holds the Lease; rejects when the signal aborts. */
  async acquire(signal: AbortSignal): Promise<void> {
    const { timers, log, lease, identity } = this.#options
    for (;;) {
      const attempt = await this.#attempt((spec) => this.#isFree(spec)).catch((error: unknown) => {
        log.warn({ err: error, lease }, 'taking the Lease of the leader failed; retrying')
        return undefined
      })
      if (signal.aborted && attempt === 'held') await this.release()
      signal.throwIfAborted()
      if (attempt === 'held') {
        log.info({ lease, identity }, 'this replica is the leader')
        return
      }
      await delay(timers, RETRY_MS, signal)
    }
  }

  /**
   * Renews the Lease until the returned function is called. `onLost` is called once, when another replica holds the
   * Lease or it was not renewed in time: from then on another one may answer hooks.
   */
  hold(onLost: (reason: string) => void): () => void {
    const { timers, log, lease, elapsed } = this.#options
    const remaining = () => Math.max(0, this.#renewedAt + RENEW_DEADLINE_MS - elapsed())
    let isHolding = true
    let cancelRenewal: () => void
    let cancelDeadline = timers.setTimeout(expire, remaining())

    const stop = () => {
      isHolding = false
      cancelRenewal()
      cancelDeadline()
    }
    const lose = (reason: string) => {
      if (!isHolding) return
      stop()
      onLost(reason)
    }
    function expire(): void {
      lose(`the Lease was not renewed for ${RENEW_DEADLINE_MS / 1000} s`)
    }
    const renew = async () => {
      // A Lease that was deleted is created again.
      const attempt = await this.#attempt((spec) => holderOf(spec) === '')
      if (!isHolding) return
      if (attempt === 'taken') {
        lose('another replica holds the Lease')
        return
      }
      cancelDeadline()
      cancelDeadline = timers.setTimeout(expire, remaining())
    }
    const scheduleNext = () => {
      cancelRenewal = timers.setTimeout(() => {
        renew()
          .catch((error: unknown) => {
            log.warn({ err: error, lease }, 'renewing the Lease of the leader failed; retrying')
          })
          .finally(() => {
            if (isHolding) scheduleNext()
          })
      }, RETRY_MS)
    }
    scheduleNext()
    return stop
  }

  /** Lets another replica take over at once. Only after the last hook was answered. */
  async release(): Promise<void> {
    const found = await this.#read()
    if (found?.spec?.holderIdentity !== this.#options.identity) return
    const spec = { ...found.spec, holderIdentity: '', leaseDurationSeconds: 1 }
    await this.#write({ ...found, spec })
  }

  /** Takes or renews the Lease; one that this replica does not hold only if `isFree` says so. */
  async #attempt(isFree: (spec: LeaderLease['spec']) => boolean): Promise<Attempt> {
    const { lease, identity, owner, now, elapsed } = this.#options
    const sentAt = elapsed()
    const found = await this.#read()
    const { acquireTime, leaseTransitions = 0 } = found?.spec ?? {}
    const isOurs = holderOf(found?.spec) === identity
    if (!isOurs && !isFree(found?.spec)) return 'taken'
    // The API accepts microseconds only.
    const time = now().toISOString().replace('Z', '000Z')
    const metadata = found?.metadata ?? {
      ...lease,
      ...(owner !== undefined && { ownerReferences: [owner] }),
    }
    const isWritten = await this.#write({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata,
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: LEASE_SECONDS,
        acquireTime: isOurs && acquireTime !== undefined ? acquireTime : time,
        renewTime: time,
        leaseTransitions: isOurs || found === undefined ? leaseTransitions : leaseTransitions + 1,
      },
    })
    if (!isWritten) return 'conflict'
    this.#renewedAt = sentAt
    return 'held'
  }

  /**
   * Whether it has no holder, or nothing has renewed it while this replica looked. The holder of one that was deleted may not
   * have noticed it.
   */
  #isFree(spec: LeaderLease['spec']): boolean {
    const at = this.#options.elapsed()
    const isExpired = at - this.#seen.at >= LEASE_SECONDS * 1000
    if (spec === undefined) return this.#seen.spec === '' || isExpired
    const text = holderOf(spec) === '' ? '' : JSON.stringify(spec)
    if (text === this.#seen.spec) return text === '' || isExpired
    this.#seen = { spec: text, at }
    return text === ''
  }

  #read(): Promise<LeaderLease | undefined> {
    const { kubernetes, lease } = this.#options
    const options = { timeoutMs: CALL_TIMEOUT_MS }
    return kubernetes.get(leases(lease.namespace), lease.name, LeaderLease, options)
  }

  #write(object: LeaderLease): Promise<boolean> {
    const { kubernetes, lease } = this.#options
    const options = { timeoutMs: CALL_TIMEOUT_MS }
    return createOrReplace(kubernetes, leases(lease.namespace), object, options)
  }
}

/** Empty if it was released. */
function holderOf(spec: LeaderLease['spec']): string {
  return spec?.holderIdentity ?? ''
}

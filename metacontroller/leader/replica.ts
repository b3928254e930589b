/**
 * One of several replicas of the service: it answers probes until it is the leader, and hooks from then on. When it
 * has lost the Lease, another one may answer them: the process must end.
 */
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import type { NamespacedName } from '../../crds/schema.ts'
import type { Log, Timers } from '../runtime.ts'
import { Election } from './election.ts'
import { directService, leaderServiceOwner, type Replica } from './endpoint.ts'

export interface LeaderOptions {
  /** The Service without a selector; the Lease and the EndpointSlice have its name. */
  service: NamespacedName
  replica: Replica
}

interface Running {
  close(): Promise<void>
}

export interface ReplicaDependencies extends LeaderOptions {
  kubernetes: Kubernetes
  now: () => Date
  elapsed?: () => number
  timers: Timers
  log: Log
  /** Listens on the port of the hooks and answers probes. */
  startStandby: () => Promise<Running>
  startLeader: () => Promise<Running>
  /** The process must end: another replica may answer hooks from now on, or this one could not start. */
  onLost: (reason: string) => void
}

/** How often the leader makes sure that the Service is directed to it. */
const DIRECT_INTERVAL_MS = 10_000

/** Resolves once the replica answers probes; `leading` resolves once it answers hooks, or never will. */
export async function startReplica(
  dependencies: ReplicaDependencies,
): Promise<Running & { leading: Promise<void> }> {
  const { kubernetes, service, replica, now, timers, log, onLost } = dependencies
  const { elapsed = () => performance.now() } = dependencies
  const standby = await dependencies.startStandby()
  const owner = await leaderServiceOwner(kubernetes, service)
  // A container that restarts in its pod is another process.
  const identity = `${replica.pod.name}_${replica.pod.uid}_${now().getTime()}`
  const election = new Election({
    ...{ kubernetes, lease: service, identity, now, elapsed, timers, log },
    ...(owner !== undefined && { owner }),
  })
  const closing = new AbortController()
  let running: Running = standby
  let stopHolding: (() => void) | undefined
  let stopDirecting: (() => void) | undefined

  async function lead(): Promise<void> {
    await election.acquire(closing.signal)
    stopHolding = election.hold(onLost)
    await standby.close()
    running = await dependencies.startLeader()
    stopDirecting = direct()
  }

  function direct(): () => void {
    let cancel = timers.setTimeout(update, 0)
    function update(): void {
      directService(kubernetes, service, replica)
        .catch((error: unknown) => {
          log.warn({ err: error, service }, 'directing the Service to the leader failed; retrying')
        })
        .finally(() => {
          if (!closing.signal.aborted) cancel = timers.setTimeout(update, DIRECT_INTERVAL_MS)
        })
    }
    return () => {
      cancel()
    }
  }

  const leading = lead().catch((error: unknown) => {
    if (!closing.signal.aborted) onLost(error instanceof Error ? error.message : String(error))
  })
  return {
    leading,
    async close() {
      closing.abort()
      await leading
      stopDirecting?.()
      await running.close()
      if (stopHolding === undefined) return
      stopHolding()
      await election.release().catch((error: unknown) => {
        log.warn({ err: error }, 'releasing the Lease of the leader failed: it expires')
      })
    },
  }
}

/**
 * The latest sample of each resource, taken from hook calls, and the gauges computed from them. It
 * makes no API calls. A sample is dropped when its resource is finalized, or when it is stale by
 * the time another resource is recorded.
 */
import { Gauge, type Registry } from 'prom-client'
import type { HookAnswer, HookRequest, AnyParent } from '../../hooks/protocol.ts'
import { sampleOf, type ResourceSample } from './resource-sample.ts'

/** Three resync periods of Metacontroller. */
const STALE_AFTER_MS = 900_000
/** Maximum number of resources with series of their own, per kind and metric. */
const MAX_PER_KIND = 100

export class Inventory {
  readonly #now: () => Date
  /** By uid, in the order in which they were last recorded. */
  readonly #samples = new Map<string, ResourceSample & { at: number }>()

  constructor(now: () => Date) {
    this.#now = now
  }

  /** Records the outcome of one hook call. */
  record(request: HookRequest<AnyParent>, answer: HookAnswer): void {
    const { uid } = request.parent.metadata
    const now = this.#now()
    this.#samples.delete(uid)
    if (answer.finalized === true) return
    this.#samples.set(uid, { ...sampleOf(request, answer, now), at: now.getTime() })
    this.#removeStale(now.getTime())
  }

  /** Number of resources by kind and phase. */
  phases(): { kind: string; phase: string; count: number }[] {
    const counts = new Map<string, { kind: string; phase: string; count: number }>()
    for (const { kind, phase } of this.#samples.values()) {
      const counted = counts.get(`${kind}/${phase}`) ?? { kind, phase, count: 0 }
      counts.set(`${kind}/${phase}`, { ...counted, count: counted.count + 1 })
    }
    return [...counts.values()]
  }

  /** Unhealthy resources of each kind, most recent first. */
  unhealthy(): (ResourceSample & { unhealthy: NonNullable<ResourceSample['unhealthy']> })[] {
    const byKind = Map.groupBy(this.#with('unhealthy'), ({ kind }) => kind)
    return [...byKind.values()].flatMap((seen) =>
      seen.toSorted((a, b) => b.unhealthy.since - a.unhealthy.since).slice(0, MAX_PER_KIND),
    )
  }

  /**
   * Resources of each kind with critical conditions; above the limit the selection is arbitrary.
   */
  critical(): (ResourceSample & { dangers: NonNullable<ResourceSample['dangers']> })[] {
    const byKind = Map.groupBy(this.#with('dangers'), ({ kind }) => kind)
    return [...byKind.values()].flatMap((seen) => seen.slice(0, MAX_PER_KIND))
  }

  /** Schedules, the one with the oldest newest backup first. */
  schedules(): (ResourceSample & { schedule: NonNullable<ResourceSample['schedule']> })[] {
    const age = ({ schedule }: { schedule: NonNullable<ResourceSample['schedule']> }) =>
      schedule.completedAt ?? schedule.createdAt
    return this.#with('schedule')
      .sort((a, b) => age(a) - age(b))
      .slice(0, MAX_PER_KIND)
  }

  /** Access keys, the one with the next renewal first. */
  upcomingRenewals(): (ResourceSample & { renewAt: number })[] {
    return this.#with('renewAt')
      .sort((a, b) => a.renewAt - b.renewAt)
      .slice(0, MAX_PER_KIND)
  }

  /** Clusters with known replicas, those that miss most of them first. */
  clusters(): (ResourceSample & { shards: Shards })[] {
    const missing = ({ shards: { replicas = 0, activeReplicas = 0 } }: { shards: Shards }) =>
      replicas - activeReplicas
    return this.#with('shards')
      .sort((a, b) => missing(b) - missing(a))
      .slice(0, MAX_PER_KIND)
  }

  #with<Field extends 'unhealthy' | 'dangers' | 'schedule' | 'shards' | 'renewAt'>(field: Field) {
    type WithField = ResourceSample & { [Key in Field]-?: NonNullable<ResourceSample[Key]> }
    return [...this.#samples.values()].filter(
      (seen): seen is WithField & { at: number } => field in seen,
    )
  }

  /**
   * Runs only when a sample is recorded, not on a timer: if Metacontroller stops calling, the
   * metrics keep their last state.
   */
  #removeStale(now: number): void {
    for (const [uid, { at }] of this.#samples) {
      if (now - at < STALE_AFTER_MS) return
      this.#samples.delete(uid)
    }
  }
}

interface GaugeSample {
  labels: Record<string, string>
  /** A sample without a value is omitted. */
  value: number | undefined
}

interface GaugeDefinition {
  name: string
  help: string
  labels: string[]
  samples: (inventory: Inventory) => GaugeSample[]
}

type Shards = NonNullable<ResourceSample['shards']>

const NAME_LABELS = ['namespace', 'name']

const GAUGES: readonly GaugeDefinition[] = [
  {
    name: 'vec_operator_resources',
    help: 'Resources by kind and phase, as last observed by the hooks.',
    labels: ['kind', 'phase'],
    samples: (inventory) =>
      inventory.phases().map(({ count, ...labels }) => ({ labels, value: count })),
  },
  {
    name: 'vec_operator_resource_unready_timestamp_seconds',
    help: 'Time since which a resource is not Ready, waits for its start or is Failed; the latest 100 of each kind.',
    labels: ['kind', ...NAME_LABELS, 'reason'],
    samples: (inventory) =>
      inventory.unhealthy().map(({ kind, namespace, name, unhealthy: { since, reason } }) => ({
        labels: { kind, namespace, name, reason },
        value: toSeconds(since),
      })),
  },
  {
    name: 'vec_operator_resource_danger',
    help: '1 for each condition that needs attention: Capacity, CertificateInUse, Consensus, HistoryBounded, Replicated, RestoreTested or ShardsPlaced False, Stalled, a silent Job, a failed purge; 100 resources of each kind.',
    labels: ['kind', ...NAME_LABELS, 'type', 'reason'],
    samples: (inventory) =>
      inventory.critical().flatMap(({ kind, namespace, name, dangers }) =>
        dangers.map((condition) => ({
          labels: { kind, namespace, name, ...condition },
          value: 1,
        })),
      ),
  },
  {
    name: 'vec_operator_backup_schedule_created_timestamp_seconds',
    help: 'Creation time of a schedule; for the 100 schedules whose newest backup is oldest.',
    labels: NAME_LABELS,
    samples: scheduleSamples(({ createdAt }) => createdAt),
  },
  {
    name: 'vec_operator_backup_schedule_last_completed_timestamp_seconds',
    help: 'Completion time of the newest Completed backup of a schedule; absent before the first.',
    labels: NAME_LABELS,
    samples: scheduleSamples(({ completedAt }) => completedAt),
  },
  {
    name: 'vec_operator_backup_schedule_interval_seconds',
    help: 'Time from the latest slot of a schedule to the next; absent while it is suspended or its cluster is hibernated.',
    labels: NAME_LABELS,
    samples: scheduleSamples(({ intervalMs }) => intervalMs),
  },
  {
    name: 'vec_operator_cluster_replicas_desired',
    help: 'Replicas of shards that a cluster should have; for the 100 clusters that miss most of them.',
    labels: NAME_LABELS,
    samples: shardSamples(({ replicas }) => replicas),
  },
  {
    name: 'vec_operator_cluster_replicas_active',
    help: 'Replicas that every node of a cluster reports as Active.',
    labels: NAME_LABELS,
    samples: shardSamples(({ activeReplicas }) => activeReplicas),
  },
  {
    name: 'vec_operator_cluster_shard_steps_left',
    help: 'Steps that a Job has left on the shards of a cluster, as far as they are planned; absent without a Job.',
    labels: NAME_LABELS,
    samples: shardSamples(({ stepsLeft }) => stepsLeft),
  },
  {
    name: 'vec_operator_cluster_shard_bytes_left',
    help: 'Bytes of shards that a Job has left to copy; absent without a Job.',
    labels: NAME_LABELS,
    samples: shardSamples(({ bytesLeft }) => bytesLeft),
  },
  {
    name: 'vec_operator_cluster_resharding',
    help: '1 while a shard of a collection is added (up) or removed (down), by stage.',
    labels: [...NAME_LABELS, 'direction', 'stage'],
    samples: (inventory) =>
      inventory.clusters().flatMap(({ namespace, name, shards: { resharding } }) => {
        if (resharding === undefined) return []
        const { direction, stage } = resharding
        return [{ labels: { namespace, name, direction, stage }, value: 1 }]
      }),
  },
  {
    name: 'vec_operator_access_key_renewal_timestamp_seconds',
    help: 'Renewal time of the token of an access key; the next 100.',
    labels: NAME_LABELS,
    samples: (inventory) =>
      inventory.upcomingRenewals().map(({ namespace, name, renewAt }) => ({
        labels: { namespace, name },
        value: toSeconds(renewAt),
      })),
  },
]

export function registerInventory(inventory: Inventory, version: string, registry: Registry): void {
  for (const { name, help, labels, samples } of GAUGES) {
    registry.registerMetric(
      new Gauge({
        ...{ name, help, labelNames: labels, registers: [] },
        collect() {
          this.reset()
          for (const { labels: labelValues, value } of samples(inventory)) {
            if (value !== undefined) this.set(labelValues, value)
          }
        },
      }),
    )
  }
  const build = new Gauge({
    name: 'vec_operator_build_info',
    help: 'Always 1; the label is the running release.',
    labelNames: ['version'],
    registers: [registry],
  })
  build.set({ version }, 1)
}

function shardSamples(value: (shards: Shards) => number | undefined): GaugeDefinition['samples'] {
  return (inventory) =>
    inventory.clusters().map(({ namespace, name, shards }) => ({
      labels: { namespace, name },
      value: value(shards),
    }))
}

type Schedule = ReturnType<Inventory['schedules']>[number]['schedule']

function scheduleSamples(
  time: (schedule: Schedule) => number | undefined,
): GaugeDefinition['samples'] {
  return (inventory) =>
    inventory.schedules().map(({ namespace, name, schedule }) => ({
      labels: { namespace, name },
      value: toSeconds(time(schedule)),
    }))
}

function toSeconds(milliseconds: number): number
function toSeconds(milliseconds: number | undefined): number | undefined
function toSeconds(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : milliseconds / 1000
}

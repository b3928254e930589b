/** The census as gauges, worked out when somebody asks for the metrics. */
import { Gauge, type Registry } from 'prom-client'
import type { Census } from './census.ts'

interface Sample {
  labels: Record<string, string>
  /** Nothing is shown where there is none. */
  value: number | undefined
}

interface Shown {
  name: string
  help: string
  labels: string[]
  samples: (census: Census) => Sample[]
}

const NAME = ['namespace', 'name']

const SHOWN: readonly Shown[] = [
  {
    name: 'vec_operator_resources',
    help: 'Resources by kind and phase, as the hooks were last shown them.',
    labels: ['kind', 'phase'],
    samples: (census) => census.phases().map(({ count, ...labels }) => ({ labels, value: count })),
  },
  {
    name: 'vec_operator_resource_unready_timestamp_seconds',
    help: 'Since when a resource is not Ready, waits for its start or has Failed; of each kind the latest 100.',
    labels: ['kind', ...NAME, 'reason'],
    samples: (census) =>
      census.inTrouble().map(({ kind, namespace, name, trouble: { since, reason } }) => ({
        labels: { kind, namespace, name, reason },
        value: seconds(since),
      })),
  },
  {
    name: 'vec_operator_resource_danger',
    help: '1 for each condition of a resource that means danger: Consensus or Replicated False, Stalled, a silent Job; 100 resources of each kind.',
    labels: ['kind', ...NAME, 'type', 'reason'],
    samples: (census) =>
      census
        .inDanger()
        .flatMap(({ kind, namespace, name, dangers }) =>
          dangers.map((danger) => ({ labels: { kind, namespace, name, ...danger }, value: 1 })),
        ),
  },
  {
    name: 'vec_operator_backup_schedule_created_timestamp_seconds',
    help: 'When a schedule was created; of the 100 whose newest backup is oldest.',
    labels: NAME,
    samples: ofSchedules(({ createdAt }) => createdAt),
  },
  {
    name: 'vec_operator_backup_schedule_last_completed_timestamp_seconds',
    help: 'When the newest Completed backup of a schedule ended; absent before the first.',
    labels: NAME,
    samples: ofSchedules(({ completedAt }) => completedAt),
  },
  {
    name: 'vec_operator_backup_schedule_interval_seconds',
    help: 'Time from the latest slot of a schedule to the next; absent while it is suspended.',
    labels: NAME,
    samples: ofSchedules(({ intervalMs }) => intervalMs),
  },
  {
    name: 'vec_operator_access_key_renewal_timestamp_seconds',
    help: 'When the token of an access key is to be renewed; of the 100 that are next.',
    labels: NAME,
    samples: (census) =>
      census.renewals().map(({ namespace, name, renewAt }) => ({
        labels: { namespace, name },
        value: seconds(renewAt),
      })),
  },
]

export function showCensus(census: Census, version: string, registry: Registry): void {
  for (const { name, help, labels, samples } of SHOWN) {
    registry.registerMetric(
      new Gauge({
        ...{ name, help, labelNames: labels, registers: [] },
        collect() {
          this.reset()
          for (const { labels: of, value } of samples(census)) {
            if (value !== undefined) this.set(of, value)
          }
        },
      }),
    )
  }
  const build = new Gauge({
    name: 'vec_operator_build_info',
    help: 'Always 1; the label is the release that runs.',
    labelNames: ['version'],
    registers: [registry],
  })
  build.set({ version }, 1)
}

type Schedule = ReturnType<Census['schedules']>[number]['schedule']

function ofSchedules(time: (schedule: Schedule) => number | undefined): Shown['samples'] {
  return (census) =>
    census.schedules().map(({ namespace, name, schedule }) => ({
      labels: { namespace, name },
      value: seconds(time(schedule)),
    }))
}

function seconds(milliseconds: number): number
function seconds(milliseconds: number | undefined): number | undefined
function seconds(milliseconds: number | undefined): number | undefined {
  return milliseconds === undefined ? undefined : milliseconds / 1000
}

/**
 * Growth of the data volumes by spec.persistence.autoGrow. The operator cannot write the spec: the status
 * has the size that the volumes are to have, so that every sync plans the same helm run, and the report of
 * the run has the size that was applied, which stays valid when autoGrow is removed.
 */
import type { ClusterSpec } from '../../crds/cluster.ts'
import { parseQuantity } from '../../crds/units.ts'
import { isUnfinished } from '../job.ts'
import { usedPercent } from './capacity.ts'
import type { Observed } from './observed.ts'

type AutoGrow = NonNullable<ClusterSpec['persistence']['autoGrow']>

/** Size of the data volumes: that of the spec, or what they have grown to. They never become smaller. */
export function dataVolumeSize({ cluster, progress }: Pick<Observed, 'cluster' | 'progress'>) {
  const { size, autoGrow } = cluster.spec.persistence
  const planned = autoGrow && smaller(cluster.status?.volumeSize ?? size, autoGrow.max)
  return [progress?.applied?.grownSize, planned].reduce<string>(
    (largest, grown) => (grown === undefined ? largest : larger(largest, grown)),
    size,
  )
}

/**
 * The size for the status; undefined if it is that of the spec. A volume grows by one step at a time: the
 * next one follows when every volume has the size of the last one.
 */
export function plannedVolumeSize(observed: Observed): string | undefined {
  const { cluster, jobs, pendingRun, shards } = observed
  const { size, autoGrow } = cluster.spec.persistence
  const current = dataVolumeSize(observed)
  const isIdle = pendingRun === undefined && !jobs.some(isUnfinished)
  const hasGrown = shards?.nodes.every(
    ({ volumeBytes = 0 }) => volumeBytes >= Math.floor(parseQuantity(current)),
  )
  const isDue =
    autoGrow !== undefined &&
    isIdle &&
    hasGrown === true &&
    shards?.nodes.some((node) => (usedPercent(node) ?? 0) >= autoGrow.above) === true
  const planned = isDue ? larger(current, nextSize(current, autoGrow)) : current
  return parseQuantity(planned) > parseQuantity(size) ? planned : undefined
}

function nextSize(current: string, { by, max }: AutoGrow): string {
  const bytes = parseQuantity(current)
  const step = by.endsWith('%') ? (bytes * Number(by.slice(0, -1))) / 100 : parseQuantity(by)
  return smaller(formatQuantity(bytes + step), max)
}

const MIB = 2 ** 20
const GIB = 2 ** 30

/** Rounded up to whole GiB, or MiB for small volumes. */
function formatQuantity(bytes: number): string {
  return bytes < GIB ? `${Math.ceil(bytes / MIB)}Mi` : `${Math.ceil(bytes / GIB)}Gi`
}

function larger(a: string, b: string): string {
  return parseQuantity(b) > parseQuantity(a) ? b : a
}

function smaller(a: string, b: string): string {
  return parseQuantity(b) < parseQuantity(a) ? b : a
}

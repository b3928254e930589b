/** Maintenance windows: what waits for one outside of it, and that it goes on inside. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { Reference, World } from '../world/world.ts'
import { eventually, fill, points } from './backup-parts.ts'
import {
  conditionIn,
  jobsIn,
  reasonIn,
  running,
  statusOf,
  untilApplied,
  UPGRADES_SECONDS,
  type Scenario,
} from './scenario.ts'

/** Long enough for what must be seen before the window begins. */
export const CLOSED_SECONDS = 300
const MINUTE_MS = 60_000

/** A window of one hour a day that begins at a full minute, after at least so many seconds. */
export function windowAfter(world: World, seconds: number) {
  const earliest = world.now().getTime() + seconds * 1000
  const begin = new Date(Math.ceil(earliest / MINUTE_MS) * MINUTE_MS)
  const schedule = `${begin.getUTCMinutes()} ${begin.getUTCHours()} * * *`
  return { begin, spec: { maintenanceWindows: [{ schedule, duration: '1h' }] } }
}

interface Workload extends AnyObject {
  spec: { replicas: number; template: { spec: { containers: { image: string }[] } } }
}

/** Number of nodes and version of their image, as helm applied them. */
async function appliedBy(world: World, namespace: string): Promise<[number, string | undefined]> {
  const reference = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace, name: 'vec-a' }
  const { spec } = (await world.get(reference)) as Workload
  return [spec.replicas, spec.template.spec.containers[0]?.image.split(':v')[1]]
}

/** Ends also when the window has begun, in which nothing awaits it any more. */
async function untilAwaiting(
  world: World,
  cluster: Reference,
  { message, begin }: { message: string; begin: Date },
): Promise<void> {
  const isAwaiting = (object: AnyObject | undefined) =>
    reasonIn(object) === 'MaintenanceWindow' && conditionIn(object, 'Applied')?.message === message
  const isOver = (object: AnyObject | undefined) => isAwaiting(object) || world.now() >= begin
  const found = await world.waitFor(cluster, message, isOver, CLOSED_SECONDS)
  if (!isAwaiting(found)) throw new Error(`the window began before this was seen: ${message}`)
}

const waits: Scenario = {
  title:
    'spec.maintenanceWindows: a helm run and the removal of a node wait for the window, say when it begins, and go on in it',
  waits: true,
  async run(world, t) {
    const namespace = await world.namespace('windows')
    const { older, newer } = world.versions
    const spec = { version: older, replicas: 2, cluster: { enabled: true } }
    const cluster = await running(world, namespace, 'a', spec)
    const { upsert, call } = await fill(world, namespace, 'docs', { shard_number: 4 })
    await upsert({ points: points(40) })
    const isPlaced = (found: AnyObject | undefined) =>
      statusOf(found).nodes?.length === 2 && conditionIn(found, 'ShardsPlaced')?.status === 'True'
    await world.waitFor(cluster, 'shards placed', isPlaced, UPGRADES_SECONDS)
    const jobs = await jobsIn(world, namespace)

    const { begin, spec: window } = windowAfter(world, CLOSED_SECONDS)
    const awaited = `waits for the maintenance window that begins at ${begin.toISOString().slice(0, 19)}Z`
    await world.patch(cluster, { spec: { ...window, version: newer } })
    await untilAwaiting(world, cluster, { message: awaited, begin })
    await world.patch(cluster, { spec: { replicas: 1 } })
    await untilAwaiting(world, cluster, { message: `spec.replicas: 2 -> 1 ${awaited}`, begin })
    await eventually(world, 'less than a minute is left', () => {
      return begin.getTime() - world.now().getTime() < MINUTE_MS
    })
    t.strictSame(await appliedBy(world, namespace), [2, older])
    t.strictSame(await jobsIn(world, namespace), jobs, 'neither helm nor work on shards has run')
    t.ok(world.now() < begin, 'all of this before the window')

    const object = await untilApplied(world, cluster, UPGRADES_SECONDS)
    t.ok(world.now() >= begin)
    t.strictSame(await appliedBy(world, namespace), [1, newer])
    t.equal(statusOf(object).version, newer)
    t.ok((await jobsIn(world, namespace)).some((name) => name.includes('-shards-')))
    const { result } = (await call('POST', '/points/count', { exact: true })) as {
      result: { count: number }
    }
    t.equal(result.count, 40, 'the node that stays has all points')
  },
}

export const windows: Scenario[] = [waits]

/** What a pod reports about its restore, and what the next pod takes from that report. */
import { pino } from 'pino'
import t from 'tap'
import type { RestoreResult } from '../../../crds/contract/restore-job.ts'
import type { Clock } from '../../../jobs/clock.ts'
import { checkpointFor } from '../../../jobs/restore/checkpoint.ts'
import { Progress } from '../../../jobs/restore/progress.ts'
import { instantClock } from '../job-world.ts'

type Items = Parameters<Progress['setItems']>[0]

const NODES = 3
const NAMES = ['a', 'b', 'c', 'd']
/** Of each collection, in one snapshot. */
const BYTES = 100

function itemsOf(...names: string[]): Items {
  const source = { shards: [{ shardId: 0 }], snapshots: [{ nodeIndex: 0, sizeBytes: BYTES }] }
  return names.map((name) => ({ method: 'Node', name, source: { name, ...source } })) as never
}

interface PodOptions {
  names?: string[]
  previous?: object
  time?: Clock
}

/** A pod that continues after this report. */
function startPod({ names = NAMES, previous, time = instantClock() }: PodOptions = {}) {
  const saved: RestoreResult[] = []
  const reporter = {
    progress: async () => undefined,
    checkpoint: async (_: string, { restore }: { restore: RestoreResult }) => {
      saved.push(structuredClone(restore))
    },
  }
  const tools = { time, log: pino({ level: 'silent' }), reporter } as never
  const progress = new Progress(tools, previous as RestoreResult | undefined)
  progress.setItems(itemsOf(...names), NODES)
  /** The report that the API has accepted last. */
  return { progress, last: () => saved.at(-1) }
}

/** States of the collections in the order of the restore, after this report. */
function statesAfter(previous: object): string[] {
  const { progress } = startPod({ previous })
  return progress.result().collections.map(({ status }) => status)
}

t.test('the time that is left is that of all other bytes at the measured speed', async (t) => {
  const time = instantClock()
  const { progress, last } = startPod({ time })
  const [item] = itemsOf('a')
  if (item === undefined) return
  progress.startCollection(item, NODES, checkpointFor(undefined, 'a'))
  await time.sleep(4_000)
  const [snapshot] = item.source.snapshots
  if (snapshot?.sizeBytes !== BYTES) throw new Error('no snapshot')
  await progress.nodeDone(snapshot)
  const { current } = last() ?? {}
  t.equal(current?.bytesPerSecond, BYTES / 4)
  t.equal(current?.secondsLeft, (4 * 3 * BYTES) / BYTES)
})

t.test(
  'the next pod does not take a collection that another client created as its own',
  async (t) => {
    const { progress, last } = startPod({ names: ['docs'] })
    const [item] = itemsOf('docs')
    if (item === undefined) return
    progress.startCollection(item, NODES, { ...checkpointFor(undefined, 'docs'), uuid: 'former' })
    t.match(last(), undefined)
    await progress.recordCreation()
    t.equal(last()?.current?.isOurs, true)
    t.notOk('uuid' in (last()?.current ?? {}), 'that of the collection before it')
    t.equal(progress.isCreatedAndEmpty(), true)
    await progress.recordNotCreated()
    t.equal(last()?.current?.isOurs, false)
    t.equal(progress.isCreatedAndEmpty(), false)
    const next = startPod({ names: ['docs'], previous: last() ?? {} })
    t.match(next.progress.checkpoint('docs'), { isOurs: false })
  },
)

t.test('the next pod knows the state of a collection that the report does not list', async (t) => {
  const { progress } = startPod({ previous: { collections: [], states: '1C1F1B1P' } })
  const error = 'failed in an earlier attempt: its log has the error'
  t.strictSame(progress.result().collections, [
    { name: 'a', status: 'Completed', bytes: BYTES },
    { name: 'b', status: 'Failed', error },
    { name: 'c', status: 'Failed', error, bytes: BYTES, isInPlace: true },
    { name: 'd', status: 'Pending' },
  ])
  t.strictSame(
    NAMES.map((name) => progress.isInPlace(name)),
    [true, false, true, false],
    'an alias may point to what is restored, and to nothing else',
  )
  t.strictSame(
    NAMES.slice(0, 3).map((name) => progress.checkpoint(name)),
    ['Completed', 'Failed', 'Failed'],
  )
})

t.test('the listed collections of a report have precedence over its states', async (t) => {
  const listed = { name: 'b', status: 'Failed', error: 'no space left' }
  const { progress } = startPod({ previous: { collections: [listed], states: '1C1F2P' } })
  t.strictSame(progress.result().collections[1], listed)
})

t.test('without states, unlisted collections before the current one are completed', async (t) => {
  const current = { collection: 'c', nodes: NODES, nodesDone: 0, isOurs: false, step: 'begins' }
  const failed = { name: 'a', status: 'Failed', error: 'no space left' }
  const pending = ['Pending', 'Pending', 'Pending', 'Pending']
  const completed = ['Completed', 'Completed', 'Pending', 'Pending']
  t.strictSame(statesAfter({ current }), completed)
  t.strictSame(statesAfter({ current, unlisted: { failed: 0 } }), completed)
  t.strictSame(statesAfter({ current, collections: [failed] }), ['Failed', ...completed.slice(1)])
  t.strictSame(statesAfter({ current, unlisted: { failed: 1 } }), pending, 'one of them has failed')
  t.strictSame(statesAfter({ current: { ...current, nodes: 2 } }), pending, 'of other nodes')
  t.strictSame(statesAfter({}), pending, 'nothing was begun')
  t.strictSame(statesAfter({ current, states: '4X' }), completed, 'states that cannot be read')
})

/** Events about steps on shards that copy nothing. */
import t from 'tap'
import type { ClusterStatus } from '../../../../crds/cluster.ts'
import type { Progress } from '../../../../crds/contract/job.ts'
import type { FinishedSteps } from '../../../../crds/contract/shards-job.ts'
import { ago, applied, context, helmJob, progress } from '../../../builders.ts'
import { sync } from '../decisions.ts'
import { observedShards, threeNodes } from '../shards.ts'

const START = ago(600)

/** Calls the hook with each report in turn, and each status that it returned; the messages of its Events. */
function hook() {
  let shards: ClusterStatus['shards']
  return (
    seconds: number,
    counts: Partial<Record<FinishedSteps['step'], number>>,
    parts: Partial<Progress> & { startedAt?: string } = {},
  ) => {
    const { startedAt = START, ...rest } = parts
    const finished = (Object.entries(counts) as [FinishedSteps['step'], number][]).map(
      ([step, count]) => ({ step, count, last: `${step} ${count}` }),
    )
    const result = { stepsDone: 0, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0, moves: [] }
    const report = progress({
      ...{ verb: 'shards', run: 2, state: 'Started', applied: applied(), at: ago(600 - seconds) },
      ...rest,
      shards: { ...result, startedAt, finished },
    })
    const cluster = threeNodes({ status: { ...(shards !== undefined && { shards }) } })
    const jobs = [helmJob({ verb: 'shards', run: 2 })]
    const decision = sync(observedShards({ cluster, jobs, progress: report }), context)
    shards = decision.status.shards
    return (decision.events ?? [])
      .filter(({ reason }) => reason === 'ShardStep')
      .map(({ message, metadata }) => ({ message, name: metadata.name }))
  }
}

const messagesOf = (events: { message: string }[]) => events.map(({ message }) => message)

t.test('what cannot be taken back is one Event for each step, not for each report', async (t) => {
  const report = hook()
  t.strictSame(messagesOf(report(0, { replicate: 1 })), [], 'a copy has one as it begins')
  t.strictSame(messagesOf(report(5, { replicate: 1, removePeer: 1 })), ['removePeer 1'])
  t.strictSame(messagesOf(report(10, { replicate: 1, removePeer: 1 })), [])
  t.strictSame(messagesOf(report(15, { removePeer: 1, scaleDown: 1, deleteVolume: 1 })), [
    'scaleDown 1',
    'deleteVolume 1',
  ])
  t.strictSame(messagesOf(report(20, { removePeer: 3, scaleDown: 2, deleteVolume: 1 })), [
    'removePeer 3; 1 more since the last Event',
    'scaleDown 2',
  ])
})

t.test(
  'replicas that are dropped within a minute are one Event, and none is missing',
  async (t) => {
    const report = hook()
    t.strictSame(messagesOf(report(0, { drop: 1 })), ['drop 1'])
    for (let seconds = 1; seconds < 60; seconds += 1) {
      t.strictSame(report(seconds, { drop: 1 + seconds }), [])
    }
    t.strictSame(messagesOf(report(60, { drop: 61 })), ['drop 61; 59 more since the last Event'])
    t.strictSame(report(70, { drop: 62 }), [])
    const last = report(75, { drop: 63 }, { state: 'Done' })
    t.strictSame(messagesOf(last), ['drop 63; 1 more since the last Event'])
    t.strictSame(report(75, { drop: 63 }, { state: 'Done' }), [])
    t.strictSame(report(80, { drop: 63 }, { verb: 'upgrade', run: 3 }), [], 'a helm run repeats it')
  },
)

t.test('each Job counts from 0', async (t) => {
  const report = hook()
  t.strictSame(messagesOf(report(0, { drop: 2 })), ['drop 2; 1 more since the last Event'])
  const other = { startedAt: ago(500) }
  t.strictSame(messagesOf(report(10, { drop: 1 }, other)), ['drop 1'])
  t.strictSame(report(15, { drop: 1 }, other), [])
})

t.test('a status that was lost gives an Event the same name', async (t) => {
  const [first] = hook()(0, { scaleDown: 1 })
  const [again] = hook()(5, { scaleDown: 1 })
  t.equal(again?.name, first?.name)
})

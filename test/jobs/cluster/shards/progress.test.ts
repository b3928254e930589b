/** How much of a plan a Job on shards counts for its report. */
import t from 'tap'
import type { ShardsResult } from '../../../../crds/contract/shards-job.ts'
import type { Dependencies } from '../../../../jobs/dependencies.ts'
import { ShardsProgress } from '../../../../jobs/cluster/shards/progress.ts'
import { planned } from '../../../../jobs/cluster/shards/step.ts'
import { Transfers } from '../../../../jobs/cluster/shards/transfers.ts'
import type { ClusterView } from '../../../../jobs/cluster/shards/view.ts'
import { DESIRED } from './model.ts'

/** The last of three nodes is empty: a move from the others is due for every third shard. */
function unbalanced(shards: number): ClusterView {
  return {
    nodes: 3,
    peers: [1, 2, 3].map((id) => ({ id, ordinal: id - 1, isMember: true })),
    collections: [
      {
        ...{ name: 'docs', factor: 1 },
        shards: Array.from({ length: shards }, (_, id) => ({
          ...{ id, bytes: 100 },
          replicas: [{ peer: (id % 2) + 1, state: 'Active' as const }],
        })),
      },
    ],
    transfers: [],
  }
}

const STEP = planned('balance', { do: 'drop', collection: 'docs', shard: 0, peer: 1 })

/** Counts at these seconds, each time in a cluster with as many shards, and reports what is left. */
async function stepsLeft(...counts: [seconds: number, shards: number][]): Promise<number[]> {
  let now = 0
  const reported: number[] = []
  const tools = {
    time: { now: () => new Date(now) },
    reporter: {
      previous: undefined,
      progress: async (_: string, { shards }: { shards: ShardsResult }) => {
        reported.push(shards.stepsLeft)
      },
    },
  } as unknown as Dependencies
  const transfers = new Transfers([], 0)
  const sources = { transfers, resharding: () => undefined, reshardings: () => [] }
  const progress = new ShardsProgress({ run: 1 }, tools, sources)
  for (const [seconds, shards] of counts) {
    now = seconds * 1000
    progress.updateEstimate(unbalanced(shards), { ...DESIRED, nodes: 3, balance: true }, STEP)
    await progress.report('step')
  }
  return reported
}

t.test('the steps that are left are counted at each step', async (t) => {
  t.strictSame(await stepsLeft([0, 60], [1, 30]), [38, 20])
})

t.test('of many shards a part of the plan is counted, and not at each step', async (t) => {
  const [first = 0, next, later] = await stepsLeft([0, 3000], [29, 60], [30, 60])
  t.ok(first > 0 && first < 100, `${first} of 2000 steps`)
  t.equal(next, 38, 'a cluster with few shards is counted again')
  t.equal(later, 38)
  const [many, same, counted] = await stepsLeft([0, 3000], [29, 1000], [30, 1000])
  t.equal(many, first)
  t.equal(same, first)
  t.ok((counted ?? 0) > first)
})

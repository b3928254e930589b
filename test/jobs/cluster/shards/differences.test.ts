/** How the points of the replicas of a shard are compared. */
import t from 'tap'
import { EngineError } from '../../../../crds/contract/errors.ts'
import { MAX_EXACT_POINTS } from '../../../../crds/contract/limits.ts'
import {
  findDifference,
  type CollectionReport,
} from '../../../../jobs/cluster/shards/differences.ts'

/** Numbers that a node returns; an error that it answers with. */
interface Node {
  reported?: number
  exact: number | EngineError
  estimate?: number | 'unreadable'
}

async function compare(nodes: Node[], equal = new Set<string>()) {
  const asked: string[] = []
  const reports = nodes.map(({ reported = 10, exact, estimate = 0 }, ordinal): CollectionReport => {
    const local = { shard_id: 0, state: 'Active', points_count: reported }
    const placement = { peer_id: ordinal, local_shards: [local], remote_shards: [] }
    return {
      ...{ ordinal, peer: ordinal, placement: { ...placement, shard_transfers: [] } },
      engine: {
        async countPoints() {
          asked.push(`exact ${ordinal}`)
          if (exact instanceof EngineError) throw exact
          return exact
        },
        async estimatePoints() {
          asked.push(`estimate ${ordinal}`)
          return estimate
        },
      },
    }
  })
  const replicas = nodes.map((_, peer) => ({ peer, state: 'Active' as const }))
  const { signal } = new AbortController()
  const difference = await findDifference('docs', { id: 0, replicas, reports, signal }, equal)
  return { difference, asked, equal: [...equal] }
}

t.test('equal replicas are counted once', async (t) => {
  const first = await compare([{ exact: 9 }, { exact: 9 }])
  t.strictSame(first, {
    ...{ difference: undefined, asked: ['exact 0', 'exact 1'], equal: ['docs/0'] },
  })
  const again = await compare([{ exact: 9 }, { exact: 8 }], new Set(first.equal))
  t.strictSame(again.asked, [])
})

t.test('replicas that differ, or that are not counted, are listed with their nodes', async (t) => {
  t.strictSame((await compare([{ exact: 9 }, { exact: 8 }])).difference, [
    { ordinal: 0, points: 9 },
    { ordinal: 1, points: 8 },
  ])
  const silent = await compare([{ exact: new EngineError('no answer') }, { exact: 8 }])
  t.strictSame(silent.difference, [{ ordinal: 0 }, { ordinal: 1, points: 8 }])
  t.strictSame(silent.equal, [])
  const neither = { exact: new EngineError('no answer') }
  t.strictSame((await compare([neither, neither])).equal, [], 'nothing is known of both')
})

t.test('an exact count that is forbidden is replaced by the estimate', async (t) => {
  for (const status of [400, 403]) {
    const exact = new EngineError('Exact search disabled!', { status })
    const { difference, asked } = await compare([
      { exact, estimate: 7 },
      { exact, estimate: 7 },
    ])
    t.equal(difference, undefined)
    t.strictSame(asked.toSorted(), ['estimate 0', 'estimate 1', 'exact 0', 'exact 1'])
    const unreadable = await compare([
      { exact, estimate: 'unreadable' },
      { exact, estimate: 7 },
    ])
    t.strictSame(unreadable.difference, [{ ordinal: 0 }, { ordinal: 1, points: 7 }])
  }
})

t.test('no shard is counted exactly that would take gigabytes of memory', async (t) => {
  const node = { exact: 1, estimate: 6_000_000 }
  const large = { ...node, reported: MAX_EXACT_POINTS + 1 }
  t.strictSame((await compare([large, node])).asked.toSorted(), ['estimate 0', 'estimate 1'])
  const small = { ...node, reported: MAX_EXACT_POINTS }
  t.strictSame((await compare([small, node])).asked, ['exact 0', 'exact 1'])
})

/** The kinds of steps that kills are aimed at, by what the Job logs. */
import t from 'tap'
import { describeResharding } from '../../jobs/cluster/shards/describe.ts'
import type { ReshardingStep } from '../../jobs/cluster/shards/step.ts'
import type { ClusterView } from '../../jobs/cluster/shards/view.ts'
import { Dice } from '../faults/machine/dice.ts'
import { kindOf, pairs } from './stage-strikes.ts'

const view: ClusterView = { nodes: 3, peers: [], collections: [], transfers: [] }
const part = { collection: 'docs', shard: 2, peer: 7 }

t.test('each step of a resharding has its kind, and other steps have none', async (t) => {
  const steps: ReshardingStep[] = [
    { do: 'startResharding', direction: 'up', ...part },
    { do: 'startResharding', direction: 'down', ...part },
    { do: 'streamPoints', collection: 'docs', shard: 0, toShard: 2, from: 6, to: 7 },
    { do: 'finishMigration', ...part },
    { do: 'commitRead', collection: 'docs' },
    { do: 'cleanReplica', ...part, target: 3 },
    { do: 'commitWrite', collection: 'docs' },
    { do: 'finishResharding', collection: 'docs' },
    { do: 'checkReplica', ...part },
    { do: 'abortResharding', collection: 'docs' },
  ]
  t.strictSame(
    steps.map((step) => kindOf(describeResharding(view, step))),
    [
      ...['start', 'start', 'stream', 'activate', 'commit read', 'clean'],
      ...['commit write', 'finish', 'check', undefined],
    ],
  )
})

t.test('each pair of step and victim occurs once, in an order of the seed', async (t) => {
  const all = pairs(new Dice(1))
  t.equal(all.length, 40)
  t.equal(new Set(all.map(({ step, victim }) => `${step}/${victim}`)).size, 40)
  t.strictSame(pairs(new Dice(1)), all)
  t.notSame(pairs(new Dice(2)), all)
})

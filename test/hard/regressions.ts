/**
 * Plans that run first: seeds that failed, and plans that reach what few seeds reach: replicas that
 * differ, a migration into a target with points of its own, deletions that the store refuses.
 */
import type { Plan } from './plan.ts'

export interface Regression {
  /** What went wrong, or what is covered. */
  title: string
  plan: Plan
}

export const REGRESSIONS: readonly Regression[] = [
  {
    title: 'a node that is killed in a recovery loses a shard: the restore waited for hours',
    plan: {
      seed: 1980291817,
      nodes: 3,
      targetNodes: 3,
      journey: 'backup by node',
      into: 'other cluster',
      points: 740,
      afterwardsMs: 6000,
      strikes: [
        {
          fault: 'Job cut off from node',
          during: 'restore',
          afterCalls: 14,
          afterMs: 997,
          seconds: 8,
          node: 2,
          other: 0,
        },
        {
          fault: 'pod deleted',
          during: 'backup',
          afterCalls: 50,
          afterMs: 430,
          seconds: 2,
          node: 1,
          other: 0,
        },
        {
          fault: 'node killed',
          during: 'restore',
          afterCalls: 62,
          afterMs: 685,
          seconds: 2,
          node: 0,
          other: 1,
        },
        {
          fault: 'link between nodes slow',
          during: 'backup',
          afterCalls: 51,
          afterMs: 607,
          seconds: 4,
          node: 0,
          other: 2,
        },
      ],
    },
  },
  {
    title: 'a volume that took the only copy of a restored shard: the restore starts over',
    plan: {
      seed: 1825758897,
      nodes: 3,
      targetNodes: 3,
      journey: 'backup by node',
      into: 'over',
      points: 411,
      afterwardsMs: 6000,
      strikes: [
        {
          fault: 'volume lost',
          during: 'restore',
          afterCalls: 9,
          afterMs: 311,
          seconds: 8,
          node: 1,
          other: 0,
        },
      ],
    },
  },
  {
    title: 'a source that loses a volume during a migration keeps its collections',
    plan: {
      seed: 1844781012,
      nodes: 3,
      targetNodes: 1,
      journey: 'migration',
      into: 'over',
      points: 503,
      afterwardsMs: 6000,
      strikes: [
        {
          fault: 'volume lost',
          during: 'migration',
          afterCalls: 43,
          afterMs: 183,
          seconds: 5,
          node: 1,
          other: 0,
        },
      ],
    },
  },
  {
    title: 'a replica that falls behind during a backup by node is not backed up',
    plan: {
      seed: 11,
      nodes: 3,
      targetNodes: 3,
      journey: 'backup by node',
      into: 'beside',
      points: 60,
      afterwardsMs: 500,
      calm: true,
      strikes: [
        {
          fault: 'replica falls behind',
          during: 'backup',
          afterCalls: 0,
          afterMs: 0,
          seconds: 25,
          node: 1,
          other: 0,
        },
        {
          fault: 'collections are grey',
          during: 'restore',
          afterCalls: 10,
          afterMs: 100,
          seconds: 2,
          node: 1,
          other: 0,
        },
        {
          fault: 'recoveries are slow',
          during: 'restore',
          afterCalls: 10,
          afterMs: 100,
          seconds: 3,
          node: 1,
          other: 0,
        },
      ],
    },
  },
  {
    title: 'a migration into collections with points of their own leaves those as they are',
    plan: {
      seed: 12,
      nodes: 3,
      targetNodes: 3,
      journey: 'migration',
      into: 'other cluster',
      points: 200,
      targetHolds: 200,
      afterwardsMs: 500,
      strikes: [
        {
          fault: 'Job killed',
          during: 'migration',
          afterCalls: 40,
          afterMs: 0,
          seconds: 2,
          node: 0,
          other: 1,
        },
      ],
    },
  },
  {
    title:
      'replicas that differ on the source, after a node was killed in the middle of a write: no restore completed',
    plan: {
      seed: 1300898023,
      nodes: 3,
      targetNodes: 3,
      journey: 'backup by node',
      into: 'other cluster',
      points: 672,
      afterwardsMs: 6000,
      strikes: [
        {
          fault: 'node killed',
          during: 'backup',
          afterCalls: 26,
          afterMs: 314,
          seconds: 9,
          node: 0,
          other: 1,
        },
        {
          fault: 'link between nodes slow',
          during: 'restore',
          afterCalls: 29,
          afterMs: 848,
          seconds: 5,
          node: 0,
          other: 2,
        },
        {
          fault: 'node restarted',
          during: 'backup',
          afterCalls: 93,
          afterMs: 509,
          seconds: 5,
          node: 2,
          other: 0,
        },
      ],
    },
  },
  {
    title:
      'a collection that is deleted while its shards are restored, because its last replica is lost: the restore waited for it for most of an hour',
    plan: {
      seed: 444539375,
      nodes: 3,
      targetNodes: 3,
      journey: 'backup by node',
      into: 'other cluster',
      points: 605,
      afterwardsMs: 6000,
      strikes: [
        {
          fault: 'volume lost',
          during: 'restore',
          afterCalls: 117,
          afterMs: 402,
          seconds: 6,
          node: 2,
          other: 1,
        },
      ],
    },
  },
  ...(['backup by node', 'backup by shard'] as const).map((journey) => ({
    title: `${journey}: a store that refuses some deletions deletes them later`,
    plan: {
      seed: 13,
      nodes: 3 as const,
      targetNodes: 3,
      journey,
      into: 'beside' as const,
      points: 60,
      afterwardsMs: 500,
      strikes: (['backup', 'restore'] as const).map((during) => ({
        fault: 'store refuses deletions' as const,
        during,
        afterCalls: 0,
        afterMs: 0,
        seconds: 5,
        node: 0,
        other: 1,
      })),
    },
  })),
]

/**
 * The next step from what a cluster is to what it should be: a pure function, used by the Job, by
 * the service to decide whether a Job is due, and by the command line to show the steps.
 */
import type { ClusterView, DesiredShards, Move } from './view.ts'

export type Step =
  /** Creates a replica on a node that has none. With `move`, that on `move.from` is dropped later. */
  | { do: 'replicate'; collection: string; shard: number; from: number; to: number; move?: Move }
  /** Copies an Active replica over a defective one. */
  | { do: 'repair'; collection: string; shard: number; from: number; to: number }
  | { do: 'drop'; collection: string; shard: number; peer: number }
  /** Removes a peer that holds no shard. */
  | { do: 'removePeer'; peer: number; ordinal?: number }
  /** Lowers the StatefulSet to this number of pods. */
  | { do: 'scaleDown'; nodes: number }

export type Why = 'lost node' | 'repair' | 'scale-in' | 'balance'

export type Plan =
  /** The cluster is as desired. */
  | { is: 'done' }
  | { is: 'step'; step: Step; why: Why; bytes: number }
  /** Something is in progress; the next observation decides. */
  | { is: 'waiting'; why: Why | 'transfer' | 'agreement'; message: string }
  /** A user has to act. */
  | { is: 'refused'; reason: string; message: string }

export function planShards(view: ClusterView, desired: DesiredShards): Plan {
  throw new Error(`not written yet: ${view.peers.length} ${desired.nodes}`)
}

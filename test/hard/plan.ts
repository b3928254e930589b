/** What a seed draws: cluster, data job and the faults that strike during it. The same seed draws the same. */
import { Dice } from '../faults/machine/dice.ts'

export type Journey = 'backup by node' | 'backup by shard' | 'migration'
/** Target of a restore: the same collections, other names in the same cluster, or another cluster. */
export type Into = 'over' | 'beside' | 'other cluster'
export type Phase = 'backup' | 'restore' | 'migration'

export const FAULTS = [
  'node restarted',
  'node killed',
  'pod deleted',
  'node frozen',
  'node frozen and replaced',
  'volume lost',
  'link between nodes cut',
  'node isolated',
  'link between nodes slow',
  'Job cut off from node',
  'Job slow to node',
  'store slow',
  'store fails',
  'store unreachable',
  'Job killed',
  'Job drained',
  'service killed',
  'helm run',
  'rollout beside the Lease',
  'replica falls behind',
  'recoveries are slow',
  'collections are yellow',
  'collections are grey',
  'store refuses deletions',
] as const
export type Fault = (typeof FAULTS)[number]

export interface Strike {
  fault: Fault
  during: Phase
  /** It strikes after this many calls of the data job on engines and store, and this many milliseconds. */
  afterCalls: number
  afterMs: number
  /** How long it lasts, in seconds. */
  seconds: number
  /** Ordinal of the node, and of the other where two are concerned. */
  node: number
  other: number
}

export interface Plan {
  seed: number
  /** Of the source. */
  nodes: 3 | 5
  targetNodes: number
  journey: Journey
  into: Into
  /** Points per collection before anything starts. */
  points: number
  /** How long clients write after a data job has reported Completed, before all is compared again. */
  afterwardsMs: number
  /** True: no shard keys, aliases and collections are created or deleted; only points are written. */
  calm?: boolean
  /**
   * Points that each target collection of a migration has before it starts. Such a target is compared by the
   * ids of the source, because its other points are its own.
   */
  targetHolds?: number
  strikes: Strike[]
}

/** Faults of engine processes and their network, which engine doubles cannot express. */
export const NEEDS_PROCESSES: readonly Fault[] = [
  'node frozen',
  'node frozen and replaced',
  'volume lost',
  'link between nodes cut',
  'node isolated',
  'link between nodes slow',
]

/** Faults that are set in engine doubles; with real engines they follow from others. */
export const NEEDS_DOUBLES: readonly Fault[] = [
  'replica falls behind',
  'recoveries are slow',
  'collections are yellow',
  'collections are grey',
]

export interface DrawOptions {
  nodes?: 3 | 5
  /** Against engine doubles. */
  short?: boolean
}

const MOST_STRIKES = 4
const AFTERWARDS_MS = 6_000
const SHORT_AFTERWARDS_MS = 500
/** A data job without faults makes about twice as many. */
const LATEST_CALL = 120
const LATEST_MS = 1_000

export function draw(seed: number, { nodes, short = false }: DrawOptions = {}): Plan {
  const dice = new Dice(seed)
  const drawnNodes = dice.oneOf([3, 3, 3, 5] as const)
  const journey = dice.oneOf<Journey>([
    ...(['backup by node', 'backup by node', 'backup by shard', 'backup by shard'] as const),
    'migration',
  ])
  const into = dice.oneOf<Into>(['over', 'beside', 'other cluster'])
  const size = nodes ?? drawnNodes
  const smaller = dice.oneOf([1, 3] as const)
  // A backup by node is restored into as many nodes as it came from.
  const targetNodes = journey === 'backup by node' ? size : smaller
  const points = short ? 60 : dice.between(400, 1200)
  const faults = FAULTS.filter(
    (fault) => !(short ? NEEDS_PROCESSES : NEEDS_DOUBLES).includes(fault),
  )
  const phases: [Phase, ...Phase[]] =
    journey === 'migration' ? ['migration'] : ['backup', 'restore']
  const strikes = Array.from({ length: dice.between(1, MOST_STRIKES) }, (): Strike => {
    const node = dice.between(0, size - 1)
    return {
      fault: faults[dice.between(0, faults.length - 1)] ?? 'Job killed',
      during: dice.oneOf(phases),
      afterCalls: dice.between(0, short ? LATEST_CALL / 3 : LATEST_CALL),
      afterMs: dice.between(0, LATEST_MS),
      seconds: dice.between(2, short ? 3 : 10),
      node,
      other: (node + dice.between(1, size - 1)) % size,
    }
  })
  const afterwardsMs = short ? SHORT_AFTERWARDS_MS : AFTERWARDS_MS
  const isTargetFilled = journey === 'migration' && dice.oneOf([true, false])
  return {
    ...{ seed, nodes: size, targetNodes, journey, into, points, afterwardsMs },
    ...(isTargetFilled && { targetHolds: points }),
    strikes: plausible(strikes),
  }
}

/**
 * With a volume only one copy of its points is lost, and a backup need not survive that of the other: in a
 * run that loses a volume nothing else strikes.
 */
function plausible(strikes: Strike[]): Strike[] {
  const lost = strikes.find(({ fault }) => fault === 'volume lost')
  return lost === undefined ? strikes : [lost]
}

/** What a seed draws: in which stage each volume is lost, and what is killed meanwhile. */
import { Dice } from '../faults/machine/dice.ts'

/** A number of nodes, and what is done to the cluster once it has them. */
export interface Stage {
  nodes: number
  /** Nodes whose volume is lost in this stage, in order; `leader` is chosen when it is due. */
  lost: (number | 'leader')[]
}

export const STRIKES = [
  'node killed',
  'leader killed',
  'node restarted',
  'pod deleted',
  'node frozen',
  'Job killed',
  'Job drained',
] as const
export type Strike = (typeof STRIKES)[number]

export interface Plan {
  seed: number
  /** Points before anything starts. */
  points: number
  /** Shards of the collections with shards by hash. */
  shards: number
  /** Topology zone of each node by ordinal; empty: unknown. */
  zones: Record<string, string>
  stages: Stage[]
  /** Mean time between two strikes. */
  strikeMs: number
}

/** 3 -> 5 -> 3 -> 1 -> 3 nodes. */
const NODES = [3, 5, 3, 1, 3] as const
const LARGEST = 5
const SMALLEST = 3

export function draw(seed: number): Plan {
  const dice = new Dice(seed)
  const stages = NODES.map((nodes): Stage => ({ nodes, lost: [] }))
  // Every volume once: that of a node above the smallest number only while there are so many.
  const roomy = stages.filter(({ nodes }) => nodes >= SMALLEST)
  const largest = stages.filter(({ nodes }) => nodes === LARGEST)
  const ordinals = shuffled(
    Array.from({ length: LARGEST }, (_, ordinal) => ordinal),
    dice,
  )
  for (const ordinal of ordinals) {
    const among = ordinal < SMALLEST ? roomy : largest
    among[dice.between(0, among.length - 1)]?.lost.push(ordinal)
  }
  roomy[dice.between(0, roomy.length - 1)]?.lost.push('leader')
  const zones = dice.next() < 0.5 ? zonesOf(dice) : {}
  return {
    seed,
    points: dice.between(500, 2_000),
    shards: dice.between(3, 6),
    zones,
    stages,
    strikeMs: dice.between(15_000, 40_000),
  }
}

function zonesOf(dice: Dice): Record<string, string> {
  const names = ['a', 'b', 'c'].slice(0, dice.between(2, 3))
  return Object.fromEntries(
    Array.from({ length: LARGEST }, (_, ordinal) => [
      String(ordinal),
      names[ordinal % names.length] ?? 'a',
    ]),
  )
}

export function shuffled<Item>(items: readonly Item[], dice: Dice): Item[] {
  const left = [...items]
  return items.flatMap(() => left.splice(dice.between(0, left.length - 1), 1))
}

/**
 * Disturbs each change of a number of shards once, while a step of a drawn kind is carried out: one engine or the Job is
 * killed, or a user commits and finishes the resharding by hand. The order of step and victim is drawn once, so that a
 * few rounds meet every pair of them.
 */
import type { Dice } from '../faults/machine/dice.ts'
import { ask, pathOf } from '../hard/ask.ts'
import type { ShardJobs } from './job.ts'
import { shuffled } from './plan.ts'
import type { Watch } from './watch.ts'
import type { NodesWorld } from './world.ts'

/** Steps by what the Job logs when it starts one (jobs/cluster/shards/describe.ts). */
const STEPS = {
  start: /: (adding shard \d+ on|removing shard \d+)/,
  stream: /: copying points to shard/,
  activate: /: activating the replica/,
  'commit read': /: reading from the new shards/,
  clean: /: deleting the points of shard/,
  'commit write': /: writing to the new shards only/,
  finish: /: completing the resharding/,
  check: /: checking the replica/,
} as const
export type StepKind = keyof typeof STEPS

const VICTIMS = ['leader', 'source', 'target', 'Job', 'user'] as const
export type Victim = (typeof VICTIMS)[number]

export interface Pair {
  step: StepKind
  victim: Victim
}

/** What a user may call by hand. The engine refuses each in another stage. */
const BY_HAND = [{ commit_write_hash_ring: {} }, { finish_resharding: {} }]

/** Steps that a change which removes a shard does not have. */
const ONLY_UP: readonly StepKind[] = ['clean']
const MAX_DELAY_MS = 300
const READY_MS = 60_000
const POLL_MS = 200

/** The kind of a step by its text; undefined for what is no step of a resharding. */
export function kindOf(text: string): StepKind | undefined {
  const found = Object.entries(STEPS).find(([, pattern]) => pattern.test(text))
  return found?.[0] as StepKind | undefined
}

/** Every pair of step and victim, in an order that the seed gives. */
export function pairs(dice: Dice): Pair[] {
  const all = (Object.keys(STEPS) as StepKind[]).flatMap((step) =>
    VICTIMS.map((victim) => ({ step, victim })),
  )
  return shuffled(all, dice)
}

export class StageStrikes {
  /** What was killed, in which step. */
  readonly struck: Pair[] = []
  readonly #targets: { world: NodesWorld; jobs: ShardJobs; watch: Watch }
  readonly #dice: Dice
  readonly #collection: string
  /** Pairs that are left; shared by all rounds. */
  readonly #left: Pair[]
  /** Drawn for the change in progress; undefined once it was struck. */
  #next: Pair | undefined
  #work: Promise<void> = Promise.resolve()

  constructor(
    targets: { world: NodesWorld; jobs: ShardJobs; watch: Watch },
    { dice, left, collection }: { dice: Dice; left: Pair[]; collection: string },
  ) {
    this.#targets = targets
    this.#dice = dice
    this.#left = left
    this.#collection = collection
    targets.jobs.onStep = (text) => this.#started(text)
  }

  /** Resolves once the node that was struck last is ready again. */
  async untilReady(): Promise<void> {
    await this.#work
    if (this.#next !== undefined) this.#left.push(this.#next)
    this.#next = undefined
  }

  #started(text: string): void {
    const kind = kindOf(text)
    if (kind === undefined) return
    if (kind === 'start') this.#draw(text.includes('removing'))
    if (this.#next === undefined || this.#next.step !== kind) return
    const pair = this.#next
    this.#next = undefined
    this.#work = this.#strike(pair)
  }

  #draw(isRemoval: boolean): void {
    // The change before had no such step.
    if (this.#next !== undefined) this.#left.push(this.#next)
    this.#next = undefined
    const index = this.#left.findIndex(({ step }) => !isRemoval || !ONLY_UP.includes(step))
    if (index === -1) return
    this.#next = this.#left.splice(index, 1)[0]
  }

  async #strike(pair: Pair): Promise<void> {
    const { world, jobs } = this.#targets
    await pause(this.#dice.next() * MAX_DELAY_MS)
    if (pair.victim === 'Job') {
      if (jobs.signal('SIGKILL')) this.struck.push(pair)
      else this.#left.push(pair)
      return
    }
    if (pair.victim === 'user') {
      for (const body of BY_HAND) await this.#call(body)
      this.struck.push(pair)
      return
    }
    const ordinal = await this.#ordinalOf(pair.victim).catch(() => undefined)
    if (ordinal === undefined || !world.ordinals().every((one) => world.isReady(one))) {
      this.#left.push(pair)
      return
    }
    world.node(ordinal).signal('SIGKILL')
    this.struck.push(pair)
    const end = Date.now() + READY_MS
    // The process of the pod is replaced some time after it was killed.
    await pause(POLL_MS * 5)
    while (Date.now() < end && !world.isReady(ordinal)) await pause(POLL_MS)
  }

  async #call(body: object): Promise<void> {
    const [url = ''] = this.#targets.world.urls()
    const path = `${pathOf(this.#collection)}/cluster?timeout=10`
    await ask(url, 'POST', path, body).catch(() => undefined)
  }

  /** The target holds the shard that is added or removed; a source is any other node. */
  async #ordinalOf(victim: Exclude<Victim, 'Job' | 'user'>): Promise<number | undefined> {
    const { world, watch } = this.#targets
    if (victim === 'leader') return watch.leader()
    const peers = await watch.peerIds()
    const [url = ''] = world.urls()
    const { resharding_operations: operations = [] } = (await ask(
      url,
      'GET',
      `${pathOf(this.#collection)}/cluster`,
    )) as { resharding_operations?: { peer_id: number }[] }
    const target = [...peers].find(([, id]) => id === operations[0]?.peer_id)?.[0]
    if (victim === 'target') return target
    const others = world.ordinals().filter((ordinal) => ordinal !== target)
    return others[this.#dice.between(0, others.length - 1)]
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

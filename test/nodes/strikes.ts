/** Kills engines and Jobs at random moments, one at a time. */
import type { Dice } from '../faults/machine/dice.ts'
import type { ShardJobs } from './job.ts'
import { STRIKES, type Strike } from './plan.ts'
import type { Watch } from './watch.ts'
import type { NodesWorld } from './world.ts'

const FROZEN_MS = 4_000
/** How long a strike waits for the node of the one before to be ready again. */
const READY_MS = 60_000
const POLL_MS = 200

export interface Targets {
  world: NodesWorld
  jobs: ShardJobs
  watch: Watch
}

export class Strikes {
  readonly struck = new Map<Strike, number>()
  readonly #targets: Targets
  readonly #dice: Dice
  readonly #meanMs: number
  #over = true
  #work: Promise<void> = Promise.resolve()

  constructor(targets: Targets, dice: Dice, meanMs: number) {
    this.#targets = targets
    this.#dice = dice
    this.#meanMs = meanMs
  }

  start(): void {
    this.#over = false
    this.#work = this.#run()
  }

  async stop(): Promise<void> {
    this.#over = true
    await this.#work
  }

  async #run(): Promise<void> {
    while (!this.#over) {
      await this.#pause(this.#meanMs * 2 * this.#dice.next())
      const strike = this.#dice.oneOf(STRIKES)
      if (await this.#strike(strike)) {
        this.struck.set(strike, (this.struck.get(strike) ?? 0) + 1)
        say(strike)
      }
    }
  }

  /** Whether it could be done. */
  async #strike(strike: Strike): Promise<boolean> {
    if (this.#over) return false
    const { world, jobs, watch } = this.#targets
    switch (strike) {
      case 'Job killed':
        return jobs.signal('SIGKILL')
      case 'Job drained':
        return jobs.signal('SIGTERM')
      case 'leader killed':
        return this.#hit(
          () => watch.leader(),
          (ordinal) => world.node(ordinal).signal('SIGKILL'),
        )
      case 'node killed':
        return this.#hit(this.#anyNode, (ordinal) => world.node(ordinal).signal('SIGKILL'))
      case 'node restarted':
        return this.#hit(this.#anyNode, (ordinal) => world.node(ordinal).signal('SIGTERM'))
      case 'pod deleted':
        return this.#hit(this.#anyNode, (ordinal) => world.deletePod(ordinal))
      case 'node frozen':
        return this.#hit(this.#anyNode, async (ordinal) => {
          world.node(ordinal).signal('SIGSTOP')
          await new Promise((resolve) => setTimeout(resolve, FROZEN_MS))
          world.node(ordinal).signal('SIGCONT')
        })
    }
  }

  /**
   * One failure at a time: a node is struck once all nodes agree. Until then, acknowledged writes can be on one of two
   * replicas only, and are lost if its node ends (docs/engine-notes.md). Afterwards, waits until the node is ready again:
   * a shard does not work while both of its nodes are away.
   */
  async #hit(
    choose: () => number | undefined | Promise<number | undefined>,
    strike: (ordinal: number) => unknown,
  ): Promise<boolean> {
    const { world, watch } = this.#targets
    if (!(await watch.hasAgreed())) return false
    const ordinal = await choose()
    if (ordinal === undefined || this.#over) return false
    await strike(ordinal)
    const end = Date.now() + READY_MS
    while (Date.now() < end) {
      const isBack = !world.ordinals().includes(ordinal) || world.isReady(ordinal)
      if (isBack) return true
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
    return true
  }

  readonly #anyNode = (): number | undefined => {
    const ordinals = this.#targets.world.ordinals()
    return ordinals[this.#dice.between(0, ordinals.length - 1)]
  }

  async #pause(ms: number): Promise<void> {
    const end = Date.now() + ms
    while (!this.#over && Date.now() < end) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS))
    }
  }
}

function say(line: string): void {
  if (process.env['NODES_VERBOSE'] === '1') {
    console.error(new Date().toISOString().slice(11, 23), line)
  }
}

/**
 * The embedded world on a simulated machine: API server, controllers, engines, bucket, hook service,
 * loop and Jobs in one process, each of which can be killed. The clock advances only when every process waits.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PLURALS } from '../../metacontroller/controllers.ts'
import { startBucketServer, type BucketServer } from '../doubles/bucket/server.ts'
import { startApi, type EmbeddedApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { startControllers, type Controllers } from '../world/controllers/index.ts'
import { Operator, type OperatorProcess } from '../world/operator.ts'
import { Doors } from './doors.ts'
import type { Dice } from './machine/dice.ts'
import type { Machine } from './machine/machine.ts'
import { SimulatedProcess } from './machine/process.ts'
import type { MachineClock } from './machine/time.ts'
import { simulatedPods, type JobRun } from './pods.ts'

/** After this many cycles of the event loop without a delivery or a write, every process waits. */
const CALM_CYCLES = 8
const KEYS = { id: 'embedded', secret: 'secret-of-the-embedded-world' }

export interface FaultWorld {
  readonly clock: MachineClock
  readonly dice: Dice
  readonly doors: Doors
  readonly api: EmbeddedApi
  readonly client: ApiClient
  readonly controllers: Controllers
  readonly bucket: BucketServer
  readonly operator: Operator
  readonly machine: Machine
  /** Running Jobs. */
  readonly jobs: Set<JobRun>
  /** Kills the hook service or the loop, as `kill -9` would. */
  kill(part: OperatorProcess): void
  /** Restarts a killed part. */
  revive(part: OperatorProcess): Promise<void>
  /** Moves the clock of every process forward by `seconds` at once. */
  jump(seconds: number): void
  /** Resolves to true once `met` returns true, or to false after `seconds` of simulated time. */
  until(met: () => boolean, seconds: number): Promise<boolean>
  /** Advances simulated time until `work` is done. */
  during<Result>(work: Promise<Result>, seconds?: number): Promise<Result>
  close(): Promise<void>
}

export async function startFaultWorld(machine: Machine, seed: number): Promise<FaultWorld> {
  const { clock, dice } = machine.reset(seed)
  const folder = mkdtempSync(join(tmpdir(), 'vec-faults-'))
  const doors = new Doors()
  machine.network.guard(doors.gate())
  const api = await new SimulatedProcess('api').run(() => startApi(clock))
  const client = new ApiClient({ server: api.url, token: api.token })
  const bucket = await new SimulatedProcess('bucket').run(() =>
    startBucketServer({ buckets: [], keys: { [KEYS.id]: KEYS.secret }, now: () => clock.now() }),
  )
  const jobs = new Set<JobRun>()
  const runs = (options: Parameters<typeof simulatedPods>[0]) => simulatedPods(options, jobs)
  const controllers = startControllers({ api, clock, helm: '', runs })
  const running = new Map<OperatorProcess, SimulatedProcess>()
  const jump = { ms: 0 }
  const operator = new Operator({
    ...{ api: client, clock, folder, version: '0.1.0', kinds: PLURALS },
    tokens: { service: api.token, loop: api.token },
    runIn(part, start) {
      const process = new SimulatedProcess(part)
      running.set(part, process)
      return process.run(start)
    },
  })
  const world: FaultWorld = {
    ...{ clock, dice, doors, api, client, controllers, bucket, operator, machine, jobs },
    kill(part) {
      running.get(part)?.kill()
      operator.markKilled(part)
    },
    async revive(part) {
      if (part === 'loop') operator.startLoop()
      else await operator.startService()
    },
    jump: (seconds) => (jump.ms += seconds * 1000),
    until: (met, seconds) => drive(world, jump, met, seconds),
    async during(work, seconds = 600) {
      let ended = false
      const noted = work.finally(() => (ended = true))
      noted.catch(() => undefined)
      if (await drive(world, jump, () => ended, seconds)) return noted
      throw new Error(`not done within ${seconds} s of the world`)
    },
    async close() {
      for (const process of running.values()) process.kill()
      for (const { process } of jobs) process.kill()
      machine.network.cutOff('bucket', false)
      await drive(world, jump, () => true, 0)
      void controllers.close()
      void client.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
  await world.during(operator.start())
  return world
}

/** How far the clock jumps next, in milliseconds. */
interface Jump {
  ms: number
}

async function drive(
  world: FaultWorld,
  jump: Jump,
  met: () => boolean,
  seconds: number,
): Promise<boolean> {
  const { clock } = world
  let end = clock.now().getTime() + seconds * 1000
  for (;;) {
    await calm(world)
    const failure = world.operator.failure()
    if (failure !== undefined) throw failure
    if (met()) return true
    // A jump of the clock does not shorten the timeout of the caller.
    end += jump.ms
    clock.advance(jump.ms)
    jump.ms = 0
    const now = clock.now().getTime()
    const next = Math.min(clock.nextTimerAt() ?? Infinity, end)
    if (now >= end || next === Infinity) return false
    clock.advance(Math.max(0, next - now))
  }
}

/** Resolves once no delivery is in transit and no process is active. */
async function calm({ machine: { network }, api }: FaultWorld): Promise<void> {
  let before = ''
  for (let still = 0; still < CALM_CYCLES;) {
    await new Promise((resolve) => setImmediate(resolve))
    const after = `${network.arrived()} ${api.resources.store.revision}`
    still = network.pending() === 0 && after === before ? still + 1 : 0
    before = after
  }
}

/** The bucket keys for the Secret of a namespace. */
export const BUCKET_KEYS = {
  CLOUD_ACCESS_KEY_ID: Buffer.from(KEYS.id).toString('base64'),
  CLOUD_SECRET_ACCESS_KEY: Buffer.from(KEYS.secret).toString('base64'),
}

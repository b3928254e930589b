/**
 * How long healthy hooks take while the service is attacked as in test/attacks, compared with the same service
 * at rest. Both alternate, so that other load on the machine affects both.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import type { Attack } from '../attacks/attack.ts'
import { memoryLimit, MIB, startGround, type Ground } from '../attacks/ground.ts'
import { createMemoryCgroup, type MemoryCgroup } from '../attacks/memory-cgroup.ts'
import { SERVICE_ATTACKS } from '../attacks/service-attacks.ts'
import { STORE_ATTACKS } from '../attacks/store-attacks.ts'
import { monotonic } from './instants.ts'
import type { Part, Plan } from './part.ts'
import type { Sample } from './patient.ts'
import { median, type Figure } from './table.ts'

/** A healthy hook is answered within a second, whatever is tried. */
const SLOWEST_MS = 1000
const POLL_MS = 10
const NANOSECONDS = 1e6
const ALL: readonly Attack[] = [...SERVICE_ATTACKS, ...STORE_ATTACKS]

export const attacks: Part = {
  name: 'attacks',
  title: 'a healthy hook while the service is attacked',
  columns: ['attacked', 'at rest'],
  usage: `
attacks: --cgroup runs the service in a memory cgroup (version 1 or 2, as root) with the limit of the chart, and measures
  its peak there and whether the kernel has ended the service.
`,
  targets: ({ cgroup }) => [
    ...ALL.flatMap(({ title }) => [`slowest, ${title}`, `not answered, ${title}`]),
    'memory of the service, peak, all attacks',
    ...(cgroup ? ['ended by the kernel'] : []),
  ],
  measure,
}

async function measure(plan: Plan): Promise<Figure[]> {
  if (!plan.cgroup) return measureIn(plan)
  const cgroup = createMemoryCgroup(memoryLimit())
  try {
    return await measureIn(plan, cgroup)
  } catch (error) {
    if (cgroup.kills() === 0) throw error
    throw new Error('the kernel has ended the service in its memory cgroup', { cause: error })
  } finally {
    cgroup.remove()
  }
}

async function measureIn(plan: Plan, cgroup?: MemoryCgroup): Promise<Figure[]> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const ground = await startGround(folder, cgroup)
  const patient = new Patient(ground)
  try {
    const figures: Figure[] = []
    // The first requests also wait for the compiler.
    await patient.during(() => sleep(1000 * plan.seconds))
    for (const attack of ALL) figures.push(...(await figuresOf(plan, attack, ground, patient)))
    const peak = ground.peak() / MIB
    const limit = memoryLimit() / MIB
    const memory = { value: peak, unit: 'MiB', target: limit, met: peak > 0 && peak < limit }
    const measured = { what: 'memory of the service, peak, all attacks', ...memory }
    return [...figures, measured, ...cgroupFigures(cgroup)]
  } finally {
    await patient.stop()
    await ground.close()
    rmSync(folder, { recursive: true })
  }
}

/** The peak has no target: with the pages of files it reaches the limit, and the kernel takes them back. */
function cgroupFigures(cgroup: MemoryCgroup | undefined): Figure[] {
  if (cgroup === undefined) return []
  const kills = cgroup.kills()
  return [
    { what: 'memory of its cgroup, peak', unit: 'MiB', value: cgroup.peak() / MIB },
    { what: 'ended by the kernel', unit: '', value: kills, target: 0, met: kills === 0 },
  ]
}

async function figuresOf(
  { seconds, pairs }: Plan,
  attack: Attack,
  ground: Ground,
  patient: Patient,
): Promise<Figure[]> {
  const [rest, attacked]: [Sample[], Sample[]] = [[], []]
  for (let pair = 0; pair < pairs; pair += 1) {
    rest.push(...(await patient.during(() => sleep(1000 * seconds))))
    attacked.push(...(await patient.during(() => attackFor(seconds, attack, ground))))
  }
  const timesOf = (samples: Sample[]) => samples.map(({ ms }) => ms)
  const slowest = Math.max(...timesOf(attacked))
  const refused = attacked.filter(({ status }) => status !== 200).length
  const { title } = attack
  return [
    {
      ...{ what: `p50, ${title}`, unit: 'ms' },
      ...{ value: median(timesOf(attacked)), yardstick: median(timesOf(rest)) },
    },
    {
      ...{ what: `slowest, ${title}`, unit: 'ms', value: slowest, target: SLOWEST_MS },
      ...{ yardstick: Math.max(...timesOf(rest)), met: slowest < SLOWEST_MS },
    },
    {
      ...{ what: `not answered, ${title}`, unit: '', value: refused, target: 0 },
      met: refused === 0,
    },
  ]
}

/** An attack that does not last is repeated. */
async function attackFor(
  seconds: number,
  { title, lasts, begin }: Attack,
  ground: Ground,
): Promise<void> {
  const until = monotonic() + 1000 * seconds * NANOSECONDS
  try {
    do {
      const { problems, end } = await begin(ground)
      if (problems.length > 0) throw new Error(problems.join('; '))
      if (lasts === true) await sleep(1000 * seconds)
      await end?.()
    } while (monotonic() < until)
  } catch (error) {
    if (ground.isAlive()) throw error
    throw new Error(`the service has ended during: ${title}`, { cause: error })
  }
}

/** Healthy requests of another thread. */
class Patient {
  readonly #worker: Worker
  readonly #samples: Sample[] = []

  constructor({ url }: { url: string }) {
    const file = new URL('patient.ts', import.meta.url)
    this.#worker = new Worker(file, { workerData: { url } })
    this.#worker.on('message', (sample: Sample) => this.#samples.push(sample))
  }

  /** Those that were sent meanwhile, at least one. */
  async during(work: () => Promise<void>): Promise<Sample[]> {
    const from = monotonic()
    await work()
    const to = monotonic()
    // One that was sent later has ended: so have all before it.
    while ((this.#samples.at(-1)?.sentAt ?? 0) <= to) await sleep(POLL_MS)
    const samples = this.#samples.splice(0)
    const found = samples.filter(({ sentAt }) => sentAt >= from && sentAt <= to)
    if (found.length === 0) throw new Error('no healthy request was sent during an attack')
    return found
  }

  async stop(): Promise<void> {
    await this.#worker.terminate()
  }
}

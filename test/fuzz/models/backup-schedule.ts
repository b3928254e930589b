/**
 * VecBackupSchedule: which backups there must be after each step of time. Sources: docs/kinds/
 * backup-schedule.md, the specification. Slots are every ten minutes, so that they are easy to count.
 */
import fc from 'fast-check'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { recordAt } from '../../world/api/json.ts'
import type { ApiObject } from '../../world/client.ts'
import { finalizerName } from '../../../metacontroller/controllers.ts'
import { Broken } from '../promises.ts'
import type { Stage } from '../stage.ts'
import { Run, type Model } from './model.ts'
import { HOME } from './surroundings.ts'

type Policy = 'Allow' | 'Forbid' | 'Replace'

interface Step {
  minutes: number
  /** How every backup ends that has not ended. */
  end: 'none' | 'Completed' | 'Failed'
  isSuspended: boolean
}

export interface ScheduleCase {
  policy: Policy
  keepLast?: number
  startingDeadlineSeconds?: number
  steps: Step[]
}

const cases: fc.Arbitrary<ScheduleCase> = fc.record(
  {
    policy: fc.constantFrom<Policy>('Allow', 'Forbid', 'Replace'),
    keepLast: fc.integer({ min: 1, max: 3 }),
    startingDeadlineSeconds: fc.constantFrom(120, 400),
    steps: fc.array(
      fc.record(
        {
          minutes: fc.integer({ min: 1, max: 25 }),
          end: fc.constantFrom<Step['end']>('none', 'Completed', 'Completed', 'Failed'),
          isSuspended: fc.constantFrom(false, false, false, true),
        },
        { noNullPrototype: true },
      ),
      { minLength: 1, maxLength: 10 },
    ),
  },
  { requiredKeys: ['policy', 'steps'], noNullPrototype: true },
)

export const scheduleModel: Model<ScheduleCase> = {
  kind: 'VecBackupSchedule',
  cases,
  run: runCase,
}

interface Backup {
  slot: number
  phase: 'active' | 'Completed' | 'Failed'
}

const SLOT_MS = 600_000

/** The backups that there must be, step by step. */
export class ScheduleModel {
  backups: Backup[] = []
  readonly #case: ScheduleCase
  #last: number

  constructor(one: ScheduleCase, createdAt: number) {
    this.#case = one
    this.#last = createdAt
  }

  end(phase: Step['end']): void {
    if (phase === 'none') return
    this.backups = this.backups.map((one) => (one.phase === 'active' ? { ...one, phase } : one))
  }

  tick(now: number, isSuspended: boolean): void {
    this.#prune()
    if (!isSuspended) this.#create(now)
    this.#prune()
  }

  #create(now: number): void {
    const { policy, startingDeadlineSeconds = Infinity } = this.#case
    const slot = Math.floor(now / SLOT_MS) * SLOT_MS
    if (slot <= this.#last || now - slot > startingDeadlineSeconds * 1000) return
    const isActive = this.backups.some(({ phase }) => phase === 'active')
    if (policy === 'Forbid' && isActive) return
    if (policy === 'Replace') this.backups = this.backups.filter(({ phase }) => phase !== 'active')
    this.backups.push({ slot, phase: 'active' })
    this.#last = slot
  }

  /** Each rule is applied to all finished backups, and once more to the completed ones. */
  #prune(): void {
    const { keepLast } = this.#case
    if (keepLast === undefined) return
    const finished = this.backups.filter(({ phase }) => phase !== 'active')
    const newestFirst = finished.toSorted((one, other) => other.slot - one.slot)
    const completed = newestFirst.filter(({ phase }) => phase === 'Completed')
    const retained = new Set([...newestFirst.slice(0, keepLast), ...completed.slice(0, keepLast)])
    this.backups = this.backups.filter((one) => one.phase === 'active' || retained.has(one))
  }
}

async function runCase(stage: Stage, one: ScheduleCase): Promise<string> {
  const { policy, steps, keepLast, ...deadline } = one
  stage.clear()
  // Start between two slots: this model does not cover a slot at the moment of creation.
  stage.clock.advance(SLOT_MS - (stage.clock.now().getTime() % SLOT_MS) + 180_000)
  const parent = stage.put({
    apiVersion: API_VERSION,
    kind: 'VecBackupSchedule',
    metadata: { name: 'often', namespace: HOME, finalizers: [finalizerName('vecbackupschedules')] },
    spec: {
      ...{ schedule: '*/10 * * * *', concurrencyPolicy: policy, clusterRef: { name: 'main' } },
      storage: { s3: { bucket: 'store', credentialsSecretRef: { name: 'keys' } } },
      ...(keepLast !== undefined && { retentionPolicy: { keepLast } }),
      ...deadline,
    },
  })
  const model = new ScheduleModel(one, stage.clock.now().getTime())
  const run = new Run(stage, parent)
  for (const [index, step] of steps.entries()) {
    stage.clock.advance(step.minutes * 60_000)
    endBackups(stage, step.end)
    model.end(step.end)
    stage.change(parent, (live) => ({
      ...live,
      spec: { ...(live.spec as object), suspend: step.isSuspended },
    }))
    model.tick(stage.clock.now().getTime(), step.isSuspended)
    for (let count = 0; count < 4; count += 1) await run.pass()
    compare(run, model, { step, index })
  }
  return `VecBackupSchedule ${policy} ${keepLast === undefined ? 'keeps all' : 'prunes'}`
}

function compare(run: Run, model: ScheduleModel, { step, index }: { step: Step; index: number }) {
  const found = backupsIn(run.stage).map(({ metadata }) => metadata.name)
  const expected = model.backups.map(({ slot }) => nameOf(slot)).sort()
  const where = `after step ${index + 1}`
  if (found.sort().join() !== expected.join()) {
    throw new Broken(`${where}: the model has ${expected.join(' ')}, found ${found.join(' ')}`)
  }
  const { phase } = recordAt(run.live, 'status')
  if (phase !== (step.isSuspended ? 'Suspended' : 'Active')) {
    throw new Broken(`${where}: phase is ${String(phase)}`)
  }
  const { condition } = run.observed({ condition: 'Ready' })
  if (step.isSuspended && condition !== 'Ready=True Suspended') {
    throw new Broken(`${where}: ${condition}`)
  }
}

function nameOf(slot: number): string {
  const [date = '', time = ''] = new Date(slot).toISOString().split(/[T.]/)
  return `often-${date.replaceAll('-', '')}-${time.replaceAll(':', '')}`
}

function backupsIn({ resources }: Stage): ApiObject[] {
  return resources.store.list(resources.kinds.of(API_VERSION, 'VecBackup'))
}

function endBackups(stage: Stage, phase: Step['end']): void {
  if (phase === 'none') return
  const completionTime = stage.clock.now().toISOString()
  for (const backup of backupsIn(stage)) {
    if (recordAt(backup, 'status')['phase'] !== undefined) continue
    stage.change(backup, (old) => ({ ...old, status: { phase, completionTime } }), 'status')
  }
}

/**
 * A schedule in an API whose cache lags, whose status writes get lost and whose clock jumps: what
 * Metacontroller would do with the answers of the hooks, one pass at a time.
 */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupScheduleSpec, VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import { backup, fakePorts, schedule, tick } from './stage.ts'

export type Step =
  | { do: 'pass'; seconds: number; isLate: boolean; isStatusLost: boolean; isRefused: boolean }
  | { do: 'end'; which: number; phase: 'Completed' | 'Failed' }
  | { do: 'delete'; which: number }
  | { do: 'suspend'; suspend: boolean }
  | { do: 'restart' }

interface CachedState {
  schedule: VecBackupSchedule
  children: VecBackup[]
}

export class ScheduleModel {
  now: Date
  schedule: VecBackupSchedule
  backups: VecBackup[] = []
  /** Names of the backups that were created, one for each time. */
  readonly created: string[] = []
  readonly violations: string[] = []
  /** Names of the backups that some pass was shown. */
  readonly #everObserved = new Set<string>()
  #cached: CachedState
  #hooks: ReturnType<typeof backupScheduleHooks>

  constructor(spec: Partial<BackupScheduleSpec>, createdAt: string) {
    this.now = new Date(createdAt)
    this.schedule = schedule({ spec, createdAt })
    this.#cached = this.#actual()
    this.#hooks = this.#newHooks()
  }

  async apply(step: Step): Promise<void> {
    switch (step.do) {
      case 'pass':
        await this.#sync(step)
        return
      case 'end':
        this.#finish(step)
        return
      case 'delete':
        this.#delete(step.which)
        return
      case 'suspend': {
        const { metadata, spec } = this.schedule
        const generation = metadata.generation + 1
        this.schedule = {
          ...this.schedule,
          metadata: { ...metadata, generation },
          spec: { ...spec, suspend: step.suspend },
        }
        return
      }
      case 'restart':
        this.#hooks = this.#newHooks()
        return
    }
  }

  async #sync({ seconds, isLate, isStatusLost, isRefused }: Step & { do: 'pass' }): Promise<void> {
    this.now = new Date(this.now.getTime() + seconds * 1000)
    if (!isLate) this.#cached = this.#actual()
    for (const { metadata } of this.#cached.children) this.#everObserved.add(metadata.name)
    const {
      children,
      pruned: dropped = [],
      status,
    } = await tick(this.#cached, this.now.toISOString(), this.#hooks)
    this.#prune(dropped.map(({ name }) => name))
    const observed = new Set(this.#cached.children.map(({ metadata }) => metadata.name))
    for (const { metadata } of children) {
      if (!observed.has(metadata.name) && !isRefused) this.#create(metadata.name)
    }
    if (!isStatusLost) this.schedule = { ...this.schedule, status }
  }

  #create(name: string): void {
    // AlreadyExists is swallowed.
    if (this.backups.some(({ metadata }) => metadata.name === name)) return
    const [, year, month, day, hour, minute] =
      /-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)00$/.exec(name) ?? []
    const slot = `${year}-${month}-${day}T${hour}:${minute}:00Z`
    if (new Date(slot) > this.now) this.violations.push(`${name} is early`)
    if (slot <= this.schedule.metadata.creationTimestamp) {
      this.violations.push(`${name} is before the creation`)
    }
    if (this.schedule.spec.suspend) this.violations.push(`${name} was made while suspended`)
    const isRunning = this.backups.some(({ status }) => status?.phase === 'InProgress')
    if (isRunning && this.schedule.spec.concurrencyPolicy !== 'Allow') {
      this.violations.push(`${name} is beside another`)
    }
    this.created.push(name)
    this.backups = [...this.backups, backup(slot, { phase: 'InProgress' })]
  }

  #prune(names: string[]): void {
    const completed = this.backups.filter(({ status }) => status?.phase === 'Completed')
    const newest = completed.map(({ metadata }) => metadata.name).toSorted().at(-1) // prettier-ignore
    if (newest !== undefined && names.includes(newest)) {
      this.violations.push(`the last good backup ${newest} was dropped`)
    }
    this.backups = this.backups.filter(({ metadata }) => !names.includes(metadata.name))
  }

  #finish({ which, phase }: Step & { do: 'end' }): void {
    const running = this.backups.filter(({ status }) => status?.phase === 'InProgress')
    const finished = running[which % Math.max(running.length, 1)]
    const at = this.now.toISOString()
    this.backups = this.backups.map((candidate) =>
      candidate === finished ? { ...candidate, status: { phase, completionTime: at } } : candidate,
    )
  }

  /**
   * By hand, gone at once as if it had no finalizer. Only one that some pass was shown: whether another
   * was ever created is not recorded once it is deleted, and its slot is due again.
   */
  #delete(which: number): void {
    const observed = this.backups.filter(({ metadata }) => this.#everObserved.has(metadata.name))
    const deleted = observed[which % Math.max(observed.length, 1)]
    this.backups = this.backups.filter((candidate) => candidate !== deleted)
  }

  #actual(): CachedState {
    return { schedule: this.schedule, children: this.backups }
  }

  #newHooks() {
    const ports = () => fakePorts(this.#actual())
    return backupScheduleHooks({
      schedule: (namespace, name) => ports().schedule(namespace, name),
      backupsOf: (owner) => ports().backupsOf(owner),
      backup: (namespace, name) => ports().backup(namespace, name),
      cluster: async () => undefined,
      restore: async () => undefined,
      backupsToRestore: async () => new Map(),
      writeEvent: async () => undefined,
    })
  }
}

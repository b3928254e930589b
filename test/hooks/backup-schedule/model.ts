/**
 * A schedule in an API whose cache lags, whose status writes get lost and whose clock jumps: what
 * Metacontroller would do with the answers of the room, one pass at a time.
 */
import type { VecBackup } from '../../../crds/backup.ts'
import type { BackupScheduleSpec, VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { backupScheduleRoom } from '../../../hooks/backup-schedule/index.ts'
import { backup, portsOf, schedule, tick } from './stage.ts'

export type Step =
  | { do: 'pass'; seconds: number; isLate: boolean; isStatusLost: boolean; isRefused: boolean }
  | { do: 'end'; which: number; phase: 'Completed' | 'Failed' }
  | { do: 'delete'; which: number }
  | { do: 'suspend'; suspend: boolean }
  | { do: 'restart' }

interface Seen {
  schedule: VecBackupSchedule
  children: VecBackup[]
}

export class Model {
  now: Date
  schedule: VecBackupSchedule
  backups: VecBackup[] = []
  /** Names of the backups that were made, one for each time. */
  readonly made: string[] = []
  readonly problems: string[] = []
  /** Names of the backups that some pass was shown. */
  readonly #shown = new Set<string>()
  #seen: Seen
  #room: ReturnType<typeof backupScheduleRoom>

  constructor(spec: Partial<BackupScheduleSpec>, createdAt: string) {
    this.now = new Date(createdAt)
    this.schedule = schedule({ spec, createdAt })
    this.#seen = this.#truth()
    this.#room = this.#newRoom()
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'pass':
        await this.#pass(step)
        return
      case 'end':
        this.#end(step)
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
        this.#room = this.#newRoom()
        return
    }
  }

  async #pass({ seconds, isLate, isStatusLost, isRefused }: Step & { do: 'pass' }): Promise<void> {
    this.now = new Date(this.now.getTime() + seconds * 1000)
    if (!isLate) this.#seen = this.#truth()
    for (const { metadata } of this.#seen.children) this.#shown.add(metadata.name)
    const {
      children,
      dropped = [],
      status,
    } = await tick(this.#seen, this.now.toISOString(), this.#room)
    this.#drop(dropped.map(({ name }) => name))
    const shown = new Set(this.#seen.children.map(({ metadata }) => metadata.name))
    for (const { metadata } of children) {
      if (!shown.has(metadata.name) && !isRefused) this.#make(metadata.name)
    }
    if (!isStatusLost) this.schedule = { ...this.schedule, status }
  }

  #make(name: string): void {
    // AlreadyExists is swallowed.
    if (this.backups.some(({ metadata }) => metadata.name === name)) return
    const [, year, month, day, hour, minute] =
      /-(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)00$/.exec(name) ?? []
    const slot = `${year}-${month}-${day}T${hour}:${minute}:00Z`
    if (new Date(slot) > this.now) this.problems.push(`${name} is early`)
    if (slot <= this.schedule.metadata.creationTimestamp) {
      this.problems.push(`${name} is before the creation`)
    }
    if (this.schedule.spec.suspend) this.problems.push(`${name} was made while suspended`)
    const isBusy = this.backups.some(({ status }) => status?.phase === 'InProgress')
    if (isBusy && this.schedule.spec.concurrencyPolicy !== 'Allow') {
      this.problems.push(`${name} is beside another`)
    }
    this.made.push(name)
    this.backups = [...this.backups, backup(slot, { phase: 'InProgress' })]
  }

  #drop(names: string[]): void {
    const completed = this.backups.filter(({ status }) => status?.phase === 'Completed')
    const newest = completed.map(({ metadata }) => metadata.name).toSorted().at(-1) // prettier-ignore
    if (newest !== undefined && names.includes(newest)) {
      this.problems.push(`the last good backup ${newest} was dropped`)
    }
    this.backups = this.backups.filter(({ metadata }) => !names.includes(metadata.name))
  }

  #end({ which, phase }: Step & { do: 'end' }): void {
    const running = this.backups.filter(({ status }) => status?.phase === 'InProgress')
    const ended = running[which % Math.max(running.length, 1)]
    const at = this.now.toISOString()
    this.backups = this.backups.map((one) =>
      one === ended ? { ...one, status: { phase, completionTime: at } } : one,
    )
  }

  /**
   * By hand, gone at once as if it had no finalizer. Only one that some pass was shown: whether another
   * was ever made is known to nobody once it is gone, and its slot is due again.
   */
  #delete(which: number): void {
    const shown = this.backups.filter(({ metadata }) => this.#shown.has(metadata.name))
    const gone = shown[which % Math.max(shown.length, 1)]
    this.backups = this.backups.filter((one) => one !== gone)
  }

  #truth(): Seen {
    return { schedule: this.schedule, children: this.backups }
  }

  #newRoom() {
    const ports = () => portsOf(this.#truth())
    return backupScheduleRoom({
      schedule: (namespace, name) => ports().schedule(namespace, name),
      backupsOf: (owner) => ports().backupsOf(owner),
      backup: (namespace, name) => ports().backup(namespace, name),
      writeEvent: async () => undefined,
    })
  }
}

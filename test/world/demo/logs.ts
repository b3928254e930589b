/** Logs of the Jobs. They go with their pods, so each is read while it is there. */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { World } from '../world.ts'
import type { Change, Watcher } from './watcher.ts'

const JOB_LABEL = 'job-name'
const ENDED = ['Succeeded', 'Failed']

export interface JobLog {
  job: string
  text: string
}

export class JobLogs {
  readonly #world: World
  readonly #namespace: string
  /** In the order in which the Jobs appeared. */
  readonly #logs = new Map<string, string>()
  /** Pods whose end was reported. */
  readonly #ended = new Set<string>()
  readonly #reading = new Set<Promise<void>>()
  #onEnd: ((log: JobLog) => void) | undefined

  constructor(world: World, namespace: string, watcher: Watcher) {
    this.#world = world
    this.#namespace = namespace
    watcher.onChange((change) => {
      this.#see(change)
    })
  }

  /** Called with the log of each Job whose pod has ended. */
  onEnd(listener: (log: JobLog) => void): void {
    this.#onEnd = listener
  }

  /** That of one Job, or of the newest. */
  async read(job = [...this.#logs.keys()].at(-1)): Promise<JobLog | undefined> {
    if (job === undefined) return undefined
    await this.#refresh(job)
    return { job, text: this.#logs.get(job) ?? '' }
  }

  /** Waits for the logs that are being read. */
  async flushed(): Promise<void> {
    await Promise.allSettled(this.#reading)
  }

  #see({ object, gone }: Change): void {
    const job = object.metadata.labels?.[JOB_LABEL]
    if (gone || object.kind !== 'Pod' || job === undefined) return
    const isNew = !this.#logs.has(job)
    if (isNew) this.#logs.set(job, '')
    const { phase = '' } = (object as AnyObject & { status?: { phase?: string } }).status ?? {}
    if (!isNew && !ENDED.includes(phase)) return
    const isEnd = ENDED.includes(phase) && !this.#ended.has(object.metadata.name)
    if (isEnd) this.#ended.add(object.metadata.name)
    const read = this.#refresh(job).then(() => {
      if (isEnd) this.#onEnd?.({ job, text: this.#logs.get(job) ?? '' })
    })
    this.#reading.add(read)
    void read.finally(() => this.#reading.delete(read))
  }

  async #refresh(job: string): Promise<void> {
    try {
      const text = await this.#world.logs(this.#namespace, job)
      if (text !== '') this.#logs.set(job, text)
    } catch {
      // The pod does not run yet, or is gone: keep what was read before.
    }
  }
}

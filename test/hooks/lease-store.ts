/**
 * Leases and Jobs as an API server keeps them, and claimants whose passes are cut into steps: what one
 * has read may be old when it writes, and others step in between.
 */
import { KubernetesError } from '../../crds/contract/errors.ts'
import { LEASE_MARGIN_SECONDS } from '../../crds/contract/limits.ts'
import type { Job, Lease, LeaseHolder } from '../../crds/kubernetes.ts'
import {
  readLease,
  type LeaseKind,
  type LeasePorts,
  type ObservedLease,
  type LeaseWrite,
  writeLeases,
} from '../../hooks/lease.ts'
import { claim } from '../../hooks/lease-claim.ts'
import { RetryLater } from '../../hooks/protocol.ts'
import { allAllowed } from '../builders.ts'

export const CLUSTER = { metadata: { namespace: 'ns', name: 'a', uid: 'uid-a' } }

export class LeaseStore implements LeasePorts {
  readonly leases = new Map<string, Lease>()
  readonly jobs = new Map<string, Job[]>()
  now = new Date('2026-03-01T12:00:00Z')
  #version = 0

  advance(seconds: number): void {
    this.now = new Date(this.now.getTime() + seconds * 1000)
  }

  async lease(_: string, name: string): Promise<Lease | undefined> {
    return this.leases.get(name)
  }

  async jobsOf(_: string, parentUid: string): Promise<Job[]> {
    return this.jobs.get(parentUid) ?? []
  }

  async holderState(): Promise<'unfinished'> {
    return 'unfinished'
  }

  async writeLease(lease: Lease): Promise<boolean> {
    const { name, resourceVersion } = lease.metadata
    if (this.leases.get(name)?.metadata.resourceVersion !== resourceVersion) return false
    this.#version += 1
    const metadata = { ...lease.metadata, resourceVersion: String(this.#version) }
    this.leases.set(name, { ...lease, metadata })
    return true
  }

  async deleteLease({ metadata }: Lease): Promise<boolean> {
    const found = this.leases.get(metadata.name)
    if (found?.metadata.resourceVersion !== metadata.resourceVersion) return false
    return this.leases.delete(metadata.name)
  }
}

export function newJob(name: string, isFinished = false): Job {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: 'ns' },
    ...(isFinished && { status: { conditions: [{ type: 'Complete', status: 'True' }] } }),
  }
}

/** A backup or a restore, from its first pass to the end of its Job. */
export class Claimant {
  readonly holder: LeaseHolder
  isDone = false
  /** Whom it found before it, at last. */
  blockedBy: string | undefined
  readonly #store: LeaseStore
  readonly #kinds: LeaseKind[]
  /** Helm runs to come; a backup or a restore has one Job, whatever its name. */
  readonly #runs: number
  #run = 1
  #observed:
    { leases: ObservedLease[]; free: ObservedLease[]; hasJob: boolean; at: Date } | undefined
  #writes: LeaseWrite[] = []
  /** Of syncs whose call timed out or whose service ended: the API server may apply them later. */
  #late: LeaseWrite[] = []
  /** When the sync read what lets it answer with a Job after its writes. */
  #startsAt: Date | undefined
  /** A Job of an answer that has not reached the API server. */
  #answeredAt: Date | undefined

  constructor(name: string, kinds: LeaseKind[], store: LeaseStore, runs = 0) {
    this.#store = store
    this.#kinds = kinds
    this.#runs = runs
    const kind = runs > 0 ? 'VecCluster' : 'VecBackup'
    this.holder = { kind, namespace: 'ns', name, uid: `uid-${name}` }
  }

  get hasActiveJob(): boolean {
    return this.#jobs.some((job) => job.status === undefined)
  }

  /** Metacontroller asks again only after it has done what was answered. */
  async observe(
    beforeRead: () => Promise<void> = async () => undefined,
    fails = false,
  ): Promise<void> {
    if (this.#answeredAt !== undefined || this.isDone) return
    // A call that has not answered yet has timed out; its answer is dropped.
    this.#abandonWrites()
    const store = this.#store
    const at = store.now
    const leases: ObservedLease[] = []
    const free: ObservedLease[] = []
    for (const kind of ['backup', 'write'] as const) {
      const jobsOf = async (namespace: string, uid: string) => {
        await beforeRead()
        if (fails) throw new KubernetesError('no answer')
        return store.jobsOf(namespace, uid)
      }
      const lease = (namespace: string, name: string) => store.lease(namespace, name)
      const ports = { lease, jobsOf, holderState: () => store.holderState() }
      const observed = await readLease(CLUSTER.metadata, kind, ports, allAllowed)
      if (this.#kinds.includes(kind)) leases.push(observed)
      else free.push(observed)
    }
    this.#observed = { leases, free, hasJob: this.hasActiveJob, at }
  }

  decide(): void {
    if (this.#observed === undefined) return
    const { leases, free, hasJob, at } = this.#observed
    this.#observed = undefined
    if (hasJob) return
    const run = this.#runs > 0 ? { run: this.#run } : {}
    const claimResult = claim(leases, this.holder, { cluster: CLUSTER, now: at, free, ...run })
    if (claimResult.state === 'waiting') this.blockedBy = claimResult.holder.name
    this.#writes = claimResult.writes
    this.#startsAt = claimResult.state === 'held' ? at : undefined
  }

  /** The next write of a sync that is over. */
  async writeLate(): Promise<void> {
    const [next, ...rest] = this.#late
    if (next === undefined) return
    this.#late = rest
    await this.#apply(next)
  }

  #abandonWrites(): void {
    this.#late = [...this.#late, ...this.#writes]
    this.#writes = []
    this.#startsAt = undefined
  }

  async write(): Promise<void> {
    const [next, ...rest] = this.#writes
    if (next === undefined) return
    this.#writes = (await this.#apply(next)) ? rest : []
    if (this.#writes.length > 0) return
    this.#answeredAt = this.#startsAt
    this.#startsAt = undefined
  }

  /** Whether it succeeded; a renewal that fails fails the sync. */
  async #apply(write: LeaseWrite): Promise<boolean> {
    const store = this.#store
    const results: boolean[] = []
    const recorded = async (result: Promise<boolean>) => {
      const isDone = await result
      results.push(isDone)
      return isDone
    }
    try {
      await writeLeases([write], {
        writeLease: (lease) => recorded(store.writeLease(lease)),
        deleteLease: (lease) => recorded(store.deleteLease(lease)),
      })
    } catch (error) {
      if (!(error instanceof RetryLater)) throw error
      this.#startsAt = undefined
    }
    return !results.includes(false)
  }

  /** An answer that took longer than the margin has timed out in transit. */
  arrive(): void {
    if (this.#answeredAt === undefined) return
    const seconds = (this.#store.now.getTime() - this.#answeredAt.getTime()) / 1000
    this.#answeredAt = undefined
    if (seconds < LEASE_MARGIN_SECONDS) this.#jobs = [...this.#jobs, newJob(this.#jobName)]
  }

  /** The API server takes no Job of it. */
  rejectAnswer(): void {
    this.#answeredAt = undefined
  }

  /** The service ends in mid-pass; what it has answered may still arrive. */
  crash(): void {
    this.#observed = undefined
    this.#abandonWrites()
  }

  /** A Job that said nothing was deleted. */
  lose(): void {
    this.#jobs = this.#jobs.filter((job) => job.status !== undefined)
  }

  /** Jobs of earlier runs are kept for their logs. */
  end(): void {
    if (!this.hasActiveJob) return
    this.#jobs = [
      ...this.#jobs.filter((job) => job.status !== undefined),
      newJob(this.#jobName, true),
    ]
    this.#run += 1
    this.isDone = this.#run > this.#runs
  }

  get #jobName(): string {
    return `${this.holder.name}-${this.#run}`
  }

  async pass(): Promise<void> {
    this.arrive()
    await this.observe()
    this.decide()
    while (this.#writes.length > 0) await this.write()
  }

  get #jobs(): Job[] {
    return this.#store.jobs.get(this.holder.uid) ?? []
  }

  set #jobs(jobs: Job[]) {
    this.#store.jobs.set(this.holder.uid, jobs)
  }
}

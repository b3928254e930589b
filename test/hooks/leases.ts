/**
 * Leases and Jobs as an API server keeps them, and claimants whose passes are cut into steps: what one
 * has read may be old when it writes, and others step in between.
 */
import { KubernetesError } from '../../crds/errors.ts'
import type { Job, Lease } from '../../crds/kubernetes.ts'
import { LEASE_MARGIN_SECONDS } from '../../crds/limits.ts'
import type { Holder } from '../../crds/rules/holder.ts'
import {
  claim,
  seeLease,
  writeLeases,
  type LeaseKind,
  type LeasePorts,
  type LeaseWrite,
  type SeenLease,
} from '../../hooks/lease.ts'
import { allAllowed } from '../builders.ts'

export const LEASED = { metadata: { namespace: 'ns', name: 'a', uid: 'uid-a' } }

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

  async takeLease(lease: Lease): Promise<boolean> {
    const { name, resourceVersion } = lease.metadata
    if (this.leases.get(name)?.metadata.resourceVersion !== resourceVersion) return false
    this.#version += 1
    const metadata = { ...lease.metadata, resourceVersion: String(this.#version) }
    this.leases.set(name, { ...lease, metadata })
    return true
  }

  async dropLease({ metadata }: Lease): Promise<boolean> {
    const found = this.leases.get(metadata.name)
    if (found?.metadata.resourceVersion !== metadata.resourceVersion) return false
    return this.leases.delete(metadata.name)
  }
}

export function someJob(name: string, ended = false): Job {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, namespace: 'ns' },
    ...(ended && { status: { conditions: [{ type: 'Complete', status: 'True' }] } }),
  }
}

/** A backup or a restore, from its first pass to the end of its Job. */
export class Claimant {
  readonly holder: Holder
  isDone = false
  /** Whom it found before it, at last. */
  waitsFor: string | undefined
  readonly #store: LeaseStore
  readonly #kinds: LeaseKind[]
  /** Helm runs to come; a backup or a restore has one Job, whatever its name. */
  readonly #runs: number
  #run = 1
  #seen: { leases: SeenLease[]; free: SeenLease[]; hasJob: boolean; at: Date } | undefined
  #writes: LeaseWrite[] = []
  /** A Job that was answered, and is on its way to the API server. */
  #answered: Date | undefined

  constructor(name: string, kinds: LeaseKind[], store: LeaseStore, runs = 0) {
    this.#store = store
    this.#kinds = kinds
    this.#runs = runs
    const kind = runs > 0 ? 'VecCluster' : 'VecBackup'
    this.holder = { kind, namespace: 'ns', name, uid: `uid-${name}` }
  }

  get isAtWork(): boolean {
    return this.#jobs.some((job) => job.status === undefined)
  }

  /** Metacontroller asks again only after it has done what was answered. */
  async look(between: () => Promise<void> = async () => undefined, fails = false): Promise<void> {
    if (this.#answered !== undefined || this.isDone) return
    const store = this.#store
    const at = store.now
    const leases: SeenLease[] = []
    const free: SeenLease[] = []
    for (const kind of ['backup', 'write'] as const) {
      const jobsOf = async (namespace: string, uid: string) => {
        await between()
        if (fails) throw new KubernetesError('no answer')
        return store.jobsOf(namespace, uid)
      }
      const lease = (namespace: string, name: string) => store.lease(namespace, name)
      const seen = await seeLease(LEASED.metadata, kind, { lease, jobsOf }, allAllowed)
      if (this.#kinds.includes(kind)) leases.push(seen)
      else free.push(seen)
    }
    this.#seen = { leases, free, hasJob: this.isAtWork, at }
  }

  decide(): void {
    if (this.#seen === undefined) return
    const { leases, free, hasJob, at } = this.#seen
    this.#seen = undefined
    if (hasJob) return
    const run = this.#runs > 0 ? { run: this.#run } : {}
    const claimed = claim(leases, this.holder, { cluster: LEASED, now: at, free, ...run })
    if (claimed.state === 'waiting') this.waitsFor = claimed.holder.name
    if (claimed.state === 'held') this.#answered = at
    else this.#writes = claimed.writes
  }

  async write(): Promise<void> {
    const [next, ...rest] = this.#writes
    if (next === undefined) return
    const store = this.#store
    const done: boolean[] = []
    const noted = async (write: Promise<boolean>) => {
      const isDone = await write
      done.push(isDone)
      return isDone
    }
    await writeLeases([next], {
      takeLease: (lease) => noted(store.takeLease(lease)),
      dropLease: (lease) => noted(store.dropLease(lease)),
    })
    this.#writes = done.includes(false) ? [] : rest
  }

  /** An answer that took longer than the margin has timed out on its way. */
  arrive(): void {
    if (this.#answered === undefined) return
    const seconds = (this.#store.now.getTime() - this.#answered.getTime()) / 1000
    this.#answered = undefined
    if (seconds < LEASE_MARGIN_SECONDS) this.#jobs = [...this.#jobs, someJob(this.#jobName)]
  }

  /** The API server takes no Job of it. */
  refuse(): void {
    this.#answered = undefined
  }

  /** The service ends in mid-pass; what it has answered may still arrive. */
  crash(): void {
    this.#seen = undefined
    this.#writes = []
  }

  /** A Job that said nothing was deleted. */
  lose(): void {
    this.#jobs = this.#jobs.filter((job) => job.status !== undefined)
  }

  /** Jobs of earlier runs are kept for their logs. */
  end(): void {
    if (!this.isAtWork) return
    this.#jobs = [
      ...this.#jobs.filter((job) => job.status !== undefined),
      someJob(this.#jobName, true),
    ]
    this.#run += 1
    this.isDone = this.#run > this.#runs
  }

  get #jobName(): string {
    return `${this.holder.name}-${this.#run}`
  }

  async pass(): Promise<void> {
    this.arrive()
    await this.look()
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

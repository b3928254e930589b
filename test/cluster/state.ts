/**
 * What a running cluster is, on disk: its directory, its addresses and the ids of its processes.
 * The directory is also the lock, because bridge and packet filter exist once per machine. The next
 * command, be it `down` or a run after a kill -9, cleans up from this file alone.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { cacheFolder } from '../real-parts.ts'
import { alive, startProcess, stopProcess } from './process.ts'
import type { ProcessId, ProcessRecord, ProcessSpec } from './process.ts'

/** Everything kept between runs; safe to delete at any time. */
export const CACHE = cacheFolder(process.env)

export const CLUSTER_DIRECTORY = process.env['VEC_CLUSTER_DIRECTORY'] ?? join(CACHE, 'cluster')

export interface S3 {
  readonly endpoint: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** What others need to reach the cluster; complete once it is up. */
export interface Connection {
  readonly server: string
  readonly token: string
  readonly s3: S3
  /** Whether it has volumes that can grow, or why not. */
  readonly volumes: string
}

export interface ClusterState {
  /** The run that started it and will stop it; undefined if it outlives its command. */
  readonly owner: ProcessId | undefined
  /** Things of the machine that were there before us and are not ours to remove. */
  readonly before: {
    readonly networkNamespaces: readonly string[]
    readonly volumes: readonly string[]
  }
  readonly connection: Connection | undefined
  readonly processes: readonly ProcessRecord[]
}

/** The processes and facts of one cluster, written to disk at every change. */
export class Ground {
  readonly directory: string
  #state: ClusterState
  #closing = false

  constructor(directory: string, state: ClusterState) {
    this.directory = directory
    this.#state = state
  }

  /** Takes the directory for a new cluster, or throws EEXIST. */
  static create(directory: string, state: ClusterState): Ground {
    mkdirSync(join(directory, '..'), { recursive: true })
    mkdirSync(directory, { mode: 0o755 })
    mkdirSync(join(directory, 'logs'))
    const ground = new Ground(directory, state)
    ground.update({})
    return ground
  }

  /** The cluster of an earlier run; undefined where there is none. */
  static open(directory: string): Ground | undefined {
    try {
      const text = readFileSync(join(directory, 'state.json'), 'utf8')
      return new Ground(directory, JSON.parse(text) as ClusterState)
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
      throw error
    }
  }

  get state(): ClusterState {
    return this.#state
  }

  path(...parts: string[]): string {
    return join(this.directory, ...parts)
  }

  /** Writes a file below the directory and answers its path. */
  write(name: string, content: string, mode = 0o644): string {
    const file = this.path(name)
    mkdirSync(join(file, '..'), { recursive: true })
    writeFileSync(file, content, { mode })
    return file
  }

  update(change: Partial<ClusterState>): void {
    this.#state = { ...this.#state, ...change }
    // Renamed into place: a kill in the middle of a write must not lose the ids of the earlier ones.
    writeFileSync(this.path('state.json.new'), JSON.stringify(this.#state, undefined, 2), {
      mode: 0o600,
    })
    renameSync(this.path('state.json.new'), this.path('state.json'))
  }

  start(spec: Omit<ProcessSpec, 'log'>): ProcessRecord {
    if (this.#closing) throw new Error(`${spec.name} is not started: the cluster is being stopped`)
    const log = this.path('logs', `${spec.name}.log`)
    const record = startProcess({ ...spec, log }, this.directory)
    this.update({ processes: [...this.#state.processes, record] })
    return record
  }

  /** From now on nothing may be started: an unfinished start would outrun its own clean-up. */
  close(): void {
    this.#closing = true
  }

  async stop(name: string): Promise<void> {
    const record = this.find(name)
    await stopProcess(record)
    this.update({ processes: this.#state.processes.filter((other) => other.name !== name) })
  }

  /** Ends one process and starts it again with the same command line. */
  async restart(name: string): Promise<ProcessRecord> {
    const { command, args, env } = this.find(name)
    await this.stop(name)
    return this.start({ name, command, args, ...(env === undefined ? {} : { env }) })
  }

  find(name: string): ProcessRecord {
    const record = this.#state.processes.find((other) => other.name === name)
    if (record === undefined) throw new Error(`the cluster has no process ${name}`)
    return record
  }

  /** Locked by a running process, or left running for a user and still complete. */
  get held(): boolean {
    const { owner, connection, processes } = this.#state
    if (owner !== undefined) return alive(owner)
    return connection !== undefined && processes.every(alive)
  }
}

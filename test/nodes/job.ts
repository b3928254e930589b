/** Runs `cluster shards` as a Job does: a process of the program, started again after a crash until it reports an end. */
import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { encodePlan, EXIT, JOB_ENV, parseProgress, type Progress } from '../../crds/contract/job.ts'
import type { ShardsPlan } from '../../crds/contract/shards-job.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { program } from '../program.ts'
import { CLUSTER, NAMESPACE, RELEASE, type NodesWorld } from './world.ts'

/** The part of a plan that differs from run to run. */
export type Work = Pick<ShardsPlan, 'nodes' | 'lost' | 'zones' | 'balance' | 'resharding'>

export interface Ended {
  /** Absent if no Job has reported an end in time. */
  state?: Progress['state']
  reason: string
  message: string
  /** Jobs, and processes of them. */
  jobs: number
  processes: number
}

const RETRY_MS = 1_000
/** A plan that was refused or failed is tried again after this time, as by the hook. */
const NEXT_JOB_MS = 5_000
const MOST_TRANSFERS = 2

export class ShardJobs {
  readonly log: string
  /** Called with the log line of each step that is started. */
  onStep: (line: string) => void = () => undefined
  readonly #world: NodesWorld
  #child: ChildProcess | undefined
  #run = 0
  #isStopped = false
  /** What the present Jobs are for. */
  #work: Work | undefined

  constructor(world: NodesWorld) {
    this.#world = world
    this.log = join(world.folder, 'jobs.log')
  }

  /** Ends the process of the present Job; whether there is one. */
  signal(signal: NodeJS.Signals): boolean {
    return this.#child?.kill(signal) === true
  }

  /** Ends the present Job; no other is started. */
  stop(): void {
    this.#isStopped = true
    this.signal('SIGKILL')
  }

  /** The spec has changed, and the Job is lost: the next one is for other work. */
  replace(work: Work): void {
    this.#work = work
    this.signal('SIGKILL')
  }

  /** Jobs one after the other until one has done all that is due. */
  async until(first: Work, ms: number): Promise<Ended> {
    const end = Date.now() + ms
    this.#work = first
    const ended: Ended = { reason: '', message: '', jobs: 0, processes: 0 }
    while (Date.now() < end && !this.#isStopped) {
      this.#run += 1
      ended.jobs += 1
      const work: Work = this.#work
      const progress = await this.#job(work, end, ended)
      if (this.#work !== work) continue
      if (progress === undefined) break
      const { state, reason = '', message = '', shards } = progress
      Object.assign(ended, { state, reason, message })
      if (state === 'Done' && shards?.isYielded !== true) return ended
      if (state !== 'Done') await pause(NEXT_JOB_MS)
    }
    delete ended.state
    return ended
  }

  async #job(work: Work, end: number, ended: Ended): Promise<Progress | undefined> {
    const job = randomUUID()
    while (Date.now() < end && !this.#isStopped && this.#work === work) {
      ended.processes += 1
      const code = await this.#process(work, job, end)
      if (code === EXIT.done || code === EXIT.failed) return this.#progress()
      await pause(RETRY_MS)
    }
    return undefined
  }

  async #process(work: Work, job: string, end: number): Promise<number | undefined> {
    const app = await program()
    const args = ['jobs/main.js', 'cluster', 'shards', `${NAMESPACE}/${CLUSTER}`]
    const child = spawn(process.execPath, args, {
      cwd: app,
      env: { ...this.#environment(app), ...this.#planOf(work, job) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#child = child
    CHILDREN.add(child)
    const keep = (chunk: Buffer) => appendFileSync(this.log, chunk)
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    createInterface(child.stdout).on('line', (line) => {
      if (line.includes('step started')) this.onStep(line)
    })
    const tooLate = setTimeout(() => child.kill('SIGKILL'), Math.max(0, end - Date.now()))
    const code = await new Promise<number | undefined>((resolve) =>
      child.once('close', (exit) => resolve(exit ?? undefined)),
    )
    clearTimeout(tooLate)
    CHILDREN.delete(child)
    this.#child = undefined
    return code
  }

  #environment(app: string): NodeJS.ProcessEnv {
    const { api, folder } = this.#world
    const credentials = join(folder, 'credentials')
    mkdirSync(credentials, { recursive: true })
    const token = join(folder, 'token')
    writeFileSync(token, api.podToken)
    return {
      NODE_COMPILE_CACHE: join(app, 'compiled'),
      PATH: process.env['PATH'],
      VEC_API_SERVER: api.url,
      VEC_API_TOKEN_FILE: token,
      VEC_CREDENTIALS: credentials,
      VEC_ENGINE_ROUTE: 'proxy',
      LOG_FORMAT: 'text',
      LOG_LEVEL: process.env['NODES_DEBUG'] === '1' ? 'DEBUG' : 'INFO',
    }
  }

  #planOf(work: Work, job: string): NodeJS.ProcessEnv {
    const plan: ShardsPlan = {
      resource: 'vecclusters',
      namespace: NAMESPACE,
      name: CLUSTER,
      uid: this.#world.cluster.metadata.uid ?? '',
      run: this.#run,
      hash: `run-${this.#run}`,
      release: RELEASE,
      cluster: {
        ...{ namespace: NAMESPACE, name: CLUSTER, tls: false },
        replicas: this.#world.replicas,
      },
      repair: true,
      maxTransfers: MOST_TRANSFERS,
      // A single node has one replica of each shard.
      allowsFewerReplicas: true,
      defects: {},
      onScaleIn: 'Delete',
      ...work,
    }
    return {
      [JOB_ENV.plan]: encodePlan(plan, 'plan'),
      [JOB_ENV.podUid]: randomUUID(),
      [JOB_ENV.jobUid]: job,
    }
  }

  #progress(): Progress | undefined {
    const { metadata } = this.#world.cluster
    return parseProgress(metadata.annotations?.[ANNOTATIONS.progress], metadata.uid ?? '')
  }
}

const CHILDREN = new Set<ChildProcess>()
process.once('exit', () => CHILDREN.forEach((child) => child.kill('SIGKILL')))

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

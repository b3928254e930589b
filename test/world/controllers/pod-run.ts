/** One pod on the node, from Pending through Running to its end, and its status. */
import { timestamp } from '../api/metadata.ts'
import { ApiFailure } from '../api/failure.ts'
import type { Resources } from '../api/resources.ts'
import type { Clock } from '../clock.ts'
import type { Containers, Running } from './containers.ts'
import { isJobContainer } from './job-container.ts'
import type { Condition, Container, ContainerStatus, Pod, PodStatus } from './objects.ts'
import { answers } from './probe.ts'
import { CREATING, NotStartable, Sandbox } from './sandbox.ts'

/** Time for scheduling, pulling and creating. */
const START_MS = 500
const RETRY_MS = 5_000
/** How long an engine takes to end. */
const STOP_MS = 1_000

export class PodRun {
  readonly pod: Pod
  /** By the machine's clock. */
  realStart = 0
  readonly #resources: Resources
  readonly #clock: Clock
  readonly #containers: Containers
  #sandbox: Sandbox | undefined
  #running: Running | undefined
  #startedAt = ''
  /** Results of the readiness probe that failed one after the other. */
  #failedProbes = 0
  #ready = false
  #disrupted = false
  #terminating = false
  #forgotten = false
  #pending = 0
  #cancel: () => void = () => undefined

  constructor(resources: Resources, clock: Clock, containers: Containers, pod: Pod) {
    this.pod = pod
    this.#resources = resources
    this.#clock = clock
    this.#containers = containers
    this.#later(START_MS, () => this.#start())
  }

  get busy(): boolean {
    return this.#pending > 0
  }

  get isProcess(): boolean {
    return this.#running !== undefined && isJobContainer(this.#container)
  }

  log(): string | undefined {
    return this.#running?.log() ?? this.#lastLog
  }

  port(port: number): number | undefined {
    return this.#running?.port(port)
  }

  setReady(ready: boolean): void {
    this.#running?.setReady(ready)
  }

  refresh(): void {
    try {
      this.#sandbox?.refresh()
    } catch (error) {
      // A Secret that went away leaves its last content in the pod.
      if (!(error instanceof NotStartable)) throw error
    }
  }

  /** The pod was deleted: its container is asked to end, and made to after the grace period. */
  terminate(): void {
    if (this.#terminating) return
    this.#terminating = true
    this.#cancel()
    if (this.#running === undefined) {
      this.#remove()
      return
    }
    if (!this.isProcess) {
      this.#later(STOP_MS, async () => this.#running?.stop())
      return
    }
    const grace = (this.pod.spec.terminationGracePeriodSeconds ?? 30) * 1000
    this.#running.stop()
    const killing = setTimeout(() => this.#running?.kill(), grace)
    void this.#running.ended.then(() => clearTimeout(killing))
  }

  /** The node dies under the pod. */
  disrupt(): void {
    this.#disrupted = true
    this.kill()
  }

  kill(): void {
    this.#running?.kill()
  }

  /** Ends everything without a word in the API. */
  async forget(): Promise<void> {
    this.#forgotten = true
    this.#cancel()
    this.kill()
    await this.#running?.ended
    this.#sandbox?.remove()
  }

  #lastLog: string | undefined

  get #container(): Container {
    const [container] = this.pod.spec.containers
    if (container === undefined) throw new Error(`pod ${this.pod.metadata.name} has no container`)
    return container
  }

  async #start(): Promise<void> {
    const container = this.#container
    try {
      this.#bind()
      this.#sandbox = new Sandbox(this.#resources, this.pod, container)
      this.#running = await this.#containers.start(this.pod, container, this.#sandbox)
    } catch (error) {
      this.#sandbox?.remove()
      if (error instanceof ApiFailure) return
      const reason = error instanceof NotStartable ? error.reason : 'CrashLoopBackOff'
      const message = error instanceof Error ? error.message : String(error)
      this.#write('Pending', { waiting: { reason, ...(message !== '' && { message }) } })
      this.#later(RETRY_MS, () => this.#start())
      return
    }
    this.#startedAt = this.#now()
    this.realStart = Date.now()
    this.#ready = container.readinessProbe === undefined
    void this.#running.ended.then((code) => this.#end(code))
    // Deleted during its start.
    if (this.#terminating || this.#forgotten) this.#running.kill()
    this.#write('Running', { running: { startedAt: this.#startedAt } })
    const delay = (container.readinessProbe?.initialDelaySeconds ?? 0) * 1000
    if (!this.#ready) this.#later(delay, () => this.#probe())
  }

  async #probe(): Promise<void> {
    const probe = this.#container.readinessProbe
    if (probe === undefined || this.#running === undefined) return
    const ok = await answers(probe, this.#running)
    this.#failedProbes = ok ? 0 : this.#failedProbes + 1
    const ready = ok || (this.#ready && this.#failedProbes < (probe.failureThreshold ?? 3))
    if (ready !== this.#ready && !this.#terminating) {
      this.#ready = ready
      this.#write('Running', { running: { startedAt: this.#startedAt } })
    }
    if (!this.#terminating) {
      this.#later((probe.periodSeconds ?? 10) * 1000, () => this.#probe())
    }
  }

  #end(exitCode: number): void {
    this.#cancel()
    this.#lastLog = this.#running?.log()
    this.#running = undefined
    this.#ready = false
    if (this.#forgotten) return
    this.#sandbox?.remove()
    const reason = exitCode === 0 ? 'Completed' : 'Error'
    this.#write(exitCode === 0 ? 'Succeeded' : 'Failed', {
      terminated: { exitCode, reason, finishedAt: this.#now() },
    })
    if (this.#terminating) this.#remove()
  }

  #bind(): void {
    const { namespace = '', name } = this.pod.metadata
    this.#resources.update(this.#kind, { namespace, name }, (old) => ({
      ...old,
      spec: { ...(old as Pod).spec, nodeName: 'embedded' },
    }))
  }

  #remove(): void {
    const { namespace = '', name, uid = '' } = this.pod.metadata
    const options = { gracePeriodSeconds: 0, preconditions: { uid } }
    this.#unlessGone(() => this.#resources.delete(this.#kind, { namespace, name }, options))
  }

  #write(phase: PodStatus['phase'], state: ContainerStatus['state']): void {
    const { namespace = '', name } = this.pod.metadata
    const { name: container, image } = this.#container
    const status: PodStatus = {
      phase,
      conditions: this.#conditions(phase, state),
      ...(phase !== 'Pending' && { podIP: '127.0.0.1', startTime: this.#startedAt }),
      containerStatuses: [{ name: container, image, ready: this.#ready, restartCount: 0, state }],
    }
    this.#unlessGone(() =>
      this.#resources.update(
        this.#kind,
        { namespace, name },
        (old) => ({ ...old, status }),
        'status',
      ),
    )
  }

  #conditions(phase: PodStatus['phase'], state: ContainerStatus['state']): Condition[] {
    const is = (type: string, holds: boolean) => ({ type, status: holds ? 'True' : 'False' })
    const hasSandbox = state.terminated === undefined && state.waiting?.reason !== CREATING
    return [
      ...(this.#disrupted
        ? [{ ...is('DisruptionTarget', true), reason: 'DeletionByTaintManager' }]
        : []),
      is('PodReadyToStartContainers', hasSandbox),
      is('PodScheduled', true),
      is('Initialized', phase !== 'Pending'),
      is('ContainersReady', this.#ready),
      is('Ready', this.#ready),
    ]
  }

  #unlessGone(write: () => unknown): void {
    try {
      write()
    } catch (error) {
      if (!(error instanceof ApiFailure) || (error.code !== 404 && error.code !== 409)) throw error
    }
  }

  #later(ms: number, run: () => Promise<unknown>): void {
    this.#cancel = this.#clock.setTimeout(() => {
      this.#pending += 1
      void run().finally(() => (this.#pending -= 1))
    }, ms)
  }

  get #kind() {
    return this.#resources.kinds.of('v1', 'Pod')
  }

  #now(): string {
    return timestamp(this.#clock.now())
  }
}

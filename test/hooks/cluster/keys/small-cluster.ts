/**
 * A cluster as far as keys go: Secrets, a template, pods that read both when they start, and helm runs that
 * may be killed at any point. Checks after each change what the documentation promises.
 */
import { keyFingerprint, type ReleaseKeys } from '../../../../crds/contract/api-keys.ts'
import type { AppliedRelease } from '../../../../crds/contract/job.ts'
import type { StatefulSet } from '../../../../crds/kubernetes.ts'
import { timestamp } from '../../../../hooks/conditions.ts'
import { keyRotationStatus, keysToKeep } from '../../../../hooks/cluster/keys/status.ts'
import type { KeyRotation } from '../../../../hooks/cluster/keys/ports.ts'
import { keyRotation } from '../../../../hooks/cluster/keys/rotation.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import {
  acceptingKeys,
  applied,
  cluster,
  observed,
  progress,
  secret,
  statefulSet,
  type ClusterOverrides,
} from '../../../builders.ts'

export const OVERLAP_SECONDS = 300

export interface Settings {
  nodes: number
  version?: string
  /** Nodes check the calls of other nodes. */
  isMainKeyChecked?: boolean
}

interface Pod {
  template: string[]
  /** The main key first. */
  accepts: string[]
}

export class SmallCluster {
  /** Seconds. */
  now = 1_800_000_000
  desired: string
  published: string
  readonly stored = new Set<string>()
  template: string[] = []
  readonly pods: Pod[]
  recorded: AppliedRelease['keys']
  status: ClusterOverrides['status']
  rotation: KeyRotation | undefined
  /** What the last sync has observed. */
  seen: Observed
  formerTokens: string[] = []
  /** Pods that were replaced. */
  restarts = 0
  readonly broken: string[] = []
  readonly #settings: Settings
  readonly #values = new Map<string, string>()
  /** Until when the documentation promises that all nodes accept a key. */
  readonly #promised = new Map<string, number>()

  constructor(first: string, settings: Settings) {
    this.#settings = settings
    this.desired = this.published = keyFingerprint(first)
    this.#values.set(this.desired, first)
    this.pods = Array.from({ length: settings.nodes }, () => ({
      template: this.template,
      accepts: [this.published],
    }))
    this.seen = this.observed()
  }

  write(key: string): void {
    this.desired = keyFingerprint(key)
    this.#values.set(this.desired, key)
  }

  /** One sync of the hook. */
  sync(): KeyRotation | undefined {
    const seen = this.observed()
    const rotation = keyRotation(seen, new Date(this.now * 1000))
    if (rotation !== undefined) seen.rotation = rotation
    const { keyRotation: recorded } = keyRotationStatus(seen)
    this.status = recorded === undefined ? {} : { keyRotation: recorded }
    const valid = keysToKeep(seen)
    if (valid !== undefined)
      for (const key of this.stored) if (!valid.includes(key)) this.stored.delete(key)
    this.rotation = rotation
    this.seen = seen
    return rotation
  }

  observed(): Observed {
    const { nodes, version = '1.18.3', isMainKeyChecked = false } = this.#settings
    const accepted = [...new Set([this.desired, this.published, ...this.stored])]
    const service = isMainKeyChecked ? { service: { enforce_internal_auth: true } } : {}
    return observed({
      cluster: cluster({
        spec: {
          version,
          replicas: nodes,
          apiKey: {
            ...{ autoGenerate: false, jwtRbac: false, secretRef: { name: 'key', key: 'api' } },
            rotation: { overlap: `${OVERLAP_SECONDS}s` },
          },
          config: service,
        },
        status: this.status,
      }),
      secrets: new Map([['key', secret({ api: this.#values.get(this.desired) ?? '' })]]),
      statefulSet: this.#statefulSet(nodes),
      progress: progress({
        applied: applied({ version, ...(this.recorded && { keys: this.recorded }) }),
      }),
      keys: {
        overlapSeconds: OVERLAP_SECONDS,
        published: this.published,
        stored: new Map([...this.stored].map((key) => [key, ''])),
        answers: {
          ...{ asked: accepted, at: timestamp(new Date(this.now * 1000)) },
          nodes: this.pods.map(({ accepts }, ordinal) => ({ ordinal, accepts })),
        },
        formerTokens: this.formerTokens,
      },
    })
  }

  #statefulSet(nodes: number): StatefulSet {
    const outdated = this.pods.filter((pod) => pod.template !== this.template).length
    const isComplete = outdated === 0
    const set = statefulSet(nodes, {
      updatedReplicas: nodes - outdated,
      updateRevision: isComplete ? 'r1' : 'r2',
    })
    return acceptingKeys(set, this.template)
  }

  /** The run that the last sync asks for, killed before the step of this number, if it is given. */
  run(killedBefore = Infinity): boolean {
    const plan = this.rotation?.plan
    if (plan === undefined) return false
    const isApplied =
      this.published === plan.published &&
      (this.template.length === 0 ? [this.published] : this.template).join() ===
        plan.accepted.join()
    if (isApplied && this.recorded?.former === plan.former && this.recorded !== undefined)
      return false
    if (plan.replaces !== this.published && plan.published !== this.published) return false
    const steps = [
      () => [plan.published, ...plan.accepted].forEach((key) => this.stored.add(key)),
      () => this.#publish(plan.published),
      () => this.#setTemplate(plan),
      () => {
        this.recorded = {
          ...{ published: plan.published, accepted: plan.accepted },
          ...(plan.former !== undefined && { former: plan.former }),
        }
      },
    ]
    for (const [index, step] of steps.entries()) {
      if (index >= killedBefore) break
      step()
      this.check(`step ${index} of a run`)
    }
    return true
  }

  #publish(key: string): void {
    if (key === this.published) return
    // Clients that have read the former key may use it for so long.
    this.#promised.set(this.published, this.now + OVERLAP_SECONDS)
    this.published = key
  }

  #setTemplate({ accepted }: ReleaseKeys): void {
    const next = accepted.length === 2 ? accepted : []
    if (next.length === 0 && this.template.length === 0) return
    if (next.join() !== this.template.join()) this.template = next
  }

  /** A pod gets the newest template, or starts again with its own. */
  restart(ordinal: number, isUpdated: boolean): void {
    const pod = this.pods[ordinal]
    if (pod === undefined) return
    if (isUpdated) pod.template = this.template
    this.restarts += 1
    pod.accepts =
      pod.template.length === 2
        ? pod.template.filter((key) => this.stored.has(key))
        : [this.published]
    if (pod.accepts.length === 0) pod.accepts = [this.published]
    this.check(`restart of node ${ordinal}`)
  }

  nextOutdated(): number {
    return this.pods.findLastIndex(({ template }) => template !== this.template)
  }

  /** What the documentation promises. */
  check(when: string): void {
    const refusing = (key: string) => this.pods.some(({ accepts }) => !accepts.includes(key))
    if (refusing(this.published)) this.broken.push(`${when}: the published key is refused`)
    for (const [key, until] of this.#promised) {
      if (this.now < until && refusing(key)) this.broken.push(`${when}: a former key is refused`)
    }
    if (this.#settings.isMainKeyChecked !== true) return
    const mains = this.pods.map(({ accepts }) => accepts[0] ?? '')
    if (mains.some(refusing)) this.broken.push(`${when}: nodes refuse each other`)
  }

  /** Syncs, runs and rollouts without misfortune, until nothing is left to do. */
  settle(): void {
    for (let round = 0; round < 200; round += 1) {
      this.sync()
      const hasRun = this.run()
      const outdated = this.nextOutdated()
      if (outdated !== -1) this.restart(outdated, true)
      const isDone = this.rotation?.step === 'Current' && this.status?.keyRotation === undefined
      if (!hasRun && outdated === -1 && isDone) return
      this.now += 10
    }
    this.broken.push('the rotation does not end')
  }
}

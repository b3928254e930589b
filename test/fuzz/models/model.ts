/**
 * What a model says about a resource, and how its answer is compared with the real one. A model is
 * written from the specification and from docs/kinds; it calls no code of hooks/.
 */
import type fc from 'fast-check'
import { LABELS } from '../../../crds/contract/names.ts'
import { RESOURCES, type Resource } from '../../../crds/crd.ts'
import { recordAt, valueAt } from '../../world/api/json.ts'
import type { ApiObject } from '../../world/client.ts'
import { Broken } from '../promises.ts'
import type { Stage } from '../stage.ts'

export interface Model<Case> {
  kind: string
  cases: fc.Arbitrary<Case>
  /** Runs the case and compares; throws `Broken`. Returns a word for the kind of case. */
  run(stage: Stage, one: Case): Promise<string>
}

/** What must be observed. */
export interface Expectation {
  phase: string
  /** `Type=Status Reason`. */
  condition: string
  /** Number of Jobs of the resource that have not ended. */
  jobs: number
}

/** What a resource has to come to rest in while nothing around it changes: both are used up. */
const MAX_PASSES = 14
const MAX_SECONDS = 240
const STEP_SECONDS = 31

/** One resource under test, and the passes over it. */
export class Run {
  readonly stage: Stage
  readonly parent: ApiObject
  readonly #resource: Resource
  readonly #finalPhases: readonly string[]
  #finalPhase: string | undefined

  constructor(stage: Stage, parent: ApiObject, finalPhases: readonly string[] = []) {
    const resource = RESOURCES.find(({ kind }) => kind === parent.kind)
    if (resource === undefined) throw new Error(`there is no kind ${parent.kind}`)
    this.stage = stage
    this.parent = parent
    this.#resource = resource
    this.#finalPhases = finalPhases
  }

  get live(): ApiObject | undefined {
    return this.stage.find(this.parent)
  }

  /** One pass; then what must hold at any time is checked. */
  async pass(): Promise<void> {
    await this.stage.pass(this.#resource, this.parent)
    const { live } = this
    if (live === undefined) return
    const jobs = unfinishedJobs(this.stage, live)
    if (jobs.length > 1) throw new Broken(`two Jobs at once: ${jobs.map(nameOf).join(', ')}`)
    const phase = String(valueAt(live, 'status.phase'))
    if (this.#finalPhase !== undefined && phase !== this.#finalPhase) {
      throw new Broken(`was ${this.#finalPhase} and is ${phase}`)
    }
    if (this.#finalPhase !== undefined && jobs.length > 0) {
      throw new Broken(`${jobs.map(nameOf).join(', ')} after the end`)
    }
    if (this.#finalPhases.includes(phase)) this.#finalPhase = phase
  }

  /** Runs passes and advances the clock until one of the expectations holds; it must then hold in the passes that follow. */
  async expect(verdicts: readonly Expectation[], what: string): Promise<Expectation> {
    let found: Expectation | undefined
    const start = this.stage.clock.now().getTime()
    const isInTime = () => this.stage.clock.now().getTime() - start < MAX_SECONDS * 1000
    for (let count = 0; count < MAX_PASSES || isInTime(); count += 1) {
      await this.pass()
      found = verdicts.find((expected) => isSame(expected, this.observed(expected)))
      if (found !== undefined && count > 0) break
      await this.stage.later(Math.min(this.stage.resyncSeconds ?? STEP_SECONDS, STEP_SECONDS))
    }
    if (found === undefined) throw new Broken(`${what}: ${this.#difference(verdicts)}`)
    await this.#checkStable(what)
    await this.stage.later(STEP_SECONDS)
    await this.pass()
    if (!verdicts.some((expected) => isSame(expected, this.observed(expected)))) {
      throw new Broken(`${what} does not last: ${this.#difference(verdicts)}`)
    }
    return found
  }

  observed({ condition }: Pick<Expectation, 'condition'>): Expectation {
    const { live } = this
    const [type = ''] = condition.split('=')
    const found = conditionsOf(live).find((one) => one['type'] === type)
    return {
      phase: String(recordAt(live, 'status')['phase']),
      condition: `${type}=${String(found?.['status'])} ${String(found?.['reason'])}`,
      jobs: live === undefined ? 0 : unfinishedJobs(this.stage, live).length,
    }
  }

  /** Without a change of input, time included, the second decision equals the first. */
  async #checkStable(what: string): Promise<void> {
    await this.pass()
    const before = decisionIn(this.stage.lastAnswer)
    await this.pass()
    const after = decisionIn(this.stage.lastAnswer)
    if (after !== before) throw new Broken(`${what}: flaps: ${before} and then ${after}`)
  }

  #difference(verdicts: readonly Expectation[]): string {
    const found = verdicts.map((expected) => JSON.stringify(this.observed(expected)))
    const status = JSON.stringify(recordAt(this.live, 'status'))
    return `the model expects ${verdicts.map((one) => JSON.stringify(one)).join(' or ')}, found ${[...new Set(found)].join(', ')}: ${status.slice(0, 1500)}`
  }
}

/** Status and children, in any order. When it is asked again may be drawn by chance. */
function decisionIn(answer: string): string {
  const { status, children, finalized } = JSON.parse(answer) as Record<string, unknown>
  const sorted = (children as object[]).map((child) => JSON.stringify(child)).sort()
  return JSON.stringify({ status, children: sorted, finalized })
}

export function unfinishedJobs(stage: Stage, { metadata }: ApiObject): ApiObject[] {
  return stage.resources.store
    .list(stage.resources.kinds.of('batch/v1', 'Job'))
    .filter((job) => job.metadata.labels?.[LABELS.parent] === metadata.uid)
    .filter((job) => !conditionsOf(job).some((one) => ENDED.includes(String(one['type']))))
}

const ENDED = ['Complete', 'Failed']

export function conditionsOf(object: ApiObject | undefined): Record<string, unknown>[] {
  return (recordAt(object, 'status')['conditions'] ?? []) as Record<string, unknown>[]
}

function isSame(one: Expectation, other: Expectation): boolean {
  return one.phase === other.phase && one.condition === other.condition && one.jobs === other.jobs
}

function nameOf({ metadata }: ApiObject): string {
  return metadata.name
}

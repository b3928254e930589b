/** What `status` found of one resource. */
import type { Condition } from '../../crds/schema.ts'
import type { EngineView } from './engine-view.ts'
import type { Cure } from './explain.ts'
import type { Part, Summary } from './resource.ts'

/** One resource and what belongs to it. */
export interface Picture {
  resource: Summary & {
    conditions: Condition[]
    /** What to do about those that are not as they should be. */
    cures: Cure[]
    facts: Record<string, string>
    parts: Part[]
  }
  /** Where that is another resource. */
  cluster?: Summary & { facts: Record<string, string> }
  engine?: EngineView
  jobs: JobView[]
}

export interface JobView {
  name: string
  verb: string
  state: string
  createdAt?: string
  message: string
}

/** Conditions of a status: the time of a transition is kept until there is another one. */
import type { Condition } from '../crds/schema.ts'

export interface Finding {
  type: string
  status: Condition['status']
  reason: string
  message: string
}

interface Parent {
  metadata: { generation: number }
  status?: { conditions?: Condition[] }
}

/**
 * The findings as conditions. Nothing in them varies with time alone: a status that changes on
 * every pass would be written on every pass.
 */
export function conditionsOf(parent: Parent, findings: Finding[], now: Date): Condition[] {
  return findings.map((finding) => {
    const before = conditionOf(parent, finding.type)
    const since = before?.status === finding.status ? before.lastTransitionTime : timestamp(now)
    return {
      ...finding,
      lastTransitionTime: since,
      observedGeneration: parent.metadata.generation,
    }
  })
}

export function conditionOf(parent: Parent, type: string): Condition | undefined {
  return parent.status?.conditions?.find((condition) => condition.type === type)
}

/** An instant as Kubernetes writes it: whole seconds. */
export function timestamp(instant: Date): string {
  return instant.toISOString().replace(/\.\d{3}Z$/, 'Z')
}

/** Seconds from one instant to another; negative when it lies ahead. */
export function secondsSince(then: string, now: Date): number {
  return (now.getTime() - Date.parse(then)) / 1000
}

/** What tests look at in a decision: what its status says, and the Job it makes. */
import type { Static, TSchema } from '@sinclair/typebox'
import { decodePlan } from '../../crds/contract/job.ts'
import type { Condition } from '../../crds/schema.ts'
import type { Child } from '../../hooks/protocol.ts'

interface Decision {
  status: { phase?: string; conditions?: Condition[] }
  children: Child[]
}

/** Its phase, and the reason and message of its condition. */
export function statusSummary({ status }: Pick<Decision, 'status'>): (string | undefined)[] {
  const [condition] = status.conditions ?? []
  return [status.phase, condition?.reason, condition?.message]
}

/** The Job that is created; one that is only kept has no spec. */
export function createdJob({ children }: Pick<Decision, 'children'>): Child | undefined {
  return children.find((child) => child.kind === 'Job' && child['spec'] !== undefined)
}

interface Container {
  args: string[]
  resources: object
  env: { name: string; value: string }[]
}

interface PodSpec {
  volumes: { name: string; secret?: { secretName: string; optional?: boolean } }[]
  containers: Container[]
}

export function jobPod(decision: Pick<Decision, 'children'>) {
  const job = createdJob(decision) as unknown as { spec: { template: { spec: PodSpec } } }
  const { volumes, containers } = job.spec.template.spec
  const [container = { args: [], resources: {}, env: [] }] = containers
  return { volumes, container }
}

export function jobPlan<T extends TSchema>(
  decision: Pick<Decision, 'children'>,
  schema: T,
): Static<T> {
  const { env } = jobPod(decision).container
  return decodePlan(schema, env.find(({ name }) => name === 'PLAN')?.value ?? '')
}

/** A scenario: one sentence about the operator, shown in a world. It runs unchanged in both worlds. */
import type { Test } from 'tap'
import type { VecCluster } from '../../crds/cluster.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Condition } from '../../crds/schema.ts'
import type { PassingState, Reference, World } from '../world/world.ts'

export interface Scenario {
  title: string
  /** It stops or replaces a part that all others use, and bears that others do: they run together. */
  disturbs?: boolean
  /** As above, and it tolerates no disturbance itself, so it runs alone. */
  alone?: boolean
  /** It waits for the clock and hardly works: it begins before the others, whatever runs. */
  waits?: boolean
  /** The one world that can show it. */
  only?: World['kind']
  run: (world: World, t: Test, stage: Stage) => Promise<void>
}

/** What scenarios that disturb agree on; to all others it means nothing. */
export interface Stage {
  /** Resolves once all that have begun are calm: what follows takes long. */
  quiet(): Promise<void>
  /** From here on the scenario disturbs no other, though it continues. */
  calm(): void
}

export function clusterReference(namespace: string, name: string): Reference {
  return { apiVersion: API_VERSION, kind: 'VecCluster', namespace, name }
}

/** A VecCluster as a user writes it. */
export function clusterManifest(namespace: string, name: string, spec: object): object {
  return { apiVersion: API_VERSION, kind: 'VecCluster', metadata: { namespace, name }, spec }
}

/** Small enough for a laptop: what every scenario's pods ask for. */
export const SMALL = {
  persistence: { size: '64Mi' },
  resources: { requests: { cpu: '10m', memory: '32Mi' } },
}

/** A restarted service upgrades every cluster once, a few at a time: a new one may wait for all of them. */
export const UPGRADES_SECONDS = 900

/** Makes the resource. */
export async function makeCluster(
  world: World,
  namespace: string,
  name: string,
  spec: object = {},
): Promise<Reference> {
  const whole = { version: world.versions.newer, ...SMALL, ...spec }
  await world.apply(clusterManifest(namespace, name, whole))
  return clusterReference(namespace, name)
}

/** Makes the resource and waits until it is Running. */
export async function running(
  world: World,
  namespace: string,
  name: string,
  spec: object = {},
): Promise<Reference> {
  const reference = await makeCluster(world, namespace, name, spec)
  await world.waitFor(reference, 'Running', (object) => phaseOf(object) === 'Running', 900)
  return reference
}

export async function untilGone(world: World, reference: Reference, seconds?: number) {
  await world.waitFor(reference, 'gone', (object) => object === undefined, seconds)
}

/** Of the spec of a StatefulSet. */
export function replicasOf(set: AnyObject | undefined): number | undefined {
  return (set as { spec?: { replicas?: number } } | undefined)?.spec?.replicas
}

export function statusOf(object: AnyObject | undefined): NonNullable<VecCluster['status']> {
  return (object as VecCluster | undefined)?.status ?? {}
}

export function phaseOf(object: AnyObject | undefined): string | undefined {
  return statusOf(object).phase
}

/** A phase that may last for a moment only. */
export function passing(phase: string, seconds = 180): PassingState {
  return { what: phase, isReached: (object) => phaseOf(object) === phase, seconds }
}

export function conditionIn(object: AnyObject | undefined, type: string): Condition | undefined {
  return statusOf(object).conditions?.find((condition) => condition.type === type)
}

/** Reason of the condition that reports why the release does not match the spec. */
export function reasonIn(object: AnyObject | undefined): string | undefined {
  const applied = conditionIn(object, 'Applied')
  return applied?.status === 'False' ? applied.reason : undefined
}

/** Waits until the resource reports why it is blocked. */
export async function untilReason(
  world: World,
  reference: Reference,
  reason: string,
  seconds = 120,
): Promise<AnyObject | undefined> {
  return world.waitFor(reference, reason, (object) => reasonIn(object) === reason, seconds)
}

/** Waits until the newest helm run has applied this generation and is rolled out. */
export async function untilApplied(world: World, reference: Reference, seconds = 600) {
  return world.waitFor(
    reference,
    'applied and Running',
    (object) => {
      const { phase, appliedGeneration } = statusOf(object)
      const applied = conditionIn(object, 'Applied')
      return (
        phase === 'Running' &&
        appliedGeneration === object?.metadata.generation &&
        applied?.status === 'True'
      )
    },
    seconds,
  )
}

/**
 * Does what a helm run is due for, and waits until that run has been applied and rolled out. Its number is not
 * known: an operator that was restarted may have applied the release once more.
 */
export async function untilNextRun(
  world: World,
  reference: Reference,
  action: () => Promise<unknown>,
): Promise<AnyObject | undefined> {
  const { appliedRun: before = 0 } = statusOf(await world.get(reference))
  await action()
  return world.waitFor(
    reference,
    `a run after ${before}`,
    (object) => (statusOf(object).appliedRun ?? 0) > before && phaseOf(object) === 'Running',
    UPGRADES_SECONDS,
  )
}

/** Names of the Jobs in a namespace, in the order of their runs. */
export async function jobsIn(world: World, namespace: string): Promise<string[]> {
  const jobs = await world.list('batch/v1', 'Job', namespace)
  const run = (name: string) => Number(name.split('-').at(-1))
  return jobs.map(({ metadata }) => metadata.name).sort((one, other) => run(one) - run(other))
}

/** An Event of Kubernetes, as far as scenarios read it. */
export interface SeenEvent extends AnyObject {
  involvedObject: { kind: string; namespace: string; name: string; uid: string }
  reason: string
  message: string
  count?: number
  source?: { component?: string }
  firstTimestamp: string
}

/** Events of all components in a namespace. */
export async function eventsIn(world: World, namespace: string): Promise<SeenEvent[]> {
  return (await world.list('v1', 'Event', namespace)) as SeenEvent[]
}

/** Messages of the Events about a resource, by reason. */
export async function eventsAbout(
  world: World,
  { namespace, name }: Reference,
): Promise<Record<string, string>> {
  const events = await eventsIn(world, namespace)
  return Object.fromEntries(
    events
      .filter(({ involvedObject }) => involvedObject.name === name)
      .map(({ reason, message }) => [reason, message]),
  )
}

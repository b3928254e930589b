/** A step of the tour: the command a user would type, what it does to the world, and the expected result. */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { Reference, World, WorldBucket } from '../world.ts'

/** Where a tour takes place. */
export interface DemoContext {
  world: World
  namespace: string
  /** Objects of docs/samples, by file name without its ending. */
  samples: ReadonlyMap<string, AnyObject>
  /** Absent where the world has no store. */
  bucket?: WorldBucket
}

export interface Step {
  says: string
  /** Arguments of kubectl. */
  types: string
  act: (context: DemoContext) => Promise<unknown>
  /** File of the sample whose resource it is about. */
  sample: string
  /** Phases it then shows, in this order; `gone` is the end of it. */
  phases: string[]
  /** What must hold in addition, compared with the resource as it was before this step. */
  shows?: (object: AnyObject | undefined, before: AnyObject | undefined) => boolean
  /** Checks something else before the tour continues and describes it; throws if the check fails. */
  proves?: (context: DemoContext) => Promise<string>
  /** Left out where the world has no store for it. */
  needsBucket?: true
  seconds: number
}

export const GONE = 'gone'

/** Acts, then waits until the phases were seen one after the other; answers what was proved. */
export async function take(step: Step, context: DemoContext): Promise<string | undefined> {
  const ahead = [...step.phases]
  const reference = referenceOf(sampleOf(context, step.sample))
  const before = await context.world.get(reference)
  await step.act(context)
  await context.world.waitFor(
    reference,
    step.phases.join(', then '),
    (object) => {
      // Called on every state, also on one that lasts for a moment.
      if (ahead[0] !== undefined && phaseOf(object) === ahead[0]) ahead.shift()
      return ahead.length === 0 && (step.shows?.(object, before) ?? true)
    },
    step.seconds,
  )
  return step.proves?.(context)
}

/** The sample as it is applied: in the namespace of the tour. */
export function sampleOf({ samples, namespace }: DemoContext, name: string): AnyObject {
  const sample = samples.get(name)
  if (sample === undefined) throw new Error(`docs/samples has no ${name}.yaml`)
  return { ...sample, metadata: { ...sample.metadata, namespace } }
}

/** A sample with some fields of its spec as this tour needs them; undefined removes one. */
export function sampleWith(context: DemoContext, name: string, fields: object): AnyObject {
  const sample = sampleOf(context, name) as AnyObject & { spec: object }
  return { ...sample, spec: { ...sample.spec, ...fields } } as AnyObject
}

export function deleteSample(context: DemoContext, name: string): Promise<void> {
  return context.world.delete(referenceOf(sampleOf(context, name)))
}

export function referenceOf({ apiVersion, kind, metadata }: AnyObject): Reference {
  return { apiVersion, kind, namespace: metadata.namespace ?? '', name: metadata.name }
}

export function phaseOf(object: AnyObject | undefined): string | undefined {
  if (object === undefined) return GONE
  return (object as AnyObject & { status?: { phase?: string } }).status?.phase
}

/**
 * The tour of the demo, as data: what a person would type, what it does to the world, and the phases
 * that follow. A new kind joins it with its sample and its steps.
 */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/names.ts'
import type { Reference, World } from '../world.ts'

/** Where a tour takes place. */
export interface Place {
  world: World
  namespace: string
  /** Objects of docs/samples, by file name without its ending. */
  samples: ReadonlyMap<string, AnyObject>
}

export interface Step {
  says: string
  /** Arguments of kubectl. */
  types: string
  act: (place: Place) => Promise<unknown>
  /** File of the sample whose resource it is about. */
  sample: string
  /** Phases it then shows, in this order; `gone` is the end of it. */
  phases: string[]
  seconds: number
}

export const GONE = 'gone'

export const TOUR: Step[] = [
  {
    says: 'A VecCluster is made. A Job runs helm; the StatefulSet and its pods follow.',
    types: 'apply -f docs/samples/cluster.yaml',
    sample: 'cluster',
    act: (place) => place.world.apply(sampleOf(place, 'cluster')),
    phases: ['Pending', 'Running'],
    seconds: 600,
  },
  {
    says: 'Its spec.version is raised, 1.18.2 to 1.18.3. Another helm run, and pod after pod is replaced.',
    types: 'edit veccluster docs',
    sample: 'cluster',
    act: (place) =>
      place.world.patch(referenceOf(sampleOf(place, 'cluster')), {
        spec: { version: place.world.versions.newer },
      }),
    phases: ['Upgrading', 'Running'],
    seconds: 600,
  },
  {
    says: 'The VecCluster is deleted. A last Job uninstalls the release; the volumes are kept.',
    types: 'delete veccluster docs',
    sample: 'cluster',
    act: (place) => place.world.delete(referenceOf(sampleOf(place, 'cluster'))),
    phases: [GONE],
    seconds: 600,
  },
]

/** The sample as it is applied: in the namespace of the tour. */
export function sampleOf({ samples, namespace }: Place, name: string): AnyObject {
  const sample = samples.get(name)
  if (sample === undefined) throw new Error(`docs/samples has no ${name}.yaml`)
  return { ...sample, metadata: { ...sample.metadata, namespace } }
}

export function referenceOf({ apiVersion, kind, metadata }: AnyObject): Reference {
  return { apiVersion, kind, namespace: metadata.namespace ?? '', name: metadata.name }
}

export function phaseOf(object: AnyObject | undefined): string | undefined {
  if (object === undefined) return GONE
  return (object as AnyObject & { status?: { phase?: string } }).status?.phase
}

/** Acts, then waits until the phases were seen one after the other. */
export async function take(step: Step, place: Place): Promise<void> {
  const ahead = [...step.phases]
  await step.act(place)
  const reference = referenceOf(sampleOf(place, step.sample))
  await place.world.until(
    reference,
    step.phases.join(', then '),
    (object) => {
      // Called on every state, also on one that lasts for a moment.
      if (ahead[0] !== undefined && phaseOf(object) === ahead[0]) ahead.shift()
      return ahead.length === 0
    },
    step.seconds,
  )
}

/** Every kind the demo shows, and in this order. */
export const SHOWN = [
  { apiVersion: API_VERSION, kind: 'VecCluster' },
  { apiVersion: 'batch/v1', kind: 'Job' },
  { apiVersion: 'apps/v1', kind: 'StatefulSet' },
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
]

/** What a helm run does to the keys of a small cluster (keys.ts). */
import type { PlannedKeys } from '../../crds/contract/api-keys.ts'
import type { KeyWorld } from './keys.ts'

/** Parts of an overlap; time advances by one. */
export const OVERLAP_PARTS = 2

interface Stage {
  name: string
  /** False if the run ends there. */
  take: (world: KeyWorld, keys: PlannedKeys) => boolean
}

/** A helm run in its order. */
export const STAGES: Stage[] = [
  {
    name: 'the Job stores the keys',
    take(world, { published, accepted, replaces, former }) {
      const isInTemplate = accepted.every((key) => world.template.keys.includes(key))
      const isOurs = [...world.stored, ...accepted].includes(world.published)
      const isPublishing = published !== world.published && isOurs
      if (isPublishing && accepted.length === 2 && !isInTemplate) return false
      const values = new Set([...world.stored, world.published, world.desired])
      if (![published, replaces].includes(world.published)) return false
      // A former key that is in no Secret any more stays with the pods that have it.
      const isLost = (key: string) => key === former && world.template.keys.includes(key)
      const needed = [published, ...accepted].filter((key) => values.has(key) || !isLost(key))
      if (!needed.every((key) => values.has(key))) return false
      world.stored = [...new Set([...world.stored, ...needed])]
      return true
    },
  },
  {
    name: 'helm writes the Secret',
    take(world, { published }) {
      if (published === world.published) return true
      world.promised[world.published] = OVERLAP_PARTS
      world.published = published
      world.version += 1
      return true
    },
  },
  {
    name: 'helm writes the StatefulSet',
    take(world, { accepted, keepsPods, restartedAfter: restart }) {
      const { template } = world
      const keys = accepted.length === 2 ? accepted : []
      const keepsChecksum = keepsPods === true && keys.join() === template.keys.join()
      const checksum = keepsChecksum ? template.checksum : world.published
      world.template = { keys, checksum, ...(restart !== undefined && { restart }) }
      return true
    },
  },
  {
    name: 'the Job reports',
    take(world, { published, accepted, former, restartedAfter }) {
      const keys = {
        ...{ published, accepted },
        ...(former !== undefined && { former }),
        ...(restartedAfter !== undefined && { restartedAfter }),
      }
      world.reported = { hash: world.job?.hash ?? '', keys, template: world.template }
      return false
    },
  },
]

export function work(world: KeyWorld): void {
  const { job } = world
  if (job === undefined) return
  const continues = STAGES[job.at]?.take(world, job.keys) === true
  if (continues) job.at += 1
  else delete world.job
}

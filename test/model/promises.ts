/** Promises to every kind: what no step may do to a resource and its Jobs. */
import type { Job } from '../../crds/kubernetes.ts'
import { isUnfinished } from '../../hooks/request.ts'
import { ownJobs, unfinished, type SmallWorld } from './small-world.ts'

export function phaseIn({ live }: SmallWorld, key: string): string | undefined {
  return (live[key]?.status as { phase?: string } | undefined)?.phase
}

export function doubled(world: SmallWorld, parent: string): string[] {
  const names = ownJobs(world, parent).filter(isUnfinished).map(nameOf)
  return names.length > 1 ? [`two Jobs at once: ${names.join(', ')}`] : []
}

/** An unfinished Job disappears only after its deletion was requested. */
export function lost(before: SmallWorld, after: SmallWorld, parent: string): string[] {
  if (after.live[parent] === undefined) return []
  return unfinished(before)
    .filter((job) => job.metadata.deletionTimestamp === undefined && !isThere(after, job))
    .map((job) => `${nameOf(job)} is lost`)
}

/** A resource is removed only after its Job has ended, unless its whole namespace is deleted. */
export function outlived(before: SmallWorld, after: SmallWorld, parent: string): string[] {
  if (before.live[parent] === undefined || parent in after.live || after.namespaceEnds) return []
  return ownJobs(before, parent)
    .filter(isUnfinished)
    .map((job) => `${nameOf(job)} outlives its parent`)
}

/** No Job is created while the Job of another resource is unfinished. */
export function beside(before: SmallWorld, after: SmallWorld, parent: string): string[] {
  const own = ownJobs(after, parent)
  const made = own.filter((job) => !isThere(before, job))
  if (made.length === 0) return []
  const others = unfinished(after).filter((job) => !own.includes(job))
  return others.map((job) => `${made.map(nameOf).join(', ')} is created while ${nameOf(job)} runs`)
}

export function revived(
  before: SmallWorld,
  after: SmallWorld,
  { parent, final }: { parent: string; final: readonly string[] },
): string[] {
  const phase = phaseIn(before, parent) ?? ''
  if (!final.includes(phase) || after.live[parent] === undefined) return []
  const made = ownJobs(after, parent).filter(
    ({ metadata }) => !(`Job/${metadata.name}` in before.live),
  )
  const now = phaseIn(after, parent) ?? ''
  // The finalize hook may see a status that is older than the last one, and returns it.
  const isGoing = after.live[parent].metadata.deletionTimestamp !== undefined
  return [
    ...made.map((job) => `${nameOf(job)} is created after the end`),
    ...(now === phase || isGoing ? [] : [`was ${phase}, is ${now}`]),
  ]
}

function isThere({ live }: SmallWorld, { metadata }: Job): boolean {
  return live[`Job/${metadata.name}`]?.metadata.uid === metadata.uid
}

function nameOf({ metadata }: Job): string {
  return metadata.name
}

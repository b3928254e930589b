/** Steps that are possible in a small world. */
import type { Step } from './explore.ts'
import {
  beginEnd,
  create,
  edit,
  jobs,
  keyOf,
  remove,
  requestDeletion,
  type Small,
  type SmallWorld,
} from './small-world.ts'

/** The steps as strikes, if any of this kind are left in the world; each uses up one of them. */
export function striking(
  { left }: SmallWorld,
  kind: string,
  ...steps: Step<SmallWorld>[]
): Step<SmallWorld>[] {
  if ((left[kind] ?? 0) === 0) return []
  return steps.map(({ name, take }) => ({
    name,
    isStrike: true,
    async take(world) {
      world.left[kind] = (world.left[kind] ?? 0) - 1
      await take(world)
    },
  }))
}

/** The creation of an object that does not exist. */
export function comes({ live }: SmallWorld, object: object): Step<SmallWorld>[] {
  const { kind, metadata } = object as Small
  if (`${kind}/${metadata.name}` in live) return []
  return [
    {
      name: `${kind} ${metadata.name} is created`,
      take: async (to) => void create(to, object as Small),
    },
  ]
}

/** The deletion of an existing object, as a strike. */
export function goes(world: SmallWorld, key: string): Step<SmallWorld>[] {
  if (!(key in world.live)) return []
  return striking(world, 'losses', {
    name: `${key} is deleted`,
    take: async (to) => remove(to, key),
  })
}

/** A change of the status, the annotations or the spec; a change of the spec increments the generation. */
export function edited(
  name: string,
  key: string,
  change: { spec?: object; status?: object; annotations?: Record<string, string> },
): Step<SmallWorld> {
  const { spec, status, annotations } = change
  return {
    name,
    take: async (to) =>
      edit(to, key, (found) => ({
        ...found,
        metadata: {
          ...found.metadata,
          ...(spec && { generation: Number(found.metadata.generation) + 1 }),
          annotations: { ...found.metadata.annotations, ...annotations },
        },
        spec: { ...(found.spec as object), ...spec },
        ...(status && { status: { ...(found.status as object), ...status } }),
      })),
  }
}

/** The namespace of a resource is deleted: no object is created in it any more, and all objects are deleted. */
export function namespaceEnds(world: SmallWorld, parent: string): Step<SmallWorld>[] {
  if (!world.namespaceEnds) {
    const take = async (to: SmallWorld) => {
      to.namespaceEnds = true
      requestDeletion(to, parent)
      for (const { metadata } of jobs(to)) beginEnd(to, `Job/${metadata.name}`)
    }
    return striking(world, 'ends', { name: 'the namespace ends', take })
  }
  const rest = Object.values(world.live)
    .filter(({ kind }) => kind !== 'Job' && !kind.startsWith('Vec'))
    .map(keyOf)
  if (rest.length === 0) return []
  const take = async (to: SmallWorld) => rest.forEach((key) => remove(to, key))
  return [{ name: 'the other objects are deleted', take }]
}

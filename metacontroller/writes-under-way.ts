/** Which writes this service makes to a cluster's collections at this moment. */
import type { CollectionEngine } from '../hooks/collection/ports.ts'

interface Cluster {
  namespace: string
  name: string
}

export class WritesUnderWay {
  readonly #known = new Map<string, Set<{ what: string }>>()

  /** Each as a restore that waits for it names it. */
  at({ namespace, name }: Cluster): string[] {
    return [...(this.#known.get(`${namespace}/${name}`) ?? [])].map(({ what }) => what)
  }

  async during<T>({ namespace, name }: Cluster, what: string, call: () => Promise<T>): Promise<T> {
    const key = `${namespace}/${name}`
    const calls = this.#known.get(key) ?? new Set()
    const own = { what }
    this.#known.set(key, calls.add(own))
    try {
      return await call()
    } finally {
      calls.delete(own)
      if (calls.size === 0) this.#known.delete(key)
    }
  }
}

/** The same engine; each of its writes is known as long as it is under way. */
export function watched(
  engine: CollectionEngine,
  cluster: Cluster,
  writes: WritesUnderWay,
): CollectionEngine {
  const write = (collection: string, call: () => Promise<void>) =>
    writes.during(cluster, `a write to collection ${collection}`, call)
  return {
    readyz: (signal) => engine.readyz(signal),
    version: (signal) => engine.version(signal),
    aliases: (signal) => engine.aliases(signal),
    collectionInfo: (name, signal) => engine.collectionInfo(name, signal),
    collectionCluster: (name, signal) => engine.collectionCluster(name, signal),
    createCollection: (name, body, signal) =>
      write(name, () => engine.createCollection(name, body, signal)),
    patchCollection: (name, body, signal) =>
      write(name, () => engine.patchCollection(name, body, signal)),
    deleteCollection: (name, signal) => write(name, () => engine.deleteCollection(name, signal)),
    putIndex: (name, index, signal) => write(name, () => engine.putIndex(name, index, signal)),
    deleteIndex: (name, field, signal) =>
      write(name, () => engine.deleteIndex(name, field, signal)),
    updateAliases: (actions, signal) =>
      writes.during(cluster, 'a change of aliases', () => engine.updateAliases(actions, signal)),
  }
}

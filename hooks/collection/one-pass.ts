/** What the steps of one pass share: the collection, the engine, and the permission to write. */
import type { VecCollection } from '../../crds/collection.ts'
import { Rejected } from '../../crds/errors.ts'
import type { Alias, CollectionInfo } from '../../crds/rules/answers.ts'
import { clusterOf, collectionNameOf, ownerOf, type Claim } from './claims.ts'
import type { ClusterName, CollectionEngine, CollectionPorts } from './ports.ts'
import type { SharedEngine } from './shared.ts'
import { writesTo, type Writes } from './writes.ts'

export interface Pass {
  collection: VecCollection
  /** Name inside the engine. */
  name: string
  engine: CollectionEngine
  shared: SharedEngine
  writes: Writes
  signal: AbortSignal
  /** All VecCollections that this cluster allows; listed once per pass. */
  others: () => Promise<Claim[]>
  /** Throws when the name belongs to an older resource. */
  refuseOwned: () => Promise<void>
  /** Throws when the name is an alias: every call by it would act on another collection. */
  refuseAlias: (aliases: Alias[]) => void
  wait: (milliseconds: number) => Promise<void>
}

export interface Parts {
  collection: VecCollection
  shared: SharedEngine
  ports: CollectionPorts
  /** Whether the cluster allows a namespace: what it refuses claims neither a name nor an alias. */
  isAllowed: (namespace: string) => boolean
}

export function passOf({ collection, shared, ports, isAllowed }: Parts, signal: AbortSignal): Pass {
  const name = collectionNameOf(collection)
  const cluster = clusterOf(collection)
  const others = once(async () => {
    const all = await ports.collectionsOf(cluster, collection)
    return all.filter(({ metadata }) => isAllowed(metadata.namespace))
  })
  const refuseAlias = (aliases: Alias[]) => {
    const target = aliases.find(({ alias_name }) => alias_name === name)?.collection_name
    if (target !== undefined) throw new Rejected(`${name} is an alias of collection ${target}`)
  }
  const refuseOwned = async () => {
    const owner = ownerOf(collection, await others())
    if (owner !== undefined) throw new Rejected(`collection ${name} belongs to ${owner}`)
  }
  // What was remembered is good enough to look at, not to write on.
  const permitted = once(async () => {
    shared.forgetAliases()
    refuseAlias(await shared.aliases(signal))
    await refuseOwned()
  })
  const { engine } = shared
  const writeHolder = (of: ClusterName) => ports.writeHolder(of, isAllowed)
  return {
    collection,
    name,
    engine,
    shared,
    signal,
    others,
    refuseOwned,
    refuseAlias,
    writes: writesTo(name, { engine, cluster, signal, writeHolder, permitted }),
    wait: (milliseconds) => ports.wait(milliseconds, signal),
  }
}

/** Pauses between looks, in milliseconds: five seconds in all (facts 0: a read after a write). */
const PAUSES = [10, 20, 50, 100, 200, 400, 800, 1500, 2000]

/** Reads the collection until it is as it should be, or five seconds have passed; the last read. */
export async function appears(
  { engine, name, signal, wait }: Pick<Pass, 'engine' | 'name' | 'signal' | 'wait'>,
  isDone: (info: CollectionInfo | undefined) => boolean,
): Promise<CollectionInfo | undefined> {
  let info = await engine.collectionInfo(name, signal)
  for (const pause of PAUSES) {
    if (isDone(info)) return info
    await wait(pause)
    info = await engine.collectionInfo(name, signal)
  }
  return info
}

function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined
  return () => (answer ??= ask())
}

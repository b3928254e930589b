/** VecCollections as the API server stores them, settled, and the sync requests about them. */
import type { VecCollection } from '../../crds/collection.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { HookRequest } from '../../hooks/protocol.ts'
import { cluster } from '../builders.ts'
import { SPEC } from './engine.ts'
import { CREATED, stored, uidOf } from './objects.ts'

const CLUSTERS = 'VecCluster.vec-operator.dev/v1alpha1'

/** The n-th request as text, of that generation; the status is about the first. */
export function requests(generation: number): (n: number) => Buffer {
  const template = JSON.stringify(requestOf(readyCollection(0, generation)))
  const [name, uid] = identityOf(0)
  return (n) => {
    const [mine, id] = identityOf(n)
    return Buffer.from(template.replaceAll(name, mine).replaceAll(uid, id))
  }
}

/** Requests about so many collections in turn, and each time round with specs that have changed. */
export function changing(many: number): () => Buffer {
  let text = requests(1)
  let next = 0
  return () => {
    const n = next % many
    if (n === 0) text = requests(2 + next / many)
    next += 1
    return text(n)
  }
}

export function requestOf(parent: VecCollection): HookRequest<VecCollection> {
  const running = stored(cluster({ name: 'a' }), { object: 'kubectl' })
  return { parent, children: {}, related: { [CLUSTERS]: { 'ns/a': running } }, finalizing: false }
}

/** Of one length, and none a part of another. */
function identityOf(n: number): [name: string, uid: string] {
  const name = `docs-${String(n).padStart(7, '0')}`
  return [name, uidOf('VecCollection', 'ns', name)]
}

export function bareCollection(n: number): VecCollection {
  const [name, uid] = identityOf(n)
  return {
    apiVersion: API_VERSION,
    kind: 'VecCollection',
    metadata: { name, namespace: 'ns', uid, generation: 1, creationTimestamp: CREATED },
    spec: SPEC,
  }
}

function readyCollection(n: number, generation: number): VecCollection {
  const bare = bareCollection(n)
  const since = { lastTransitionTime: CREATED, observedGeneration: 1 }
  const status: VecCollection['status'] = {
    ...{ phase: 'Ready', collectionName: bare.metadata.name, health: 'green' },
    ...{ pointsCount: 0, indexedVectorsCount: 0, segmentsCount: 6 },
    payloadIndexes: SPEC.payloadIndexes?.map(({ field }) => field) ?? [],
    aliases: [],
    conditions: [
      {
        ...{ type: 'Ready', status: 'True', reason: 'CollectionReady', ...since },
        message: 'collection, indexes and aliases match spec',
      },
      {
        ...{ type: 'Replicated', status: 'True', reason: 'AllReplicasActive', ...since },
        message: '1 of 1 replicas are Active',
      },
    ],
    observedGeneration: generation,
  }
  const metadata = { ...bare.metadata, generation }
  return stored(
    { ...bare, metadata, status },
    { object: 'kubectl-client-side-apply', status: 'metacontroller' },
  ) as VecCollection
}

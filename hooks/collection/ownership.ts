/** Conflicts between VecCollections of a cluster: who owns a collection name, and which aliases to change. */
import type { VecCollection } from '../../crds/collection.ts'
import type { Alias, AliasAction } from '../../crds/engine/collections.ts'
import type { NamespacedName } from '../../crds/schema.ts'

/** The fields of a VecCollection that decide ownership: of thousands of resources only these stay in memory. */
export interface Claim {
  metadata: Pick<
    VecCollection['metadata'],
    'namespace' | 'name' | 'uid' | 'generation' | 'creationTimestamp'
  >
  spec: Pick<VecCollection['spec'], 'clusterRef' | 'collectionName' | 'aliases'>
  status?: { health?: NonNullable<VecCollection['status']>['health'] }
}

/** Copies only the fields of a claim. */
export function toClaim({ metadata, spec, status }: VecCollection): Claim {
  const { namespace, name, uid, generation, creationTimestamp } = metadata
  const { clusterRef, collectionName, aliases } = spec
  return {
    metadata: { namespace, name, uid, generation, creationTimestamp },
    spec: {
      clusterRef,
      ...(collectionName !== undefined && { collectionName }),
      ...(aliases !== undefined && { aliases }),
    },
    ...(status?.health !== undefined && { status: { health: status.health } }),
  }
}

/** Name of the collection inside the engine. */
export function collectionNameOf({ metadata, spec }: Claim): string {
  return spec.collectionName ?? metadata.name
}

/** The resource that claimed the name first, if it is not this one. */
export function findOwner(collection: Claim, others: Claim[]): string | undefined {
  const name = collectionNameOf(collection)
  const owner = otherClaims(collection, others).find(
    (b) => collectionNameOf(b) === name && claimedFirst(b, collection),
  )
  return owner && formatRef(owner)
}

/** The oldest other resource that declares the alias. */
export function conflictingClaim(
  collection: Claim,
  others: Claim[],
  alias: string,
): AliasClaim | undefined {
  const claim = otherClaims(collection, others).find(({ spec }) => spec.aliases?.includes(alias))
  return claim && { name: formatRef(claim), isOlder: isOlder(claim, collection) }
}

/** Namespace and name of the VecCluster of a collection. */
export function clusterNameOf({ metadata, spec }: Claim): NamespacedName {
  return { namespace: spec.clusterRef.namespace ?? metadata.namespace, name: spec.clusterRef.name }
}

function otherClaims(collection: Claim, others: Claim[]): Claim[] {
  return others
    .filter((b) => b.metadata.uid !== collection.metadata.uid)
    .toSorted((a, b) => (isOlder(a, b) ? -1 : 1))
}

/** Of two resources created in the same second, the one that has adopted the name wins, else the lower uid. */
function claimedFirst(a: Claim, b: Claim): boolean {
  const isTie = createdAt(a) === createdAt(b)
  if (isTie && hasAdopted(a) !== hasAdopted(b)) return hasAdopted(a)
  return isOlder(a, b)
}

/** A resource that was denied the name never reads the collection: only an owner's status has a health. */
function hasAdopted({ status }: Claim): boolean {
  return status?.health !== undefined
}

function createdAt({ metadata }: Claim): number {
  return Date.parse(metadata.creationTimestamp)
}

function isOlder(a: Claim, b: Claim): boolean {
  const order = createdAt(a) - createdAt(b)
  return order < 0 || (order === 0 && a.metadata.uid < b.metadata.uid)
}

function formatRef({ metadata }: Claim): string {
  return `VecCollection ${metadata.namespace}/${metadata.name}`
}

export interface AliasPlan {
  /** The actions of one call. */
  actions: AliasAction[]
  /** Why aliases are not changed. */
  conflicts: string[]
  /** The value of `status.aliases` after the call. */
  managed: string[]
}

interface AliasInput {
  collection: string
  desired: readonly string[]
  /** Aliases that an earlier reconcile pointed at this collection. */
  managed: readonly string[]
}

/** Another VecCollection of the cluster that claims an alias. */
export interface AliasClaim {
  name: string
  isOlder: boolean
}

/** Which aliases to point at this collection, and which to release. */
export function aliasPlan(
  { collection, desired, managed }: AliasInput,
  live: readonly Alias[],
  findClaim: (alias: string) => AliasClaim | undefined,
): AliasPlan {
  const targets = new Map(live.map((alias) => [alias.alias_name, alias.collection_name]))
  const plan: AliasPlan = { actions: [], conflicts: [], managed: [] }
  for (const alias of desired) {
    const target = targets.get(alias)
    // An alias that points here already belongs to this resource, regardless of other claims.
    const claim = target === collection ? undefined : findClaim(alias)
    if (claim !== undefined && (target !== undefined || claim.isOlder)) {
      const pointsAt = target === undefined ? '' : ` and points at collection ${target}`
      plan.conflicts.push(`alias ${alias} is claimed by ${claim.name}${pointsAt}`)
      continue
    }
    plan.managed.push(alias)
    if (target === collection) continue
    plan.actions.push({ create_alias: { collection_name: collection, alias_name: alias } })
  }
  for (const alias of managed) {
    if (desired.includes(alias) || targets.get(alias) !== collection) continue
    // Another claimant takes it over in one step; deleting it first would break its readers.
    if (findClaim(alias) === undefined) plan.actions.push({ delete_alias: { alias_name: alias } })
  }
  return plan
}

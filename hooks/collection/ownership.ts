/** Which other VecCollections of the cluster claim the same name, or the same alias. */
import type { VecCollection } from '../../crds/collection.ts'
import type { Alias, AliasAction } from '../../crds/engine/collections.ts'

/** What of a VecCollection decides whose a name or an alias is. Of thousands no more is kept in memory. */
export interface Claim {
  metadata: Pick<
    VecCollection['metadata'],
    'namespace' | 'name' | 'uid' | 'generation' | 'creationTimestamp'
  >
  spec: Pick<VecCollection['spec'], 'clusterRef' | 'collectionName' | 'aliases'>
  status?: { health?: NonNullable<VecCollection['status']>['health'] }
}

/** A copy of that part alone. */
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

/** The resource that had the name first, if that is another one. */
export function findOwner(collection: Claim, others: Claim[]): string | undefined {
  const name = collectionNameOf(collection)
  const owner = otherClaims(collection, others).find(
    (b) => collectionNameOf(b) === name && claimedFirst(b, collection),
  )
  return owner && formatRef(owner)
}

/** The resource besides this one that declares the alias; of several the oldest. */
export function conflictingClaim(
  collection: Claim,
  others: Claim[],
  alias: string,
): AliasClaim | undefined {
  const claim = otherClaims(collection, others).find(({ spec }) => spec.aliases?.includes(alias))
  return claim && { name: formatRef(claim), isOlder: isOlder(claim, collection) }
}

/** Namespace and name of the VecCluster a collection is in. */
export function clusterNameOf({ metadata, spec }: Claim): { namespace: string; name: string } {
  return { namespace: spec.clusterRef.namespace ?? metadata.namespace, name: spec.clusterRef.name }
}

function otherClaims(collection: Claim, others: Claim[]): Claim[] {
  return others
    .filter((b) => b.metadata.uid !== collection.metadata.uid)
    .toSorted((a, b) => (isOlder(a, b) ? -1 : 1))
}

/** Of two made in one second, the one that adopted it already; the uid decides only before that. */
function claimedFirst(a: Claim, b: Claim): boolean {
  const isTie = createdAt(a) === createdAt(b)
  if (isTie && hasAdopted(a) !== hasAdopted(b)) return hasAdopted(a)
  return isOlder(a, b)
}

/** Who was refused the name never sees the collection: only an owner's status tells of its health. */
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
  /** For one call. */
  actions: AliasAction[]
  /** Why an alias stays where it is. */
  conflicts: string[]
  /** What stands in `status.aliases` once the call is made. */
  managed: string[]
}

interface AliasInput {
  collection: string
  desired: readonly string[]
  /** Pointed here by an earlier pass. */
  managed: readonly string[]
}

/** Another VecCollection of the cluster that claims an alias. */
export interface AliasClaim {
  name: string
  isOlder: boolean
}

export function aliasPlan(
  { collection, desired, managed }: AliasInput,
  live: readonly Alias[],
  findClaim: (alias: string) => AliasClaim | undefined,
): AliasPlan {
  const targets = new Map(live.map((alias) => [alias.alias_name, alias.collection_name]))
  const plan: AliasPlan = { actions: [], conflicts: [], managed: [] }
  for (const alias of desired) {
    const target = targets.get(alias)
    // One that points here is ours already, whoever else would like to have it.
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
    // Whoever claims it will take it in one step; deleting it first would leave its readers without.
    if (findClaim(alias) === undefined) plan.actions.push({ delete_alias: { alias_name: alias } })
  }
  return plan
}

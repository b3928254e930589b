/**
 * Selects the collections to restore, and rejects a selection that the manifest or the names at the
 * target do not allow, before anything is restored.
 */
import { Rejected } from '../../crds/contract/errors.ts'
import { isShardManifest } from '../../crds/contract/manifest.ts'
import type { RestoreSpec } from '../../crds/restore.ts'
import { formatNames } from '../../crds/units.ts'
import type { RestoreItem, SourceManifest } from '../manifest-check.ts'

const MAX_LISTED = 10

/** The collections that the spec asks for, under their names at the target. */
export function selectItems(
  manifest: SourceManifest,
  spec: Pick<RestoreSpec, 'collections' | 'collectionMapping'>,
): RestoreItem[] {
  const byName = new Map(allItems(manifest).map((item) => [item.name, item]))
  const names = [...new Set(spec.collections ?? byName.keys())]
  const missing = names.filter((name) => !byName.has(name))
  if (missing.length > 0)
    throw new Rejected(`Collections not present in backup: ${formatNames(missing, MAX_LISTED)}`)
  const mapping = new Map(Object.entries(spec.collectionMapping))
  // Without this check, a misspelt name in the mapping would restore the collection over the
  // collection that the mapping is meant to protect.
  const unused = [...mapping.keys()].filter((name) => !names.includes(name))
  if (unused.length > 0) {
    throw new Rejected(
      `collectionMapping names collections that are not restored: ${formatNames(unused, MAX_LISTED)}`,
    )
  }
  const items = names.flatMap((name) => {
    const item = byName.get(name)
    return item === undefined ? [] : [{ ...item, name: mapping.get(name) ?? name }]
  })
  rejectNameCollisions(items)
  return items
}

/** All collections, each under its own name. */
function allItems(manifest: SourceManifest): RestoreItem[] {
  if (!isShardManifest(manifest)) {
    return manifest.collections.map((source) => ({ method: 'Node', source, name: source.name }))
  }
  const { nodeCount, collections } = manifest
  return collections.map((source) => ({ method: 'Shard', source, name: source.name, nodeCount }))
}

function rejectNameCollisions(items: RestoreItem[]): void {
  for (const [name, sources] of Map.groupBy(items, (item) => item.name)) {
    if (sources.length < 2) continue
    const names = sources.map(({ source }) => source.name)
    throw new Rejected(`collectionMapping: ${names.join(' and ')} would both become ${name}`)
  }
}

/**
 * What is restored: the manifest, and the choice the spec makes of it. A manifest comes from a bucket,
 * so nothing in it is trusted that would lead out of its own folder.
 */
import { Rejected } from '../../crds/errors.ts'
import { manifestKey } from '../../crds/layout.ts'
import { MANIFEST_VERSION, isByShard } from '../../crds/manifest.ts'
import { checkedManifest, checkedPlainManifest, isPlain } from '../../crds/rules/manifest.ts'
import type { RestorePlan } from '../../crds/restore-command.ts'
import type { RestoreSpec } from '../../crds/restore.ts'
import { humanSize } from '../../crds/size.ts'
import type { Bucket } from '../clients/s3.ts'
import { portrayed } from './portrayed.ts'
import type { Source, SourceSnapshot, Wanted } from './wanted.ts'

/** The Job has 512 MiB; a thousand collections of a thousand shards need less than this. */
const MAX_MANIFEST_BYTES = 64 * 1024 * 1024
const SHOWN = 10

/** Folder of the manifest, as keys begin. */
export function folderOf({ source }: Pick<RestorePlan, 'source'>): string {
  const parts = source.path.split('/').filter((part) => part !== '')
  return parts.length === 0 ? '' : `${parts.join('/')}/`
}

interface Reading {
  bucket: Bucket
  plan: RestorePlan
  /** What the spec asks for: of another program's backup, only these are looked into. */
  collections: string[] | undefined
  signal: AbortSignal
}

export async function readManifest(reading: Reading): Promise<Source> {
  const { bucket, plan, signal } = reading
  const folder = folderOf(plan)
  const key = manifestKey(folder)
  const address = `s3://${bucket.name}/${key}`
  const size = await bucket.size(key, signal)
  if (size === undefined) throw new Rejected(`there is no ${address}: the backup was not finished`)
  if (size > MAX_MANIFEST_BYTES) {
    throw new Rejected(
      `${address} has ${humanSize(size)}, more than ${humanSize(MAX_MANIFEST_BYTES)}`,
    )
  }
  const value = await bucket.getJson(key, signal)
  if (isPlain(value)) return readPlain(value, reading)
  const manifest = checkedManifest(value)
  if (plan.backup !== undefined && manifest.uid !== plan.backup.uid) {
    throw new Rejected(`${address} is that of another backup: its uid is ${manifest.uid}`)
  }
  checkSource(manifest, folder, plan)
  return manifest
}

/** What it does not say is read from its snapshots. */
async function readPlain(
  value: unknown,
  { bucket, plan, collections: asked, signal }: Reading,
): Promise<Source> {
  const { collections, ...manifest } = checkedPlainManifest(value)
  if (plan.backup !== undefined) {
    throw new Rejected(
      `manifest.json has no manifestVersion: it is not that of VecBackup ${plan.backup.name}, but one that another program wrote. Restore it with spec.source`,
    )
  }
  checkSource(
    { manifestVersion: MANIFEST_VERSION.Node, ...manifest, collections },
    folderOf(plan),
    plan,
  )
  const known: Source = { manifestVersion: MANIFEST_VERSION.Node, ...manifest, collections: [] }
  for (const collection of collections) {
    if (asked !== undefined && !asked.includes(collection.name)) continue
    known.collections.push(await portrayed(collection, bucket, signal))
  }
  return known
}

type Named = Pick<Source, 'manifestVersion' | 'nodeCount'> & {
  collections: readonly { name: string; snapshots: readonly { key: string }[] }[]
}

function checkSource(manifest: Named, folder: string, { cluster }: RestorePlan): void {
  refuseStrayKeys(manifest, folder)
  refuseTwins(manifest)
  refuseNodes(manifest, cluster.replicas)
}

/** The shards of a node are one file, which only a node can take as a whole. */
function refuseNodes(manifest: Named, replicas: number): void {
  if (isByShard(manifest) || manifest.nodeCount === replicas) return
  throw new Rejected(
    `Backup was taken from ${manifest.nodeCount} nodes but target cluster has ${replicas}; a backup with spec.method Shard is restored into any number of nodes`,
  )
}

/** What the manifest of another program does not let a restore check. */
export function uncheckedIn({ uid, collections }: Source): string[] {
  if (uid !== undefined) return []
  const snapshots = collections.flatMap((one): readonly SourceSnapshot[] => one.snapshots)
  const bare = snapshots.filter(({ sha256 }) => sha256 === undefined)
  return [
    'manifest.json is of another program: it has no engine version, aliases and counts of points to compare',
    ...(bare.length > 0
      ? [`${bare.length} snapshots have no checksum: only their sizes were compared`]
      : []),
  ]
}

/** The collections the spec asks for, each under the name it gets. */
export function chosen(
  manifest: Source,
  spec: Pick<RestoreSpec, 'collections' | 'collectionMapping'>,
): Wanted[] {
  const byName = new Map(allOf(manifest).map((one) => [one.name, one]))
  const names = [...new Set(spec.collections ?? byName.keys())]
  const missing = names.filter((name) => !byName.has(name))
  if (missing.length > 0) throw new Rejected(`Collections not present in backup: ${some(missing)}`)
  const mapping = new Map(Object.entries(spec.collectionMapping))
  // A name that was misspelt would be restored over the collection it was to be kept apart from.
  const idle = [...mapping.keys()].filter((name) => !names.includes(name))
  if (idle.length > 0) {
    throw new Rejected(`collectionMapping names collections that are not restored: ${some(idle)}`)
  }
  const wanted = names.flatMap((name) => {
    const one = byName.get(name)
    return one === undefined ? [] : [{ ...one, name: mapping.get(name) ?? name }]
  })
  refuseClashes(wanted)
  return wanted
}

/** Each under its own name. */
function allOf(manifest: Source): Wanted[] {
  if (!isByShard(manifest)) {
    return manifest.collections.map((source) => ({ method: 'Node', source, name: source.name }))
  }
  const { nodeCount, collections } = manifest
  return collections.map((source) => ({ method: 'Shard', source, name: source.name, nodeCount }))
}

function refuseClashes(wanted: Wanted[]): void {
  for (const [name, sources] of Map.groupBy(wanted, (one) => one.name)) {
    if (sources.length < 2) continue
    const names = sources.map(({ source }) => source.name)
    throw new Rejected(`collectionMapping: ${names.join(' and ')} would both become ${name}`)
  }
}

function refuseTwins({ collections }: Named): void {
  const seen = new Set<string>()
  for (const { name } of collections) {
    if (seen.has(name)) throw new Rejected(`manifest.json: collection ${name} is in it twice`)
    seen.add(name)
  }
}

/** The credentials may read more of the bucket than this backup. */
function refuseStrayKeys({ collections }: Named, folder: string): void {
  for (const { snapshots } of collections) {
    for (const { key } of snapshots) {
      const steps = key.split('/')
      if (key.startsWith(folder) && !steps.includes('..') && !steps.includes('.')) continue
      throw new Rejected(`manifest.json: key ${key} is not in the folder of this backup`)
    }
  }
}

function some(names: string[]): string {
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : ''
  return names.slice(0, SHOWN).join(', ') + more
}

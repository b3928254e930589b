/** Whether the target is fit to be restored into: what is true of it for every collection. */
import { EngineError, Rejected } from '../../crds/errors.ts'
import { agreedView } from '../cluster-view.ts'
import { patiently } from '../patience.ts'
import type { Source, Wanted } from './wanted.ts'
import { engineOn, ordinals, type Inspection } from './work.ts'

type Reach = Pick<Inspection, 'plan' | 'tools' | 'patience'>

/** Before it, snapshots are lost on nodes that hold no data of a shard (facts 6.3). */
export const FIRST_FOR_SEVERAL = '1.17.1'

/** Throws with the first reason why not; waits, within bounds, for nodes that are restarted. */
export async function checkTarget(
  manifest: Pick<Source, 'engineVersion'>,
  wanted: readonly Wanted[],
  reach: Reach,
): Promise<void> {
  const taken = versionsOf(manifest, wanted)
  await Promise.all([checkVersion(taken, reach), patiently(reach, () => checkPeers(reach))])
}

/** An upgrade may have rolled between two collections; earlier releases recorded one version for all. */
export function versionsOf(
  { engineVersion }: Pick<Source, 'engineVersion'>,
  wanted: readonly { source: Pick<Wanted['source'], 'engineVersion'> }[],
): string[] {
  const versions = wanted.map(({ source }) => source.engineVersion ?? engineVersion)
  const all = new Set(versions.length === 0 ? [engineVersion] : versions)
  return [...all].filter((version) => version !== undefined)
}

async function checkVersion(taken: string[], reach: Reach): Promise<void> {
  const version = await patiently(reach, () => agreedVersion(reach))
  refuseOldEngine(version, reach.plan.cluster.replicas)
  for (const engineVersion of taken) refuseVersion(version, engineVersion)
}

async function agreedVersion(reach: Reach): Promise<string> {
  const { signal } = reach.tools
  const asked = ordinals(reach).map((ordinal) => engineOn(reach, ordinal).version(signal))
  const versions = new Set(await Promise.all(asked))
  const [version = '', ...others] = versions
  if (others.length === 0) return version
  throw new EngineError(`the nodes run different versions: ${[...versions].join(', ')}`)
}

/** A snapshot is read by the minor version that wrote it, and by the next one. */
export function refuseVersion(version: string, engineVersion: string): void {
  const [major, minor] = numbers(version)
  const [taken, takenMinor] = numbers(engineVersion)
  if (major === taken && (minor === takenMinor || minor === takenMinor + 1)) return
  throw new Rejected(
    `Backup was taken by engine ${engineVersion} but the target runs ${version}: a snapshot is read by the same minor version or the next one`,
  )
}

/** Whether an engine that may restore into several nodes reads snapshots of this one. */
export function fitsSeveralNodes(engineVersion: string): boolean {
  const [major, minor] = numbers(engineVersion)
  const [firstMajor, firstMinor] = numbers(FIRST_FOR_SEVERAL)
  return major > firstMajor || (major === firstMajor && minor + 1 >= firstMinor)
}

export function refuseOldEngine(version: string, nodes: number): void {
  if (nodes === 1 || !isOlder(version, FIRST_FOR_SEVERAL)) return
  throw new Rejected(
    `the target runs engine ${version} on ${nodes} nodes: a restore into several nodes needs ${FIRST_FOR_SEVERAL}`,
  )
}

/** The nodes are one cluster, and its peers are the pods: a shard may come to a peer that is none of them. */
async function checkPeers(reach: Reach): Promise<void> {
  const { replicas } = reach.plan.cluster
  const { peers } = await agreedView({
    replicas,
    engineOn: (ordinal) => engineOn(reach, ordinal),
    signal: reach.tools.signal,
  })
  if (peers === replicas) return
  throw new EngineError(
    `the nodes know of ${peers} peers, but the target has ${replicas} pods: remove the other peers`,
  )
}

function numbers(version: string): [number, number, number] {
  const [major = 0, minor = 0, patch = 0] = version.split(/[.-]/).map(Number)
  return [major, minor, patch]
}

function isOlder(one: string, other: string): boolean {
  const [left, right] = [numbers(one), numbers(other)]
  const index = left.findIndex((number, place) => number !== right[place])
  return index !== -1 && (left[index] ?? 0) < (right[index] ?? 0)
}

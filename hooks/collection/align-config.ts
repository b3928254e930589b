/** Patches the values that differ, and finds out which of them the engine silently ignores. */
import type { VecCollection } from '../../crds/collection.ts'
import { NotReady } from '../../crds/errors.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import { hanging, patchBody } from '../../crds/rules/bodies.ts'
import { drifted, type Drift } from './mismatch.ts'
import { appears, type Pass } from './one-pass.ts'

export interface Aligned {
  info: CollectionInfo
  /** Paths of declared values that the engine does not take. */
  ignored: string[]
}

export async function patchDrift(
  pass: Pass,
  info: CollectionInfo,
  version: string,
): Promise<Aligned> {
  const { spec } = pass.collection
  const known = ignoredBefore(pass.collection, version)
  const drift = drifted(spec, info.config)
  const news = drift.filter(({ differences }) => differences.some(({ path }) => !known.has(path)))
  const hopeless = new Set(
    hanging(
      news.map(({ field }) => field),
      version,
    ),
  )
  const fields = news.map(({ field }) => field).filter((field) => !hopeless.has(field))
  if (fields.length === 0) return { info, ignored: pathsOf(drift) }

  const doubt = await pass.writes.patch(patchBody(fields))
  const sent = new Set(fields.map(({ path }) => path))
  const left = (now: CollectionInfo) =>
    drifted(spec, now.config).filter(({ field, differences }) => {
      return sent.has(field.path) && differences.some(({ path }) => !known.has(path))
    })
  const after = await appears(pass, (now) => now === undefined || left(now).length === 0)
  if (after === undefined) throw new NotReady(`collection ${pass.name} was deleted meanwhile`)
  // Not applied yet, or lost: that is no word about whether the engine knows the value.
  if (doubt !== undefined && left(after).length > 0) throw doubt
  return { info: after, ignored: pathsOf(drifted(spec, after.config)) }
}

/** The paths that were tried in vain with this spec and this engine. */
export function ignoredBefore({ metadata, status }: VecCollection, version: string): Set<string> {
  const ignored = status?.ignored
  const holds = ignored?.generation === metadata.generation && ignored.engineVersion === version
  return holds ? new Set(ignored.paths) : new Set()
}

function pathsOf(drift: Drift[]): string[] {
  return drift.flatMap(({ differences }) => differences.map(({ path }) => path))
}

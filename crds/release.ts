/** Releases: which is older, and whether a CRD is of one that will do. */
import type { AnyObject } from './kubernetes.ts'
import { ANNOTATIONS, API_GROUP } from './names.ts'

/** Why a CRD of this version does not do for this release; undefined when it does. */
export function crdProblem(
  plural: string,
  crd: AnyObject | undefined,
  version: string,
): string | undefined {
  if (crd === undefined) return `${crdName(plural)} is not installed`
  const found = crd.metadata.annotations?.[ANNOTATIONS.version]
  if (found === undefined) return `${crdName(plural)} names no release, ${version} is needed`
  return isOlder(found, version)
    ? `${crdName(plural)} is of release ${found}, ${version} is needed: apply the new CRDs first`
    : undefined
}

/** Order of semantic versions; a pre-release comes before its release. */
export function isOlder(version: string, than: string): boolean {
  const [left, right] = [parts(version), parts(than)]
  for (const [index, number] of left.numbers.entries()) {
    const other = right.numbers[index] ?? 0
    if (number !== other) return number < other
  }
  if (left.pre === right.pre || left.pre === '') return false
  return right.pre === '' || left.pre < right.pre
}

export function crdName(plural: string): string {
  return `${plural}.${API_GROUP}`
}

function parts(version: string): { numbers: number[]; pre: string } {
  const [, release = '', pre = ''] = /^v?([0-9.]+)-?([^+]*)/.exec(version) ?? []
  const numbers = release.split('.').map(Number)
  return { numbers: [numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? 0], pre }
}

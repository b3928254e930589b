/**
 * Versions of the operator, the engine, Kubernetes and Metacontroller, compared by semantic
 * versioning. A text that is no version counts as 0.0.0.
 */
import { coerce, parse, SemVer } from 'semver'

/** With or without a leading `v`; a missing minor or patch number is 0. */
export function parseVersion(text: string): SemVer {
  return parse(text) ?? coerce(text) ?? new SemVer('0.0.0')
}

/** Negative if `a` is older; a pre-release is older than its release. */
export function compareVersions(a: string, b: string): number {
  return parseVersion(a).compare(parseVersion(b))
}

export function isOlder(version: string, than: string): boolean {
  return compareVersions(version, than) < 0
}

/** Limit for a label or an image: only its end is parsed, and anyone may have written it. */
const MAX_VERSION_LENGTH = 256

/** The version at the end of a label or of the tag of an image, which may have a digest after it. */
export function versionIn(text = ''): string | undefined {
  const [tagged = ''] = text.split('@')
  return /[:-]?v?(\d+\.\d+\.\d+[^:/]*)$/.exec(tagged.slice(-MAX_VERSION_LENGTH))?.[1]
}

/** The versions at the end of images of the engine, each once, the oldest first. The unprivileged image is the same engine. */
export function engineVersions(images: readonly (string | undefined)[]): string[] {
  const versions = images.flatMap((image) => versionIn(image)?.replace(/-unprivileged$/, '') ?? [])
  return [...new Set(versions)].toSorted(compareVersions)
}

/** Whether `next` has the same minor version or the one after it. */
export function isSameOrNextMinor(version: string, next: string): boolean {
  const [from, to] = [parseVersion(version), parseVersion(next)]
  return to.major === from.major && (to.minor === from.minor || to.minor === from.minor + 1)
}

/** The version of the engine's chart for a `spec.version`: without a leading v. */
export function chartVersion(version: string): string {
  return version.replace(/^v/, '')
}

/** The latest patch release of each minor version of the engine, as of this release of the operator. */
export const LATEST_PATCHES: readonly string[] = ['1.16.3', '1.17.1', '1.18.3', '1.19.0']

/** Positive if `to` has a later minor version than `from`, negative if an earlier one. */
export function compareMinors(from: string, to: string): number {
  const [older, newer] = [parseVersion(from), parseVersion(to)]
  return newer.major - older.major || newer.minor - older.minor
}

/**
 * One version of each minor version between two versions: that of `chosen`, else the latest known patch.
 * Undefined if there is neither, or if the major versions differ.
 */
export function versionsBetween(
  from: string,
  to: string,
  chosen: readonly string[] = [],
): string[] | undefined {
  const [{ major, minor }, end] = [parseVersion(from), parseVersion(to)]
  if (end.major !== major) return undefined
  const versions: string[] = []
  for (let next = minor + 1; next < end.minor; next += 1) {
    const isOfMinor = (one: string) => compareMinors(one, `${major}.${next}.0`) === 0
    const found = chosen.find(isOfMinor) ?? LATEST_PATCHES.find(isOfMinor)
    if (found === undefined) return undefined
    versions.push(found)
  }
  return versions
}

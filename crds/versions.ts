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

/** Whether `next` has the same minor version or the one after it. */
export function isSameOrNextMinor(version: string, next: string): boolean {
  const [from, to] = [parseVersion(version), parseVersion(next)]
  return to.major === from.major && (to.minor === from.minor || to.minor === from.minor + 1)
}

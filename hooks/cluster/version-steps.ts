/**
 * The way from the version that was applied last to spec.version. The engine migrates its files from one
 * minor version to the next only, so each minor version in between is a helm run and a rollout of its own.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { chartVersion, compareMinors, versionsBetween } from '../../crds/versions.ts'
import { isConsensusLost } from './consensus.ts'
import type { Observed } from './ports.ts'
import { isRolledOut } from './rollout.ts'
import { acceptedRisks, parseAppliedSpec, valueAt } from './validation.ts'

export interface VersionSteps {
  /** Version of the next helm run. */
  version: string
  /** The versions that are left, the present one first; empty if there are none in between. */
  remaining: string[]
}

/**
 * A step begins once the one before it is rolled out. A step that has begun is not taken back: if helm
 * fails in the middle of it, helm runs again with the same version.
 */
export function versionSteps(observed: Observed): VersionSteps {
  const { cluster, progress, statefulSet } = observed
  const target = chartVersion(cluster.spec.version)
  const direct = { version: target, remaining: [] }
  const applied = progress?.applied
  if (applied === undefined || acceptedRisks(cluster).includes('version-skip')) return direct
  const from = chartVersion(applied.version)
  // Changes within a minor version, and back, are a single run.
  if (compareMinors(from, target) <= 0) return direct
  const between = versionsBetween(from, target, observed.stepVersions)
  const isStep = isIntermediate(cluster, from)
  // A version that is not known: the Job refuses to skip it.
  if (between === undefined || (between.length === 0 && !isStep)) return direct
  const remaining = [...between, target]
  const isComplete = isRolledOut(observed) && !isConsensusLost(observed)
  if (isStep && !isComplete && !hasBegun(from, statefulSet)) {
    return { version: from, remaining: [from, ...remaining] }
  }
  return { version: remaining[0] ?? target, remaining }
}

/** What the condition Applied says while a step is rolled out. */
export function stepReason({ version, remaining }: VersionSteps): ConditionReason | undefined {
  const [present, ...later] = remaining
  if (present !== version) return undefined
  return {
    reason: 'VersionStep',
    message: `version ${present} is rolled out before ${later.join(', ')}`,
  }
}

/** Why no step may be applied; undefined if it may. A digest is the image of one version. */
export function digestStepError(observed: Observed): string | undefined {
  const { version: target, image } = observed.cluster.spec
  if (image.digest === undefined) return undefined
  const { version } = versionSteps(observed)
  if (version === chartVersion(target)) return undefined
  return `spec.image.digest is the image of ${chartVersion(target)}, but version ${version} comes before it: set spec.version and spec.image.digest to ${version} first, or remove spec.image.digest`
}

/** The last run applied another version than the spec that it was made for. */
function isIntermediate({ metadata }: VecCluster, applied: string): boolean {
  const spec = parseAppliedSpec(metadata.annotations?.[ANNOTATIONS.lastAppliedSpec])
  const version = valueAt(spec, 'version')
  return typeof version === 'string' && chartVersion(version) !== applied
}

/** A helm run that failed may have changed the StatefulSet before it did. */
function hasBegun(from: string, statefulSet: StatefulSet | undefined): boolean {
  const version = statefulSet?.metadata.labels?.['app.kubernetes.io/version'] ?? ''
  return compareMinors(from, version) > 0
}

/**
 * The rotation of an API key without a gap (`spec.apiKey.rotation`). One rule holds at every moment: all
 * nodes accept the published key, the one in `vec-<name>-apikey`.
 *
 * 1. Adding: nodes get the new key as a second one; the former stays published.
 * 2. Publishing: once every node accepts both, which is asked of each, the new key is published.
 * 3. Overlap: clients change to it, and VecAccessKeys are signed with it.
 * 4. Removing: nodes lose the former key.
 *
 * Each decision follows from the keys that exist, from the template of the pods and from the answers of
 * the nodes, never from the step before: another change of the key is just another state.
 */
import {
  hasSecondKey,
  type ReleaseKeys,
  keyFingerprint,
  templateKeys,
} from '../../../crds/contract/api-keys.ts'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import { secretValue } from '../../../crds/kubernetes.ts'
import { getCondition, secondsSince, secondsSinceRecorded, timestamp } from '../../conditions.ts'
import type { Observed } from '../ports.ts'
import type {
  DecidedRotation,
  KeyRotation,
  NodeKeys,
  ObservedKeys,
  PlannedRotation,
} from './ports.ts'
import { isRolledOut } from '../rollout.ts'
import { valueAt } from '../validation.ts'

/** Reason of the condition KeyRotated from a key of another writer until nodes accept the published one. */
export const FOREIGN_KEY = 'ForeignApiKey'

type Recorded = NonNullable<ClusterStatus['keyRotation']>

/** Undefined without `spec.apiKey.rotation`, and where the chart keeps the key that it generated. */
export function keyRotation(observed: Observed, now: Date): KeyRotation | undefined {
  const { keys, cluster } = observed
  if (keys === undefined) return undefined
  const published = publishedKey(observed, keys)
  const desired = desiredKey(observed) ?? published
  if (desired === undefined) return undefined
  const source = cluster.spec.apiKey?.secretRef
  const decided =
    published === undefined || !hasSecondKey(cluster.spec.version)
      ? replacement(desired, published)
      : withOverlap(observed, { keys, published, desired, now })
  // What the chart has generated it keeps.
  if (source === undefined && decided.step === 'Current') return undefined
  const restart = restartMark(observed, decided.plan, { keys, now })
  return {
    ...decided,
    keys,
    ...(isRefused(observed, { ...restart, ...decided.plan, keys }) && { isGap: true }),
    ...(isResting(observed, keys, now) && { isResting: true as const }),
    plan: {
      ...decided.plan,
      ...restart,
      ...(keys.published !== undefined && { replaces: keys.published }),
      ...(source !== undefined && { source: { name: source.name, key: source.key } }),
    },
  }
}

/** Fingerprint of the key that the spec names, if its Secret has it. */
export function desiredKey(observed: Observed): string | undefined {
  const key = keyOfSpec(observed)
  return key ? keyFingerprint(key) : undefined
}

/** The key that the spec names, if its Secret has it. */
export function keyOfSpec({
  cluster,
  secrets,
}: Pick<Observed, 'cluster' | 'secrets'>): string | undefined {
  const source = cluster.spec.apiKey?.secretRef
  return source && secretValue(secrets.get(source.name), source.key)
}

/** The keys that the template of the pods names. A StatefulSet that is missing is created as it was. */
export function namedKeys({ statefulSet, progress }: Observed): string[] {
  if (statefulSet !== undefined) return templateKeys(statefulSet)
  return progress?.applied?.keys?.accepted ?? []
}

/** Both keys that pods with the template accept; none if they do not accept the published one by it. */
function acceptedKeys(observed: Observed, published: string): string[] {
  const named = namedKeys(observed)
  return named.includes(published) ? named : []
}

/**
 * The key of the Secret that the pods and clients read. One that no helm run has written is replaced
 * like a missing one.
 */
function publishedKey(
  observed: Pick<Observed, 'progress'>,
  { published, stored }: ObservedKeys,
): string | undefined {
  const applied = observed.progress?.applied?.keys
  if (applied === undefined) return published
  if (published !== undefined && !isForeign(observed, { published, stored })) return published
  return stored.has(applied.published) ? applied.published : undefined
}

/** No helm run has written the key of the Secret that the pods and clients read. */
export function isForeign(
  { progress }: Pick<Observed, 'progress'>,
  { published, stored }: Pick<ObservedKeys, 'published' | 'stored'>,
): boolean {
  const applied = progress?.applied?.keys
  if (applied === undefined || published === undefined) return false
  return !stored.has(published) && !applied.accepted.includes(published)
}

/** After a helm run: another client that writes its key repeatedly must not cause a run each time. */
export const KEY_REWRITE_SECONDS = 300

function isResting(observed: Observed, keys: ObservedKeys, now: Date): boolean {
  const at = observed.progress?.applied?.at ?? ''
  return isForeign(observed, keys) && secondsSince(at, now) < KEY_REWRITE_SECONDS
}

/** The version that runs, if it accepts one key only: a new key waits for the update. */
export function versionWithOneKey({ progress }: Pick<Observed, 'progress'>): string | undefined {
  const version = progress?.applied?.version
  return version === undefined || hasSecondKey(version) ? undefined : version
}

/** The nodes change from one key to the other one by one. */
function replacement(desired: string, published: string | undefined): DecidedRotation {
  const isSame = published === desired || published === undefined
  return {
    step: isSame ? 'Current' : 'NoSecondKey',
    plan: { published: desired, accepted: [desired] },
    isGap: published !== desired,
    ...(!isSame && { next: desired }),
  }
}

interface Keys {
  keys: ObservedKeys
  published: string
  desired: string
  now: Date
}

function withOverlap(observed: Observed, facts: Keys): DecidedRotation {
  const { published, desired } = facts
  const accepted = acceptedKeys(observed, published)
  const hasValue = (key: string) => key === desired || facts.keys.stored.has(key)
  // Pods that run keep a former key that is in no Secret any more; one that starts cannot get it.
  const other = accepted.find(
    (key) => key !== published && (hasValue(key) || isReportedFormer(observed, key)),
  )
  const former = other !== undefined && wasPublished(observed, other, published) ? other : undefined
  const decided = decisionOf(observed, facts)
  if (other === undefined || (former === undefined && other !== desired)) {
    // Another key in the second place was never published, so no client uses it.
    if (published !== desired) {
      const isWaiting = versionWithOneKey(observed) !== undefined
      const both = isWaiting ? [published] : [published, desired]
      return { step: 'Adding', ...decided({ published, accepted: both }) }
    }
    const step = other === undefined ? 'Current' : 'Removing'
    return { step, ...decided({ published, accepted: [published] }) }
  }
  if (other !== desired) return overlapping(observed, { ...facts, accepted, former: other })
  if (!isAcceptedByAll(observed, facts)) {
    const plan = { published, accepted, ...(former !== undefined && { former }) }
    return { step: 'Adding', ...decided(plan) }
  }
  const inOrder = isMainKeyChecked(observed) ? [desired, published] : accepted
  const plan = { published: desired, accepted: inOrder, former: published }
  return { step: 'Publishing', ...decided(plan) }
}

function decisionOf(observed: Observed, facts: Keys): (plan: ReleaseKeys) => PlannedRotation {
  const { published, desired } = facts
  return (plan) => ({
    isGap: false,
    ...(plan.former !== undefined && { former: plan.former }),
    ...(published !== desired && { next: desired }),
    plan: { ...plan, ...keepsPods(observed, plan, facts) },
  })
}

interface Overlapping extends Keys {
  accepted: string[]
  former: string
}

/** The former key is accepted until clients and tokens had the time to change. */
function overlapping(observed: Observed, facts: Overlapping): DecidedRotation {
  const { published, desired, accepted, former, keys, now } = facts
  const decided = decisionOf(observed, facts)
  const recorded = observed.cluster.status?.keyRotation
  // Pods that start again would lose a key that is in no Secret any more.
  const mayRestart = keys.stored.has(former) || former === desired
  const inOrder = isMainKeyChecked(observed) && mayRestart ? [published, former] : accepted
  const unchanged = decided({ published, accepted: inOrder, former })
  const since =
    overlapStart(recorded, facts) ??
    (isRolledOut(observed) && accepted[0] === inOrder[0] ? timestamp(now) : undefined)
  if (since === undefined) return { step: 'Publishing', ...unchanged }
  const end = timestamp(new Date(Date.parse(since) + keys.overlapSeconds * 1000))
  const overlap = { since, end }
  if (secondsSince(end, now) < 0) return { step: 'Overlap', ...unchanged, overlap }
  const { formerTokens = 'unknown' } = keys
  if (formerTokens.length > 0) {
    return { step: 'Overlap', ...unchanged, overlap: { ...overlap, formerTokens } }
  }
  const step = published === desired ? 'Removing' : 'Adding'
  const remaining = [...new Set([published, desired])]
  return { step, ...decided({ published, accepted: remaining }), former, overlap }
}

/**
 * When the overlap of these two keys began. Another key may have been published in between, and this one
 * again, without a status that shows it. One that a clock recorded that was far ahead begins again: the former key
 * would be accepted until the clock is there.
 */
function overlapStart(
  recorded: Recorded | undefined,
  { published, former, keys, now }: Pick<Overlapping, 'published' | 'former' | 'keys' | 'now'>,
): string | undefined {
  if (recorded?.publishedKey !== published || recorded.formerKey !== former) return undefined
  if (recorded.publishedVersion !== keys.publishedVersion) return undefined
  const { overlapTime } = recorded
  const isFarAhead = secondsSinceRecorded(overlapTime ?? '', now) === Infinity
  return isFarAhead ? undefined : overlapTime
}

/** The former key of an overlap that is over: tokens that it has signed are looked for. */
export function expiredKey(
  recorded: Recorded | undefined,
  overlapSeconds: number,
  now: Date,
): string | undefined {
  if (recorded?.overlapTime === undefined) return undefined
  const isOver = secondsSince(recorded.overlapTime, now) >= overlapSeconds
  return isOver ? recorded.formerKey : undefined
}

/**
 * Clients may use the second key: it was published, or may have been by a run that was killed, which leaves
 * no report. What the last pass has seen is in the status.
 */
function wasPublished(observed: Observed, key: string, published: string): boolean {
  if (isReportedFormer(observed, key)) return true
  const applied = observed.progress?.applied?.keys
  if (applied === undefined) return true
  return !(applied.published === published && applied.accepted.includes(key))
}

function isReportedFormer({ cluster, progress }: Observed, key: string): boolean {
  const { step, publishedKey, formerKey } = cluster.status?.keyRotation ?? {}
  // A key that is removed may never have been published.
  if (publishedKey === key || (formerKey === key && step !== 'Removing')) return true
  return progress?.applied?.keys?.former === key
}

/**
 * Pods that do not accept a key of their template were started while it was missing in its Secret: they are
 * restarted, and at most once an hour if a restart has no effect.
 */
function restartMark(
  observed: Observed,
  plan: ReleaseKeys,
  facts: { keys: ObservedKeys; now: Date },
): Pick<ReleaseKeys, 'restartedAfter'> {
  const { applied } = observed.progress ?? {}
  const last = applied?.keys?.restartedAfter
  const isDue =
    applied?.keys !== undefined &&
    (last === undefined || secondsSince(applied.at, facts.now) >= RESTART_AGAIN_SECONDS) &&
    missKeys(observed, plan, facts.keys)
  const mark = isDue ? applied.run : last
  return mark === undefined ? {} : { restartedAfter: mark }
}

const RESTART_AGAIN_SECONDS = 3600

/** Nodes that are to be restarted refuse the key with which a Job on the shards would ask them. */
function isRefused(
  observed: Observed,
  { restartedAfter, published, keys }: ReleaseKeys & { keys: ObservedKeys },
): boolean {
  if (restartedAfter === observed.progress?.applied?.keys?.restartedAfter) return false
  return keys.answers?.nodes.some(({ accepts }) => accepts?.includes(published) === false) === true
}

/** A node was asked after the last rollout, and refuses a key that its pod would read if it started now. */
function missKeys(observed: Observed, { published, accepted }: ReleaseKeys, keys: ObservedKeys) {
  const { answers, stored } = keys
  const given = accepted.length === 2 ? accepted : []
  const isGiven = namedKeys(observed).join() === given.join() && keys.published === published
  if (!isGiven || !accepted.every((key) => stored.has(key))) return false
  const since = rolloutTime(observed)
  const nodes = answersOfAll(observed, keys)
  if (answers === undefined || nodes === undefined || since === undefined) return false
  const isAnswered = accepted.every((key) => answers.asked.includes(key))
  if (!isAnswered || Date.parse(answers.at) < Date.parse(since)) return false
  return (
    nodes.every(({ accepts }) => accepts !== undefined) &&
    nodes.some(({ accepts }) => !accepted.every((key) => accepts?.includes(key)))
  )
}

function rolloutTime({ cluster }: Observed): string | undefined {
  const condition = getCondition(cluster, 'Progressing')
  return condition?.reason === 'RolloutComplete' ? condition.lastTransitionTime : undefined
}

/**
 * Nodes that check the calls of other nodes (`service.enforce_internal_auth`) must accept their main key:
 * it changes before the former key is removed, which costs one more rollout.
 */
function isMainKeyChecked({ cluster }: Observed): boolean {
  return valueAt(cluster.spec.config, 'service.enforce_internal_auth') === true
}

function isAcceptedByAll(observed: Observed, { keys, published, desired }: Keys): boolean {
  const nodes = answersOfAll(observed, keys)
  return (
    nodes?.every(({ accepts }) => [published, desired].every((key) => accepts?.includes(key))) ===
    true
  )
}

/** What every node has answered; undefined while pods change, or before all of them were asked. */
export function answersOfAll(
  observed: Observed,
  { answers }: Pick<ObservedKeys, 'answers'>,
): NodeKeys[] | undefined {
  const nodes = answers?.nodes
  const isComplete = nodes?.length === observed.statefulSet?.spec.replicas
  return isComplete && isRolledOut(observed) ? nodes : undefined
}

/** The pods read both keys from variables, before and after the run. */
function keepsPods(observed: Observed, { accepted }: ReleaseKeys, { published }: Keys) {
  const present = acceptedKeys(observed, published)
  const isSame = accepted.length === 2 && present.join() === accepted.join()
  return isSame ? { keepsPods: true as const } : {}
}

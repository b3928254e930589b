/** The condition KeyRotated and status.keyRotation: how far a new key is, and which nodes accept it. */
import type { ClusterStatus } from '../../../crds/cluster.ts'
import type { ConditionReason } from '../../../crds/schema.ts'
import { formatNames } from '../../../crds/units.ts'
import { errorMessage } from '../../background-task.ts'
import { getCondition, type ConditionUpdate } from '../../conditions.ts'
import { isUnfinished } from '../../request.ts'
import type { Observed } from '../ports.ts'
import { isRolledOut } from '../rollout.ts'
import type { KeyAnswers, KeyRotation, NodeKeys, ObservedKeys, Overlap } from './ports.ts'
import { FOREIGN_KEY, answersOfAll, isForeign, versionWithOneKey } from './rotation.ts'

type KeyRotationStatus = NonNullable<ClusterStatus['keyRotation']>

/** Present while there is more than one key. */
export function keyRotationStatus(observed: Observed): { keyRotation?: KeyRotationStatus } {
  const { rotation } = observed
  if (rotation === undefined || !isRotating(observed, rotation)) return {}
  const { keys, step, next, overlap } = rotation
  const published = keys.published ?? rotation.plan.published
  // The key that is about to be replaced is still the published one.
  const [former] = keysToRemove(rotation).filter((key) => key !== published)
  return {
    keyRotation: {
      step: step === 'Current' ? 'Removing' : step,
      publishedKey: published,
      ...(former !== undefined && { formerKey: former }),
      ...(next !== undefined && { nextKey: next }),
      ...(overlap !== undefined && { overlapTime: overlap.since, ...publishedVersion(keys) }),
      ...(keys.answers !== undefined && {
        acceptedBy: nodesAccepting(keys.answers, { published, former, next }),
      }),
    },
  }
}

function publishedVersion({ publishedVersion: version }: ObservedKeys) {
  return version === undefined ? {} : { publishedVersion: version }
}

export function keyRotatedCondition(observed: Observed): ConditionUpdate | undefined {
  const { rotation } = observed
  if (rotation === undefined) return undefined
  const foreign = foreignKey(observed, rotation)
  if (foreign !== undefined) return { type: 'KeyRotated', status: 'False', ...foreign }
  return isRotating(observed, rotation)
    ? { type: 'KeyRotated', status: 'False', ...progressOf(observed, rotation) }
    : { type: 'KeyRotated', status: 'True', ...CURRENT }
}

/** A pod that started meanwhile accepts the key of the other writer, and refuses the published one. */
function foreignKey(observed: Observed, { keys, plan }: KeyRotation): ConditionReason | undefined {
  const { name } = observed.cluster.metadata
  const reason = FOREIGN_KEY
  if (isForeign(observed, keys)) {
    const message = `no helm run has published the key in Secret vec-${name}-apikey: a helm run writes the published one again`
    return { reason, message }
  }
  if (getCondition(observed.cluster, 'KeyRotated')?.reason !== FOREIGN_KEY) return undefined
  const isAccepted = answersOfAll(observed, keys)?.every(
    ({ accepts }) => accepts?.includes(plan.published) === true,
  )
  if (isAccepted === true) return undefined
  const answers = answersFor(keys, [plan.published])
  const message =
    answers === undefined
      ? `Secret vec-${name}-apikey has the published key again; ${notAsked(observed)}`
      : `Secret vec-${name}-apikey has the published key again; ${answers.accepting} of ${answers.nodes} nodes accept it`
  return { reason, message }
}

const CURRENT = { reason: 'KeyCurrent', message: 'the API key of the spec is the only one' }

/** Until a node has refused each key that is not to be valid, it may be. */
function isRotating(observed: Observed, rotation: KeyRotation): boolean {
  if (rotation.step !== 'Current' || otherKeys(rotation).length > 0) return true
  return observed.cluster.status?.keyRotation !== undefined && !isRolledOut(observed)
}

/** Keys of the operator's Secret that are no longer to be accepted. */
function otherKeys({ keys, plan }: KeyRotation): string[] {
  return [...keys.stored.keys()].filter((key) => !plan.accepted.includes(key))
}

/** Keys that the nodes accept, or may accept, and lose next. */
function keysToRemove(rotation: KeyRotation): string[] {
  const { step, former } = rotation
  if (former !== undefined) return [former]
  return step === 'Current' || step === 'Removing' ? otherKeys(rotation) : []
}

/**
 * The keys that the Secret of the operator is to keep: the others are refused by every node, as each of
 * them has answered. Undefined if it stays as it is.
 */
export function keysToKeep(observed: Observed): string[] | undefined {
  const { rotation, jobs } = observed
  // A run of an earlier plan may be about to give them to the nodes.
  if (rotation?.step !== 'Current' || jobs.some(isUnfinished)) return undefined
  const others = otherKeys(rotation)
  const nodes = answersOfAll(observed, rotation.keys)
  if (others.length === 0 || nodes === undefined) return undefined
  const isRefused = nodes.every(({ accepts }) =>
    others.every((key) => accepts?.includes(key) === false),
  )
  return isRefused ? rotation.plan.accepted : undefined
}

function progressOf(observed: Observed, rotation: KeyRotation): ConditionReason {
  const { metadata, spec } = observed.cluster
  const { keys, next } = rotation
  switch (rotation.step) {
    case 'NoSecondKey': {
      const message = `version ${spec.version} accepts one key only: nodes refuse the former key one by one; 1.17.0 and newer accept two`
      return { reason: 'NoSecondKey', message }
    }
    case 'Adding': {
      const version = versionWithOneKey(observed)
      const message =
        version === undefined
          ? addingMessage(observed, answersFor(keys, [next]))
          : `the new key waits for the update: version ${version} accepts one key only`
      return { reason: 'AddingKey', message }
    }
    case 'Publishing':
      return {
        reason: 'PublishingKey',
        message: 'all nodes accept both keys; the new one is published',
      }
    case 'Overlap':
      return overlapProgress(metadata.name, rotation)
    case 'Removing':
    case 'Current': {
      const removed = keysToRemove(rotation)
      return {
        reason: 'RemovingKey',
        message: removingMessage(observed, answersFor(keys, removed)),
      }
    }
  }
}

function overlapProgress(
  name: string,
  { overlap: { end, formerTokens = [] }, next }: Pick<KeyRotation, 'next'> & { overlap: Overlap },
): ConditionReason {
  if (formerTokens === 'unknown') {
    const message = 'the former key is kept: VecAccessKeys cannot be listed'
    return { reason: 'TokensNotRenewed', message }
  }
  if (formerTokens.length > 0) {
    const message = `the former key is kept: it has signed the current token of VecAccessKey ${formatNames(formerTokens, MAX_LISTED)}`
    return { reason: 'TokensNotRenewed', message }
  }
  const message = `nodes accept the former key until ${end}; the published one is in Secret vec-${name}-apikey`
  return {
    reason: 'FormerKeyAccepted',
    message: next === undefined ? message : `${message}; then they get the new key`,
  }
}

interface Answers {
  nodes: number
  accepting: number
  /** Nodes that did not answer, as messages name them; empty if all did. */
  silent: string
}

/** How many nodes accept one of these keys; undefined if none was asked for them yet. */
function answersFor(
  { answers }: ObservedKeys,
  keys: readonly (string | undefined)[],
): Answers | undefined {
  if (answers?.asked.some((key) => keys.includes(key)) !== true) return undefined
  const { nodes } = answers
  const silent = nodes.filter(({ accepts }) => accepts === undefined)
  return {
    nodes: nodes.length,
    accepting: nodesWith(nodes, keys).length,
    silent: formatNames(
      silent.map(({ ordinal }) => String(ordinal)),
      MAX_LISTED,
    ),
  }
}

/** Why nothing is known of the nodes. */
function notAsked({ keysFailure }: Pick<Observed, 'keysFailure'>): string {
  if (keysFailure === undefined) return 'no node was asked yet'
  return `querying the nodes failed: ${errorMessage(keysFailure.error)}`.slice(0, MAX_FAILURE)
}

function addingMessage(observed: Observed, answers: Answers | undefined): string {
  if (answers === undefined) {
    return `nodes get the new key in addition to the published one; ${notAsked(observed)}`
  }
  const { accepting, nodes, silent } = answers
  return silent === ''
    ? `nodes get the new key in addition to the published one; ${accepting} of ${nodes} nodes accept the new key`
    : `nodes get the new key in addition to the published one; ${accepting} of ${nodes} nodes accept the new key, no answer from node ${silent}`
}

function removingMessage(observed: Observed, answers: Answers | undefined): string {
  if (answers === undefined) return `nodes lose the former key; ${notAsked(observed)}`
  const { accepting, nodes, silent } = answers
  return silent === ''
    ? `nodes lose the former key; ${accepting} of ${nodes} nodes accept it`
    : `nodes lose the former key; ${accepting} of ${nodes} nodes accept it, no answer from node ${silent}`
}

const MAX_LISTED = 3
const MAX_FAILURE = 1000

function nodesAccepting(
  { nodes }: KeyAnswers,
  keys: Record<'published' | 'former' | 'next', string | undefined>,
): NonNullable<KeyRotationStatus['acceptedBy']> {
  return Object.fromEntries(
    Object.entries(keys).flatMap(([name, key]) =>
      key === undefined ? [] : [[name, nodesWith(nodes, [key])]],
    ),
  )
}

function nodesWith(nodes: NodeKeys[], keys: readonly (string | undefined)[]): number[] {
  return nodes.flatMap(({ ordinal, accepts }) =>
    accepts?.some((key) => keys.includes(key)) ? [ordinal] : [],
  )
}

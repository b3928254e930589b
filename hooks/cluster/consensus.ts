/**
 * The condition Consensus. `/readyz` of a pod answers 200 while its consensus thread is stopped, and
 * while it founded a cluster of its own, so every pod is asked whom it knows.
 */
import { releaseName } from '../../crds/names.ts'
import { conditionOf, type Finding } from '../conditions.ts'
import { wordsOf } from '../failure.ts'
import type { Observed } from './observed.ts'
import type { PodConsensus } from './ports.ts'

const MAX_MESSAGE = 1000

/** The finding of this pass; the condition of the last one while the pods were not asked. */
export function consensusFinding(observed: Observed): Finding | undefined {
  const { cluster, consensus, consensusFailure: failure } = observed
  const lost = consensus !== undefined && isLost(consensus)
  // That they have lost it holds until a pod says otherwise; that they have it does not.
  if (failure !== undefined && !lost) return { type: 'Consensus', ...notAsked(failure.error) }
  if (consensus === undefined) return conditionOf(cluster, 'Consensus')
  const release = releaseName(cluster.metadata.name)
  const verdict = verdictOn(consensus, (ordinal) => `${release}-${ordinal}`)
  return { type: 'Consensus', ...verdict, message: verdict.message.slice(0, MAX_MESSAGE) }
}

function notAsked(error: unknown): Verdict {
  const message = `the pods could not be asked: ${wordsOf(error)}`.slice(0, MAX_MESSAGE)
  return { status: 'Unknown', reason: 'PodsNotAnswering', message }
}

/** Some pod says that the cluster is not one, or cannot agree: nothing that needs agreement may start. */
export function isConsensusLost(observed: Observed): boolean {
  return observed.consensus !== undefined && isLost(observed.consensus)
}

function isLost(pods: PodConsensus[]): boolean {
  return verdictOn(pods, String).status === 'False'
}

type Verdict = Omit<Finding, 'type'>
type Name = (ordinal: number) => string

function verdictOn(pods: PodConsensus[], name: Name): Verdict {
  return (
    stopped(pods, name) ??
    split(pods, name) ??
    missing(pods, name) ??
    leaderless(pods, name) ??
    silent(pods, name) ??
    working(pods)
  )
}

function stopped(pods: PodConsensus[], name: Name): Verdict | undefined {
  const found = pods.filter(({ state }) => state === 'stopped')
  if (found.length === 0) return undefined
  const message = found.map(({ ordinal, error }) => `${name(ordinal)}: ${error ?? 'stopped'}`)
  return no('ConsensusStopped', message.join('; '))
}

/** Two pods neither of which knows the other are in different clusters behind one Service. */
function split(pods: PodConsensus[], name: Name): Verdict | undefined {
  const groups = groupsOf(pods.filter(isMember))
  if (groups.length < 2) return undefined
  const listed = groups.map((group) => group.map(({ ordinal }) => name(ordinal)).join(', '))
  const message = `the pods form ${groups.length} separate clusters: ${listed.join(' | ')}`
  return no('SplitBrain', `${message}; backups, restores and migrations wait until they are one`)
}

/** A pod that answers and does not know each of the others. */
function missing(pods: PodConsensus[], name: Name): Verdict | undefined {
  const ids = new Set(pods.map(({ peerId }) => peerId))
  const lacking = pods.filter(isMember).flatMap((pod) => {
    const unknown = pods.filter((other) => !knows(pod, other, ids))
    return unknown.length === 0
      ? []
      : [`${name(pod.ordinal)} does not know ${listOf(unknown, name)}`]
  })
  return lacking.length === 0 ? undefined : no('PeersMissing', lacking.join('; '))
}

/** A pod that did not answer may be any peer whose address is no pod's name. */
function knows({ peers }: Member, other: PodConsensus, ids: ReadonlySet<number | undefined>) {
  if (other.peerId !== undefined) return peers.some(({ id }) => id === other.peerId)
  return peers.some(
    ({ id, ordinal }) => ordinal === other.ordinal || (ordinal === undefined && !ids.has(id)),
  )
}

function leaderless(pods: PodConsensus[], name: Name): Verdict | undefined {
  const members = pods.filter(isMember)
  const without = members.filter(({ hasLeader }) => !hasLeader)
  if (without.length * 2 <= members.length) return undefined
  return no('NoLeader', `no leader is known to ${listOf(without, name)}`)
}

function silent(pods: PodConsensus[], name: Name): Verdict | undefined {
  const found = pods.filter(({ state }) => state === 'unknown')
  if (found.length === 0) return undefined
  const message = `no answer from ${listOf(found, name)}`
  return { status: 'Unknown', reason: 'PodsNotAnswering', message }
}

function working(pods: PodConsensus[]): Verdict {
  const ids = new Set(pods.map(({ peerId }) => peerId))
  const known = pods.filter(isMember).flatMap(({ peers }) => peers.map(({ id }) => id))
  const strangers = new Set(known.filter((id) => !ids.has(id)))
  const message =
    strangers.size === 0
      ? `consensus works on ${pods.length} nodes`
      : `consensus works on ${pods.length} nodes; peers without a pod: ${[...strangers].join(', ')}`
  return { status: 'True', reason: 'ConsensusWorking', message }
}

/** Pods of which one knows another, directly or through a third. */
function groupsOf(members: Member[]): Member[][] {
  const groups: Member[][] = []
  for (const member of members) {
    const related = groups.filter((group) => group.some((other) => areAcquainted(member, other)))
    const joined = [...related.flat(), member].toSorted((one, two) => one.ordinal - two.ordinal)
    groups.splice(0, groups.length, ...groups.filter((group) => !related.includes(group)), joined)
  }
  return groups
}

function areAcquainted(one: Member, other: Member): boolean {
  return (
    one.peers.some(({ id }) => id === other.peerId) ||
    other.peers.some(({ id }) => id === one.peerId)
  )
}

type Member = PodConsensus & Required<Pick<PodConsensus, 'peerId' | 'peers'>>

function isMember(pod: PodConsensus): pod is Member {
  return pod.state === 'working' && pod.peerId !== undefined && pod.peers !== undefined
}

function listOf(pods: PodConsensus[], name: Name): string {
  return pods.map(({ ordinal }) => name(ordinal)).join(', ')
}

function no(reason: string, message: string): Verdict {
  return { status: 'False', reason, message }
}

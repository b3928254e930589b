/**
 * A cluster as far as its API keys go: Secrets, the template of the pods, pods that read the keys when they
 * start, and a helm Job that may end at any point. What is decided is decided by the hooks.
 */
import { keyFingerprint, type PlannedKeys } from '../../crds/contract/api-keys.ts'
import type { AppliedRelease } from '../../crds/contract/job.ts'
import type { ClusterStatus } from '../../crds/cluster.ts'
import { FOREIGN_KEY } from '../../hooks/cluster/keys/rotation.ts'
import {
  keyRotatedCondition,
  keyRotationStatus,
  keysToKeep,
} from '../../hooks/cluster/keys/status.ts'
import { isRolledOut } from '../../hooks/cluster/rollout.ts'
import { NOW } from '../builders.ts'
import type { Model, Step } from './explore.ts'
import { decide, isSame, KEYS, PART_SECONDS, setOf, TEXTS } from './key-decision.ts'
import { OVERLAP_PARTS, STAGES, work } from './key-run.ts'

const NAMES = KEYS.map(keyFingerprint)
const FOREIGN = keyFingerprint('foreign')

export interface Template {
  /** None if the key of the configuration file counts. */
  keys: string[]
  /** Of the last restart for keys that were missing. */
  restart?: number
  /** Of the Secret that clients read. */
  checksum: string
}

interface Pod {
  template: Template
  /** The main key first. */
  accepts: string[]
}

interface HelmJob {
  hash: string
  keys: PlannedKeys
  at: number
}

export type Recorded = Omit<
  NonNullable<ClusterStatus['keyRotation']>,
  'overlapTime' | 'acceptedBy'
> & {
  /** Parts of an overlap since its begin. */
  age?: number
}

export interface KeyWorld {
  desired: string
  published: string
  /** Of the Secret with the published key. */
  version: number
  stored: string[]
  template: Template
  pods: Pod[]
  /** The cache of Metacontroller has another StatefulSet. */
  seen?: { template: Template; outdated: number }
  reported: { hash: string; keys: NonNullable<AppliedRelease['keys']>; template: Template }
  status?: Recorded
  /** What nodes have answered, if they are not asked again. */
  answers: { asked: string[]; nodes: string[][] }
  /** A key of another writer was published, which voids what is promised. */
  isForeign?: boolean
  /** Reason of the condition KeyRotated. */
  reason?: string
  /** The last pass has found every pod with the newest template, and ready. */
  isRolledOut: boolean
  job?: HelmJob
  /** Parts for which a key that was published is still promised to work. */
  promised: Record<string, number>
  /** The key that has signed the token of a VecAccessKey. */
  token: string
  isMainKeyChecked: boolean
  left: Record<
    'changes' | 'deaths' | 'restarts' | 'lost statuses' | 'lags' | 'losses' | 'strangers',
    number
  >
}

function keyWorld(
  left: Partial<KeyWorld['left']>,
  { nodes = 2, isMainKeyChecked = false } = {},
): KeyWorld {
  const [first = ''] = NAMES
  const template = { keys: [], checksum: first }
  const world: KeyWorld = {
    ...{ desired: first, published: first, version: 1, stored: [first], template, token: first },
    pods: Array.from({ length: nodes }, () => ({ template, accepts: [first] })),
    reported: { hash: '', keys: { published: first, accepted: [first] }, template },
    ...{ answers: { asked: [], nodes: [] }, promised: {}, isMainKeyChecked },
    isRolledOut: true,
    left: {
      changes: 0,
      deaths: 0,
      restarts: 0,
      'lost statuses': 0,
      lags: 0,
      losses: 0,
      strangers: 0,
      ...left,
    },
  }
  world.reported.hash = decide(world).run?.hash ?? ''
  return world
}

/** By what may happen; the first is the smallest. */
export const KEY_WORLDS: Record<string, KeyWorld> = {
  'one change and a Job that dies': keyWorld({ changes: 1, deaths: 1 }),
  'two changes and a Job that dies twice': keyWorld({ changes: 2, deaths: 2 }),
  'nodes that check each other': keyWorld({ changes: 2, deaths: 1 }, { isMainKeyChecked: true }),
  'a node that restarts': keyWorld({ changes: 1, deaths: 1, restarts: 1 }),
  'a status that is lost': keyWorld({ changes: 2, 'lost statuses': 1 }),
  'keys that return, and a status that is lost': keyWorld(
    { changes: 3, 'lost statuses': 1 },
    { nodes: 1 },
  ),
  'the Secret with the keys is lost': keyWorld({ changes: 1, deaths: 1, losses: 1 }),
  'another client writes the published key': keyWorld({ changes: 1, restarts: 1, strangers: 1 }),
  'a cache that lags': keyWorld({ changes: 2, deaths: 1, lags: 1 }, { nodes: 1 }),
}

export function keyModel(start: KeyWorld): Model<KeyWorld> {
  return {
    start,
    copy: (world) => structuredClone(world),
    text: (world) => JSON.stringify(normal(world)),
    steps: (world) => [...operator(world), ...nodes(world), ...users(world), ...faults(world)],
    wrong: (_, after) => brokenPromises(after),
    isGoal: (world) => isDone(world),
  }
}

function normal(world: KeyWorld): unknown {
  const { status, promised, stored, answers, version, ...rest } = world
  const isCurrent = status?.publishedVersion === String(version)
  return {
    ...rest,
    // Versions only grow, and nothing but their equality counts.
    status: status && Object.entries({ ...status, publishedVersion: isCurrent }).toSorted(),
    promised: Object.entries(promised)
      .filter(([, parts]) => parts > 0)
      .toSorted(),
    stored: stored.toSorted(),
    answers: answers.asked.join() === askedNow(world).join() ? answers : {},
  }
}

function isDone(world: KeyWorld): boolean {
  const { desired, published, stored, template, pods, status, job } = world
  return (
    world.reason === undefined &&
    job === undefined &&
    status === undefined &&
    template.keys.length === 0 &&
    [published, ...stored].every((key) => key === desired) &&
    pods.every(({ accepts }) => accepts.join() === desired)
  )
}

/** What the documentation promises. */
function brokenPromises({ published, pods, promised, token, ...world }: KeyWorld): string[] {
  if (world.isForeign === true) return []
  const refuses = (key: string) => pods.some(({ accepts }) => !accepts.includes(key))
  const mains = pods.map(({ accepts }) => accepts[0] ?? '')
  return [
    ...(refuses(published) ? ['the published key is refused'] : []),
    ...(Object.entries(promised).some(([key, parts]) => parts > 0 && refuses(key))
      ? ['a former key is refused within its overlap']
      : []),
    ...(refuses(token) ? ['a token is refused'] : []),
    ...(world.isMainKeyChecked && mains.some(refuses) ? ['nodes refuse each other'] : []),
  ]
}

function operator(world: KeyWorld): Step<KeyWorld>[] {
  const { job, answers } = world
  const asked = askedNow(world)
  const isStale =
    asked.join() === answers.asked.join() && answers.nodes.join() !== nodesNow(world).join()
  return [
    { name: 'pass', take: async (to) => pass(to) },
    ...(isStale
      ? [{ name: 'pass with former answers', take: async (to: KeyWorld) => pass(to, answers) }]
      : []),
    ...(job === undefined
      ? []
      : [{ name: STAGES[job.at]?.name ?? '', take: async (to: KeyWorld) => work(to) }]),
    ...(world.seen === undefined
      ? []
      : [{ name: 'the cache catches up', take: async (to: KeyWorld) => void delete to.seen }]),
  ]
}

function nodes({ pods, template }: KeyWorld): Step<KeyWorld>[] {
  const outdated = pods.findLastIndex((pod) => !isSame(pod.template, template))
  if (outdated === -1) return []
  return [{ name: `node ${outdated} is updated`, take: async (to) => start(to, outdated, true) }]
}

function users(world: KeyWorld): Step<KeyWorld>[] {
  const others = NAMES.filter((key) => key !== world.desired)
  const changes = others.map((key) =>
    strike('changes', `the user writes ${TEXTS.get(key) ?? ''}`, (to) => (to.desired = key)),
  )
  return [
    ...(world.left.changes > 0 ? changes : []),
    { name: 'time passes', take: async (to) => passTime(to) },
    ...(world.token === world.published || world.published === FOREIGN
      ? []
      : [
          {
            name: 'the token is renewed',
            take: async (to: KeyWorld) => void (to.token = to.published),
          },
        ]),
  ]
}

function faults(world: KeyWorld): Step<KeyWorld>[] {
  const { left, job, pods, stored } = world
  return [
    ...(left.deaths > 0 && job !== undefined
      ? [
          strike('deaths', 'the Job fails', (to) => void delete to.job),
          strike('deaths', 'the Job begins again', (to) => void (to.job && (to.job.at = 0))),
        ]
      : []),
    ...(left.restarts > 0
      ? pods.map((_, node) =>
          strike('restarts', `node ${node} restarts`, (to) => start(to, node, false)),
        )
      : []),
    ...(left['lost statuses'] > 0
      ? [
          strike('lost statuses', 'pass without its status', (to) => {
            const { status } = to
            pass(to)
            if (status === undefined) delete to.status
            else to.status = status
          }),
        ]
      : []),
    ...(left.strangers > 0
      ? [strike('strangers', 'another client writes the Secret', (to) => publishForeign(to))]
      : []),
    ...(left.losses > 0 && stored.length > 0
      ? [strike('losses', 'the Secret with the keys is deleted', (to) => void (to.stored = []))]
      : []),
    ...(left.lags > 0 && world.seen === undefined
      ? [strike('lags', 'the cache lags', (to) => void (to.seen = setOf(to)))]
      : []),
  ]
}

function strike(
  of: keyof KeyWorld['left'],
  name: string,
  change: (to: KeyWorld) => unknown,
): Step<KeyWorld> {
  return {
    ...{ name, isStrike: true },
    async take(to) {
      to.left[of] -= 1
      change(to)
    },
  }
}

function pass(world: KeyWorld, formerAnswers?: KeyWorld['answers']): void {
  world.answers = formerAnswers ?? { asked: askedNow(world), nodes: nodesNow(world) }
  const { seen, run } = decide(world, formerAnswers !== undefined)
  world.isRolledOut = isRolledOut(seen)
  const { keyRotation: status } = keyRotationStatus(seen)
  const reason = keyRotatedCondition(seen)?.reason
  if (reason === FOREIGN_KEY) world.reason = reason
  else delete world.reason
  delete world.status
  if (status !== undefined) world.status = recordedOf(status)
  const retained = keysToKeep(seen)
  if (retained !== undefined) world.stored = world.stored.filter((key) => retained.includes(key))
  if (world.job === undefined && run?.keys !== undefined) {
    world.job = { hash: run.hash, keys: run.keys, at: 0 }
  }
}

function recordedOf(found: NonNullable<ClusterStatus['keyRotation']>): Recorded {
  const { overlapTime, acceptedBy: _, ...status } = found
  if (overlapTime === undefined) return status
  const seconds = (NOW.getTime() - Date.parse(overlapTime)) / 1000
  return { ...status, age: Math.min(seconds / PART_SECONDS, OVERLAP_PARTS) }
}

/** The promises end here: clients and pods may read this key. */
function publishForeign(world: KeyWorld): void {
  world.published = FOREIGN
  world.version += 1
  world.isForeign = true
}

function askedNow({ desired, published, stored }: KeyWorld): string[] {
  return [...new Set([desired, published, ...stored])].toSorted()
}

function nodesNow({ pods }: KeyWorld): string[][] {
  return pods.map(({ accepts }) => accepts)
}

/** A node gets the newest template, or starts again with its own; it reads the keys. */
function start(world: KeyWorld, node: number, isUpdated: boolean): void {
  const pod = world.pods[node]
  if (pod === undefined) return
  if (isUpdated) pod.template = world.template
  const [main = '', second = ''] = pod.template.keys
  const isStored = (key: string) => world.stored.includes(key)
  pod.accepts = [isStored(main) ? main : world.published, ...(isStored(second) ? [second] : [])]
}

function passTime(world: KeyWorld): void {
  if (world.status?.age !== undefined) {
    world.status.age = Math.min(world.status.age + 1, OVERLAP_PARTS)
  }
  for (const [key, parts] of Object.entries(world.promised)) {
    world.promised[key] = Math.max(parts - 1, 0)
  }
}

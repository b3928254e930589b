/** What the hooks decide about a small cluster with keys (keys.ts), and what they observe of it. */
import { keyFingerprint } from '../../crds/contract/api-keys.ts'
import type { StatefulSet } from '../../crds/kubernetes.ts'
import { findPendingRun } from '../../hooks/cluster/job.ts'
import { keyRotation } from '../../hooks/cluster/keys/rotation.ts'
import type { Observed } from '../../hooks/cluster/ports.ts'
import {
  acceptingKeys,
  ago,
  applied,
  cluster,
  helmJob,
  NOW,
  observed,
  progress,
  secret,
  settings,
  statefulSet,
} from '../builders.ts'
import { OVERLAP_PARTS } from './key-run.ts'
import type { KeyWorld, Recorded, Template } from './keys.ts'

export const PART_SECONDS = 300
const OVERLAP_SECONDS = OVERLAP_PARTS * PART_SECONDS
export const KEYS = ['one', 'two', 'three'] as const
export const TEXTS = new Map(KEYS.map((key) => [keyFingerprint(key), key]))

export function decide(world: KeyWorld, hasFormerAnswers = false) {
  const seen = observedIn(world, hasFormerAnswers)
  const rotation = keyRotation(seen, NOW)
  if (rotation !== undefined) seen.rotation = rotation
  return { seen, run: findPendingRun(seen, settings) }
}

function observedIn(world: KeyWorld, hasFormerAnswers: boolean): Observed {
  const { desired, published, version, stored, reported, status, answers, token, pods } = world
  const { age, ...recorded } = status ?? {}
  const overlapTime = age === undefined ? {} : { overlapTime: ago(age * PART_SECONDS) }
  const service = world.isMainKeyChecked ? { service: { enforce_internal_auth: true } } : {}
  return observed({
    cluster: cluster({
      spec: {
        replicas: pods.length,
        apiKey: {
          ...{ autoGenerate: false, jwtRbac: true, secretRef: { name: 'key', key: 'api' } },
          rotation: { overlap: `${OVERLAP_SECONDS}s` },
        },
        config: service,
      },
      status: {
        ...(status && { keyRotation: { ...(recorded as Recorded), ...overlapTime } }),
        conditions: conditionsOf(world),
      },
    }),
    secrets: new Map([['key', secret({ api: TEXTS.get(desired) ?? '' })]]),
    statefulSet: observedSet(world),
    jobs: world.job === undefined ? [] : [helmJob()],
    progress: progress({
      applied: applied({
        ...{ planHash: reported.hash, keys: reported.keys },
        // Another number than that of the last restart, as after another run; two are enough, so that the states end.
        ...{ run: reported.keys.restartedAfter === 1 ? 2 : 1, at: ago(7200) },
      }),
    }),
    keys: {
      ...{ published, publishedVersion: String(version), overlapSeconds: OVERLAP_SECONDS },
      stored: new Map(stored.map((key) => [key, ''])),
      answers: {
        // Former answers may be from before the rollout.
        ...{ asked: answers.asked, at: ago(hasFormerAnswers ? 20 : 0) },
        nodes: answers.nodes.map((accepts, ordinal) => ({ ordinal, accepts })),
      },
      formerTokens: token === status?.formerKey ? ['ns/reader'] : [],
    },
  })
}

function conditionsOf({ isRolledOut: wasRolledOut, reason }: KeyWorld) {
  const common = { status: 'False' as const, message: '', lastTransitionTime: ago(10) }
  return [
    ...(wasRolledOut ? [{ ...common, type: 'Progressing', reason: 'RolloutComplete' }] : []),
    ...(reason === undefined ? [] : [{ ...common, type: 'KeyRotated', reason }]),
  ]
}

function observedSet(world: KeyWorld): StatefulSet {
  const nodes = world.pods.length
  const { template, outdated } = world.seen ?? setOf(world)
  const isCurrent = world.seen === undefined || isSame(template, world.reported.template)
  const set = statefulSet(nodes, {
    updatedReplicas: nodes - outdated,
    updateRevision: outdated === 0 ? 'r1' : 'r2',
    // An older generation than the last reported one is recognized.
    observedGeneration: isCurrent ? 1 : 0,
  })
  const metadata = { ...set.metadata, generation: isCurrent ? 1 : 0 }
  return { ...acceptingKeys(set, template.keys), metadata }
}

export function setOf({ pods, template }: KeyWorld): NonNullable<KeyWorld['seen']> {
  return { template, outdated: pods.filter((pod) => !isSame(pod.template, template)).length }
}

export function isSame(one: Template, other: Template): boolean {
  const parts = ({ keys, checksum, restart }: Template) => [...keys, checksum, restart].join()
  return parts(one) === parts(other)
}

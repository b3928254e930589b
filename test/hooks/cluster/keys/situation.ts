/** What is observed of a cluster with `spec.apiKey.rotation`, from the few facts that a test is about. */
import { keyFingerprint, type ReleaseKeys } from '../../../../crds/contract/api-keys.ts'
import type { StatefulSet } from '../../../../crds/kubernetes.ts'
import type { ObservedKeys } from '../../../../hooks/cluster/keys/ports.ts'
import { keyRotation } from '../../../../hooks/cluster/keys/rotation.ts'
import type { Condition } from '../../../../crds/schema.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import { timestamp } from '../../../../hooks/conditions.ts'
import {
  acceptingKeys,
  applied,
  cluster,
  NOW,
  observed,
  progress,
  secret,
  statefulSet,
  type ClusterOverrides,
} from '../../../builders.ts'

export const OVERLAP_SECONDS = 3600
/** Texts of keys, and their fingerprints. */
export const [A, B, C] = ['key-a', 'key-b', 'key-c'] as const
export const [a, b, c] = [A, B, C].map(keyFingerprint) as [string, string, string]

/** An instant before NOW, as a status has it. */
export function ago(seconds: number): string {
  return timestamp(new Date(NOW.getTime() - seconds * 1000))
}

export interface Situation {
  /** The key in the Secret of the spec; default A. */
  desired?: string
  /** Default a; undefined if there is no such Secret. */
  published?: string | undefined
  /** Of the Secret with it. */
  publishedVersion?: string
  /** Keys in the Secret of the operator; default: the published one. */
  stored?: string[]
  /** What the last helm run has reported; undefined before the first one. Default: the published key alone. */
  recorded?: ReleaseKeys | undefined
  /** Two keys that the template of the pods names; default: those of the last helm run. */
  template?: string[]
  /** Keys that each node accepts; undefined for a node that does not answer. Default: none was asked. */
  accepts?: (string[] | undefined)[]
  asked?: string[]
  /** Seconds since the pods were rolled out, as the status says; default: it does not. */
  rolledOutFor?: number
  conditions?: Condition[]
  /** Of the last helm run. */
  appliedAt?: string
  formerTokens?: ObservedKeys['formerTokens']
  status?: NonNullable<ClusterOverrides['status']>['keyRotation'] | undefined
  /** A pod is not ready. */
  isRollingOut?: boolean
  spec?: NonNullable<ClusterOverrides['spec']>
  appliedVersion?: string
  /** Fields of everything else. */
  more?: Partial<Observed>
}

/** Three nodes have these keys. */
export function everyNode(...keys: string[]): string[][] {
  return [keys, keys, keys]
}

/** The nodes accept both keys, and the first one is published. */
export const BOTH: Situation = {
  ...{ desired: B, published: a, stored: [a, b] },
  recorded: { published: a, accepted: [a, b] },
  accepts: everyNode(a, b),
}
export const PUBLISHED: Situation = {
  ...{ desired: B, published: b, stored: [a, b] },
  recorded: { published: b, accepted: [a, b], former: a },
  accepts: everyNode(a, b),
}
/** For half an hour. */
export const OVERLAPPING: Situation = {
  ...PUBLISHED,
  status: { step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(1800) },
}
export const OVER: Situation = {
  ...PUBLISHED,
  status: { step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(3600) },
}

/** Three nodes, unless more have answered. */
export function situation(facts: Situation = {}): Observed {
  const { desired = A, spec, status, more = {}, isRollingOut = false } = facts
  const published = 'published' in facts ? facts.published : a
  const { stored = published === undefined ? [] : [published], accepts, formerTokens } = facts
  const alone = published === undefined ? undefined : { published, accepted: [published] }
  const recorded = 'recorded' in facts ? facts.recorded : alone
  const nodes = accepts?.length ?? 3
  const asked = facts.asked ?? [a, b, c]
  const { version = '1.18.3' } = spec ?? {}
  const { appliedVersion = version } = facts
  return observed({
    cluster: cluster({
      spec: {
        version,
        replicas: nodes,
        apiKey: {
          ...{ autoGenerate: false, jwtRbac: false, secretRef: { name: 'key', key: 'api' } },
          rotation: { overlap: '1h' },
        },
        ...spec,
      },
      status: {
        ...{ phase: 'Running', appliedRun: 1 },
        ...(status && { keyRotation: status }),
        conditions: [
          ...(facts.rolledOutFor === undefined ? [] : [rolledOut(facts.rolledOutFor)]),
          ...(facts.conditions ?? []),
        ],
      },
    }),
    secrets: new Map([['key', secret({ api: desired })]]),
    statefulSet: templated(nodes, facts.template ?? recorded?.accepted ?? [], isRollingOut),
    progress: progress({
      applied: applied({
        ...{ version: appliedVersion, at: facts.appliedAt ?? ago(60) },
        ...(recorded && { keys: recorded }),
      }),
    }),
    keys: {
      overlapSeconds: OVERLAP_SECONDS,
      stored: new Map(stored.map((key) => [key, ''])),
      ...(published !== undefined && { published }),
      ...(facts.publishedVersion !== undefined && { publishedVersion: facts.publishedVersion }),
      ...(accepts !== undefined && {
        answers: { asked, nodes: answersOf(accepts), at: timestamp(NOW) },
      }),
      ...(formerTokens !== undefined && { formerTokens }),
    },
    ...more,
  })
}

function rolledOut(seconds: number) {
  return {
    ...{ type: 'Progressing', status: 'False' as const, reason: 'RolloutComplete' },
    ...{ message: 'run 1 of vec-a is rolled out', lastTransitionTime: ago(seconds) },
  }
}

/** The same, and what follows from it. */
export function decided(facts: Situation = {}, now = NOW): Observed {
  const seen = situation(facts)
  const rotation = keyRotation(seen, now)
  return { ...seen, ...(rotation !== undefined && { rotation }) }
}

function answersOf(accepts: (string[] | undefined)[]) {
  return accepts.map((keys, ordinal) => ({ ordinal, ...(keys && { accepts: keys }) }))
}

function templated(nodes: number, accepted: string[], isRollingOut: boolean): StatefulSet {
  const set = statefulSet(nodes, isRollingOut ? { readyReplicas: nodes - 1 } : {})
  return acceptingKeys(set, accepted)
}

/** The rotation of an API key: its steps, and what holds in random lives. */
import t from 'tap'
import { keyFingerprint } from '../../../../crds/contract/api-keys.ts'
import { keyRotatedCondition } from '../../../../hooks/cluster/keys/status.ts'
import { keyRotation } from '../../../../hooks/cluster/keys/rotation.ts'
import { matchWhole } from '../../../match-whole.ts'
import { OVERLAP_SECONDS, SmallCluster, type Settings } from './small-cluster.ts'

const [A, B, C] = ['key-a', 'key-b', 'key-c'] as const
const [a, b, c] = [A, B, C].map(keyFingerprint) as [string, string, string]

function started(settings: Partial<Settings> = {}): SmallCluster {
  const small = new SmallCluster(A, { nodes: 3, ...settings })
  small.write(A)
  small.settle()
  return small
}

/** Rounds of sync, run and rollout until the step is this one. */
function until(small: SmallCluster, step: string): void {
  for (let round = 0; round < 100 && small.sync()?.step !== step; round += 1) {
    small.run()
    const outdated = small.nextOutdated()
    if (outdated !== -1) small.restart(outdated, true)
  }
}

t.test('nodes are restarted twice, and the key is published between', async (t) => {
  const small = started()
  t.equal(small.restarts, 0, 'to have the key stored restarts no node')
  small.write(B)
  matchWhole(t, small.sync(), { step: 'Adding', plan: { published: a, accepted: [a, b] } })
  until(small, 'Publishing')
  t.equal(small.restarts, 3)
  matchWhole(t, small.rotation, {
    plan: { published: b, accepted: [a, b], former: a, replaces: a, keepsPods: true },
  })
  until(small, 'Overlap')
  t.equal(small.published, b)
  matchWhole(t, small.status?.keyRotation, {
    ...{ step: 'Overlap', publishedKey: b, formerKey: a },
    acceptedBy: { published: [0, 1, 2], former: [0, 1, 2] },
  })
  small.now += OVERLAP_SECONDS - 1
  t.equal(small.sync()?.step, 'Overlap')
  small.now += 1
  matchWhole(t, small.sync(), { step: 'Removing', plan: { published: b, accepted: [b] } })
  small.settle()
  t.equal(small.restarts, 6)
  t.strictSame([...small.stored], [b])
  t.strictSame(small.broken, [])
})

t.test('nothing is published before every node has accepted the new key', async (t) => {
  const small = started()
  small.write(B)
  until(small, 'Publishing')
  const seen = small.observed()
  const step = (nodes: { ordinal: number; accepts?: string[] }[]) =>
    keyRotation(
      {
        ...seen,
        keys: {
          ...{ overlapSeconds: OVERLAP_SECONDS, stored: new Map(), published: a },
          answers: { asked: [a, b], nodes, at: '2026-03-01T12:00:00Z' },
        },
      },
      new Date(),
    )?.step
  const both = [0, 1, 2].map((ordinal) => ({ ordinal, accepts: [a, b] }))
  t.equal(step(both), 'Publishing')
  t.equal(step(both.slice(1)), 'Adding', 'a node was not asked')
  t.equal(step([...both.slice(1), { ordinal: 0 }]), 'Adding', 'a node does not answer')
  t.equal(step([...both.slice(1), { ordinal: 0, accepts: [a] }]), 'Adding')
})

t.test('the former key stays while it has signed a token', async (t) => {
  const small = started()
  small.write(B)
  until(small, 'Overlap')
  small.now += OVERLAP_SECONDS
  small.formerTokens = ['ns/reader']
  small.sync()
  const condition = () => keyRotatedCondition(small.seen)?.message
  t.equal(small.rotation?.step, 'Overlap')
  t.match(condition(), /has signed the current token of VecAccessKey ns\/reader/)
  small.formerTokens = []
  t.equal(small.sync()?.step, 'Removing')
})

t.test('a key that changes while it is added is replaced at once', async (t) => {
  const small = started()
  small.write(B)
  small.sync()
  small.run()
  small.restart(2, true)
  small.write(C)
  matchWhole(t, small.sync(), { step: 'Adding', plan: { published: a, accepted: [a, c] } })
  small.settle()
  t.equal(small.published, c)
  t.strictSame([small.broken, [...small.stored]], [[], [c]])
})

t.test(
  'a third key waits for the end of the overlap, and needs no rollout of its own',
  async (t) => {
    const small = started()
    small.write(B)
    until(small, 'Overlap')
    small.write(C)
    matchWhole(t, small.sync(), {
      step: 'Overlap',
      next: c,
      plan: { published: b, accepted: [a, b] },
    })
    small.now += OVERLAP_SECONDS
    matchWhole(t, small.sync(), { step: 'Adding', plan: { published: b, accepted: [b, c] } })
    small.settle()
    t.strictSame([small.broken, small.published, small.restarts], [[], c, 9])
  },
)

t.test(
  'the former key is published again without a rollout, and the other one then leaves',
  async (t) => {
    const small = started()
    small.write(B)
    until(small, 'Overlap')
    small.write(A)
    matchWhole(t, small.sync(), {
      plan: { published: a, accepted: [a, b], former: b, keepsPods: true },
    })
    small.settle()
    t.strictSame([small.broken, small.published, small.restarts], [[], a, 6])
  },
)

t.test(
  'nodes that check each other change their main key before they lose the former',
  async (t) => {
    const small = started({ isMainKeyChecked: true })
    small.write(B)
    until(small, 'Publishing')
    t.strictSame(small.rotation?.plan.accepted, [b, a])
    t.notOk(small.rotation?.plan.keepsPods)
    small.settle()
    t.strictSame([small.broken, small.published, small.restarts], [[], b, 9])
  },
)

t.test(
  'an engine with one key gets the new one, and the condition says what that means',
  async (t) => {
    const small = started({ version: '1.16.3' })
    small.write(B)
    matchWhole(t, small.sync(), { step: 'NoSecondKey', isGap: true, plan: { accepted: [b] } })
    const condition = keyRotatedCondition(small.seen)
    t.match(condition, {
      status: 'False',
      reason: 'NoSecondKey',
      message: /^version 1\.16\.3 accepts/,
    })
    small.run()
    t.equal(small.broken[0], 'step 1 of a run: the published key is refused')
  },
)

t.test('for a key that the chart generates, nothing is planned', async (t) => {
  const seen = started().observed()
  const planFor = (apiKey: NonNullable<typeof seen.cluster.spec.apiKey>) => {
    const { cluster } = seen
    return keyRotation(
      { ...seen, cluster: { ...cluster, spec: { ...cluster.spec, apiKey } } },
      new Date(),
    )
  }
  const rotation = { overlap: '1h' }
  const secretRef = { name: 'key', key: 'api' }
  const rotated = { autoGenerate: false, jwtRbac: false, secretRef, rotation }
  t.equal(planFor(rotated)?.plan.published, a)
  t.equal(planFor({ autoGenerate: true, jwtRbac: false }), undefined)
  t.equal(planFor({ autoGenerate: true, jwtRbac: false, rotation }), undefined)
})

/** Pseudo-random, so that a failure can be repeated. */
function generator(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const SEEDS = 400
const EVENTS = 60

t.test(
  `in ${SEEDS} random lives, no client with a promised key is refused, and one key is left`,
  async (t) => {
    const broken: string[] = []
    for (let seed = 0; seed < SEEDS; seed += 1) {
      const draw = generator(seed + 1)
      const small = started({ nodes: 1 + draw(3), isMainKeyChecked: seed % 4 === 0 })
      for (let event = 0; event < EVENTS; event += 1) {
        const happening = draw(10)
        if (happening === 0) small.write([A, B, C][draw(3)] ?? A)
        else if (happening === 1) small.now += draw(2 * OVERLAP_SECONDS)
        else if (happening === 2) small.restart(draw(small.pods.length), false)
        else if (happening === 3) {
          small.sync()
          small.run(draw(5))
        } else if (happening === 4) small.status = {}
        else {
          small.sync()
          small.run()
          const outdated = small.nextOutdated()
          if (outdated !== -1) small.restart(outdated, true)
        }
      }
      small.settle()
      if (small.published !== small.desired) small.broken.push('another key is published')
      if (small.pods.some(({ accepts }) => accepts.length !== 1))
        small.broken.push('two keys are left')
      broken.push(...small.broken.slice(0, 1).map((what) => `seed ${seed}: ${what}`))
    }
    t.strictSame(broken, [])
  },
)

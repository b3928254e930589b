/** A helm run that was killed in the middle is completed, although its plan may be the one that was reported last. */
import t from 'tap'
import { isPartlyApplied } from '../../../../hooks/cluster/keys/partly-applied.ts'
import { keyRotation } from '../../../../hooks/cluster/keys/rotation.ts'
import { findPendingRun } from '../../../../hooks/cluster/job.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import { NOW, progress, settings } from '../../../builders.ts'
import { matchWhole } from '../../../match-whole.ts'
import {
  A,
  a,
  ago,
  B,
  b,
  BOTH,
  c,
  decided,
  OVERLAPPING,
  situation,
  type Situation,
} from './situation.ts'

/** The plan of this state was reported as applied. */
function reported(facts: Situation): Observed {
  const seen = decided(facts)
  const planHash = findPendingRun(seen, settings)?.hash
  const { progress } = seen
  if (planHash === undefined || progress?.applied === undefined) throw new Error('no run is due')
  return { ...seen, progress: { ...progress, applied: { ...progress.applied, planHash } } }
}

const FOREIGN: Situation = {
  ...{ published: c, stored: [a] },
  recorded: { published: a, accepted: [a] },
}

const DUE: [title: string, facts: Situation][] = [
  ['another of the keys was published', { ...BOTH, desired: A, published: b, stored: [a, b] }],
  ['the Secret that clients read is gone', { ...OVERLAPPING, published: undefined }],
  ['another client has written a key', { ...FOREIGN, appliedAt: ago(300) }],
  ['pods get a key that was given up', { template: [a, b], stored: [a] }],
  [
    'the order of the keys is another',
    {
      ...OVERLAPPING,
      template: [b, a],
      recorded: BOTH.recorded,
      spec: { config: { service: { enforce_internal_auth: true } } },
      desired: A,
      published: a,
    },
  ],
]
for (const [title, facts] of DUE) {
  t.test(`${title}: the same run is due again`, async (t) => {
    const seen = reported(facts)
    t.ok(isPartlyApplied(seen))
    t.equal(findPendingRun(seen, settings)?.hash, seen.progress?.applied?.planHash)
  })
}

const DONE: [title: string, facts: Situation][] = [
  ['the key is the only one', {}],
  ['both keys are accepted', OVERLAPPING],
  [
    'another client has written a key again shortly after a helm run',
    { ...FOREIGN, appliedAt: ago(299) },
  ],
  ['the StatefulSet is missing', { more: { statefulSet: undefined } as never }],
]
for (const [title, facts] of DONE) {
  t.test(`${title}: no run is due`, async (t) => {
    const seen = reported(facts)
    t.notOk(isPartlyApplied(seen))
    t.equal(findPendingRun(seen, settings), undefined)
  })
}

t.test('a StatefulSet that is older than the last report says nothing', async (t) => {
  const seen = reported({ template: [a, b], stored: [a] })
  const { progress } = seen
  if (progress?.applied === undefined) throw new Error('nothing was applied')
  const { applied } = progress
  const at = (statefulSetGeneration: number) =>
    isPartlyApplied({
      ...seen,
      progress: { ...progress, applied: { ...applied, statefulSetGeneration } },
    })
  t.strictSame([at(1), at(2)], [true, false])
  const { rotation: _, ...without } = seen
  t.notOk(isPartlyApplied(without))
})

for (const [report, found] of [
  ['no report', undefined],
  ['a report of a run that has applied nothing', progress()],
] as const) {
  t.test(`with ${report} and no status, two keys may both be in use`, async (t) => {
    const withReport = (facts: Situation): Observed => {
      const { progress: _, cluster, ...seen } = situation(facts)
      const { status: __, ...parent } = cluster
      return { ...seen, cluster: parent, ...(found && { progress: found }) }
    }
    const unknown = withReport({ ...BOTH, desired: A })
    matchWhole(t, keyRotation(unknown, NOW), {
      ...{ step: 'Publishing', former: b, overlap: undefined },
      plan: { published: a, accepted: [a, b] },
    })
    matchWhole(t, keyRotation(withReport({ desired: B }), NOW), { plan: { accepted: [a, b] } })
    const { statefulSet: _, ...missing } = unknown
    const rotation = keyRotation(missing, NOW)
    matchWhole(t, rotation, { step: 'Current', plan: { accepted: [a] } })
    t.notOk(isPartlyApplied({ ...missing, ...(rotation && { rotation }) }))
  })
}

t.test('a StatefulSet that is missing, of a release from before keys were reported', async (t) => {
  const { statefulSet: _, ...missing } = situation({ desired: B, recorded: undefined })
  matchWhole(t, keyRotation(missing, NOW), { step: 'Adding', plan: { accepted: [a, b] } })
})

t.test('a key that only killed runs have published is one that clients use', async (t) => {
  const stepAfter = (status: NonNullable<Situation['status']>) => {
    const { step, former, plan } = decided({ ...BOTH, desired: A, status }).rotation ?? {}
    return { step, former, accepted: plan?.accepted }
  }
  const retained = { step: 'Overlap', former: b, accepted: [a, b] }
  t.strictSame(stepAfter({ step: 'Publishing', publishedKey: b }), retained)
  const former = { publishedKey: a, formerKey: b, overlapTime: ago(60) }
  t.strictSame(stepAfter({ step: 'Overlap', ...former }), retained)
})

/** What the next helm run does about the keys, decided from what exists and not from the step before. */
import t from 'tap'
import type { PlannedKeys } from '../../../../crds/contract/api-keys.ts'
import { keyRotation } from '../../../../hooks/cluster/keys/rotation.ts'
import { timestamp } from '../../../../hooks/conditions.ts'
import { NOW } from '../../../builders.ts'
import {
  A,
  a,
  ago,
  B,
  b,
  BOTH,
  C,
  c,
  everyNode,
  OVER,
  OVERLAPPING,
  PUBLISHED,
  situation,
  type Situation,
} from './situation.ts'

const SOURCE = { name: 'key', key: 'api' }
const CHECKED: Situation['spec'] = { config: { service: { enforce_internal_auth: true } } }
const GENERATED: Situation['spec'] = {
  apiKey: { autoGenerate: true, jwtRbac: false, rotation: { overlap: '1h' } },
}

function plan(
  published: string,
  accepted: string[],
  more: Pick<PlannedKeys, 'former' | 'replaces' | 'keepsPods'>,
): PlannedKeys {
  return { published, accepted, ...more, source: { name: 'key', key: 'api' } }
}

function decisionOf(facts: Situation) {
  const { keys: _, ...decision } = keyRotation(situation(facts), NOW) ?? {}
  return decision
}

const FOREIGN: Situation = {
  ...{ published: c, stored: [a] },
  recorded: { published: a, accepted: [a] },
}
const SINCE = { step: 'Overlap', publishedKey: b, formerKey: a } as const
const NOW_ON = { since: timestamp(NOW), end: '2026-03-01T13:00:00Z' }

const DECISIONS: [title: string, facts: Situation, decision: object][] = [
  [
    'before the first helm run: the key of the user is published',
    { published: undefined },
    {
      ...{ step: 'Current', isGap: true },
      plan: { published: a, accepted: [a], source: SOURCE },
    },
  ],
  [
    'the key is the same everywhere: nothing changes',
    {},
    {
      ...{ step: 'Current', isGap: false },
      plan: plan(a, [a], { replaces: a }),
    },
  ],
  [
    'another key: it is added, and the published one stays',
    { desired: B },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a }),
    },
  ],
  [
    'a generated key is replaced by one of a Secret, and no run has reported it: it is added',
    { desired: B, recorded: undefined, stored: [] },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a }),
    },
  ],
  [
    'the Secret of the user is gone during the first rollout: the key that waits is given up',
    { ...BOTH, more: { secrets: new Map() } },
    {
      ...{ step: 'Removing', isGap: false },
      plan: plan(a, [a], { replaces: a }),
    },
  ],
  [
    'a node does not accept the new key yet: both stay',
    { ...BOTH, accepts: [[a, b], [a], [a, b]] },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a, keepsPods: true }),
    },
  ],
  [
    'a node does not accept the published key: nothing is published',
    { ...BOTH, accepts: [[a, b], [b], [a, b]] },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a, keepsPods: true }),
    },
  ],
  [
    'a pod is not ready: nothing is published',
    { ...BOTH, isRollingOut: true },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a, keepsPods: true }),
    },
  ],
  [
    'every node accepts both: the new one is published, and no pod is restarted',
    BOTH,
    {
      ...{ step: 'Publishing', isGap: false, next: b, former: a },
      plan: plan(b, [a, b], { former: a, replaces: a, keepsPods: true }),
    },
  ],
  [
    'nodes check each other: the new one is published and becomes the main key',
    { ...BOTH, spec: CHECKED },
    {
      ...{ step: 'Publishing', isGap: false, next: b, former: a },
      plan: plan(b, [b, a], { former: a, replaces: a }),
    },
  ],
  [
    'a third key before the second was published takes its place',
    { ...BOTH, desired: C },
    {
      ...{ step: 'Adding', isGap: false, next: c },
      plan: plan(a, [a, c], { replaces: a }),
    },
  ],
  [
    'the new key is taken back before it was published: it is removed at once',
    { ...BOTH, desired: A },
    {
      ...{ step: 'Removing', isGap: false },
      plan: plan(a, [a], { replaces: a }),
    },
  ],
  [
    'a run was killed after it had published: the overlap begins all the same',
    { ...PUBLISHED, recorded: { published: a, accepted: [a, b] } },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'a key that was never published is being removed: it stays so',
    { ...BOTH, desired: A, status: { step: 'Removing', publishedKey: a, formerKey: b } },
    { step: 'Removing', isGap: false, plan: plan(a, [a], { replaces: a }) },
  ],
  [
    'the former key is in no Secret any more: pods that have it keep it for the overlap',
    { ...PUBLISHED, stored: [b] },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'nodes check each other, and the former key is in no Secret any more: no pod is restarted for it',
    { ...PUBLISHED, spec: CHECKED, stored: [b] },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'a key that was never published is in no Secret any more: it is removed',
    { ...BOTH, desired: A, stored: [a] },
    { step: 'Current', isGap: false, plan: plan(a, [a], { replaces: a }) },
  ],
  [
    'nothing was reported, and two keys are accepted: clients may use either',
    { ...PUBLISHED, recorded: undefined, template: [a, b] },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'a second key that no run has reported may be one that clients use',
    {
      ...{ published: b, desired: B, stored: [a, b], template: [a, b], accepts: everyNode(a, b) },
      recorded: { published: b, accepted: [b] },
    },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'a pod is not ready after the new key was published: the overlap has not begun',
    { ...PUBLISHED, isRollingOut: true },
    {
      ...{ step: 'Publishing', isGap: false, former: a },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'nodes check each other, and have the former key as the main one: the overlap has not begun',
    { ...PUBLISHED, spec: CHECKED },
    {
      ...{ step: 'Publishing', isGap: false, former: a },
      plan: plan(b, [b, a], { former: a, replaces: b }),
    },
  ],
  [
    'nodes check each other, and have changed their main key: the overlap begins',
    {
      ...{ ...PUBLISHED, spec: CHECKED },
      recorded: { published: b, accepted: [b, a], former: a },
    },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [b, a], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'an overlap of other keys does not count',
    {
      ...PUBLISHED,
      status: { step: 'Overlap', publishedKey: b, formerKey: c, overlapTime: ago(3600) },
    },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'an overlap before another publication does not count',
    {
      ...PUBLISHED,
      status: { step: 'Overlap', publishedKey: c, formerKey: a, overlapTime: ago(3600) },
    },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'another key was published in between, and no status shows it: the overlap begins again',
    {
      ...OVER,
      publishedVersion: '9',
      status: { ...SINCE, overlapTime: ago(3600), publishedVersion: '7' },
    },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'the Secret with the published key is as it was when the overlap began: it continues',
    {
      ...{ ...OVERLAPPING, publishedVersion: '9' },
      status: { ...SINCE, overlapTime: ago(1800), publishedVersion: '9' },
    },
    {
      ...{ step: 'Overlap', isGap: false, former: a },
      overlap: { since: ago(1800), end: '2026-03-01T12:30:00Z' },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'the former key is written again: it is published without a rollout',
    { ...OVERLAPPING, desired: A },
    {
      ...{ step: 'Publishing', isGap: false, next: a, former: b },
      plan: plan(a, [a, b], { former: b, replaces: b, keepsPods: true }),
    },
  ],
  [
    'the former key is written again, and a node refuses it: both stay, and are former ones',
    { ...OVERLAPPING, desired: A, accepts: [[b], [a, b], [a, b]] },
    {
      ...{ step: 'Adding', isGap: false, next: a, former: a },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'a third key in the overlap waits',
    { ...OVERLAPPING, desired: C },
    {
      ...{ step: 'Overlap', isGap: false, next: c, former: a },
      overlap: { since: ago(1800), end: '2026-03-01T12:30:00Z' },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'the overlap is over: the former key is removed',
    { ...OVER, formerTokens: [] },
    {
      ...{ step: 'Removing', isGap: false, former: a },
      overlap: { since: ago(3600), end: timestamp(NOW) },
      plan: plan(b, [b], { replaces: b }),
    },
  ],
  [
    'the overlap is over, and a third key takes the place of the former',
    { ...OVER, desired: C, formerTokens: [] },
    {
      ...{ step: 'Adding', isGap: false, next: c, former: a },
      overlap: { since: ago(3600), end: timestamp(NOW) },
      plan: plan(b, [b, c], { replaces: b }),
    },
  ],
  [
    'the StatefulSet is missing: it is created as it was',
    { ...OVERLAPPING, more: { statefulSet: undefined } as never },
    {
      ...{ step: 'Overlap', isGap: false, former: a },
      overlap: { since: ago(1800), end: '2026-03-01T12:30:00Z' },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'the StatefulSet and the report of the last run are missing: the published key is what there is',
    { desired: B, more: { statefulSet: undefined, progress: undefined } as never },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a }),
    },
  ],
  [
    'the Secret that clients read is gone: it gets the key that nodes accept',
    { ...OVERLAPPING, published: undefined },
    {
      ...{ step: 'Overlap', isGap: false, former: a },
      overlap: { since: ago(1800), end: '2026-03-01T12:30:00Z' },
      plan: {
        ...{ published: b, accepted: [a, b], former: a, source: SOURCE, keepsPods: true },
      },
    },
  ],
  [
    'another key was written into the Secret that clients read: it gets the former one again',
    { ...FOREIGN, appliedAt: ago(300) },
    {
      ...{ step: 'Current', isGap: false },
      plan: plan(a, [a], { replaces: c }),
    },
  ],
  [
    'another key was written there again, shortly after a helm run: the next one waits',
    { ...FOREIGN, appliedAt: ago(299) },
    { step: 'Current', isGap: false, isResting: true, plan: plan(a, [a], { replaces: c }) },
  ],
  [
    'the key that nodes accept is nowhere: they change to that of the user',
    {
      ...{ published: c, stored: [], desired: B, appliedAt: ago(300) },
      recorded: { published: a, accepted: [a] },
    },
    {
      ...{ step: 'Current', isGap: true },
      plan: plan(b, [b], { replaces: c }),
    },
  ],
  [
    'the Secrets are gone, but nodes accept the published key: it is still ours',
    { ...BOTH, stored: [a], published: b },
    {
      ...{ step: 'Overlap', isGap: false, former: a, overlap: NOW_ON },
      plan: plan(b, [a, b], { former: a, replaces: b, keepsPods: true }),
    },
  ],
  [
    'a template with another pair of keys: nodes get the published key back, and the new one',
    { desired: B, template: [b, c], stored: [a] },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a }),
    },
  ],
  [
    'an engine with one key: it is replaced',
    { desired: B, spec: { version: 'v1.16.3' } },
    {
      ...{ step: 'NoSecondKey', isGap: true, next: b },
      plan: plan(b, [b], { replaces: a }),
    },
  ],
  [
    'an engine with one key, which is the same: nothing changes',
    { spec: { version: '1.16.3' } },
    {
      ...{ step: 'Current', isGap: false },
      plan: plan(a, [a], { replaces: a }),
    },
  ],
  [
    'the oldest engine with two keys gets both',
    { desired: B, spec: { version: '1.17.0' } },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a, b], { replaces: a }),
    },
  ],
  [
    'an engine with one key is updated to one with two: the new key waits for the update',
    { desired: B, spec: { version: '1.18.3' }, appliedVersion: '1.16.3' },
    {
      ...{ step: 'Adding', isGap: false, next: b },
      plan: plan(a, [a], { replaces: a }),
    },
  ],
  [
    'the user asks for a generated key in the overlap: the former key is removed after it',
    { ...OVER, spec: GENERATED, formerTokens: [] },
    {
      ...{ step: 'Removing', isGap: false, former: a },
      overlap: { since: ago(3600), end: timestamp(NOW) },
      plan: { published: b, accepted: [b], replaces: b },
    },
  ],
]
for (const [title, facts, decision] of DECISIONS) {
  t.test(title, async (t) => {
    t.strictSame(decisionOf(facts), decision)
  })
}

const NONE: [title: string, facts: Situation][] = [
  ['a generated key that has not changed stays with the chart', { spec: GENERATED }],
  [
    'nothing is there, and the Secret of the user is missing',
    { published: undefined, more: { secrets: new Map() } },
  ],
  ['nothing is there, and the key of the user is empty', { published: undefined, desired: '' }],
]
for (const [title, facts] of NONE) {
  t.test(`${title}: nothing is planned`, async (t) => {
    t.equal(keyRotation(situation(facts), NOW), undefined)
  })
}

t.test('without spec.apiKey.rotation nothing is planned', async (t) => {
  const { keys: _, ...seen } = situation({ desired: B })
  t.equal(keyRotation(seen, NOW), undefined)
})

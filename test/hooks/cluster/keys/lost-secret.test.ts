/** The Secret of the operator is deleted while keys are rotated, and pods that started without it start again. */
import t from 'tap'
import { ANNOTATIONS } from '../../../../crds/contract/names.ts'
import { desiredRun } from '../../../../hooks/cluster/job.ts'
import { isPartlyApplied } from '../../../../hooks/cluster/keys/partly-applied.ts'
import { settings } from '../../../builders.ts'
import { a, ago, b, BOTH, decided, everyNode, OVERLAPPING, type Situation } from './situation.ts'

const DUE: [title: string, facts: Situation, isDue: boolean][] = [
  ['at rest', { stored: [] }, true],
  ['while nodes get the new key', { ...BOTH, stored: [] }, true],
  ['while nodes get the new key, which it has', { ...BOTH, stored: [b] }, true],
  ['while both keys are accepted', { ...OVERLAPPING, stored: [] }, true],
  ['while both keys are accepted: what is known is stored', { ...OVERLAPPING, stored: [b] }, false],
]
for (const [title, facts, isDue] of DUE) {
  t.test(`the Secret is deleted ${title}: ${isDue ? 'a' : 'no'} run is due`, async (t) => {
    const seen = decided(facts)
    t.equal(isPartlyApplied(seen), isDue)
    t.strictSame(
      seen.rotation?.plan.accepted,
      decided({ ...facts, stored: [a, b] }).rotation?.plan.accepted,
    )
  })
}

const ADDING: Situation = { ...BOTH, accepts: [[a], [a, b], [a, b]], rolledOutFor: 10 }
const RESTARTED = { published: a, accepted: [a, b], restartedAfter: 0 }

const RESTARTS: [title: string, facts: Situation, restartedAfter: number | undefined][] = [
  ['a pod started without the new key', ADDING, 1],
  ['a pod started without any of both', { ...ADDING, accepts: [[a, b], [], [a, b]] }, 1],
  [
    'a pod started without the former key, which is stored again',
    { ...OVERLAPPING, accepts: [[a, b], [b], [a, b]], rolledOutFor: 10 },
    1,
  ],
  ['every node accepts both', { ...OVERLAPPING, rolledOutFor: 10 }, undefined],
  ['no rollout is known to be over', { ...BOTH, accepts: [[a], [a, b], [a, b]] }, undefined],
  ['the answers are from before the rollout', { ...ADDING, rolledOutFor: -10 }, undefined],
  ['pods are being replaced', { ...ADDING, isRollingOut: true }, undefined],
  ['a node does not answer', { ...ADDING, accepts: [[a], undefined, [a, b]] }, undefined],
  ['nodes were asked for other keys', { ...ADDING, asked: [a] }, undefined],
  ['the key is not stored yet', { ...ADDING, stored: [a] }, undefined],
  ['the template has other keys', { ...ADDING, template: [], stored: [a, b] }, undefined],
  [
    'it has no effect: not twice in an hour',
    { ...ADDING, recorded: RESTARTED, appliedAt: ago(3599) },
    0,
  ],
  ['it has no effect for an hour', { ...ADDING, recorded: RESTARTED, appliedAt: ago(3600) }, 1],
  ['it has had an effect', { ...ADDING, accepts: everyNode(a, b), recorded: RESTARTED }, 0],
  ['no run has reported keys', { ...ADDING, recorded: undefined, template: [a, b] }, undefined],
]
for (const [title, facts, restartedAfter] of RESTARTS) {
  t.test(`${title}: pods are ${restartedAfter === 1 ? '' : 'not '}restarted`, async (t) => {
    const seen = decided(facts)
    t.equal(seen.rotation?.plan.restartedAfter, restartedAfter)
    const { values } = desiredRun(seen, settings)
    t.strictSame(
      values['podAnnotations'],
      restartedAfter === undefined ? undefined : { [ANNOTATIONS.keysRead]: String(restartedAfter) },
    )
  })
}

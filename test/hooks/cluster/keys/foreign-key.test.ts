/** Another client has written the Secret with the published key, and a pod has read its key. */
import t from 'tap'
import { ANNOTATIONS } from '../../../../crds/contract/names.ts'
import { desiredRun } from '../../../../hooks/cluster/job.ts'
import { keyRotatedCondition } from '../../../../hooks/cluster/keys/status.ts'
import type { Observed } from '../../../../hooks/cluster/ports.ts'
import { settings } from '../../../builders.ts'
import { a, A, ago, B, c, decided, everyNode, situation, type Situation } from './situation.ts'

const SINCE = { lastTransitionTime: ago(60), message: '', status: 'False' as const }
const ROLLED_OUT = { ...SINCE, type: 'Progressing', reason: 'RolloutComplete' }
const KNOWN = { ...SINCE, type: 'KeyRotated', reason: 'ForeignApiKey' }

/** Three formed nodes. */
function seenWith(facts: Situation, conditions: object[] = [ROLLED_OUT]): Observed {
  const { cluster } = situation(facts)
  const status = { ...cluster.status, formedNodes: 3, conditions } as typeof cluster.status
  const annotations = { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(cluster.spec) }
  const metadata = { ...cluster.metadata, annotations }
  const known = { ...cluster, metadata, ...(status && { status }) }
  return decided({ ...facts, more: { cluster: known } })
}

const FOREIGN: Situation = {
  ...{ published: c, stored: [a] },
  recorded: { published: a, accepted: [a] },
}
const REFUSED: Situation = { accepts: [[a], [], [a]] }

t.test('a pod that refuses the published key is restarted by Kubernetes', async (t) => {
  const seen = seenWith(REFUSED)
  t.match(seen.rotation, { isGap: true, plan: { published: a, restartedAfter: 1 } })
  t.notOk('isGated' in desiredRun(seen, settings), 'a Job on the shards could not ask that node')
  const accepted = seenWith({ accepts: everyNode(a) })
  t.match(accepted.rotation, { isGap: false, plan: { restartedAfter: undefined } })
  t.equal(desiredRun(accepted, settings).isGated, true)
  const foreign = seenWith({ ...REFUSED, ...FOREIGN })
  t.equal(foreign.rotation?.plan.restartedAfter, undefined, 'it would read the other key again')
})

t.test('a pod without the former key is restarted by Jobs', async (t) => {
  const seen = seenWith({
    ...{ desired: B, stored: [a, c], recorded: { published: a, accepted: [a, c], former: c } },
    accepts: [[a], [a, c], [a, c]],
  })
  t.match(seen.rotation, { isGap: false, plan: { restartedAfter: 1 } })
  t.equal(desiredRun(seen, settings).isGated, true)
})

t.test('an engine with one key gets another one without a Job on the shards', async (t) => {
  const seen = seenWith({ desired: B, spec: { version: '1.16.3' } })
  t.match(seen.rotation, { step: 'NoSecondKey', isGap: true })
  t.notOk('isGated' in desiredRun(seen, settings), 'nodes refuse the key of the Job')
})

const MESSAGES: [title: string, facts: Situation, conditions: object[], message: string | true][] =
  [
    [
      'the key of another client is there',
      FOREIGN,
      [],
      'no helm run has published the key in Secret vec-a-apikey: a helm run writes the published one again',
    ],
    [
      'it was replaced, and no node was asked',
      {},
      [KNOWN],
      'Secret vec-a-apikey has the published key again; no node was asked yet',
    ],
    [
      'it was replaced, and a pod has read it',
      REFUSED,
      [KNOWN],
      'Secret vec-a-apikey has the published key again; 2 of 3 nodes accept it',
    ],
    [
      'pods are being restarted',
      { accepts: everyNode(a), isRollingOut: true },
      [KNOWN],
      'Secret vec-a-apikey has the published key again; 3 of 3 nodes accept it',
    ],
    ['every node accepts the published key', { accepts: everyNode(a) }, [KNOWN], true],
    ['no other key was there', REFUSED, [], true],
  ]
for (const [title, facts, conditions, message] of MESSAGES) {
  t.test(`KeyRotated: ${title}`, async (t) => {
    const seen = seenWith({ desired: A, ...facts }, conditions)
    t.match(
      keyRotatedCondition(seen),
      message === true
        ? { status: 'True', reason: 'KeyCurrent' }
        : { status: 'False', reason: 'ForeignApiKey', message },
    )
  })
}

/** What a user sees of the rotation of an API key: status.keyRotation, the condition KeyRotated and Events. */
import t from 'tap'
import { KubernetesError } from '../../../../crds/contract/errors.ts'
import {
  keyRotatedCondition,
  keyRotationStatus,
  keysToKeep,
} from '../../../../hooks/cluster/keys/status.ts'
import { context, helmJob } from '../../../builders.ts'
import { running, sync } from '../decisions.ts'
import {
  A,
  a,
  ago,
  B,
  b,
  BOTH,
  C,
  c,
  decided,
  everyNode,
  OVER,
  OVERLAPPING,
  situation,
  type Situation,
} from './situation.ts'

const ALL = [0, 1, 2]
const REMOVED: Situation = {
  ...{ desired: B, published: b, stored: [a, b] },
  recorded: { published: b, accepted: [b] },
}

/** The status and the reason and message of the condition, which is False. */
const UNFINISHED: [
  title: string,
  facts: Situation,
  status: object,
  reason: string,
  text: string,
][] = [
  [
    'a new key is in the Secret of the user',
    { desired: B },
    { step: 'Adding', publishedKey: a, nextKey: b },
    'AddingKey',
    'nodes get the new key in addition to the published one; no node was asked yet',
  ],
  [
    'nodes are restarted and get both keys',
    { ...BOTH, isRollingOut: true, accepts: [[a], [a], [a, b]] },
    {
      ...{ step: 'Adding', publishedKey: a, nextKey: b },
      acceptedBy: { published: ALL, next: [2] },
    },
    'AddingKey',
    'nodes get the new key in addition to the published one; 1 of 3 nodes accept the new key',
  ],
  [
    'a node does not answer while it is restarted',
    { ...BOTH, isRollingOut: true, accepts: [[a], undefined, [a, b]] },
    {
      ...{ step: 'Adding', publishedKey: a, nextKey: b },
      acceptedBy: { published: [0, 2], next: [2] },
    },
    'AddingKey',
    'nodes get the new key in addition to the published one; 1 of 3 nodes accept the new key, no answer from node 1',
  ],
  [
    'many nodes do not answer',
    { desired: B, accepts: Array.from({ length: 5 }, () => undefined) },
    { step: 'Adding', publishedKey: a, nextKey: b, acceptedBy: { published: [], next: [] } },
    'AddingKey',
    'nodes get the new key in addition to the published one; 0 of 5 nodes accept the new key, no answer from node 0, 1, 2 and 2 more',
  ],
  [
    'the nodes were asked for other keys only',
    { desired: B, accepts: everyNode(a), asked: [a] },
    { step: 'Adding', publishedKey: a, nextKey: b, acceptedBy: { published: ALL, next: [] } },
    'AddingKey',
    'nodes get the new key in addition to the published one; no node was asked yet',
  ],
  [
    'every node has accepted both keys, and the former one is still published',
    BOTH,
    {
      ...{ step: 'Publishing', publishedKey: a, nextKey: b },
      acceptedBy: { published: ALL, next: ALL },
    },
    'PublishingKey',
    'all nodes accept both keys; the new one is published',
  ],
  [
    'the new key was published, and a pod is not ready',
    { ...OVERLAPPING, status: undefined, isRollingOut: true },
    {
      ...{ step: 'Publishing', publishedKey: b, formerKey: a },
      acceptedBy: { published: ALL, former: ALL },
    },
    'PublishingKey',
    'all nodes accept both keys; the new one is published',
  ],
  [
    'the overlap begins once all pods are ready with both keys',
    { ...OVERLAPPING, status: undefined, publishedVersion: '9' },
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(0) },
      publishedVersion: '9',
      acceptedBy: { published: ALL, former: ALL },
    },
    'FormerKeyAccepted',
    'nodes accept the former key until 2026-03-01T13:00:00Z; the published one is in Secret vec-a-apikey',
  ],
  [
    'the overlap is half over, whether a node answers or not',
    { ...OVERLAPPING, isRollingOut: true, accepts: [[a, b], undefined, [a, b]] },
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(1800) },
      acceptedBy: { published: [0, 2], former: [0, 2] },
    },
    'FormerKeyAccepted',
    'nodes accept the former key until 2026-03-01T12:30:00Z; the published one is in Secret vec-a-apikey',
  ],
  [
    'a third key is written during the overlap',
    { ...OVERLAPPING, desired: C },
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, nextKey: c, overlapTime: ago(1800) },
      acceptedBy: { published: ALL, former: ALL, next: [] },
    },
    'FormerKeyAccepted',
    'nodes accept the former key until 2026-03-01T12:30:00Z; the published one is in Secret vec-a-apikey; then they get the new key',
  ],
  [
    'the overlap is over, and tokens of the former key are left',
    { ...OVER, formerTokens: ['ns/one', 'ns/two'] },
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(3600) },
      acceptedBy: { published: ALL, former: ALL },
    },
    'TokensNotRenewed',
    'the former key is kept: it has signed the current token of VecAccessKey ns/one, ns/two',
  ],
  [
    'the former key has signed more tokens than a message lists',
    { ...OVER, formerTokens: ['ns/one', 'ns/two', 'ns/three', 'ns/four'] },
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(3600) },
      acceptedBy: { published: ALL, former: ALL },
    },
    'TokensNotRenewed',
    'the former key is kept: it has signed the current token of VecAccessKey ns/one, ns/two, ns/three and 1 more',
  ],
  [
    'the overlap is over, and VecAccessKeys cannot be listed',
    { ...OVER, formerTokens: 'unknown' },
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(3600) },
      acceptedBy: { published: ALL, former: ALL },
    },
    'TokensNotRenewed',
    'the former key is kept: VecAccessKeys cannot be listed',
  ],
  [
    'the overlap is over, and tokens were not looked for',
    OVER,
    {
      ...{ step: 'Overlap', publishedKey: b, formerKey: a, overlapTime: ago(3600) },
      acceptedBy: { published: ALL, former: ALL },
    },
    'TokensNotRenewed',
    'the former key is kept: VecAccessKeys cannot be listed',
  ],
  [
    'the overlap is over, and no token is left',
    { ...OVER, formerTokens: [] },
    {
      ...{ step: 'Removing', publishedKey: b, formerKey: a, overlapTime: ago(3600) },
      acceptedBy: { published: ALL, former: ALL },
    },
    'RemovingKey',
    'nodes lose the former key; 3 of 3 nodes accept it',
  ],
  [
    'the overlap is over, and a third key waits',
    { ...OVER, desired: C, formerTokens: [] },
    {
      ...{ step: 'Adding', publishedKey: b, formerKey: a, nextKey: c, overlapTime: ago(3600) },
      acceptedBy: { published: ALL, former: ALL, next: [] },
    },
    'AddingKey',
    'nodes get the new key in addition to the published one; 0 of 3 nodes accept the new key',
  ],
  [
    'nodes are restarted without the former key',
    { ...REMOVED, isRollingOut: true, accepts: [[a, b], undefined, [b]] },
    {
      ...{ step: 'Removing', publishedKey: b, formerKey: a },
      acceptedBy: { published: [0, 2], former: [0] },
    },
    'RemovingKey',
    'nodes lose the former key; 1 of 3 nodes accept it, no answer from node 1',
  ],
  [
    'all nodes have lost the former key, and none was asked',
    REMOVED,
    { step: 'Removing', publishedKey: b, formerKey: a },
    'RemovingKey',
    'nodes lose the former key; no node was asked yet',
  ],
  [
    'two keys were given up, and nodes accept either of them',
    { ...REMOVED, stored: [a, b, c], isRollingOut: true, accepts: [[a, b], [b, c], [b]] },
    {
      ...{ step: 'Removing', publishedKey: b, formerKey: a },
      acceptedBy: { published: ALL, former: [0] },
    },
    'RemovingKey',
    'nodes lose the former key; 2 of 3 nodes accept it',
  ],
  [
    'the new key is taken back before it was published',
    { ...BOTH, desired: A },
    {
      ...{ step: 'Removing', publishedKey: a, formerKey: b },
      acceptedBy: { published: ALL, former: ALL },
    },
    'RemovingKey',
    'nodes lose the former key; 3 of 3 nodes accept it',
  ],
  [
    'a third key is added while another one that was given up is still stored',
    { ...REMOVED, desired: C },
    { step: 'Adding', publishedKey: b, nextKey: c },
    'AddingKey',
    'nodes get the new key in addition to the published one; no node was asked yet',
  ],
  [
    'the Secret of the operator is gone, and pods are restarted',
    {
      ...{ ...REMOVED, stored: [], isRollingOut: true, accepts: everyNode(b), asked: [b] },
      status: { step: 'Removing', publishedKey: b, formerKey: a },
    },
    { step: 'Removing', publishedKey: b, acceptedBy: { published: ALL } },
    'RemovingKey',
    'nodes lose the former key; no node was asked yet',
  ],
  [
    'the Secret that clients read is gone',
    { ...BOTH, published: undefined },
    {
      ...{ step: 'Publishing', publishedKey: b, formerKey: a, nextKey: b },
      acceptedBy: { published: ALL, former: ALL, next: ALL },
    },
    'PublishingKey',
    'all nodes accept both keys; the new one is published',
  ],
  [
    'the engine accepts one key, and is being updated to one that accepts two',
    { desired: B, appliedVersion: '1.16.3', accepts: everyNode(a) },
    {
      ...{ step: 'Adding', publishedKey: a, nextKey: b },
      acceptedBy: { published: ALL, next: [] },
    },
    'AddingKey',
    'the new key waits for the update: version 1.16.3 accepts one key only',
  ],
  [
    'the engine accepts one key',
    { desired: B, spec: { version: '1.16.3' }, accepts: everyNode(a) },
    {
      ...{ step: 'NoSecondKey', publishedKey: a, nextKey: b },
      acceptedBy: { published: ALL, next: [] },
    },
    'NoSecondKey',
    'version 1.16.3 accepts one key only: nodes refuse the former key one by one; 1.17.0 and newer accept two',
  ],
]
for (const [title, facts, keyRotation, reason, message] of UNFINISHED) {
  t.test(title, async (t) => {
    const seen = decided(facts)
    t.strictSame(keyRotationStatus(seen), { keyRotation })
    const condition = { type: 'KeyRotated', status: 'False', reason, message }
    t.strictSame(keyRotatedCondition(seen), condition)
  })
}

t.test('the error of a failed query is in the message, cut to a bounded length', async (t) => {
  const messageWith = (facts: Situation, error: Error) =>
    keyRotatedCondition({ ...decided(facts), keysFailure: { error } })?.message
  const denied = new KubernetesError('GET secrets/vec-a-tls answered 403')
  const failed = `querying the nodes failed: ${denied.message}`
  t.equal(
    messageWith({ desired: B }, denied),
    `nodes get the new key in addition to the published one; ${failed}`,
  )
  t.equal(messageWith(REMOVED, denied), `nodes lose the former key; ${failed}`)
  t.equal(
    messageWith(REMOVED, new TypeError('key-a')),
    'nodes lose the former key; querying the nodes failed: internal error: TypeError; see the log of the service',
  )
  const long = messageWith(REMOVED, new KubernetesError('x'.repeat(5000)))
  t.equal(long?.length, 'nodes lose the former key; '.length + 1000)
})

const ONE_KEY: [title: string, facts: Situation][] = [
  ['the key has never changed', {}],
  ['the key is stored with the next helm run', { stored: [] }],
  ['pods without a second key are restarted for another reason', { isRollingOut: true }],
  [
    'every node has refused the former key, which is no longer stored',
    { ...REMOVED, stored: [b], status: { step: 'Removing', publishedKey: b, formerKey: a } },
  ],
]
for (const [title, facts] of ONE_KEY) {
  t.test(`${title}: the key is the only one`, async (t) => {
    const seen = decided(facts)
    t.strictSame(keyRotationStatus(seen), {})
    const message = 'the API key of the spec is the only one'
    t.strictSame(keyRotatedCondition(seen), {
      ...{ type: 'KeyRotated', status: 'True', reason: 'KeyCurrent', message },
    })
  })
}

t.test('without spec.apiKey.rotation there is no condition', async (t) => {
  const seen = situation()
  t.strictSame([keyRotationStatus(seen), keyRotatedCondition(seen)], [{}, undefined])
  t.equal(keysToKeep(seen), undefined)
})

const RETAINED: [title: string, facts: Situation, retained: string[] | undefined][] = [
  ['every node has refused the other keys', { ...REMOVED, accepts: everyNode(b) }, [b]],
  [
    'every node has refused both other keys',
    { ...REMOVED, stored: [a, b, c], accepts: everyNode(b) },
    [b],
  ],
  ['there is no other key', { ...REMOVED, stored: [b], accepts: everyNode(b) }, undefined],
  ['no node was asked', REMOVED, undefined],
  ['a node has accepted one', { ...REMOVED, accepts: [[b], [a, b], [b]] }, undefined],
  ['a node has accepted one of two', { ...REMOVED, stored: [a, b, c], accepts: [[c]] }, undefined],
  ['a node has not answered', { ...REMOVED, accepts: [[b], undefined, [b]] }, undefined],
  ['a pod is not ready', { ...REMOVED, accepts: everyNode(b), isRollingOut: true }, undefined],
  [
    'a Job of an earlier plan is unfinished',
    { ...REMOVED, accepts: everyNode(b), more: { jobs: [helmJob()] } },
    undefined,
  ],
  ['nodes are to accept both', { ...OVERLAPPING, accepts: everyNode(b) }, undefined],
]
for (const [title, facts, retained] of RETAINED) {
  t.test(`${title}: ${retained ? 'the others are deleted' : 'all stored keys stay'}`, async (t) => {
    t.strictSame(keysToKeep(decided(facts)), retained)
  })
}

t.test('a node that was not asked may accept any key', async (t) => {
  const seen = decided({ ...REMOVED, accepts: everyNode(b) })
  const { statefulSet } = seen
  if (statefulSet === undefined) throw new Error('there is no StatefulSet')
  const status = { ...statefulSet.status, replicas: 4, readyReplicas: 4, updatedReplicas: 4 }
  const scaled = { ...statefulSet, spec: { ...statefulSet.spec, replicas: 4 }, status }
  t.equal(keysToKeep({ ...seen, statefulSet: scaled }), undefined)
  const { statefulSet: _, ...missing } = seen
  t.equal(keysToKeep(missing), undefined)
})

/** Events of a sync after one in which the condition was this. */
function eventsAfter(
  previous: { status: 'True' | 'False'; reason: string } | undefined,
  facts: Situation,
) {
  const seen = decided(facts)
  const { status } = seen.cluster
  const common = { type: 'KeyRotated', message: '-', observedGeneration: 1 }
  const conditions = previous ? [{ ...common, ...previous, lastTransitionTime: ago(60) }] : []
  const parent = { ...seen.cluster, status: { ...status, conditions } }
  const { events = [], validKeys } = sync(running({ ...seen, cluster: parent }), context)
  const about = events.filter(({ reason }) => /Key|Tokens/.test(reason))
  return { events: about.map(({ type, reason }) => `${type} ${reason}`), validKeys }
}

const CURRENT = { status: 'True', reason: 'KeyCurrent' } as const
const ADDING = { status: 'False', reason: 'AddingKey' } as const
const REMOVING = { status: 'False', reason: 'RemovingKey' } as const

t.test('each new step causes one Event', async (t) => {
  const eventsOf = (...given: Parameters<typeof eventsAfter>) => eventsAfter(...given).events
  t.strictSame(eventsOf(undefined, {}), [], 'a new cluster')
  t.strictSame(eventsOf(CURRENT, {}), [])
  t.strictSame(eventsOf(CURRENT, { desired: B }), ['Normal AddingKey'])
  t.strictSame(eventsOf(ADDING, { desired: B, accepts: everyNode(a) }), [])
  t.strictSame(eventsOf(ADDING, BOTH), ['Normal PublishingKey'])
  t.strictSame(eventsOf(ADDING, OVERLAPPING), ['Normal FormerKeyAccepted'])
  t.strictSame(eventsOf(ADDING, { ...OVER, formerTokens: ['x'] }), ['Warning TokensNotRenewed'])
  t.strictSame(eventsOf(ADDING, { ...OVER, formerTokens: [] }), ['Normal RemovingKey'])
  t.strictSame(eventsOf(REMOVING, { ...REMOVED, stored: [b] }), ['Normal KeyCurrent'])
  t.strictSame(eventsOf(CURRENT, { desired: B, spec: { version: '1.16.3' } }), [
    'Warning NoSecondKey',
  ])
})

t.test('keys that every node has refused are removed with the same decision', async (t) => {
  const { validKeys } = eventsAfter(REMOVING, { ...REMOVED, accepts: everyNode(b) })
  t.strictSame(validKeys, { cluster: { namespace: 'ns', name: 'a' }, fingerprints: [b] })
  t.equal(eventsAfter(REMOVING, { ...REMOVED, accepts: everyNode(a, b) }).validKeys, undefined)
})

/** What another client deletes of a Helm release: what the status says, and when a helm run creates it. */
import t from 'tap'
import { clusterConnection } from '../../../crds/contract/connection.ts'
import type { AppliedRelease } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { missingObjectsRun } from '../../../hooks/cluster/job.ts'
import { eventsOf } from '../../../hooks/cluster/events.ts'
import type { Observed, ReleaseObject } from '../../../hooks/cluster/ports.ts'
import { expectedObjects, readMissingObjects } from '../../../hooks/cluster/release-objects.ts'
import { sync as decide } from '../../../hooks/cluster/sync.ts'
import {
  ago,
  applied,
  cluster,
  clusterSpec,
  context,
  helmJob,
  NOW,
  progress,
  statefulSet,
  type ClusterOverrides,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { condition, running, upgradePlan } from './decisions.ts'

const SERVICE: ReleaseObject = { kind: 'Service', name: 'vec-a' }
const BUDGET: ReleaseObject = { kind: 'PodDisruptionBudget', name: 'vec-a' }
const MESSAGE =
  'objects of the release do not exist: Service vec-a; a helm run creates them, at most once in five minutes'

/** Running, and Ready until now. */
function without(missingObjects: ReleaseObject[], overrides: Partial<Observed> = {}): Observed {
  const ready = running()
  const conditions = decide(ready, context).status.conditions ?? []
  const status = { phase: 'Running' as const, appliedRun: 1, conditions }
  return running({ cluster: cluster({ status }), missingObjects, ...overrides })
}

function sync(observed: Observed) {
  const pendingRun = missingObjectsRun(observed, context)
  return decide(pendingRun === undefined ? observed : { ...observed, pendingRun }, context)
}

/** Recorded by a run this many seconds ago. */
function recorded(seconds: number, more: Partial<AppliedRelease>): Partial<Observed> {
  const { planHash = '' } = running().progress?.applied ?? {}
  return { progress: progress({ applied: applied({ planHash, at: ago(seconds), ...more }) }) }
}

t.test('without an object that clients or pods need, the cluster is not Ready', (t) => {
  for (const object of [
    SERVICE,
    { kind: 'Service', name: 'vec-a-headless' },
    { kind: 'ConfigMap', name: 'vec-a' },
    { kind: 'ServiceAccount', name: 'vec-a' },
    { kind: 'Secret', name: 'vec-a-apikey' },
  ] as const) {
    const decision = sync(without([object]))
    const message = MESSAGE.replace('Service vec-a', `${object.kind} ${object.name}`)
    t.strictSame(condition(decision, 'Ready'), ['False', 'ReleaseIncomplete', message])
    t.equal(decision.status.phase, 'Running')
  }
  t.equal(condition(sync(without([])), 'Ready')?.[1], 'AllReplicasReady')
  t.end()
})

t.test('a helm run with the same values creates it, and is recorded as such', (t) => {
  const decision = sync(without([SERVICE]))
  const plan = upgradePlan(decision)
  t.equal(plan.hash, running().progress?.applied?.planHash)
  t.equal(plan.recreatesObjects, true)
  t.equal(plan.appliedKey, undefined)
  const withKey = without([SERVICE], recorded(301, { publishedKey: 'fingerprint' }))
  t.equal(upgradePlan(sync(withKey)).appliedKey, 'fingerprint')
  const ofAnother = without([SERVICE], recorded(301, { planHash: 'another', publishedKey: 'key' }))
  t.equal(upgradePlan(sync(ofAnother)).appliedKey, undefined)
  t.end()
})

t.test('while the RBAC objects of the Job are created, Applied has the same reason', (t) => {
  const decision = sync(without([SERVICE], { children: [] }))
  t.strictSame(condition(decision, 'Applied'), ['False', 'ReleaseIncomplete', MESSAGE])
  t.end()
})

t.test('only the PodDisruptionBudget is missing: Ready stays True', (t) => {
  const decision = sync(without([BUDGET], { children: [] }))
  t.equal(condition(decision, 'Ready')?.[0], 'True')
  const message = MESSAGE.replace('Service', 'PodDisruptionBudget')
  t.strictSame(condition(decision, 'Applied'), ['False', 'ReleaseIncomplete', message])
  t.end()
})

t.test('one Warning Event for each deletion', (t) => {
  const observed = without([SERVICE], { children: [] })
  const decision = sync(observed)
  const events = decision.events ?? []
  matchWhole(t, events, [{ type: 'Warning', reason: 'ReleaseIncomplete', message: MESSAGE }])
  const { conditions = [] } = decision.status
  const status = { phase: 'Running' as const, appliedRun: 1, conditions }
  const repeated = without([SERVICE], { children: [], cluster: cluster({ status }) })
  t.strictSame(sync(repeated).events, [])
  const later = new Date(NOW.getTime() + 120_000)
  const again = eventsOf(
    observed,
    {
      ...decision.status,
      conditions: conditions.map((one) => ({ ...one, lastTransitionTime: later.toISOString() })),
    },
    later,
  )
  t.equal(again.length, 1)
  t.not(again[0]?.metadata.name, events[0]?.metadata.name, 'another deletion is another Event')
  t.end()
})

const rests: [title: string, seconds: number, more: Partial<AppliedRelease>, isDue: boolean][] = [
  ['at once after a run for another reason', 1, {}, true],
  ['not again within five minutes', 299, { recreatedObjects: true }, false],
  ['again after five minutes', 300, { recreatedObjects: true }, true],
]

for (const [title, seconds, more, isDue] of rests) {
  t.test(`a deleted object is created ${title}`, (t) => {
    const observed = without([SERVICE], recorded(seconds, more))
    t.equal(missingObjectsRun(observed, context) !== undefined, isDue)
    const decision = sync(observed)
    t.equal(condition(decision, 'Ready')?.[1], 'ReleaseIncomplete')
    if (!isDue) t.equal(condition(decision, 'Applied')?.[1], 'ReleaseIncomplete')
    t.end()
  })
}

t.test('no run while a Job is unfinished, and none without a missing object', (t) => {
  t.equal(missingObjectsRun(without([SERVICE], { jobs: [helmJob()] }), context), undefined)
  t.equal(missingObjectsRun(without([]), context), undefined)
  t.equal(missingObjectsRun(running(), context), undefined)
  t.end()
})

const expected: [title: string, overrides: ClusterOverrides, more: ReleaseObject[]][] = [
  ['without keys', {}, []],
  [
    'with a generated key',
    { spec: { apiKey: { autoGenerate: true, jwtRbac: false } } },
    [{ kind: 'Secret', name: 'vec-a-apikey' }],
  ],
  [
    'with a read-only key only',
    { spec: { readOnlyApiKey: { autoGenerate: false, secretRef: { name: 'k', key: 'r' } } } },
    [{ kind: 'Secret', name: 'vec-a-apikey' }],
  ],
  ['of three nodes', { spec: { replicas: 3 } }, [BUDGET]],
]

for (const [title, overrides, more] of expected) {
  t.test(`objects of a release ${title}`, (t) => {
    t.strictSame(
      expectedObjects({ cluster: cluster(overrides), progress: progress({ applied: applied() }) }),
      [
        SERVICE,
        { kind: 'Service', name: 'vec-a-headless' },
        { kind: 'ConfigMap', name: 'vec-a' },
        { kind: 'ServiceAccount', name: 'vec-a' },
        ...more,
      ],
    )
    t.end()
  })
}

t.test('a spec that is not applied yet says nothing about the release', (t) => {
  const later = cluster({ generation: 2, spec: { replicas: 3 } })
  const objects = expectedObjects({ cluster: later, progress: progress({ applied: applied() }) })
  t.notOk(objects.some(({ kind }) => kind === 'PodDisruptionBudget'))
  t.end()
})

t.test('the Secret of a key that the spec has no more may be deleted already', (t) => {
  const former = clusterSpec({ apiKey: { autoGenerate: true, jwtRbac: false } })
  const annotations = { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(former) }
  const later = cluster({ generation: 2, annotations })
  t.notSame(clusterConnection(later).key, undefined)
  const objects = expectedObjects({ cluster: later, progress: progress({ applied: applied() }) })
  t.notOk(objects.some(({ kind }) => kind === 'Secret'))
  t.end()
})

t.test(
  'nothing is read before the first helm run and while the cluster is hibernated',
  async (t) => {
    const ports = { missingObjects: async () => [SERVICE] }
    t.strictSame(await readMissingObjects(running(), ports), [SERVICE])
    t.strictSame(await readMissingObjects(running({ progress: progress({}) }), ports), [])
    const hibernated = cluster({ spec: { hibernate: true }, status: { phase: 'Hibernated' } })
    const stopped = running({ cluster: hibernated, statefulSet: statefulSet(0) })
    t.strictSame(await readMissingObjects(stopped, ports), [])
  },
)

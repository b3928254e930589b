/** The status of a VecCluster and its Events. */
import t from 'tap'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  progress,
  secret,
  settings,
  statefulSet,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { createdJob } from '../decisions.ts'
import { sync, ready, running, condition, upgradePlan } from './decisions.ts'

t.test(
  'release applied, pods not ready: Pending, HelmReleaseApplied, checked after 10 s',
  async (t) => {
    const before = running({ cluster: cluster() })
    const desired = sync({ ...before, statefulSet: statefulSet(1, { readyReplicas: 0 }) }, context)
    t.match(desired.status, {
      phase: 'Pending',
      replicas: 1,
      readyReplicas: 0,
      version: '1.18.3',
      helmRelease: 'vec-a',
      endpoint: 'http://vec-a.ns.svc.cluster.local:6333',
      appliedGeneration: 1,
      appliedRun: 1,
    })
    t.equal(condition(desired, 'Progressing')?.[1], 'HelmReleaseApplied')
    t.strictSame(condition(desired, 'Ready'), ['False', 'ReplicasNotReady', '0/1 replicas ready'])
    t.equal(desired.resyncAfterSeconds, 10)
  },
)

t.test('the endpoint is https when tls.enabled', async (t) => {
  const spec = { tls: { enabled: true, secretRef: { name: 'cert' } } }
  const status = { phase: 'Running', appliedRun: 1 } as const
  const data = { 'tls.crt': 'c', 'tls.key': 'k' }
  const secrets = new Map([['cert', secret(data, 'kubernetes.io/tls')]])
  const desired = sync(running({ cluster: cluster({ spec, status }), secrets }), context)
  t.equal(desired.status.endpoint, 'https://vec-a.ns.svc.cluster.local:6333')
})

t.test('the endpoint is in the DNS domain of the Kubernetes cluster', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const settings = { ...context.settings, clusterDomain: 'k8s.example' }
  const desired = sync(running({ cluster: cluster({ status }) }), { ...context, settings })
  t.equal(desired.status.endpoint, 'http://vec-a.ns.svc.k8s.example:6333')
})

t.test(
  'Pending with all replicas ready is Running: RolloutComplete, AllReplicasReady',
  async (t) => {
    const pending = cluster({ status: { phase: 'Pending', appliedRun: 1 } })
    const desired = sync(running({ cluster: pending }), context)
    t.equal(desired.status.phase, 'Running')
    t.strictSame(condition(desired, 'Progressing'), [
      'False',
      'RolloutComplete',
      'run 1 of vec-a is rolled out',
    ])
    t.strictSame(condition(desired, 'Ready'), ['True', 'AllReplicasReady', '1/1 replicas ready'])
    t.strictSame(condition(desired, 'Applied'), ['True', 'UpToDate', 'generation 1 is applied'])
    t.equal(desired.resyncAfterSeconds, 30)
    t.equal(createdJob(desired), undefined)
  },
)

t.test('Running, spec change applied: Upgrading', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const changed = cluster({ status, generation: 2 })
  const { hash: planHash } = desiredRun(ready({ cluster: changed }), settings)
  const desired = sync(
    running({
      cluster: changed,
      progress: progress({ run: 2, applied: applied({ planHash, run: 2 }) }),
    }),
    context,
  )
  t.equal(desired.status.phase, 'Upgrading')
  t.equal(desired.status.appliedRun, 2)
})

t.test('a spec change re-runs the Helm upgrade', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const before = running()
  const changed = { ...before, cluster: cluster({ status, generation: 2, spec: { replicas: 2 } }) }
  const desired = sync(changed, context)
  t.equal(upgradePlan(desired).run, 2)
  t.equal(desired.status.phase, 'Running')
})

const unversioned = statefulSet()
delete unversioned.status

for (const [title, pods] of [
  ['its generation is not observed yet', statefulSet(1, { observedGeneration: 0 })],
  ['pods of an older revision are left', statefulSet(1, { updateRevision: 'r2' })],
  ['pods are missing', statefulSet(1, { replicas: 0, readyReplicas: 0 })],
  ['pods are left over', statefulSet(1, { replicas: 2 })],
  ['pods are not ready', statefulSet(3, { readyReplicas: 2 })],
  ['it wants no pods', statefulSet(0)],
  ['it says nothing of itself', unversioned],
  ['it is not shown', undefined],
] as const) {
  t.test(`Upgrading stays while the StatefulSet has not caught up: ${title}`, async (t) => {
    const upgrading = cluster({ status: { phase: 'Upgrading', appliedRun: 1 } })
    const rolling = { ...running({ cluster: upgrading }), statefulSet: pods } as Observed
    const { status } = sync(rolling, context)
    t.equal(status.phase, 'Upgrading')
    t.equal(status.readyReplicas, pods?.status?.readyReplicas ?? 0)
    t.strictSame(condition({ status, children: [] }, 'Progressing'), [
      'True',
      'HelmReleaseApplied',
      'run 1 of vec-a was applied',
    ])
  })
}

t.test('a running cluster is not Upgrading when its StatefulSet is not observed', async (t) => {
  const unseen = { ...running(), statefulSet: undefined } as unknown as Observed
  t.equal(sync(unseen, context).status.phase, 'Running')
})

/** Three nodes that were ready, with a StatefulSet that a helm Job replaces. */
function replaced(parts: Partial<Observed>) {
  const since = { lastTransitionTime: ago(3000), observedGeneration: 1 }
  const [status, message] = ['True' as const, '3/3 replicas ready']
  const conditions = [
    { type: 'Ready', status, reason: 'AllReplicasReady', message, ...since },
    { type: 'Consensus', status, reason: 'ConsensusWorking', message: 'working', ...since },
  ]
  const nodes = { readyReplicas: 3, formedNodes: 3 }
  const before = cluster({
    generation: 2,
    spec: { replicas: 3 },
    status: { phase: 'Running', appliedRun: 1, helmRelease: 'vec-a', ...nodes, conditions },
  })
  const { statefulSet: _, ...observed } = running({ cluster: before })
  const desired = sync({ ...observed, ...parts }, context)
  const { phase, readyReplicas, formedNodes } = desired.status
  const find = (name: string) => desired.status.conditions?.find(({ type }) => type === name)
  return { phase, readyReplicas, formedNodes, ready: find('Ready'), consensus: find('Consensus') }
}

t.test('while a helm Job replaces the StatefulSet, the state of its pods stays', async (t) => {
  const unobserved = statefulSet(3)
  delete unobserved.status
  const jobs = [helmJob({ run: 2 })]
  for (const parts of [{ jobs }, { jobs, statefulSet: unobserved }]) {
    t.match(replaced(parts), {
      phase: 'Running',
      readyReplicas: 3,
      formedNodes: 3,
      ready: { status: 'True', lastTransitionTime: ago(3000), observedGeneration: 1 },
      consensus: { status: 'True' },
    })
  }
  const counted = statefulSet(3, { readyReplicas: 2 })
  t.match(replaced({ jobs, statefulSet: counted }), {
    readyReplicas: 2,
    ready: { status: 'False', message: '2/3 replicas ready' },
  })
})

t.test('a StatefulSet that is missing without a helm Job is reported', async (t) => {
  t.match(replaced({}), {
    phase: 'Running',
    readyReplicas: 0,
    formedNodes: 3,
    ready: { status: 'False', message: '0/3 replicas ready: StatefulSet vec-a does not exist' },
    consensus: { status: 'Unknown', message: 'no pod is ready' },
  })
})

t.test('a StatefulSet that names no number of pods has one', async (t) => {
  const one = statefulSet()
  delete one.spec.replicas
  const upgrading = cluster({ status: { phase: 'Upgrading', appliedRun: 1 } })
  t.equal(sync(running({ cluster: upgrading, statefulSet: one }), context).status.phase, 'Running')
})

t.test('a StatefulSet older than the helm run proves nothing', async (t) => {
  const pending = cluster({ status: { phase: 'Pending', appliedRun: 1 } })
  const before = running({ cluster: pending })
  const report = progress({
    applied: applied({ ...before.progress?.applied, statefulSetGeneration: 2 }),
  })
  t.equal(sync({ ...before, progress: report }, context).status.phase, 'Pending')
})

t.test('a pod lost later leaves Running and sets Ready=False', async (t) => {
  const desired = sync(running({ statefulSet: statefulSet(1, { readyReplicas: 0 }) }), context)
  t.equal(desired.status.phase, 'Running')
  t.strictSame(condition(desired, 'Ready'), ['False', 'ReplicasNotReady', '0/1 replicas ready'])
})

t.test('a pod that is lost and cannot be created again leaves Running too (L2)', async (t) => {
  const wide = cluster({ spec: { replicas: 3 }, status: { phase: 'Running', appliedRun: 1 } })
  const pods = statefulSet(3, { replicas: 2, readyReplicas: 2 })
  const desired = sync(running({ cluster: wide, statefulSet: pods }), context)
  t.equal(desired.status.phase, 'Running')
  t.strictSame(condition(desired, 'Progressing')?.slice(0, 2), ['False', 'RolloutComplete'])
  t.strictSame(condition(desired, 'Ready'), ['False', 'ReplicasNotReady', '2/3 replicas ready'])
})

t.test('a stopped consensus thread keeps a cluster from Running', async (t) => {
  const pending = cluster({ status: { phase: 'Pending', appliedRun: 1 } })
  const consensus = [{ ordinal: 0, state: 'stopped' as const, error: 'no more' }]
  const desired = sync(running({ cluster: pending, consensus }), context)
  t.equal(desired.status.phase, 'Pending')
  t.strictSame(condition(desired, 'Consensus'), ['False', 'ConsensusStopped', 'vec-a-0: no more'])
})

t.test('a pod that does not answer for its consensus makes it Unknown', async (t) => {
  const consensus = [{ ordinal: 0, state: 'unknown' as const }]
  t.strictSame(condition(sync(running({ consensus }), context), 'Consensus'), [
    'Unknown',
    'PodsNotAnswering',
    'no answer from vec-a-0',
  ])
})

t.test('working consensus is a condition', async (t) => {
  const consensus = [0, 1, 2].map((ordinal) => ({ ordinal, state: 'working' as const }))
  t.strictSame(condition(sync(running({ consensus }), context), 'Consensus'), [
    'True',
    'ConsensusWorking',
    'consensus works on 3 nodes',
  ])
})

t.test('each pod that has stopped is named, with the words of the engine', async (t) => {
  const consensus = [
    { ordinal: 0, state: 'stopped' as const, error: 'no more' },
    { ordinal: 1, state: 'unknown' as const },
    { ordinal: 2, state: 'stopped' as const },
  ]
  const message = (parts: Partial<Observed>) =>
    condition(sync(running(parts), context), 'Consensus')?.[2]
  t.equal(message({ consensus }), 'vec-a-0: no more; vec-a-2: stopped')
  const wordy = [{ ordinal: 0, state: 'stopped' as const, error: 'x'.repeat(2000) }]
  t.equal(message({ consensus: wordy })?.length, 1000)
})

t.test('each pod that does not answer is named', async (t) => {
  const consensus = [0, 1].map((ordinal) => ({ ordinal, state: 'unknown' as const }))
  const found = condition(sync(running({ consensus }), context), 'Consensus')
  t.equal(found?.[2], 'no answer from vec-a-0, vec-a-1')
})

t.test('the last state of consensus stays until the pods are asked again', async (t) => {
  const before = {
    ...{ type: 'Consensus', status: 'False' as const, reason: 'ConsensusStopped', message: 'x' },
    ...{ lastTransitionTime: ago(600), observedGeneration: 1 },
  }
  const known = cluster({ status: { phase: 'Running', appliedRun: 1, conditions: [before] } })
  const { status } = sync(running({ cluster: known }), context)
  t.strictSame(
    status.conditions?.find(({ type }) => type === 'Consensus'),
    before,
  )
  t.equal(condition(sync(running(), context), 'Consensus'), undefined)
})

t.test(
  'working consensus is Unknown once no pod is ready; lost consensus stays lost (L1)',
  async (t) => {
    const found = (status: 'True' | 'False', reason: string, readyReplicas: number) => {
      const before = {
        ...{ type: 'Consensus', status, reason, message: 'x' },
        ...{ lastTransitionTime: ago(600), observedGeneration: 1 },
      }
      const known = cluster({ status: { phase: 'Running', appliedRun: 1, conditions: [before] } })
      const pods = statefulSet(3, { readyReplicas })
      return condition(sync(running({ cluster: known, statefulSet: pods }), context), 'Consensus')
    }
    const unknown = ['Unknown', 'PodsNotAnswering', 'no pod is ready']
    t.strictSame(found('True', 'ConsensusWorking', 0), unknown)
    t.strictSame(found('True', 'ConsensusWorking', 1), ['True', 'ConsensusWorking', 'x'])
    t.strictSame(found('False', 'NoLeader', 0), ['False', 'NoLeader', 'x'])
  },
)

t.test('a cluster is checked again when its pods may be asked for consensus again', async (t) => {
  const again = (seconds: number) =>
    sync(running({ consensusResyncSeconds: seconds }), context).resyncAfterSeconds
  t.equal(again(2), 2)
  t.equal(again(40), 30, 'at the latest with the readiness of the pods')
})

t.test('the whole status of a cluster that runs', async (t) => {
  const status = { phase: 'Running', appliedRun: 1 } as const
  const wide = cluster({ spec: { replicas: 3 }, status })
  const pods = statefulSet(3, { readyReplicas: 2 })
  const { status: found } = sync(running({ cluster: wide, statefulSet: pods }), context)
  const since = { lastTransitionTime: '2026-03-01T12:00:00Z', observedGeneration: 1 }
  t.strictSame(found, {
    phase: 'Running',
    replicas: 3,
    readyReplicas: 2,
    version: '1.18.3',
    helmRelease: 'vec-a',
    endpoint: 'http://vec-a.ns.svc.cluster.local:6333',
    appliedGeneration: 1,
    appliedRun: 1,
    selector: 'app.kubernetes.io/instance=vec-a',
    conditions: [
      {
        ...{ type: 'Progressing', status: 'False', reason: 'RolloutComplete' },
        message: 'run 1 of vec-a is rolled out',
        ...since,
      },
      {
        ...{ type: 'Ready', status: 'False', reason: 'ReplicasNotReady' },
        message: '2/3 replicas ready',
        ...since,
      },
      {
        ...{ type: 'Applied', status: 'True', reason: 'UpToDate' },
        message: 'generation 1 is applied',
        ...since,
      },
    ],
  })
})

t.test('a helm run that gets a Job is an Event, once', async (t) => {
  t.strictSame(sync(ready(), context).events, [], 'the API server may refuse it')
  const { hash: plan } = desiredRun(ready(), settings)
  const jobs = [helmJob({ plan })]
  const first = sync(ready({ jobs }), context)
  const started = { type: 'Normal', reason: 'HelmRunning', message: 'helm run 1 is in progress' }
  matchWhole(t, first.events, [started])
  const seen = cluster({ status: first.status })
  t.strictSame(sync(ready({ cluster: seen, jobs }), context).events, [])
})

t.test('a helm run is one Event even when the spec changes while it runs', async (t) => {
  const names = [1, 2].map((generation) => {
    const jobs = [helmJob()]
    const report = progress({ state: 'Started' })
    const parts = { cluster: cluster({ generation }), jobs, progress: report }
    const { events = [] } = sync(ready(parts), context)
    return events.map(({ metadata }) => metadata.name)
  })
  t.equal(names[0]?.length, 1)
  t.strictSame(names[0], names[1])
})

t.test('a pod that is lost or is back is an Event, at most once a minute each', async (t) => {
  const before = (status: 'True' | 'False') => ({
    conditions: [
      {
        ...{ type: 'Ready', status, reason: 'x', message: '' },
        lastTransitionTime: ago(60),
        observedGeneration: 1,
      },
    ],
  })
  const readyEvents = (count: number, status: 'True' | 'False', now = context.now) => {
    const parts = { statefulSet: statefulSet(1, { readyReplicas: count }) }
    const observed = running({ cluster: cluster({ status: before(status) }), ...parts })
    const { events = [] } = sync(observed, { ...context, now })
    return events.filter(({ reason }) => /Ready$/.test(reason))
  }
  const [lost] = readyEvents(0, 'True')
  t.match(lost, { type: 'Warning', reason: 'ReplicasNotReady', message: '0/1 replicas ready' })
  const [back] = readyEvents(1, 'False')
  t.match(back, { type: 'Normal', reason: 'AllReplicasReady' })
  t.strictSame(readyEvents(0, 'False'), [])
  const soon = new Date(context.now.getTime() + 1000)
  t.equal(readyEvents(0, 'True', soon)[0]?.metadata.name, lost?.metadata.name)
  const later = new Date(context.now.getTime() + 60_000)
  t.not(readyEvents(0, 'True', later)[0]?.metadata.name, lost?.metadata.name)
})

t.test('Ready is about the generation that is rolled out, not about a waiting one', async (t) => {
  const generations = (parts: Partial<Observed>, generation: number, before?: number) => {
    const conditions =
      before === undefined
        ? []
        : [
            {
              ...{ type: 'Ready', status: 'True' as const, reason: 'x', message: '' },
              ...{ lastTransitionTime: ago(60), observedGeneration: before },
            },
          ]
    const status = { phase: 'Running' as const, appliedRun: 1, conditions }
    const { status: found } = sync(
      running({ cluster: cluster({ generation, status }), ...parts }),
      context,
    )
    const of = (type: string) =>
      found.conditions?.find((one) => one.type === type)?.observedGeneration
    return [of('Ready'), of('Progressing'), of('Applied')]
  }
  t.strictSame(generations({}, 2, 1), [1, 1, 2], 'the change has not been applied')
  const progressed = progress({ applied: applied({ generation: 2 }), state: 'Done' })
  t.strictSame(generations({ progress: progressed }, 2, 1), [2, 2, 2], 'rolled out')
  const rolling = statefulSet(1, { updateRevision: 'r2' })
  t.strictSame(
    generations({ progress: progressed, statefulSet: rolling }, 2, 1),
    [1, 1, 2],
    'applied, and pods of the former revision are still ready',
  )
})

t.test('replicas that are not ready say why, and the StatefulSet counts', async (t) => {
  const pod = {
    ...{ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'vec-a-0', namespace: 'ns' } },
    status: {
      containerStatuses: [{ name: 'qdrant', state: { waiting: { reason: 'ErrImagePull' } } }],
    },
  }
  const lost = { statefulSet: statefulSet(1, { readyReplicas: 0 }), pods: [pod] }
  t.equal(
    condition(sync(running(lost), context), 'Ready')?.[2],
    '0/1 replicas ready: vec-a-0: container qdrant: ErrImagePull',
  )
  const { statefulSet: _, ...gone } = running({})
  t.strictSame(condition(sync(gone, context), 'Ready'), [
    'False',
    'ReplicasNotReady',
    '0/1 replicas ready: StatefulSet vec-a does not exist',
  ])
  const fewer = cluster({ spec: { replicas: 2 }, status: { phase: 'Running', appliedRun: 1 } })
  const refused = sync(running({ cluster: fewer, statefulSet: statefulSet(3) }), context)
  t.equal(condition(refused, 'Ready')?.[2], '3/3 replicas ready', 'a refused change of replicas')
})

t.test('a pod that is being removed does not make the cluster unready', async (t) => {
  const wide = cluster({ spec: { replicas: 2 }, status: { phase: 'Running', appliedRun: 1 } })
  const pods = statefulSet(2, { replicas: 3, readyReplicas: 3 })
  const desired = sync(running({ cluster: wide, statefulSet: pods }), context)
  t.strictSame(condition(desired, 'Ready'), ['True', 'AllReplicasReady', '2/2 replicas ready'])
})

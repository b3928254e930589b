/** Reads before a decision about a VecCluster. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { KeyAnswers } from '../../../hooks/cluster/keys/ports.ts'
import { BackgroundTasks } from '../../../hooks/background-task.ts'
import type { Pod } from '../../../crds/kubernetes.ts'
import type { ShardsSummary } from '../../../hooks/cluster/shards/summary.ts'
import { HelmConcurrency } from '../../../hooks/cluster/helm-slots.ts'
import { clusterRbac, desiredRun } from '../../../hooks/cluster/job.ts'
import { observe, observeDeletion } from '../../../hooks/cluster/observe.ts'
import type { ClusterPorts, PodConsensus } from '../../../hooks/cluster/ports.ts'
import {
  applied,
  cluster,
  context,
  helmJob,
  observed,
  progress,
  secret,
  settings,
  statefulSet,
  type ClusterOverrides,
  type JobOverrides,
} from '../../builders.ts'
import { consensusCondition } from '../../../hooks/cluster/consensus.ts'
import { hookRequest } from '../request.ts'
import { fakePorts } from './ports.ts'

function dependenciesOf(answers: Partial<ClusterPorts> = {}, inlineMs?: number) {
  const consensus = new BackgroundTasks<PodConsensus[]>(15, inlineMs)
  const shards = new BackgroundTasks<ShardsSummary>(60, inlineMs)
  const { ports } = fakePorts(answers)
  const nodeKeys = new BackgroundTasks<KeyAnswers>(15, inlineMs)
  return { ports, helmConcurrency: new HelmConcurrency(), consensus, shards, nodeKeys }
}

/** A cluster with the report that its desired run was applied. */
function appliedCluster(parts: ClusterOverrides = {}) {
  const { hash: planHash } = desiredRun(observed({ cluster: cluster(parts) }), settings)
  const report = progress({ applied: applied({ planHash }) })
  return cluster({ ...parts, annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) } })
}

t.test('the StatefulSet of the release is identified by its name', async (t) => {
  const other = statefulSet()
  const related = [
    { ...other, metadata: { ...other.metadata, name: 'vec-b' } },
    statefulSet(3, { readyReplicas: 1 }),
  ]
  const found = await observe(hookRequest(cluster(), [], related), dependenciesOf(), context)
  t.strictSame(found.statefulSet, related[1])
  const none = await observe(
    hookRequest(cluster(), [], related.slice(0, 1)),
    dependenciesOf(),
    context,
  )
  t.equal(none.statefulSet, undefined)
})

t.test('the steps of an update are those of the settings', async (t) => {
  const chosen = { ...context, settings: { ...settings, stepVersions: ['1.17.0'] } }
  const found = await observe(hookRequest(cluster()), dependenciesOf(), chosen)
  t.strictSame(found.stepVersions, ['1.17.0'])
})

t.test('every Secret that the spec names is read, and known as far as it exists', async (t) => {
  const key = secret({ api: 'k' })
  const secretRef = (name: string) => ({ autoGenerate: false, secretRef: { name, key: 'api' } })
  const spec = { apiKey: { ...secretRef('key'), jwtRbac: false }, readOnlyApiKey: secretRef('no') }
  const asked: string[] = []
  const reach = dependenciesOf({
    async secret(namespace, name) {
      asked.push(`${namespace}/${name}`)
      return name === 'key' ? key : undefined
    },
  })
  const { secrets } = await observe(hookRequest(cluster({ spec })), reach, context)
  t.strictSame(asked, ['ns/key', 'ns/no'])
  t.strictSame([...secrets], [['key', key]])
})

t.test('the existing pods are asked for consensus, whatever spec.replicas is', async (t) => {
  const asked: number[] = []
  const consensus: PodConsensus[] = [{ ordinal: 0, state: 'working' }]
  const reach = dependenciesOf({
    async consensus({ replicas }) {
      asked.push(replicas)
      return consensus
    },
  })
  const parent = appliedCluster({ spec: { replicas: 5 } })
  const found = await observe(hookRequest(parent, [], [statefulSet(3)]), reach, context)
  t.strictSame(asked, [3])
  t.strictSame(found.consensus, consensus)
  t.equal(found.consensusResyncSeconds, undefined)
})

t.test(
  'a thread that does nothing for three minutes has stopped, whatever it reports',
  async (t) => {
    const peers = [0, 1].map((ordinal) => ({ id: 10 + ordinal, ordinal }))
    const updates = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z']
    const reach = dependenciesOf({
      consensus: async () =>
        updates.map((lastUpdate, ordinal) => ({
          ...{
            ordinal,
            state: 'working',
            peerId: 10 + ordinal,
            peers,
            hasLeader: true,
            lastUpdate,
          },
        })),
    })
    const request = hookRequest(appliedCluster({ spec: { replicas: 2 } }), [], [statefulSet(2)])
    const conditionAfter = async (seconds: number) => {
      const now = new Date(context.now.getTime() + seconds * 1000)
      const { status, reason, message } =
        consensusCondition(await observe(request, reach, { ...context, now })) ?? {}
      return [status, reason, message]
    }
    const works = ['True', 'ConsensusWorking', 'consensus works on 2 nodes']
    t.strictSame(await conditionAfter(0), works)
    updates[0] = '2026-01-01T00:01:00Z'
    t.strictSame(await conditionAfter(60), works)
    t.strictSame(await conditionAfter(179), works)
    t.strictSame(await conditionAfter(200), [
      'False',
      'ConsensusStopped',
      'vec-a-1: its consensus thread has done nothing since 2026-01-01T00:00:00Z, although the engine reports that it works',
    ])
    updates[1] = '2026-01-01T00:05:00Z'
    updates[0] = '2026-01-01T00:05:01Z'
    t.strictSame(await conditionAfter(300), works)
  },
)

const NOT_QUERIED: [why: string, parent: ReturnType<typeof cluster>, pods: object[]][] = [
  [
    'one node has none',
    appliedCluster({ spec: { cluster: { ...cluster().spec.cluster, enabled: false } } }),
    [statefulSet()],
  ],
  ['pods are not ready', appliedCluster(), [statefulSet(3, { readyReplicas: 2 })]],
  ['the StatefulSet is scaled to nothing', appliedCluster(), [statefulSet(0)]],
  ['nothing was applied', cluster(), [statefulSet()]],
  ['there are no pods', appliedCluster(), []],
]
for (const [why, parent, related] of NOT_QUERIED) {
  t.test(`no pod is asked for consensus while ${why}`, async (t) => {
    const reach = dependenciesOf({ consensus: async () => t.fail('asked') as never })
    const found = await observe(hookRequest(parent, [], related), reach, context)
    t.equal(found.consensus, undefined)
  })
}

t.test('pods that do not answer are reported with the error', async (t) => {
  const reach = dependenciesOf({ consensus: () => Promise.reject(new Error('refused')) })
  const request = hookRequest(appliedCluster(), [], [statefulSet()])
  const found = await observe(request, reach, context)
  t.match(found.consensusFailure, { error: { message: 'refused' } })
  const answered = await observe(request, dependenciesOf(), context)
  t.equal(answered.consensusFailure, undefined)
})

t.test('the pods of the StatefulSet are read only while some are not ready', async (t) => {
  const pod = (name: string): Pod => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name } })
  const own = [pod('vec-a-0'), pod('vec-a-12')]
  const others = ['vec-a-x1', 'vec-a-1x', 'vec-a-backup', 'vec-a', 'vec-ab-0'].map(pod)
  const reach = dependenciesOf({ pods: async () => [...others, ...own] })
  const podsWith = async (readyReplicas: number) => {
    const set = statefulSet(3, { readyReplicas })
    return (await observe(hookRequest(appliedCluster(), [], [set]), reach, context)).pods
  }
  t.strictSame(await podsWith(2), own)
  t.equal(await podsWith(3), undefined)
})

t.test('a pass does not wait for slow pods: they are asked again soon', async (t) => {
  const reach = dependenciesOf({ consensus: () => new Promise(() => {}) }, 1)
  const request = hookRequest(appliedCluster(), [], [statefulSet()])
  const found = await observe(request, reach, context)
  t.equal(found.consensus, undefined)
  t.equal(found.consensusResyncSeconds, 2)
})

/** Whether the resource itself is read, with such a newest Job. */
async function isReadLive(job: JobOverrides | undefined, report: Parameters<typeof progress>[0]) {
  let reads = 0
  const reach = dependenciesOf({ cluster: async () => void (reads += 1) })
  const text = JSON.stringify(progress(report))
  const parent = cluster({ annotations: { [ANNOTATIONS.progress]: text } })
  const children = [...clusterRbac(cluster()), ...(job === undefined ? [] : [helmJob(job)])]
  const { progress: known } = await observe(hookRequest(parent, children), reach, context)
  return { reads, known: known?.state }
}

t.test('a Job without an end report is looked up on the resource after 30 s, once', async (t) => {
  const started = { state: 'Started' } as const
  const known = 'Started'
  t.strictSame(await isReadLive({ ended: ['Failed', 30] }, started), { reads: 1, known })
  t.strictSame(await isReadLive({ ended: ['Failed', 29] }, started), { reads: 0, known })
  t.strictSame(await isReadLive({ createdAgo: 900 }, started), { reads: 0, known }, 'it runs')
  t.strictSame(await isReadLive(undefined, started), { reads: 0, known }, 'there is none')
  const ended = { ended: ['Failed', 60] } as const
  t.strictSame(
    await isReadLive({ ended: [...ended.ended] }, { state: 'Failed' }),
    { reads: 0, known: 'Failed' },
    'it has a final report',
  )
})

t.test('finalize reads live what no request shows', async (t) => {
  const jobs = [helmJob()]
  const reach = dependenciesOf({
    statefulSet: async (namespace, name) =>
      namespace === 'ns' && name === 'vec-a' ? statefulSet() : undefined,
    jobsOf: async (namespace, uid) => (namespace === 'ns' && uid === 'uid-a' ? jobs : []),
    isNamespaceTerminating: async (namespace) => namespace === 'ns',
  })
  const parent = appliedCluster()
  t.strictSame(await observeDeletion(hookRequest(parent), reach), {
    cluster: parent,
    children: [],
    jobs: [],
    progress: JSON.parse(parent.metadata.annotations?.[ANNOTATIONS.progress] ?? '') as unknown,
    statefulSet: statefulSet(),
    secrets: new Map(),
    liveJobs: jobs,
    isNamespaceTerminating: true,
  })
  const none = dependenciesOf({ isNamespaceTerminating: async () => false })
  t.notOk('statefulSet' in (await observeDeletion(hookRequest(parent), none)))
})

t.test('finalize reads the report of the last Job live once no Job runs', async (t) => {
  const live = appliedCluster()
  const reads: string[] = []
  const reach = dependenciesOf({
    cluster: async (namespace, name) => {
      reads.push(`${namespace}/${name}`)
      return live
    },
  })
  t.ok((await observeDeletion(hookRequest(cluster()), reach)).progress)
  t.strictSame(reads, ['ns/a'])
  const { metadata, ...rest } = cluster()
  const namesake = { ...rest, metadata: { ...metadata, uid: 'another' } }
  t.equal((await observeDeletion(hookRequest(namesake), reach)).progress, undefined)
  await observeDeletion(hookRequest(live), {
    ...reach,
    ports: { ...reach.ports, jobsOf: async () => [helmJob()] },
  })
  t.strictSame(reads, ['ns/a', 'ns/a'], 'not while a Job is at work')
})

t.test('finalize aborts requests to the pods', async (t) => {
  let asking: AbortSignal | undefined
  const consensus: ClusterPorts['consensus'] = (_, signal) =>
    new Promise((_resolve, reject) => {
      asking = signal
      signal.addEventListener('abort', () => reject(new Error('aborted')))
    })
  const reach = dependenciesOf({ consensus }, 1)
  const parent = appliedCluster()
  await observe(hookRequest(parent, [], [statefulSet()]), reach, context)
  t.equal(asking?.aborted, false)
  await observeDeletion(hookRequest(parent), reach)
  t.equal(asking?.aborted, true)
})

/** When the nodes of a VecCluster are asked for their shards, and what is read before a Job. */
import t from 'tap'
import { ANNOTATIONS } from '../../../../crds/contract/names.ts'
import type { KeyAnswers } from '../../../../hooks/cluster/keys/ports.ts'
import { BackgroundTasks } from '../../../../hooks/background-task.ts'
import { HelmConcurrency, limitMessage } from '../../../../hooks/cluster/helm-slots.ts'
import { desiredRun } from '../../../../hooks/cluster/job.ts'
import { observe } from '../../../../hooks/cluster/observe.ts'
import type { ClusterPorts, PodConsensus } from '../../../../hooks/cluster/ports.ts'
import type { ShardsQuery, ShardsSummary } from '../../../../hooks/cluster/shards/summary.ts'
import type { Job, StatefulSet } from '../../../../crds/kubernetes.ts'
import {
  ago,
  applied,
  cluster,
  context,
  helmJob,
  NOW,
  observed,
  progress,
  settings,
  statefulSet,
  type ClusterOverrides,
} from '../../../builders.ts'
import { matchWhole } from '../../../match-whole.ts'
import { hookRequest } from '../../request.ts'
import { sync } from '../decisions.ts'
import { fakePorts } from '../ports.ts'
import { placedShards, recordedNodes } from '../shards.ts'

const STATUS = { phase: 'Running' as const, balancedNodes: 3, nodes: recordedNodes(3) }

function dependenciesOf(answers: Partial<ClusterPorts> = {}) {
  const asked: ShardsQuery[] = []
  const { ports } = fakePorts({
    async shards(query) {
      asked.push(query)
      return placedShards(query)
    },
    ...answers,
  })
  return {
    asked,
    ...{ ports, helmConcurrency: new HelmConcurrency() },
    consensus: new BackgroundTasks<PodConsensus[]>(15),
    shards: new BackgroundTasks<ShardsSummary>(60),
    nodeKeys: new BackgroundTasks<KeyAnswers>(60),
  }
}

/** Three nodes whose desired run was applied, unless a run is due. */
function requestOf(
  parts: ClusterOverrides = {},
  {
    jobs = [],
    set = statefulSet(3),
    isRunDue = false,
  }: { jobs?: Job[]; set?: StatefulSet; isRunDue?: boolean } = {},
) {
  const overrides = { ...parts, spec: { replicas: 3, ...parts.spec }, status: STATUS }
  const { hash } = desiredRun(observed({ cluster: cluster(overrides) }), settings)
  const report = progress({ applied: applied({ planHash: isRunDue ? 'other' : hash }) })
  const annotations = { ...parts.annotations, [ANNOTATIONS.progress]: JSON.stringify(report) }
  return hookRequest(cluster({ ...overrides, annotations }), jobs, [set])
}

function at(seconds: number) {
  return { ...context, now: new Date(NOW.getTime() + seconds * 1000) }
}

t.test('the existing pods are asked, with what is recorded about them', async (t) => {
  const reach = dependenciesOf()
  const found = await observe(requestOf({ spec: { replicas: 4 } }), reach, context)
  matchWhole(t, reach.asked, [
    {
      connection: { namespace: 'ns', name: 'a', replicas: 3 },
      claimTemplate: 'qdrant-storage',
      volumeBytes: 10 * 2 ** 30,
      recorded: recordedNodes(3),
      moves: [],
    },
  ])
  t.match(found.shards, { replicas: 12, plans: { repair: { is: 'done' } } })
})

t.test('the data volume is identified by the name of its claim template', async (t) => {
  const templateOf = async (...names: string[]) => {
    const reach = dependenciesOf()
    const set = statefulSet(3)
    const volumeClaimTemplates = names.map((name) => ({ metadata: { name }, spec: {} }))
    const named = { ...set, spec: { ...set.spec, volumeClaimTemplates } }
    await observe(requestOf({}, { set: named }), reach, context)
    return reach.asked[0]?.claimTemplate
  }
  t.equal(await templateOf('qdrant-snapshots', 'qdrant-storage'), 'qdrant-storage')
  t.equal(await templateOf('qdrant-snapshots', 'docs-storage'), 'docs-storage')
  t.equal(await templateOf('qdrant-snapshots', 'storage-of-docs'), 'qdrant-storage')
  t.equal(await templateOf(), 'qdrant-storage')
  const { volumeClaimTemplates: _, ...spec } = statefulSet(3).spec
  const reach = dependenciesOf()
  await observe(requestOf({}, { set: { ...statefulSet(3), spec } }), reach, context)
  t.equal(reach.asked[0]?.claimTemplate, 'qdrant-storage')
})

t.test('the volumes of the first nodes are those of the chart of the engine', async (t) => {
  const asked: string[][] = []
  const reach = dependenciesOf({ retainedVolumes: async (_, claims) => (asked.push(claims), []) })
  const request = requestOf({ spec: { replicas: 1 } }, { isRunDue: true })
  await observe({ ...request, related: {} }, reach, context)
  t.strictSame(asked, [['qdrant-storage-vec-a-0']])
})

t.test('nodes are asked once a minute, less often if there are many collections', async (t) => {
  const few = dependenciesOf()
  for (const seconds of [0, 59, 60]) await observe(requestOf(), few, at(seconds))
  t.equal(few.asked.length, 2)
  const many = dependenciesOf({
    async shards(query) {
      many.asked.push(query)
      return placedShards(query, { collections: 300 })
    },
  })
  for (const seconds of [0, 60, 299, 300]) await observe(requestOf(), many, at(seconds))
  t.equal(many.asked.length, 2)
})

t.test('the nodes are asked again at once if the spec has changed', async (t) => {
  const reach = dependenciesOf()
  await observe(requestOf(), reach, context)
  const smaller = await observe(requestOf({ spec: { replicas: 2 } }), reach, at(1))
  t.equal(reach.asked.length, 2)
  t.match(smaller.shards?.targets, { drain: { nodes: 2 } })
})

t.test('no node is asked while a Job is unfinished, and former plans are forgotten', async (t) => {
  const reach = dependenciesOf()
  await observe(requestOf(), reach, context)
  const jobs = [helmJob({ verb: 'shards', run: 2 })]
  const busy = await observe(requestOf({}, { jobs }), reach, at(1))
  t.equal(busy.shards, undefined)
  const after = await observe(requestOf(), reach, at(2))
  t.equal(reach.asked.length, 2)
  t.type(after.shards, 'object')
})

for (const [why, parts, set] of [
  ['it runs without consensus', { spec: { replicas: 1, cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } } }, statefulSet(1)], // prettier-ignore
  ['its pods are being replaced', {}, statefulSet(3, { updateRevision: 'r2', readyReplicas: 2 })],
  ['no pod is ready', {}, statefulSet(3, { readyReplicas: 0 })],
] as const) {
  t.test(`a cluster is not asked for its shards while ${why}`, async (t) => {
    const reach = dependenciesOf()
    const found = await observe(requestOf(parts, { set }), reach, context)
    t.strictSame([reach.asked, found.shards], [[], undefined])
  })
}

t.test('a failure is reported, and the last answer stays', async (t) => {
  let isUp = true
  const reach = dependenciesOf({
    async shards(query) {
      if (!isUp) throw new Error('no answer')
      return placedShards(query)
    },
  })
  await observe(requestOf(), reach, context)
  isUp = false
  const found = await observe(requestOf(), reach, at(60))
  t.match(found.shardsFailure, { error: { message: 'no answer' } })
  t.equal(found.shards?.replicas, 12)
})

t.test('Jobs, Leases and other work are read once work is due', async (t) => {
  const reads: string[] = []
  const repair = { is: 'step', purpose: 'repair' } as const
  const reach = dependenciesOf({
    shards: async (query) => placedShards(query, { plans: { repair } }),
    jobsOf: async () => {
      reads.push('jobs')
      return []
    },
    lease: async (_, name) => {
      reads.push(name)
      return undefined
    },
    conflictingWork: async () => ['VecMigration ns/m'],
  })
  const found = await observe(requestOf(), reach, context)
  t.strictSame(reads.toSorted(), ['jobs', 'vec-a-backup', 'vec-a-write'])
  t.strictSame(found.conflictingWork, ['VecMigration ns/m'])
  t.strictSame(found.liveJobs, [])
  reads.length = 0
  await observe(requestOf(), dependenciesOf(), context)
  t.strictSame(reads, [], 'and only then')
})

t.test('the volumes of nodes that helm would add are looked at', async (t) => {
  const asked: string[][] = []
  const retainedVolumes = async (_: string, claims: string[]) => {
    asked.push(claims)
    return claims.slice(1)
  }
  const reach = dependenciesOf({ retainedVolumes })
  const wider = requestOf({ spec: { replicas: 5 } }, { isRunDue: true })
  t.strictSame((await observe(wider, reach, context)).retainedVolumes, ['qdrant-storage-vec-a-4'])
  t.strictSame(asked, [['qdrant-storage-vec-a-3', 'qdrant-storage-vec-a-4']])
  t.strictSame(
    (await observe(requestOf({}, { isRunDue: true }), reach, context)).retainedVolumes,
    [],
  )
  t.equal(asked.length, 1, 'no node is added')
})

t.test('former plans are forgotten only while a Job is unfinished', async (t) => {
  const reach = dependenciesOf()
  await observe(requestOf(), reach, context)
  const set = statefulSet(3, { readyReplicas: 0 })
  await observe(requestOf({}, { set }), reach, at(1))
  t.type((await observe(requestOf(), reach, at(2))).shards, 'object')
  t.equal(reach.asked.length, 1, 'pods that were not ready for a moment change nothing')
  const ended = helmJob({ verb: 'shards', run: 1, ended: ['Complete', 600] })
  await observe(requestOf({}, { jobs: [ended, helmJob({ verb: 'shards', run: 2 })] }), reach, at(3))
  await observe(requestOf(), reach, at(4))
  t.equal(reach.asked.length, 2)
})

t.test('nodes that are slow are asked in the background, and the answer is awaited', async (t) => {
  const reach = {
    ...dependenciesOf({ shards: () => new Promise(() => {}) }),
    shards: new BackgroundTasks<ShardsSummary>(60, 1),
    nodeKeys: new BackgroundTasks<KeyAnswers>(60),
  }
  const found = await observe(requestOf(), reach, context)
  t.equal(found.shards, undefined)
  t.equal(found.shardsResyncSeconds, 2)
  t.equal(sync(found, context).resyncAfterSeconds, 2)
  const answered = await observe(requestOf(), dependenciesOf(), context)
  t.equal(answered.shardsResyncSeconds, undefined)
})

t.test('the nodes of a failed helm run are asked while one of them is ready', async (t) => {
  const askedWith = async (readyReplicas: number | undefined, failedAt?: string) => {
    const reach = dependenciesOf()
    const { readyReplicas: _, ...unready } = statefulSet(3).status ?? {}
    const status = { ...unready, updateRevision: 'r2' }
    const set = {
      ...statefulSet(3),
      status: readyReplicas === undefined ? status : { ...status, readyReplicas },
    }
    const request = requestOf({}, { set })
    const report = progress({
      ...{ applied: applied(), state: failedAt === undefined ? 'Done' : 'Failed' },
      ...(failedAt !== undefined && { at: failedAt }),
    })
    const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
    const { metadata, ...rest } = request.parent
    const parent = { ...rest, metadata: { ...metadata, annotations } }
    await observe({ ...request, parent }, reach, context)
    return reach.asked.length
  }
  t.equal(await askedWith(1, ago(60)), 1)
  t.equal(await askedWith(0, ago(60)), 0)
  t.equal(await askedWith(undefined, ago(60)), 0)
  t.equal(await askedWith(1), 0, 'it has not failed')
})

t.test('nothing is asked before the StatefulSet has a status', async (t) => {
  const reach = dependenciesOf()
  const { status: _, ...set } = statefulSet(3)
  await observe(requestOf({}, { set }), reach, context)
  t.strictSame(reach.asked, [])
  await observe(requestOf({}, { set: statefulSet(3) }), reach, context)
  t.equal(reach.asked.length, 1)
})

t.test('nothing is asked before the first helm run has ended', async (t) => {
  const reach = dependenciesOf()
  const { parent, ...request } = requestOf()
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(progress()) }
  const { metadata, ...rest } = parent
  await observe(
    { ...request, parent: { ...rest, metadata: { ...metadata, annotations } } },
    reach,
    context,
  )
  t.strictSame(reach.asked, [])
  await observe(requestOf(), reach, context)
  t.equal(reach.asked.length, 1)
})

t.test('the query has the unfinished moves of the last Job, and recorded nodes', async (t) => {
  const queryWith = async (report: Parameters<typeof progress>[0], nodes = recordedNodes(3)) => {
    const reach = dependenciesOf()
    const { parent, ...request } = requestOf()
    const text = JSON.stringify(progress({ applied: applied(), ...report }))
    const { metadata, status = {}, ...rest } = parent
    const changed = {
      ...rest,
      metadata: { ...metadata, annotations: { [ANNOTATIONS.progress]: text } },
    }
    const { nodes: _, ...unrecorded } = status
    const known = nodes.length === 0 ? unrecorded : { ...status, nodes }
    await observe({ ...request, parent: { ...changed, status: known } }, reach, context)
    return reach.asked.map(({ moves, recorded }) => ({ moves, recorded }))
  }
  const moves = [{ collection: 'docs', shard: 1, from: 100, to: 101 }]
  const shards = {
    ...{ startedAt: ago(60), stepsDone: 0, stepsLeft: 1, bytesMoved: 0, bytesLeft: 0, moves },
  }
  t.strictSame(await queryWith({ shards }), [{ moves, recorded: recordedNodes(3) }])
  t.strictSame(await queryWith({}, []), [{ moves: [], recorded: [] }])
})

t.test('other work is asked for only if work on the shards is due', async (t) => {
  const asked: string[] = []
  const conflictingWork: ClusterPorts['conflictingWork'] = async ({ name }) => {
    asked.push(name)
    return []
  }
  const reach = dependenciesOf({ conflictingWork, unfinishedHelmJobs: async () => 7 })
  t.equal((await observe(requestOf({}, { isRunDue: true }), reach, context)).unfinishedHelmJobs, 7)
  t.strictSame(asked, [])
  const repair = { is: 'step', purpose: 'repair' } as const
  const shards = async (query: ShardsQuery) => placedShards(query, { plans: { repair } })
  await observe(requestOf(), dependenciesOf({ shards, conflictingWork }), context)
  t.strictSame(asked, ['a'])
})

t.test('helm Jobs of others are counted only if a helm run is due', async (t) => {
  const repair = { is: 'step', purpose: 'repair' } as const
  const reach = dependenciesOf({
    shards: async (query) => placedShards(query, { plans: { repair } }),
    unfinishedHelmJobs: async () => t.fail('counted') as never,
    retainedVolumes: async () => t.fail('read') as never,
  })
  const found = await observe(requestOf(), reach, context)
  t.equal(found.unfinishedHelmJobs, undefined)
  t.strictSame(found.liveJobs, [])
})

t.test('a cluster that waits for a helm slot reads its Leases only for its shards', async (t) => {
  const repair = { is: 'step', purpose: 'repair' } as const
  const leasesWith = async (plans: ShardsSummary['plans']) => {
    const reach = dependenciesOf({
      shards: async (query) => placedShards(query, { plans }),
      unfinishedHelmJobs: async () => settings.maxHelmJobs,
    })
    const { parent, ...request } = requestOf({}, { isRunDue: true })
    const waiting = {
      ...{ type: 'Applied', status: 'False' as const, reason: 'HelmConcurrencyLimit' },
      ...{ lastTransitionTime: ago(60), observedGeneration: 1 },
      message: limitMessage(settings),
    }
    const status = { ...parent.status, conditions: [waiting] }
    const found = await observe({ ...request, parent: { ...parent, status } }, reach, context)
    return found.leases
  }
  t.type(await leasesWith({ repair }), 'object')
  t.equal(await leasesWith({ repair: { is: 'done' } }), undefined)
})

t.test('the Leases of a Job that has not reported are read', async (t) => {
  const observedWith = async (job: Job, report: Parameters<typeof progress>[0]) => {
    const { parent, ...request } = requestOf({}, { jobs: [job] })
    const text = JSON.stringify(progress({ applied: applied(), ...report }))
    const { metadata, ...rest } = parent
    const changed = {
      ...rest,
      metadata: { ...metadata, annotations: { [ANNOTATIONS.progress]: text } },
    }
    return observe({ ...request, parent: changed }, dependenciesOf(), context)
  }
  const silent = await observedWith(helmJob({ verb: 'shards', run: 2 }), { job: 'job-1' })
  t.strictSame(silent.leases, {
    write: { kind: 'write' },
    backup: { kind: 'backup' },
  })
  t.equal(silent.cluster.metadata.name, 'a')
  const reported = { verb: 'shards', run: 2, state: 'Started', job: 'job-2' } as const
  const loud = await observedWith(helmJob({ verb: 'shards', run: 2 }), reported)
  t.equal(loud.leases, undefined)
  t.equal((await observe(requestOf(), dependenciesOf(), context)).leases, undefined, 'no Job')
  const first = hookRequest(cluster(), [helmJob()])
  t.type((await observe(first, dependenciesOf(), context)).leases, 'object', 'no report at all')
})

/**
 * A cluster of engine doubles with the StatefulSet, pods and claims that it has in Kubernetes, and
 * runs of `cluster shards` on it. Pods follow the StatefulSet whenever the command waits.
 */
import type { Test } from 'tap'
import { VecCluster } from '../../../../crds/cluster.ts'
import { VecCollection } from '../../../../crds/collection.ts'
import { customResourceDefinition } from '../../../../crds/crd.ts'
import { encodePlan, JOB_ENV, parseProgress } from '../../../../crds/contract/job.ts'
import {
  ANNOTATIONS,
  API_VERSION,
  LABELS,
  REVISION_LABEL,
} from '../../../../crds/contract/names.ts'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import type { Shard } from '../../../doubles/engine/collection.ts'
import { startEngineNode, type EngineNode } from '../../../doubles/engine/node.ts'
import { transfersOf } from '../../../doubles/engine/transfers.ts'
import { openApi, openNamespace, podEnv, START } from '../../job-fixture.ts'
import { podOf, runJob, type RunOptions } from '../../job-world.ts'
import type { Clock } from '../../../../jobs/clock.ts'

export interface WorldOptions {
  nodes: number
  /** Nodes over which the collection is spread first; default: all. */
  spread?: number
  shards?: number
  factor?: number
  /** Of the engine. */
  version?: string
}

interface ShardsRunOptions {
  /** Another pod of the same Job, or a pod of another Job. */
  pod?: string
  signal?: AbortSignal
  onLine?: (line: string) => void
  /** Seconds that pass for each second that the command sleeps. */
  speed?: number
  /** By how much the system clock is wrong, in milliseconds. */
  clockErrorMs?: () => number
  /** Called during each sleep with the seconds that have passed; default: transfers end. */
  onSleep?: (seconds: number) => unknown
}

const HOUR_MS = 3_600_000
const CLAIM = 'qdrant-storage'

/** Nodes behind the pods of the cluster. */
interface Pods {
  /** Loopback port, while it runs. */
  port(ordinal: number): number | undefined
  /** Returns false if the node cannot start. The volume is new if the pod had no claim before. */
  start(ordinal: number, hasNewVolume: boolean): Promise<boolean>
  stop(ordinal: number): Promise<void>
}

export type ShardsWorld = Awaited<ReturnType<typeof shardsWorld>>

/** The objects of a cluster with this many pods, all running, and runs of the command on it. */
export async function openCluster(t: Test, count: number, pods: Pods) {
  const folder = t.testdir({})
  const ordinalOf = (pod: string) => Number(pod.slice('vec-a-'.length))
  const { server, api } = await openApi(t, (pod) => pods.port(ordinalOf(pod)))
  await openNamespace(api, VecCluster)
  const parent = await api.create({
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    metadata: { name: 'a', namespace: 'ns' },
    spec: { version: '1.18.3', replicas: count },
  })
  await api.create(statefulSetOf(count))
  const uid = parent.metadata.uid ?? ''
  const reference = (apiVersion: string, kind: string, name: string) => {
    return { apiVersion, kind, namespace: 'ns', name }
  }
  const setReady = async (ordinal: number, isReady: boolean) => {
    const pod = await api.get(reference('v1', 'Pod', `vec-a-${ordinal}`))
    const condition = { type: 'Ready', status: isReady ? 'True' : 'False' }
    await api.replaceStatus({ ...pod, status: { phase: 'Running', conditions: [condition] } })
  }
  /** As the StatefulSet controller does it below the partition, and from it on. */
  const revisions = { current: 'rev-1', update: 'rev-1' }
  const readSet = async () => {
    const set = await api.get(reference('apps/v1', 'StatefulSet', 'vec-a'))
    if (set === undefined) throw new Error('there is no StatefulSet')
    const { replicas, updateStrategy } = set.spec as SetSpec
    return { set, replicas, partition: updateStrategy?.rollingUpdate?.partition ?? 0 }
  }
  const createPod = async (ordinal: number, isReady: boolean) => {
    const { partition } = await readSet()
    const revision = ordinal < partition ? revisions.current : revisions.update
    const pod = podOf(`vec-a-${ordinal}`)
    const labels = { [REVISION_LABEL]: revision }
    await api.create({ ...pod, metadata: { ...pod.metadata, labels } })
    await setReady(ordinal, isReady)
  }
  const revisionOf = async (ordinal: number) => {
    const pod = await api.get(reference('v1', 'Pod', `vec-a-${ordinal}`))
    return pod?.metadata.labels?.[REVISION_LABEL]
  }
  const writeSetStatus = async () => {
    const { set } = await readSet()
    const { generation } = set.metadata
    const { current: currentRevision, update: updateRevision } = revisions
    const { items } = await api.list('v1', 'Pod', { namespace: 'ns' })
    const updated = items.filter(
      ({ metadata: { labels, deletionTimestamp } }) =>
        labels?.[REVISION_LABEL] === updateRevision && deletionTimestamp === undefined,
    )
    const status = {
      ...{ observedGeneration: generation, currentRevision, updateRevision },
      ...{ replicas: items.length, updatedReplicas: updated.length },
    }
    await api.replaceStatus({ ...set, status })
  }
  /** Whether there was none. */
  const createClaim = async (ordinal: number) => {
    const name = `${CLAIM}-vec-a-${ordinal}`
    if ((await api.get(reference('v1', 'PersistentVolumeClaim', name))) !== undefined) return false
    await api.create(claimOf(name))
    return true
  }
  for (let ordinal = 0; ordinal < count; ordinal += 1) {
    await createClaim(ordinal)
    await createPod(ordinal, true)
  }

  const podNames = async () => {
    const { items } = await api.list('v1', 'Pod', { namespace: 'ns' })
    return items.map(({ metadata }) => metadata.name).toSorted()
  }
  const replicas = async () => (await readSet()).replicas

  /** One released pod that has the old template is deleted at a time, the highest first. */
  const rollOne = async () => {
    const { partition, replicas: count } = await readSet()
    for (let ordinal = count - 1; ordinal >= partition; ordinal -= 1) {
      const revision = await revisionOf(ordinal)
      if (revision === undefined || revision === revisions.update) continue
      await pods.stop(ordinal)
      await api.delete(reference('v1', 'Pod', `vec-a-${ordinal}`))
      return
    }
    const all = await Promise.all(
      Array.from({ length: count }, (_, ordinal) => revisionOf(ordinal)),
    )
    if (all.every((revision) => revision === revisions.update)) {
      revisions.current = revisions.update
    }
  }

  /** Pods that do not end, because the kubelet of their Kubernetes node does not answer. */
  const unreachable = new Set<number>()

  /** What the StatefulSet controller and the kubelets do. */
  const settle = async () => {
    await rollOne()
    await writeSetStatus()
    const desired = await replicas()
    const names = new Set(await podNames())
    for (const name of names) {
      const pod = await api.get(reference('v1', 'Pod', name))
      const isDeleted = pod?.metadata.deletionTimestamp !== undefined
      if (unreachable.has(ordinalOf(name)) || (ordinalOf(name) < desired && !isDeleted)) continue
      await pods.stop(ordinalOf(name))
      const body = { kind: 'DeleteOptions', apiVersion: 'v1', gracePeriodSeconds: 0 }
      await api.raw('DELETE', await api.path(reference('v1', 'Pod', name)), body)
      names.delete(name)
    }
    for (let ordinal = 0; ordinal < desired; ordinal += 1) {
      if (names.has(`vec-a-${ordinal}`)) continue
      const isReady = await pods.start(ordinal, await createClaim(ordinal))
      await createPod(ordinal, isReady)
    }
  }

  const plan = (parts: Partial<ShardsPlan> = {}): ShardsPlan => ({
    ...{ resource: 'vecclusters', namespace: 'ns', name: 'a', uid, run: 1, hash: 'hash-1' },
    release: 'vec-a',
    cluster: { namespace: 'ns', name: 'a', replicas: count, tls: false },
    ...{ nodes: count, repair: true, balance: false, maxTransfers: 1, lost: [], defects: {} },
    ...{ zones: {}, allowsFewerReplicas: false, onScaleIn: 'Delete' },
    ...parts,
  })

  return {
    api,
    settle,
    unreachable,
    /** As helm does it for a new template, with the post-renderer. */
    async changeTemplate(revision: string) {
      revisions.update = revision
      const spec = {
        updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: count } },
      }
      await api.patch(reference('apps/v1', 'StatefulSet', 'vec-a'), { spec })
      await writeSetStatus()
    },
    setPartition: (partition: number) =>
      api.patch(reference('apps/v1', 'StatefulSet', 'vec-a'), {
        spec: { updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition } } },
      }),
    /** Revision of each pod's template, and the partition. */
    async rollout() {
      const { partition, replicas: size } = await readSet()
      const ordinals = Array.from({ length: size }, (_, ordinal) => ordinal)
      return { partition, revisions: await Promise.all(ordinals.map(revisionOf)) }
    },
    setReady,
    /** At once, while the Job works. */
    failPod(ordinal: number) {
      const { store, kinds } = server.resources
      const kind = kinds.of('v1', 'Pod')
      const pod = store.get(kind, 'ns', `vec-a-${ordinal}`)
      if (pod === undefined) throw new Error(`there is no pod ${ordinal}`)
      const conditions = [{ type: 'Ready', status: 'False' }]
      store.put(kind, { ...pod, status: { phase: 'Running', conditions } })
    },
    async claimUid(name: string) {
      const claim = await api.get(reference('v1', 'PersistentVolumeClaim', name))
      return claim?.metadata.uid ?? ''
    },
    /** The pod is assigned to this Kubernetes node, or the scheduler finds none for it. */
    setScheduled(ordinal: number, nodeName: string | undefined) {
      const { store, kinds } = server.resources
      const kind = kinds.of('v1', 'Pod')
      const pod = store.get(kind, 'ns', `vec-a-${ordinal}`)
      if (pod === undefined) throw new Error(`there is no pod ${ordinal}`)
      const conditions =
        nodeName === undefined
          ? [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }]
          : [{ type: 'PodScheduled', status: 'True' }]
      store.put(kind, { ...pod, spec: { nodeName }, status: { phase: 'Pending', conditions } })
    },
    /** The VecCollection docs, whose number of shards a user changes. */
    async declareCollection(shardNumber: number) {
      await api.create(customResourceDefinition(VecCollection, '0.0.0'))
      const metadata = { name: 'docs', namespace: 'ns' }
      const spec = { clusterRef: { name: 'a' }, vectors: [{ size: 1, distance: 'Dot' }] }
      await api.create({
        ...{ apiVersion: API_VERSION, kind: 'VecCollection', metadata },
        spec: { ...spec, shardNumber },
      })
    },
    setShardNumber: (shardNumber: number | null) =>
      api.patch(reference(API_VERSION, 'VecCollection', 'docs'), { spec: { shardNumber } }),
    setReplicas: (desired: number) =>
      api.patch(reference(API_VERSION, 'VecCluster', 'a'), { spec: { replicas: desired } }),
    /** The number of pods of the StatefulSet, before Kubernetes has done anything. */
    setPods: (desired: number) =>
      api.patch(reference('apps/v1', 'StatefulSet', 'vec-a'), { spec: { replicas: desired } }),
    /** As helm does it when nodes are added. */
    async scale(desired: number) {
      await api.patch(reference('apps/v1', 'StatefulSet', 'vec-a'), { spec: { replicas: desired } })
      await settle()
    },
    async run(
      parts: Partial<ShardsPlan>,
      { pod = 'pod-1', ...options }: RunOptions & { pod?: string },
    ) {
      const env = {
        ...podEnv(folder, server),
        [JOB_ENV.podUid]: pod,
        [JOB_ENV.plan]: encodePlan(plan(parts), 'spec'),
      }
      return runJob(['cluster', 'shards', 'ns/a'], env, options)
    },
    async progress() {
      const cluster = await api.get(reference(API_VERSION, 'VecCluster', 'a'))
      return parseProgress(cluster?.metadata.annotations?.[ANNOTATIONS.progress], uid)
    },
    /** StatefulSet, pods, and claims with the mark of a removed node. */
    async objects() {
      const claims = await api.list('v1', 'PersistentVolumeClaim', { namespace: 'ns' })
      return {
        replicas: await replicas(),
        pods: await podNames(),
        claims: Object.fromEntries(
          claims.items.map(({ metadata }) => [
            metadata.name,
            metadata.labels?.[LABELS.removedPeer] ?? 'in use',
          ]),
        ),
      }
    },
  }
}

export async function shardsWorld(
  t: Test,
  { nodes: count, spread = count, shards = 4, factor = 2, version = '1.18.3' }: WorldOptions,
) {
  const engine = new EngineCluster({ name: 'vec-a', version, staleMs: 0 })
  // They end when the command waits, so that each test knows what is in progress.
  engine.copyMs = HOUR_MS
  engine.reshardingEnabled = true
  const nodes = new Map<number, EngineNode>()
  const lostVolumes = new Set<number>()
  const stop = async (ordinal: number) => {
    await nodes.get(ordinal)?.close()
    nodes.delete(ordinal)
  }
  const cluster = await openCluster(t, count, {
    port: (ordinal) => nodes.get(ordinal)?.port,
    async start(ordinal, hasNewVolume) {
      if (hasNewVolume) lostVolumes.add(ordinal)
      // A pod with an empty volume joins only if its former peer has no shards left.
      if (lostVolumes.has(ordinal) && !engine.rejoinEmpty(ordinal)) return false
      lostVolumes.delete(ordinal)
      nodes.set(ordinal, await startEngineNode({ ordinal, cluster: engine }))
      return true
    },
    stop,
  })
  t.teardown(() => Promise.all([...nodes.values()].map((node) => node.close())))
  for (let ordinal = 0; ordinal < count; ordinal += 1) {
    if (ordinal === spread) engine.createCollection('docs', shards, factor)
    nodes.set(ordinal, await startEngineNode({ ordinal, cluster: engine }))
  }
  if (spread === count) engine.createCollection('docs', shards, factor)
  for (const shard of engine.find('docs')?.shards ?? []) shard.vectorBytes = 1000

  /** Those that stall never end. */
  const finishTransfers = () => {
    for (const { shards } of engine.collections.values()) {
      for (const transfer of shards.flatMap(({ arriving = [] }) => arriving)) {
        if (transfer.until <= Date.now() + HOUR_MS) transfer.until = 0
      }
    }
  }

  return {
    ...cluster,
    engine,
    nodes,
    finishTransfers,
    peer: (ordinal: number) => engine.peer(ordinal).id,
    shard: (id: number): Shard => {
      const shard = engine.find('docs')?.shards.find((one) => one.id === id)
      if (shard === undefined) throw new Error(`there is no shard ${id}`)
      return shard
    },
    /** The node of this pod has lost its volume and cannot start. */
    async loseVolume(ordinal: number) {
      lostVolumes.add(ordinal)
      await stop(ordinal)
      await cluster.setReady(ordinal, false)
    },
    run(parts: Partial<ShardsPlan> = {}, options: ShardsRunOptions = {}) {
      const { speed, clockErrorMs, onSleep = finishTransfers, ...rest } = options
      const settleAndSleep = async (seconds: number) => {
        await cluster.settle()
        await onSleep(seconds)
      }
      const time = simulatedClock(settleAndSleep, { speed, clockErrorMs })
      return cluster.run(parts, { time, ...rest })
    },
    /** The whole cluster: replicas by shard, peers by ordinal, and the objects in Kubernetes. */
    async state() {
      const ordinals = new Map(engine.peers().map(({ id, ordinal }) => [id, ordinal]))
      return {
        shards: Object.fromEntries(
          (engine.find('docs')?.shards ?? []).map((shard) => [
            shard.id,
            shard.peers
              .map((peer) => `${ordinals.get(peer) ?? peer} ${stateOf(shard, peer)}`)
              .toSorted(),
          ]),
        ),
        peers: engine.peers().map(({ ordinal }) => ordinal),
        ...(await cluster.objects()),
      }
    },
  }
}

function stateOf(shard: Shard, peer: number): string {
  const transfer = transfersOf(shard).find(({ to }) => to === peer)
  return transfer?.state ?? shard.states?.[peer] ?? 'Active'
}

/**
 * Kills the command after this many calls. A call is logged right after its answer: nothing happens in a killed pod after
 * it. To be passed to a run as `onLine`.
 */
export function killAfter(count: number, call: RegExp) {
  let [calls, isKilled] = [0, false]
  return {
    isKilled: () => isKilled,
    onLine: (line: string) => {
      if (call.test(line)) calls += 1
      isKilled ||= calls >= count
      if (isKilled) throw new Error('killed')
    },
  }
}

/** Time passes only in waits, which are short in reality. */
function simulatedClock(
  onSleep: (seconds: number) => Promise<unknown>,
  {
    speed = 1,
    clockErrorMs = () => 0,
  }: { speed: number | undefined; clockErrorMs: (() => number) | undefined },
): Clock {
  let now = START.getTime()
  return {
    now: () => new Date(now + clockErrorMs()),
    monotonicMs: () => now - START.getTime(),
    async sleep(ms, signal) {
      signal?.throwIfAborted()
      now += ms * speed
      await onSleep((now - START.getTime()) / 1000)
      signal?.throwIfAborted()
    },
  }
}

interface SetSpec {
  replicas: number
  updateStrategy?: { rollingUpdate?: { partition?: number } }
}

function statefulSetOf(replicas: number) {
  const labels = { app: 'qdrant' }
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'vec-a', namespace: 'ns' },
    spec: {
      replicas,
      serviceName: 'vec-a-headless',
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: 'qdrant', image: 'qdrant' }] },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: CLAIM },
          spec: {
            accessModes: ['ReadWriteOnce'],
            resources: { requests: { storage: '10Gi' } },
          },
        },
      ],
    },
  }
}

function claimOf(name: string) {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, namespace: 'ns' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } },
  }
}

/** Steps that the log says were started. */
export function startedSteps(log: string): string[] {
  return [...log.matchAll(/step started step="?(.*?)"? purpose=/g)].map(([, step = '']) => step)
}

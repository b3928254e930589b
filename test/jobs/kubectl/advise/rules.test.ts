/** Each rule of `advise`, at and beside its boundary. */
import t, { type Test } from 'tap'
import type { VecBackupSchedule } from '../../../../crds/backup-schedule.ts'
import type { VecCluster } from '../../../../crds/cluster.ts'
import { reshardingError } from '../../../../hooks/cluster/validation.ts'
import { LARGE_SHARD_BYTES } from '../../../../jobs/kubectl/advise/collection-rules.ts'
import type { CollectionFacts, Facts, NodeFacts } from '../../../../jobs/kubectl/advise/facts.ts'
import { shareInMemory } from '../../../../jobs/kubectl/advise/observe.ts'
import { advice } from '../../../../jobs/kubectl/advise/index.ts'
import { volumeBytes } from '../../../../jobs/kubectl/plan.ts'
import { cluster } from '../../../builders.ts'
import { matchWhole } from '../../../match-whole.ts'

const GIB = 2 ** 30
const NOW = new Date('2026-11-20T12:00:00Z')

type Spec = Partial<VecCluster['spec']>

function clusterOf(spec: Spec = {}): VecCluster {
  return cluster({
    name: 'docs',
    spec: {
      version: '1.19.0',
      replicas: 3,
      resources: { limits: { cpu: 2, memory: '10Gi' } },
      ...spec,
    },
  })
}

function node(ordinal: number, parts: Partial<NodeFacts> = {}): NodeFacts {
  return { ordinal, dataBytes: GIB, vectorBytes: GIB, residentBytes: GIB, cores: 2, ...parts }
}

function collection(parts: Partial<CollectionFacts> = {}): CollectionFacts {
  const shards = [
    { id: 0, bytes: GIB, nodes: [0, 1] },
    { id: 1, bytes: GIB, nodes: [1, 2] },
    { id: 2, bytes: GIB, nodes: [2, 0] },
  ]
  return { name: 'books', factor: 2, writeFactor: 1, shards, ...parts }
}

function schedule(status?: VecBackupSchedule['status'], suspend = false): VecBackupSchedule {
  return {
    metadata: { name: 'nightly', namespace: 'ns' },
    spec: { suspend },
    status,
  } as unknown as VecBackupSchedule
}

function completedAt(completionTime: string): VecBackupSchedule['status'] {
  return {
    lastScheduleTime: '2026-11-20T00:00:00Z',
    nextBackupTime: '2026-11-21T00:00:00Z',
    lastBackupName: 'nightly-1',
    lastBackupStatus: 'Completed',
    recentBackups: [
      { name: 'nightly-1', creationTime: completionTime, completionTime, status: 'Completed' },
    ],
  }
}

/** A cluster about which there is nothing to say. */
function facts(parts: Partial<Facts> = {}): Facts {
  return {
    cluster: clusterOf(),
    now: NOW,
    nodes: [0, 1, 2].map((ordinal) => node(ordinal)),
    collections: [collection()],
    unindexed: [],
    schedules: [schedule(completedAt('2026-11-20T00:10:00Z'))],
    volumeBytes: 10 * GIB,
    knownVersions: ['1.18.3', '1.19.0'],
    ...parts,
  }
}

function rulesOf(parts: Partial<Facts>): string[] {
  return advice(facts(parts)).map(({ rule }) => rule)
}

function only(t: Test, parts: Partial<Facts>) {
  const items = advice(facts(parts))
  t.equal(items.length, 1, items.map(({ rule }) => rule).join())
  return items[0]
}

t.test('a cluster as it should be gets no advice', async (t) => {
  t.strictSame(advice(facts()), [])
})

t.test('nodes: one is an outage, two have no majority, three are enough', async (t) => {
  const single = facts({
    cluster: clusterOf({ replicas: 1 }),
    nodes: [node(0)],
    collections: [],
  })
  matchWhole(t, advice(single), [
    { rule: 'SingleNode', level: 'warning', seen: '1 node', set: /^spec\.replicas: 3 / },
  ])
  const standalone = clusterOf({
    replicas: 1,
    cluster: { ...clusterOf().spec.cluster, enabled: false },
  })
  t.match(advice({ ...single, cluster: standalone })[0]?.set, /^spec\.cluster\.enabled: true/)
  const two = advice(facts({ cluster: clusterOf({ replicas: 2 }), collections: [] }))
  t.strictSame(
    two.map(({ rule }) => rule),
    ['NoQuorum', 'NoDisruptionBudget'],
  )
})

t.test('disk: from 70 % of a volume on', async (t) => {
  const nodes = (bytes: number) => [node(0), node(1, { dataBytes: bytes }), node(2)]
  t.strictSame(rulesOf({ nodes: nodes(7 * GIB - 1) }), [])
  const item = only(t, { nodes: nodes(7 * GIB) })
  t.match(item, {
    rule: 'Disk',
    level: 'warning',
    seen: 'node 1 70 % of 10 GiB in use',
    set: 'spec.persistence.size: 14Gi, or spec.persistence.autoGrow; the StorageClass must allow expansion',
  })
  const autoGrow = { above: 70, by: '25%', max: '20Gi' }
  const persistence = { ...clusterOf().spec.persistence, autoGrow }
  const grows = only(t, { nodes: nodes(7 * GIB), cluster: clusterOf({ persistence }) })
  t.notMatch(grows?.set, /autoGrow/)
})

t.test('memory: measured from 80 % of the limit on, then the vectors, then no limit', async (t) => {
  const nodes = (parts: Partial<NodeFacts>) => [node(0, parts), node(1), node(2)]
  t.strictSame(rulesOf({ nodes: nodes({ residentBytes: 8 * GIB - 1 }) }), [])
  t.match(only(t, { nodes: nodes({ residentBytes: 8 * GIB }) }), {
    rule: 'Memory',
    level: 'warning',
    seen: 'node 0 80 % of 10 GiB in use',
  })
  t.strictSame(rulesOf({ nodes: nodes({ vectorBytes: 8 * GIB - 1 }) }), [])
  t.match(only(t, { nodes: nodes({ vectorBytes: 8 * GIB }) }), {
    rule: 'VectorMemory',
    level: 'note',
    seen: 'vectors that are not on disk: node 0 8 GiB; limit 10 GiB',
  })
  const all = { residentBytes: 8 * GIB, vectorBytes: 8 * GIB }
  t.strictSame(rulesOf({ nodes: nodes(all) }), ['Memory'])
  const { residentBytes: _, ...silent } = node(0)
  t.strictSame(rulesOf({ nodes: [silent, node(1), node(2)] }), [])
  t.match(only(t, { cluster: clusterOf({ resources: { limits: { cpu: 2 } } }) }), {
    rule: 'NoMemoryLimit',
    level: 'note',
  })
})

t.test('many nodes are named up to three', async (t) => {
  const nodes = [0, 1, 2, 3].map((ordinal) => node(ordinal, { residentBytes: 9 * GIB }))
  const items = advice(facts({ nodes, collections: [] }))
  t.equal(items[0]?.seen, 'node 0 90 %, node 1 90 %, node 2 90 % and 1 more of 10 GiB in use')
})

t.test('cores: more than four shards for each core of a node', async (t) => {
  const shards = (count: number) =>
    Array.from({ length: count }, (_, id) => ({ id, bytes: 1, nodes: [0, 1] }))
  const many = (count: number) => [collection({ shards: shards(count) })]
  t.strictSame(rulesOf({ collections: many(8) }), [])
  t.match(only(t, { collections: many(9) }), {
    rule: 'ShardsPerCore',
    level: 'note',
    seen: 'node 0: 9 shards on 2 cores',
  })
  // Without a limit, the cores that the engine sees count.
  const changed = clusterOf({ resources: { limits: { memory: '10Gi' } } })
  const nodes = [node(0, { cores: 3 }), node(1, { cores: 3 }), node(2)]
  t.strictSame(rulesOf({ cluster: changed, nodes, collections: many(12) }), [])
  t.strictSame(rulesOf({ cluster: changed, nodes, collections: many(13) }), ['ShardsPerCore'])
})

t.test('placement: nodes on one machine, and all in one zone', async (t) => {
  const at = (...names: (string | undefined)[]) =>
    names.map((kubernetesNode, ordinal) =>
      node(ordinal, kubernetesNode === undefined ? {} : { kubernetesNode }),
    )
  t.strictSame(rulesOf({ nodes: at('a', 'b', 'c') }), [])
  t.strictSame(rulesOf({ nodes: at(undefined, undefined, 'c') }), [], 'what is not known')
  t.match(only(t, { nodes: at('a', 'b', 'a') }), {
    rule: 'SharedKubernetesNode',
    level: 'warning',
    seen: 'nodes 0, 2 run on the Kubernetes node a',
  })
  t.match(only(t, { nodes: inZones('a', 'a', 'a') }), {
    rule: 'SingleZone',
    level: 'note',
    seen: 'all 3 nodes are in zone a',
  })
  t.strictSame(rulesOf({ nodes: [...inZones('a', 'a'), node(2)] }), [], 'one zone is not known')
  t.strictSame(rulesOf({ nodes: inZones('a', 'b', 'b'), collections: [] }), [])
})

function inZones(...names: string[]): NodeFacts[] {
  return names.map((zone, ordinal) => node(ordinal, { zone }))
}

t.test('disruption budget: on by default from three nodes on', async (t) => {
  const budget = (enabled: boolean) => ({ podDisruptionBudget: { enabled, maxUnavailable: 1 } })
  t.match(only(t, { cluster: clusterOf(budget(false)) }), {
    rule: 'NoDisruptionBudget',
    seen: '3 nodes without a PodDisruptionBudget',
  })
  t.strictSame(rulesOf({ cluster: clusterOf({ replicas: 2, ...budget(true) }) }), ['NoQuorum'])
})

t.test('version: a later patch is a warning, a later minor version a note', async (t) => {
  const knownVersions = ['1.17.1', '1.18.3', '1.19.0']
  const at = (version: string) => ({ cluster: clusterOf({ version }), knownVersions })
  t.match(only(t, at('1.18.2')), {
    rule: 'PatchBehind',
    level: 'warning',
    set: 'spec.version: 1.18.3',
  })
  t.match(only(t, at('1.18.3')), {
    rule: 'MinorBehind',
    level: 'note',
    seen: 'version 1.18.3; 1 later minor version is known, up to 1.19.0',
    set: 'spec.version: 1.19.0, after a backup',
  })
  t.match(only(t, at('1.17.1')), { seen: /2 later minor versions are known/, set: /1\.18\.3/ })
  for (const version of ['1.19.0', '1.19.5', '1.20.0']) t.strictSame(rulesOf(at(version)), [])
})

t.test(
  'backups: no schedule, a suspended one, a failed one, and one that is overdue',
  async (t) => {
    const seen = (schedules: VecBackupSchedule[] | undefined) =>
      advice(facts({ schedules })).map((item) => `${item.rule}: ${item.seen}`)
    t.strictSame(seen(undefined), [], 'what could not be read is no finding')
    t.strictSame(seen([]), ['NoBackupSchedule: no VecBackupSchedule names this cluster'])
    const good = completedAt('2026-11-20T00:10:00Z')
    t.strictSame(seen([schedule(good, true)]), [
      'NoBackupSchedule: the VecBackupSchedule of this cluster is suspended',
    ])
    t.strictSame(seen([schedule(good, true), schedule(good, true)]), [
      'NoBackupSchedule: every VecBackupSchedule of this cluster is suspended',
    ])
    t.strictSame(seen([schedule({ ...good, lastBackupStatus: 'Failed' })]), [
      'BackupOverdue: VecBackupSchedule ns/nightly: the last backup, nightly-1, Failed',
    ])
    t.strictSame(seen([schedule({ ...good, recentBackups: [] })]), [
      'BackupOverdue: VecBackupSchedule ns/nightly: no backup is Completed',
    ])
    t.strictSame(seen([schedule()]), [], 'it has not run yet')
    // Two intervals of a day: to the second.
    t.strictSame(seen([schedule(completedAt('2026-11-18T12:00:00Z'))]), [])
    t.strictSame(seen([schedule(completedAt('2026-11-18T11:59:59Z'))]), [
      'BackupOverdue: VecBackupSchedule ns/nightly: the last Completed backup is of 2026-11-18T11:59:59.000Z',
    ])
  },
)

t.test('replicas: a single copy, and a factor that the nodes cannot hold', async (t) => {
  const single = { factor: 1, shards: [0, 1, 2].map((id) => ({ id, bytes: GIB, nodes: [id] })) }
  t.match(only(t, { collections: [collection(single)] }), {
    rule: 'SingleCopy',
    collection: 'books',
    seen: 'replication factor 1: 3 GiB in 3 shards, each on one node',
  })
  t.strictSame(rulesOf({ nodes: [node(0)], collections: [collection(single)] }), [])
  t.strictSame(rulesOf({ collections: [collection({ factor: 3 })] }), [])
  t.match(only(t, { collections: [collection({ factor: 4 })] }), {
    rule: 'FactorAboveNodes',
    seen: 'replication factor 4 on 3 nodes',
  })
})

t.test('zones: a factor above their number, and all replicas in one of them', async (t) => {
  const nodes = inZones('a', 'b', 'b')
  t.strictSame(rulesOf({ nodes, collections: [collection({ shards: spread(1, 0) })] }), [])
  t.match(only(t, { nodes, collections: [collection({ factor: 3, shards: spread(0, 1, 2) })] }), {
    rule: 'FactorAboveZones',
    level: 'note',
    seen: 'replication factor 3 in 2 zones',
  })
  t.match(only(t, { nodes, collections: [collection({ shards: spread(1, 2) })] }), {
    rule: 'ReplicasInOneZone',
    level: 'warning',
    seen: '3 of 3 shards have all replicas in one zone: 0, 1, 2',
  })
  const unknown = [...nodes.slice(0, 2), node(2)]
  t.strictSame(rulesOf({ nodes: unknown, collections: [collection({ shards: spread(1, 2) })] }), [])
})

function spread(...nodes: number[]) {
  return [0, 1, 2].map((id) => ({ id, bytes: GIB, nodes }))
}

t.test('write factor: as many as the replicas stops writes without one of them', async (t) => {
  t.strictSame(rulesOf({ collections: [collection({ factor: 3, writeFactor: 2 })] }), [])
  t.match(only(t, { collections: [collection({ writeFactor: 2 })] }), {
    rule: 'WriteFactor',
    set: 'spec.writeConsistencyFactor: 1 or less of its VecCollection',
  })
})

t.test('shards: fewer than nodes, and large ones', async (t) => {
  const [first, second] = collection().shards
  if (first === undefined || second === undefined) throw new Error('there are no shards')
  t.match(only(t, { collections: [collection({ shards: [first, second] })] }), {
    rule: 'FewShards',
    level: 'note',
    seen: '2 shards on 3 nodes',
  })
  t.match(only(t, { collections: [collection({ shards: [first] })] }), {
    seen: '1 shards on 3 nodes; 1 nodes hold nothing of it',
  })
  t.strictSame(rulesOf({ collections: [collection({ shards: [] })] }), [])
  const sized = (bytes: number) => [
    collection({ shards: collection().shards.map((shard) => ({ ...shard, bytes })) }),
  ]
  t.strictSame(rulesOf({ collections: sized(LARGE_SHARD_BYTES - 1) }), [])
  t.match(only(t, { collections: sized(LARGE_SHARD_BYTES) }), {
    rule: 'LargeShards',
    seen: '3 of 3 shards have 50 GiB or more; the largest, 0, has 50 GiB',
  })
})

t.test('another number of shards is possible with what the advice names', async (t) => {
  const [first] = collection().shards
  const shards = first === undefined ? [] : [first]
  t.match(
    only(t, { collections: [collection({ shards })] })?.set,
    /which spec\.resharding of the VecCluster permits from engine 1\.18\.3 on/,
  )
  t.equal(reshardingError(clusterOf({ resharding: true, version: '1.18.3' }).spec), undefined)
  t.not(reshardingError(clusterOf({ resharding: true, version: '1.18.2' }).spec), undefined)
})

t.test('filters without an index: each field once, of its own collection', async (t) => {
  const unindexed = [
    { collection: 'books', field: 'year' },
    { collection: 'books', field: 'author.name' },
    { collection: 'books', field: 'year' },
    { collection: 'films', field: 'title' },
  ]
  t.match(only(t, { unindexed }), {
    rule: 'MissingIndex',
    collection: 'books',
    seen: 'slow queries filtered by author.name, year, without an index',
  })
})

t.test('warnings come before notes', async (t) => {
  const changed = clusterOf({ version: '1.18.3' })
  const items = advice(
    facts({ cluster: changed, schedules: [], collections: [collection({ writeFactor: 2 })] }),
  )
  t.strictSame(
    items.map(({ rule }) => rule),
    ['NoBackupSchedule', 'WriteFactor', 'MinorBehind'],
  )
})

t.test('vectors in memory: by the sizes of those that are not on disk', async (t) => {
  t.equal(shareInMemory({ vectors: { size: 4 } }), 1)
  t.equal(shareInMemory({ vectors: { size: 4, on_disk: true } }), 0)
  t.equal(shareInMemory({ vectors: { a: { size: 1, on_disk: true }, b: { size: 3 } } }), 0.75)
  t.equal(shareInMemory({}), 1, 'sparse vectors only')
})

t.test('a volume counts as large as it was last observed, not as it is planned', (t) => {
  const persistence = { ...cluster().spec.persistence, size: '10Gi' }
  const bytesOf = (status: VecCluster['status'] = {}) =>
    volumeBytes(cluster({ spec: { persistence }, status })) / GIB
  const capacities = (...gib: (number | undefined)[]) =>
    gib.map((one, ordinal) => ({
      ...{ ordinal, peer: ordinal },
      ...(one !== undefined && { capacity: one * GIB }),
    }))
  t.equal(bytesOf(), 10)
  t.equal(bytesOf({ volumeSize: '13Gi' }), 13)
  t.equal(bytesOf({ volumeSize: '13Gi', nodes: capacities(undefined) }), 13)
  t.equal(bytesOf({ volumeSize: '13Gi', nodes: capacities(13, 10, undefined) }), 10)
  t.end()
})

/** The decisions of a restore as pure functions. */
import t from 'tap'
import { recreateBody, recreateIndex, fanOutBody } from '../../../jobs/recreate-collection.ts'
import { stripQuery } from '../../../jobs/clients/http/redact.ts'
import { withHint } from '../../../jobs/retry.ts'
import { firstMissing, missingReplicas } from '../../../jobs/restore/shard-transfers.ts'
import { checkSameSchema } from '../../../jobs/restore/collection-checks.ts'
import { unverifiableNotes } from '../../../jobs/restore/manifest.ts'
import { requireShards } from '../../../jobs/restore/prepare-collection.ts'
import { misplacedOnNode } from '../../../jobs/restore/recover.ts'
import { phantomReplicas } from '../../../jobs/restore/wait-for-shards.ts'
import {
  findDisagreement,
  reportedShards,
  type ReplicaStates,
} from '../../../jobs/restore/placement.ts'
import {
  requireSupportedEngine,
  requireCompatibleVersion,
  recordedVersions,
} from '../../../jobs/restore/target-checks.ts'

/** Nodes of each shard, all Active. */
function replicas(shards: Record<number, number[]>): ReplicaStates {
  return new Map(
    Object.entries(shards).map(([shard, nodes]) => [
      Number(shard),
      new Map(nodes.map((node) => [node, 'Active'])),
    ]),
  )
}

t.test('shards that are not those of the backup are not recovered', async (t) => {
  const source = {
    shards: [
      { shardId: 1, shardKey: 'a' },
      { shardId: 2, shardKey: 7 },
    ],
  }
  const check = (shards: Record<number, number[]>, keys: [number, string | number][]) => () => {
    const view = { replicas: [replicas(shards)], keys: new Map(keys), peers: [10] }
    requireShards({ source, name: 'docs' } as never, view)
  }
  const [a, seven] = [[1, 'a'] as [number, string], [2, 7] as [number, number]]
  t.doesNotThrow(check({ 1: [0], 2: [0] }, [a, seven]))
  t.throws(check({ 1: [0] }, [a]), { message: /was created without shard 2 of the backup$/ })
  t.throws(check({ 1: [0], 2: [0] }, [a, [2, '7']]), { message: /was created without shard 2/ })
  t.throws(check({ 1: [0], 2: [0], 3: [0] }, [a, seven]), {
    message: /has shards that are not in the backup: 3$/,
  })
})

t.test('a collection with another schema than the backup is not restored over', async (t) => {
  const dense = { size: 4, distance: 'Cosine' }
  const recorded = { vectors: { text: dense }, sparse_vectors: { words: {} }, shard_number: 2 }
  const check = (params: object) => () => {
    const source = { config: { params: recorded } } as never
    checkSameSchema('docs', source, { ...recorded, ...params })
  }
  for (const params of [
    {},
    { vectors: { text: { ...dense, on_disk: true, datatype: null } } },
    { sparse_vectors: { words: { modifier: 'idf', index: { on_disk: true } } } },
    { sharding_method: 'auto', replication_factor: 3 },
  ]) {
    t.doesNotThrow(check(params), JSON.stringify(params))
  }
  const cases: [part: string, difference: object][] = [
    ...[{ size: 5 }, { distance: 'Dot' }, { datatype: 'uint8' }].map((change): [string, object] => [
      'vectors',
      { vectors: { text: { ...dense, ...change } } },
    ]),
    ['vectors', { vectors: { text: { ...dense, multivector_config: { comparator: 'max_sim' } } } }],
    ['vectors', { vectors: { text: dense, image: dense } }],
    ['vectors', { vectors: dense }],
    ['sparse_vectors', { sparse_vectors: undefined }],
    ['sparse_vectors', { sparse_vectors: { tokens: {} } }],
    ['sparse_vectors', { sparse_vectors: { words: {}, tokens: {} } }],
    ['sparse_vectors', { sparse_vectors: { words: { index: { datatype: 'uint8' } } } }],
    ['shard_number', { shard_number: 3 }],
    ['sharding_method', { sharding_method: 'custom' }],
  ]
  for (const [part, params] of cases) {
    const message = new RegExp(
      `^collection docs is at the target with other ${part} than in the backup`,
    )
    t.throws(check(params), { code: 'Rejected', message }, JSON.stringify(params))
  }
})

t.test('a node has its snapshot when each of its shards is only on this node', async (t) => {
  const snapshot = { nodeIndex: 1, localShards: [{ shardId: 0 }, { shardId: 2 }] }
  t.equal(misplacedOnNode(snapshot, replicas({ 0: [1], 1: [0], 2: [1] })), undefined)
  t.equal(
    misplacedOnNode(snapshot, replicas({ 0: [1], 2: [0, 1] })),
    'shard 2 is on nodes 0, 1, not on node 1 alone',
  )
  t.equal(misplacedOnNode({ nodeIndex: 1, localShards: [] }, replicas({ 0: [0] })), undefined)
})

t.test('a replica that only some nodes know is dropped through one of them', async (t) => {
  t.strictSame(
    phantomReplicas({
      replicas: [replicas({ 2: [0] }), replicas({ 2: [0, 1] }), replicas({ 2: [0] })],
    }),
    [{ shard: 2, ordinal: 1, through: 1 }],
  )
  t.strictSame(phantomReplicas({ replicas: [replicas({ 2: [0] }), replicas({ 2: [0] })] }), [])
  t.strictSame(
    phantomReplicas({ replicas: [replicas({ 2: [0] }), replicas({ 2: [1] })] }),
    [],
    'without an agreed replica none is dropped: it may be the last',
  )
})

t.test('replicas are created from a node with the shard on each node that had it', async (t) => {
  const placement = new Map([
    [0, [0, 2]],
    [1, [1]],
  ])
  const view = { replicas: [replicas({ 0: [2], 1: [1] })], keys: new Map(), peers: [10, 11, 12] }
  t.strictSame(missingReplicas(placement, view), [
    { shard_id: 0, from_peer_id: 12, to_peer_id: 10 },
  ])
  t.equal(firstMissing(placement, replicas({ 0: [2], 1: [1] })), 'shard 0 has no copy on node 0')
  t.equal(firstMissing(placement, replicas({ 0: [0, 2], 1: [1] })), undefined)
})

t.test('a disagreement says what each node reports, and the shard key', async (t) => {
  const between = (...reported: ReplicaStates[]) =>
    findDisagreement({ replicas: reported, keys: new Map([[2, 'tenant']]) })
  const agreed = replicas({ 0: [0, 1], 1: [1] })
  t.equal(between(agreed, agreed, agreed), undefined)
  t.equal(
    between(agreed, agreed, replicas({ 0: [0, 1] })),
    'the nodes disagree about shard 1 on node 1: nodes 0, 1 report Active, node 2 reports absent',
  )
  t.equal(
    between(replicas({ 0: [0] }), replicas({ 0: [0, 2] })),
    'the nodes disagree about shard 0 on node 2: node 0 reports absent, node 1 reports Active',
  )
  const dead: ReplicaStates = new Map([[0, new Map([[1, 'Dead']])]])
  t.equal(
    between(replicas({ 0: [1] }), dead),
    'the nodes disagree about shard 0 on node 1: node 0 reports Active, node 1 reports Dead',
  )
  t.equal(
    between(agreed, replicas({ 0: [0, 1], 1: [1], 2: [1] }), agreed),
    'the nodes disagree about shard 2 of shard key tenant on node 1: nodes 0, 2 report absent, node 1 reports Active',
  )
})

t.test('nodes are stable when all have applied the same entries and no shard moves', async (t) => {
  const view = (commit: number, pending = 0) => ({
    status: 'enabled' as const,
    peer_id: 1,
    peers: {},
    raft_info: { commit, pending_operations: pending, leader: 1 },
    consensus_thread_status: { consensus_thread_status: 'working' },
  })
  const placement = (peer_id: number, transfers: object[] = []) => ({
    peer_id,
    shard_count: 1,
    local_shards: peer_id === 10 ? [{ shard_id: 0, state: 'Active', points_count: 1 }] : [],
    remote_shards: peer_id === 10 ? [] : [{ shard_id: 0, state: 'Active', peer_id: 10 }],
    shard_transfers: transfers as never[],
  })
  const both = [placement(10), placement(11)]
  const rest = reportedShards(both, [view(7), view(7)])
  t.equal(rest.instability, undefined)
  t.equal(findDisagreement(rest), undefined)
  t.equal(
    reportedShards(both, [view(7), view(8)]).instability,
    'the nodes have not applied the same',
  )
  t.match(reportedShards(both, [view(7), view(7, 1)]).instability, /^node 1 has not applied all/)
  const moving = [placement(10, [{ shard_id: 0, from: 10, to: 11, comment: '3 of 9' }]), both[1]]
  t.equal(
    reportedShards(moving as never, [view(7), view(7)]).instability,
    'shard 0 is being transferred from node 0 to node 1 (3 of 9)',
  )
  const listed = { shard_id: 0, from: 11, to: 12 }
  const third = [
    placement(10, [listed]),
    placement(11, [{ ...listed, comment: 'recovering (9.10s)' }]),
    placement(12, [{ ...listed, comment: 'downloading (9.00s)' }]),
  ]
  const views = [view(7), view(7), view(7)]
  t.equal(
    reportedShards(third as never, views).instability,
    'shard 0 is being transferred from node 1 to node 2 (downloading (9.00s))',
  )
  const dead = {
    ...view(7),
    consensus_thread_status: { consensus_thread_status: 'stopped_with_err', err: 'x' },
  }
  for (const placements of [both, moving as never])
    t.throws(() => reportedShards(placements, [view(7), dead]), {
      message: 'consensus is stopped_with_err on node 1: x',
    })
  const stopped = { ...view(7), consensus_thread_status: { consensus_thread_status: 'stopped' } }
  t.throws(() => reportedShards(both, [stopped, view(7)]), {
    message: 'consensus is stopped on node 0: no reason given',
  })
  const err = 'x; restarting consensus thread (attempt 2, next attempt in 2 sec)'
  const restarting = {
    ...view(7, 1),
    consensus_thread_status: { consensus_thread_status: 'stopped_with_err', err },
  }
  t.equal(
    reportedShards(both, [view(7), restarting]).instability,
    'consensus is stopped_with_err on node 1: x; restarting consensus thread',
  )
  t.throws(() => reportedShards(both, [restarting, stopped]), {
    message: 'consensus is stopped on node 1: no reason given',
  })
  t.throws(() => reportedShards(both, [view(7, 1), stopped]), {
    message: 'consensus is stopped on node 1: no reason given',
  })
})

const COLLECTION_OF_NONE = {
  ...{ name: 'docs', config: { params: {} }, payloadIndexes: {}, aliases: [] },
  ...{ shardKeys: [], shards: [] },
}

const VERSIONS: [string, string, number, boolean][] = [
  ['1.18.3', '1.18.0', 3, true],
  ['1.18.0', '1.18.3', 3, true],
  ['1.18.3', '1.17.1', 3, true],
  ['1.18.3', '1.16.9', 3, false],
  ['1.17.9', '1.18.0', 3, false],
  ['2.0.0', '1.18.0', 1, false],
  ['1.17.0', '1.17.0', 3, false],
  ['1.17.0', '1.17.0', 1, true],
  ['1.16.3', '1.15.0', 1, true],
  ['1.17.1', '1.17.1', 2, true],
]

for (const [target, taken, nodes, isFit] of VERSIONS) {
  const verb = isFit ? 'takes' : 'refuses'
  t.test(`engine ${target} on ${nodes} nodes ${verb} a backup of ${taken}`, async (t) => {
    const check = () => {
      requireSupportedEngine(target, nodes)
      requireCompatibleVersion(target, taken)
    }
    if (isFit) t.doesNotThrow(check)
    else t.throws(check, { code: 'Rejected' })
  })
}

t.test('each collection that is restored counts by the version it was taken from', async (t) => {
  const manifest = { engineVersion: '1.18.3' }
  const source = { ...COLLECTION_OF_NONE, snapshots: [] }
  const of = (engineVersion?: string) => ({
    source: { ...source, ...(engineVersion !== undefined && { engineVersion }) },
  })
  t.strictSame(recordedVersions(manifest, [of('1.17.1'), of('1.18.3'), of('1.17.1')]), [
    '1.17.1',
    '1.18.3',
  ])
  t.strictSame(recordedVersions(manifest, [of()]), ['1.18.3'], 'one of an earlier release')
  t.strictSame(recordedVersions(manifest, []), ['1.18.3'])
})

t.test('the query of an address is removed, wherever the address is in a text', async (t) => {
  const url = 'https://s3.example.com:9000/b/k%20ey.snapshot'
  for (const text of [
    `Failed to download tar from ${url}?X-Amz-Signature=abc&x=y: status - 403 Forbidden`,
    `error sending request for url (${url}?X-Amz-Credential=id%2F2026&X-Amz-Signature=abc)`,
    `two: ${url}?a=1, ${url}?b=2`,
  ]) {
    const clean = stripQuery(text)
    t.notMatch(clean, /X-Amz|abc|=1|=2/)
    t.ok(clean.includes(url))
  }
  t.equal(stripQuery('why? because'), 'why? because')
})

t.test('a collection is created as it was, without unset fields', async (t) => {
  const body = recreateBody(
    {
      params: {
        vectors: {
          a: { size: 4, distance: 'Dot', hnsw_config: {} },
          size: { size: 2, distance: 'Dot' },
        },
        sparse_vectors: { text: {}, other: { index: {}, modifier: 'idf' } },
        shard_number: 3,
        replication_factor: 2,
        read_fan_out_factor: 2,
      },
      hnsw_config: { m: 16, payload_m: null },
      optimizer_config: { deleted_threshold: 0.2, max_segment_size: null },
      quantization_config: null,
      strict_mode_config: {},
      metadata: { owner: null },
    },
    { replication_factor: 1 },
  )
  t.strictSame(body, {
    vectors: { a: { size: 4, distance: 'Dot' }, size: { size: 2, distance: 'Dot' } },
    sparse_vectors: { text: {}, other: { modifier: 'idf' } },
    shard_number: 3,
    replication_factor: 1,
    hnsw_config: { m: 16 },
    optimizers_config: { deleted_threshold: 0.2 },
    metadata: { owner: null },
  })
  const only = recreateBody({ params: { vectors: {}, sparse_vectors: { text: {} } } })
  t.strictSame(only, { sparse_vectors: { text: {} } })
  t.strictSame(fanOutBody({ params: { read_fan_out_factor: 2, read_fan_out_delay_ms: null } }), {
    params: { read_fan_out_factor: 2 },
  })
  t.equal(fanOutBody({ params: {} }), undefined)
  t.strictSame(recreateIndex('n', { dataType: 'integer' }), {
    field_name: 'n',
    field_schema: 'integer',
  })
  t.strictSame(
    recreateIndex('n', {
      dataType: 'integer',
      params: { type: 'integer', lookup: false, is_principal: null },
    }),
    { field_name: 'n', field_schema: { type: 'integer', lookup: false } },
  )
})

t.test(
  'a full volume is reported with what to do, also when the engine does not name it',
  async (t) => {
    t.match(withHint('answered 500: No space left on device'), /the snapshot does not fit: enable/)
    const unpacking = 'answered 500: Failed to unpack tar archive: failed to unpack `/q/0/x.tar`'
    t.equal(withHint(unpacking), `${unpacking} (is the data volume of that node full?)`)
    t.equal(
      withHint('answered 400: Snapshot checksum mismatch'),
      'answered 400: Snapshot checksum mismatch',
    )
  },
)

t.test('checks that a manifest of another program does not permit are noted', async (t) => {
  const notes = (uid: string | undefined, ...checksums: (string | undefined)[]) =>
    unverifiableNotes({
      ...(uid !== undefined && { uid }),
      collections: [{ snapshots: checksums.map((sha256) => ({ ...(sha256 && { sha256 }) })) }],
    } as unknown as Parameters<typeof unverifiableNotes>[0])
  const foreign =
    'manifest.json is of another program: it has no engine version, aliases and counts of points to compare'
  t.strictSame(notes('uid-b', undefined), [])
  t.strictSame(notes(undefined, 'a', 'b'), [foreign])
  t.strictSame(notes(undefined, 'a', undefined), [
    foreign,
    '1 snapshots have no checksum: only their sizes were compared',
  ])
})

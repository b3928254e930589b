/** Checks of a manifest by shard that no schema can express: it is complete, and no shard is mistaken for another. */
import { createHash } from 'node:crypto'
import t from 'tap'
import {
  isShardManifest,
  type ShardCollection,
  type ShardManifest,
} from '../../crds/contract/manifest.ts'
import { MAX_MANIFEST_BYTES } from '../../crds/contract/limits.ts'
import { parseManifest, withChecksum } from '../../jobs/manifest-check.ts'

const SHA256 = '0'.repeat(64)

function collection(keys: (string | number | undefined)[], first = 0): ShardCollection {
  const shards = keys.map((key, index) => ({
    shardId: first + index,
    ...(key !== undefined && { shardKey: key }),
  }))
  const params = { shard_number: keys.length }
  const custom = keys.some((key) => key !== undefined)
  return {
    name: 'docs',
    config: { params: custom ? { ...params, sharding_method: 'custom' } : params },
    payloadIndexes: {},
    aliases: [],
    shardKeys: [...new Set(keys)].flatMap((key) =>
      key === undefined
        ? []
        : [
            {
              key,
              shardIds: shards.filter((one) => one.shardKey === key).map((one) => one.shardId),
            },
          ],
    ),
    shards: shards.map((shard) => ({ ...shard, nodes: [0] })),
    replicationFactor: 2,
    snapshots: shards.map((shard) => ({
      ...shard,
      nodeIndex: 0,
      key: `nightly/b/docs/shard-${shard.shardId}/docs-${shard.shardId}.snapshot`,
      sizeBytes: 10,
      sha256: SHA256,
    })),
  }
}

function manifest(docs: ShardCollection): ShardManifest {
  return {
    manifestVersion: 2,
    method: 'Shard',
    ...{ backupName: 'b', uid: 'uid', cluster: { name: 'a', namespace: 'ns' }, nodeCount: 3 },
    ...{ engineVersion: '1.18.3', createdAt: '2030-01-01T00:00:00Z', collections: [docs] },
  }
}

const COMPLETE: [string, ShardCollection][] = [
  ['shards that the engine numbers', collection([undefined, undefined, undefined])],
  ['shard keys, a word and a number that look alike', collection(['7', 7, 7], 1)],
  ['custom sharding without any key', { ...collection([]), shardKeys: [] }],
]

for (const [what, docs] of COMPLETE) {
  t.test(`a manifest with ${what} is complete`, async (t) => {
    t.strictSame(parseManifest(manifest(docs)), manifest(docs))
  })
}

type Damage = [string, (docs: ShardCollection) => unknown, RegExp]

const AUTO: Damage[] = [
  ['a shard without a snapshot', ({ snapshots }) => snapshots.pop(), /no snapshot of shard 2/],
  [
    'a shard missing from map and snapshots',
    ({ shards, snapshots }) => [shards.pop(), snapshots.pop()],
    /collection docs has no shard 2/,
  ],
  [
    'a snapshot twice',
    ({ snapshots }) => snapshots.push(...snapshots.slice(0, 1)),
    /two snapshots of shard 0/,
  ],
  ['a shard twice', ({ shards }) => shards.push(...shards.slice(0, 1)), /lists shard 0 twice/],
  [
    'a snapshot of a shard that is not listed',
    ({ snapshots }) => Object.assign(snapshots[2] ?? {}, { shardId: 9 }),
    /no snapshot of shard 2/,
  ],
  [
    'one snapshot too many',
    ({ snapshots }) =>
      snapshots.push(...snapshots.slice(0, 1).map((one) => ({ ...one, shardId: 9 }))),
    /a snapshot of shard 9, which it does not list/,
  ],
  [
    'two shards swapped by key',
    ({ snapshots: [one, other] }) => {
      if (one === undefined || other === undefined) return
      ;[one.key, other.key] = [other.key, one.key]
    },
    /shard-1\/docs-1.snapshot as the snapshot of shard 0/,
  ],
  [
    'two shards swapped by id',
    ({ snapshots: [one, other] }) => {
      if (one === undefined || other === undefined) return
      ;[one.shardId, other.shardId] = [other.shardId, one.shardId]
    },
    /as the snapshot of shard/,
  ],
  [
    'the key of another collection',
    ({ snapshots: [one] }) => one && (one.key = one.key.replaceAll('docs', 'other')),
    /as the snapshot of shard 0/,
  ],
]

for (const [what, damage, words] of AUTO) {
  t.test(`${what} is rejected`, async (t) => {
    const docs = collection([undefined, undefined, undefined])
    damage(docs)
    t.throws(() => parseManifest(manifest(docs)), { message: words })
  })
}

const CUSTOM: Damage[] = [
  [
    'a shard under another key',
    ({ snapshots: [one] }) => one && (one.shardKey = 'b'),
    /shard 1 under another shard key/,
  ],
  [
    'a number where the key is a word',
    ({ snapshots: [one] }) => one && (one.shardKey = 7),
    /shard 1 under another shard key/,
  ],
  [
    'a key whose shard is missing',
    ({ shardKeys: [one] }) => one?.shardIds.push(8),
    /has no shard 8/,
  ],
  [
    'a key that does not list its shard',
    ({ shardKeys }) => shardKeys.pop(),
    /does not list shard 2 under its shard key/,
  ],
  [
    'a shard without a key',
    ({ shards, snapshots }) => [delete shards[0]?.shardKey, delete snapshots[0]?.shardKey],
    /lists shard 1 without a shard key/,
  ],
]

for (const [what, damage, words] of CUSTOM) {
  t.test(`under custom sharding ${what} is rejected`, async (t) => {
    const docs = collection(['7', 'b'], 1)
    damage(docs)
    t.throws(() => parseManifest(manifest(docs)), { message: words })
  })
}

t.test('a manifest of another version than it has fields for names the field', async (t) => {
  const found = manifest(collection([undefined]))
  t.throws(() => parseManifest({ ...found, manifestVersion: 1 }), {
    message: /nodeIndex|localShards|snapshotName/,
  })
  t.throws(() => parseManifest({ ...found, manifestVersion: 3 }), {
    message: 'manifest.json: manifestVersion 3 is newer than this operator reads (2)',
  })
  t.throws(() => parseManifest({ ...found, method: 'Node' }), { message: /\/method/ })
})

for (const [value, words] of [
  [null, 'the whole of it: Expected object'],
  [{}, '/manifestVersion: Expected required property'],
  [{ manifestVersion: '2' }, '/manifestVersion: Expected integer'],
  [{ manifestVersion: 0 }, '/manifestVersion: Expected integer to be greater or equal to 1'],
] as const) {
  t.test(`a value that is not a manifest is rejected: ${JSON.stringify(value)}`, async (t) => {
    t.throws(() => parseManifest(value), { code: 'Rejected', message: `manifest.json: ${words}` })
  })
}

t.test('without a shard count of the source the listed shards are all shards', async (t) => {
  for (const count of [undefined, '9']) {
    const docs = collection([undefined, undefined])
    docs.config.params['shard_number'] = count
    t.strictSame(parseManifest(manifest(docs)), manifest(docs))
  }
})

t.test('the version of a manifest is the method of the backup', async (t) => {
  t.ok(isShardManifest(manifest(collection([]))))
  t.notOk(isShardManifest(parseManifest(byNode([0, 1, 2], EACH))))
})

/** Version 1 ignores the additional fields of version 2. */
function byNode(
  nodes: number[],
  shards: { shardId: number; nodes: number[] }[],
  held?: number[],
  more: object = {},
): object {
  const snapshots = nodes.map((nodeIndex) => ({
    ...{ nodeIndex, key: `nightly/b/docs/node-${nodeIndex}/s`, snapshotName: 's', sizeBytes: 10 },
    ...{ sha256: SHA256, localShards: (held ?? [nodeIndex]).map((shardId) => ({ shardId })) },
  }))
  const docs = { ...collection([undefined]), config: { params: {} }, shards, snapshots, ...more }
  const nodeCount = held === undefined ? 3 : nodes.length
  return { ...manifest(collection([])), manifestVersion: 1, nodeCount, collections: [docs] }
}

const EACH = [0, 1, 2].map((shardId) => ({ shardId, nodes: [shardId] }))

t.test('a manifest by node with one snapshot of each node is read, in any order', async (t) => {
  for (const nodes of [
    [0, 1, 2],
    [2, 0, 1],
  ]) {
    const value = byNode(nodes, EACH)
    t.strictSame(parseManifest(value), value)
  }
  const twice = byNode([0, 1, 2], [{ shardId: 1, nodes: [0, 1] }])
  t.strictSame(parseManifest(twice), twice, 'one of the nodes that had it is enough')
  const full = byNode([0], [{ shardId: 0, nodes: [0] }], [0, 1])
  t.strictSame(parseManifest(full), full, 'a node may hold several shards')
})

for (const [nodes, ordinals] of [
  [[0, 1], '0, 1'],
  [[0, 1, 1], '0, 1, 1'],
  [[1, 2, 3], '1, 2, 3'],
  [[0, 1, 2, 3], '0, 1, 2, 3'],
] as const) {
  t.test(
    `a manifest by node with snapshots of nodes ${ordinals} of three is rejected`,
    async (t) => {
      const message = `manifest.json: collection docs has snapshots of nodes ${ordinals}, not of 0 to 2`
      t.throws(() => parseManifest(byNode([...nodes], EACH)), { code: 'Rejected', message })
    },
  )
}

t.test(
  'a manifest by node without a shard on a node that should have it is rejected',
  async (t) => {
    for (const shard of [
      { shardId: 3, nodes: [0] },
      { shardId: 1, nodes: [0, 2] },
    ]) {
      const message = `manifest.json: collection docs has no snapshot of shard ${shard.shardId}`
      const value = byNode([0, 1, 2], [...EACH, shard])
      t.throws(() => parseManifest(value), { code: 'Rejected', message })
    }
  },
)

t.test('a manifest by node without one of the shards is rejected', async (t) => {
  const auto = { params: { shard_number: 3 } }
  const custom = { params: { sharding_method: 'custom', shard_number: 1 } }
  const shardKeys = [{ key: 'a', shardIds: [0, 2] }]
  for (const more of [{ config: auto }, { config: custom, shardKeys }]) {
    const value = byNode([0, 1, 2], EACH.slice(0, 2), [0, 1], more)
    const message = 'manifest.json: collection docs has no snapshot of shard 2'
    t.throws(() => parseManifest(value), { code: 'Rejected', message })
    t.ok(parseManifest(byNode([0, 1, 2], EACH, [0, 1, 2], more)))
  }
})

t.test('the checksum of a manifest does not depend on the order of its fields', async (t) => {
  const written = withChecksum(manifest(collection([undefined, undefined])))
  t.match(written.manifestSha256, /^[0-9a-f]{64}$/)
  const { collections: all, ...rest } = written
  t.ok(parseManifest(JSON.parse(JSON.stringify({ collections: all, ...rest }))))
})

t.test('a manifest with any changed value is rejected', async (t) => {
  const written = withChecksum(manifest(collection(['a', 'b'])))
  const text = JSON.stringify(written)
  const changes: [string, string][] = [
    ['"engineVersion":"1.18.3"', '"engineVersion":"1.18.4"'],
    ['"shard_number":2', '"shard_number":2.5'],
    ['"replicationFactor":2', '"replicationFactor":3'],
    ['"aliases":[]', '"aliases":["x"]'],
    ['"payloadIndexes":{}', '"payloadIndexes":{"f":{"dataType":"keyword"}}'],
  ]
  for (const [before, after] of changes) {
    const changed = text.replace(before, after)
    t.not(changed, text)
    t.throws(() => parseManifest(JSON.parse(changed)), { message: /manifestSha256 is/ }, after)
  }
})

t.test('the canonical form is that of RFC 8785', async (t) => {
  const empty = manifest(collection([]))
  const config = { params: { 'b"': 1e21, a: [0.000001, 'é\n', null, true], 10: 1, 9: {} } }
  const docs = { ...collection([]), config }
  const canonicalConfig = '{"params":{"10":1,"9":{},"a":[0.000001,"é\\n",null,true],"b\\"":1e+21}}'
  const canonical =
    `{"backupName":"b","cluster":{"name":"a","namespace":"ns"},"collections":[{"aliases":[],` +
    `"config":${canonicalConfig},"name":"docs","payloadIndexes":{},"replicationFactor":2,` +
    `"shardKeys":[],"shards":[],"snapshots":[]}],"createdAt":"2030-01-01T00:00:00Z",` +
    `"engineVersion":"1.18.3","manifestVersion":2,"method":"Shard","nodeCount":3,"uid":"uid"}`
  const { manifestSha256 } = withChecksum({ ...empty, collections: [docs] })
  t.equal(manifestSha256, createHash('sha256').update(canonical).digest('hex'))
})

t.test('a manifest that is nested too deep is rejected without a crash', async (t) => {
  const deep: unknown = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000))
  const docs = { ...collection([]), config: { params: { deep } } }
  const value = { ...manifest(docs), manifestSha256: SHA256 }
  t.throws(() => parseManifest(value), { message: /nested more than 100 levels deep/ })
})

t.test('a manifest that is larger than a restore reads is not given a checksum', (t) => {
  const docs = collection([undefined])
  const sized = (bytes: number) => {
    const config = { ...docs.config, metadata: { text: 'x'.repeat(bytes) } }
    return { ...manifest({ ...docs, config }), collections: [{ ...docs, config }] }
  }
  const rest = Buffer.byteLength(JSON.stringify(withChecksum(sized(0))))
  t.doesNotThrow(() => withChecksum(sized(MAX_MANIFEST_BYTES - rest)))
  t.throws(() => withChecksum(sized(MAX_MANIFEST_BYTES - rest + 1)), {
    code: 'Rejected',
    message:
      'manifest.json of 1 collections would have 64 MiB, and a restore reads 64 MiB: name fewer of them in spec.collections, in several VecBackups',
  })
  t.end()
})

/** Snapshots in a bucket that others can write to: read, or rejected with what is wrong. */
import fc from 'fast-check'
import t from 'tap'
import { Rejected } from '../../../crds/contract/errors.ts'
import { collectionFromSnapshots } from '../../../jobs/restore/snapshot-metadata.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { makeSnapshot } from '../../doubles/engine/snapshots.ts'
import { tarOf } from '../../doubles/engine/tar.ts'
import { matchWhole } from '../../match-whole.ts'

const SIGNAL = new AbortController().signal
const NODES = 2

/** Snapshots of both nodes, and what a manifest says of them. */
function backedUp(
  change: (bytes: Buffer, node: number) => Buffer = (bytes) => bytes,
  arrange: (engine: EngineCluster) => void = () => undefined,
) {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  for (let node = 0; node < NODES; node += 1) engine.join(node)
  engine.createCollection('docs', 3, NODES)
  arrange(engine)
  const objects = Array.from({ length: NODES }, (_, node) =>
    change(Buffer.from(makeSnapshot(engine, node, 'docs').content), node),
  )
  const snapshots = objects.map(({ length }, nodeIndex) => ({
    ...{ nodeIndex, key: String(nodeIndex), snapshotName: 'docs.snapshot', sizeBytes: length },
  }))
  let reads = 0
  const bucket = {
    name: 'backups',
    bytes: async (key: string, { from, length }: { from: number; length: number }) => {
      reads += 1
      return (objects[Number(key)] ?? Buffer.alloc(0)).subarray(from, from + length)
    },
  }
  const read = () => collectionFromSnapshots({ name: 'docs', snapshots }, bucket, SIGNAL)
  return { read, reads: () => reads }
}

t.test('the snapshots of all nodes together give the configuration of a collection', async (t) => {
  matchWhole(t, await backedUp().read(), {
    name: 'docs',
    config: { params: { shard_number: 3, replication_factor: 2 } },
    shards: [0, 1, 2].map((shardId) => ({ shardId, nodes: [0, 1] })),
    snapshots: [0, 1].map((nodeIndex) => ({
      nodeIndex,
      localShards: [{ shardId: 0 }, { shardId: 1 }, { shardId: 2 }],
    })),
  })
})

/** The same archive with another name for one of its files. */
function renameFile(bytes: Buffer, from: string, to: string): Buffer {
  const renamed = Buffer.from(bytes)
  const at = renamed.indexOf(`\0${from}\0`) + 1
  renamed.write(to.padEnd(from.length, '\0'), at)
  const header = renamed.subarray(at, at + 512)
  header.fill(' ', 148, 156)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return renamed
}

t.test('a snapshot without indexes and shard keys has none of them', async (t) => {
  const { read } = backedUp((bytes) =>
    renameFile(renameFile(bytes, 'payload_index.json', 'x'), 'shard_key_mapping.json', 'y'),
  )
  matchWhole(t, await read(), {
    payloadIndexes: {},
    shardKeys: [],
    shards: [0, 1, 2].map((shardId) => ({ shardId, nodes: [0, 1] })),
  })
})

for (const { key, isSafe } of [
  { key: 2 ** 53 - 1, isSafe: true },
  { key: 2 ** 53, isSafe: false },
  { key: String(2 ** 53), isSafe: true },
]) {
  t.test(`a shard key ${JSON.stringify(key)} is ${isSafe ? 'read' : 'rejected'}`, async (t) => {
    const { read } = backedUp(undefined, (engine) => {
      const { shards = [], config } = engine.find('docs') ?? {}
      for (const shard of shards) shard.key = key
      Object.assign(config?.params ?? {}, { sharding_method: 'custom' })
    })
    if (isSafe) t.strictSame((await read()).shardKeys, [{ key, shardIds: [0, 1, 2] }])
    else {
      await t.rejects(read(), {
        code: 'Rejected',
        message: /^shard key 9007199254740992 of docs is above 2\^53, which cannot be read exactly/,
      })
    }
  })
}

t.test('a collection without snapshots is rejected', async (t) => {
  const bucket = { name: 'backups', bytes: async () => Buffer.alloc(0) }
  await t.rejects(collectionFromSnapshots({ name: 'docs', snapshots: [] }, bucket, SIGNAL), {
    code: 'Rejected',
    message: 'manifest.json: collection docs has no snapshots',
  })
})

t.test('a snapshot without a configuration is rejected', async (t) => {
  const { read } = backedUp((bytes) => renameFile(bytes, 'config.json', 'z'))
  await t.rejects(read(), { code: 'Rejected', message: /^0: it has no config.json: it is no snap/ })
})

for (const [file, content, path] of [
  ['shard_key_mapping.json', '[{"key":"a","shard_ids":[-1]}]', '/0/shard_ids/0'],
  ['shard_key_mapping.json', '[{"key":"a"}]', '/0/shard_ids'],
  ['shard_key_mapping.json', '[{"shard_ids":[1]}]', '/0/key'],
  ['shard_key_mapping.json', '{}', ''],
  ['payload_index.json', '{}', '/schema'],
  ['payload_index.json', '{"schema":{"a":1}}', '/schema/a'],
  ['payload_index.json', '{"schema":{"a":{"on_disk":true}}}', '/schema/a'],
  ['config.json', '{}', '/params'],
] as const) {
  t.test(`${file} with ${content} is rejected with the wrong field`, async (t) => {
    const { read } = backedUp((bytes) => {
      const changed = tarOf({ [file]: Buffer.from(content) })
      return Buffer.concat([changed.subarray(0, -1024), renameFile(bytes, file, 'y')])
    })
    await t.rejects(read(), {
      code: 'Rejected',
      message: new RegExp(`^0: ${file}: ${path} \\w+`),
    })
  })
}

t.test('large files are skipped, and long names and folders are supported', async (t) => {
  const long = 'x'.repeat(150)
  const { read, reads } = backedUp((bytes) => {
    // A name of more than a hundred bytes comes as a file before the one that it names.
    const before = tarOf({
      '././@LongLink': Buffer.from(`${long}\0`),
      [long.slice(0, 99)]: Buffer.alloc(3_000_000),
    })
    before.write('L', 156)
    before.fill(' ', 148, 156)
    const sum = before.subarray(0, 512).reduce((all, byte) => all + byte, 0)
    before.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
    return Buffer.concat([before.subarray(0, -1024), bytes])
  })
  t.match(await read(), { config: { params: { shard_number: 3 } } })
  t.ok(reads() <= 6, `${reads()} reads`)
})

t.test('a snapshot with any changed bytes is read or rejected with a message', async (t) => {
  const byte = fc.record({ at: fc.nat({ max: 16_383 }), to: fc.nat({ max: 255 }) })
  const cases = fc.record({
    node: fc.nat({ max: NODES - 1 }),
    bytes: fc.array(byte, { minLength: 1, maxLength: 20 }),
    length: fc.option(fc.nat({ max: 16_384 }), { nil: undefined }),
  })
  const ends = { read: 0, refused: 0 }
  await fc.assert(
    fc.asyncProperty(cases, async ({ node, bytes, length }) => {
      const { read, reads } = backedUp((archive, of) => {
        if (of !== node) return archive
        for (const { at, to } of bytes) archive[at % archive.length] = to
        return length === undefined ? archive : archive.subarray(0, length)
      })
      try {
        await read()
        ends.read += 1
      } catch (error) {
        if (!(error instanceof Rejected)) throw error
        ends.refused += 1
      }
      return reads() < 50
    }),
    { numRuns: 1_500 },
  )
  t.ok(ends.read > 0 && ends.refused > 0, JSON.stringify(ends))
})

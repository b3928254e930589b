/** `backup run` by shard with failures: streams that break, replicas that die, shards that move, stores that stall. */
import { Readable } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { StorageError } from '../../../../crds/contract/errors.ts'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { RunContext } from '../../../../jobs/backup/context.ts'
import { RetryBudget } from '../../../../jobs/retry.ts'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import { PARTS_EXHAUSTED } from '../../../../jobs/clients/s3/parts.ts'
import { streamShard, verifiedBytes } from '../../../../jobs/backup/shards/stream-shard.ts'
import type { Misbehaviour } from '../../../doubles/engine/misbehaviour.ts'
import { abortResharding, startResharding } from '../../../doubles/engine/resharding.ts'
import { tarOf } from '../../../doubles/engine/tar.ts'
import { matchWhole } from '../../../match-whole.ts'
import { instantClock } from '../../job-world.ts'
import {
  assertComplete,
  onStream,
  shardFixture,
  streamedShard,
  type ShardFixture,
} from './fixture.ts'
import { MIB } from '../fixture.ts'

/** What happens to the first stream of shard 1; later streams succeed. */
const TRANSIENT: [string, Misbehaviour, RegExp][] = [
  ['a stream that breaks', { cut: 'within' }, /stream of shard 1 of node \d broke off/],
  [
    'a stream that ends early, as if it were whole',
    { cut: 'short' },
    /stream of shard 1 of node \d ended early, after \d+ bytes/,
  ],
  [
    'a stream of something else',
    { status: 200, body: 'x'.repeat(1024), headers: { 'content-type': 'text/plain' } },
    /stream of shard 1 of node \d is not an archive/,
  ],
  ['a node that answers 500', { status: 500, body: 'no' }, /answered 500: no/],
]

for (const [what, bad, words] of TRANSIENT) {
  t.test(`${what} is fetched again, and the backup completes`, async (t) => {
    const fixture = await shardFixture(t, { nodes: 2, snapshotBytes: 9 * MIB })
    let times = 0
    onStream(fixture, (shard) => (shard === 1 && times++ === 0 ? bad : undefined))
    const { code, log } = await fixture.world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, words)
    t.match(log, /retrying shard/)
    await assertComplete(t, fixture)
  })
}

t.test('a stream that always breaks fails that collection and leaves no open upload', async (t) => {
  const fixture = await shardFixture(t, {
    engineCollections: ['a', 'docs'],
    snapshotBytes: 9 * MIB,
  })
  for (const node of fixture.nodes) {
    node.misbehave((request) =>
      streamedShard(request) === 1 && request.path[1] === 'docs' ? { cut: 'short' } : undefined,
    )
  }
  const { code } = await fixture.world.run()
  t.equal(code, EXIT.failed)
  t.match(await fixture.result(), {
    completed: 1,
    failed: 1,
    error: /^collection docs: stream of shard 1 of node 1 ended early/,
  })
  t.strictSame(
    fixture.manifest().collections.map(({ name }) => name),
    ['a'],
  )
  t.equal(fixture.store().uploads.size, 0)
})

t.test('when a replica turns Dead during its stream, another replica is streamed', async (t) => {
  const fixture = await shardFixture(t, {
    nodes: 3,
    replicationFactor: 2,
    snapshotBytes: 9 * MIB,
  })
  const shard = fixture.engine.collections.get('docs')?.shards[1]
  const sources: number[] = []
  onStream(fixture, (id, node) => {
    if (id !== 1 || shard === undefined) return undefined
    sources.push(node)
    if (sources.length === 1) shard.states = { [fixture.engine.peer(node).id]: 'Dead' }
    return undefined
  })
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /shard 1 on node \d did not stay Active until the end of its stream/)
  t.equal(new Set(sources).size, 2, 'from another pod')
  t.equal(fixture.manifest().collections[0]?.snapshots[1]?.nodeIndex, sources[1])
  await assertComplete(t, fixture)
})

t.test(
  'a write that the store does late does not replace the object of the next stream',
  async (t) => {
    const fixture = await shardFixture(t, {
      ...{ nodes: 2, shards: 1, replicationFactor: 2 },
      snapshotBytes: 4096,
    })
    const { engine, s3 } = fixture
    const docs = engine.collections.get('docs')
    const shard = docs?.shards[0]
    if (docs === undefined || shard === undefined) throw new Error('there is no such shard')
    const point = { id: 1, vector: [1], payload: { version: 1 } }
    docs.points.push(point)
    let streams = 0
    onStream(fixture, (_, node) => {
      streams += 1
      // The next stream has as many bytes, and other ones.
      point.payload.version = streams
      if (streams === 1) shard.states = { [engine.peer(node).id]: 'Dead' }
      return undefined
    })
    const released = Promise.withResolvers<undefined>()
    let [writes, checkpoints] = [0, 0]
    s3.misbehave(({ operation, key }) => {
      if (operation !== 'PutObject') return undefined
      if (key.endsWith('.snapshot') && (writes += 1) === 1) return { late: released.promise }
      // Of each stream at its beginning, and of the second one at its end.
      if (key.endsWith('shard-0/checkpoint.json') && (checkpoints += 1) === 3)
        released.resolve(undefined)
      return undefined
    })
    const { code, log } = await fixture.world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    t.equal(streams, 2)
    t.equal(writes, 3, 'the first one is repeated')
    t.equal(checkpoints, 3)
    await assertComplete(t, fixture)
  },
)

t.test('a replica that turned Dead before its stream began is not streamed', async (t) => {
  const fixture = await shardFixture(t, { nodes: 2, replicationFactor: 2, parallelism: 1 })
  const { engine, s3, world } = fixture
  const shard = engine.collections.get('docs')?.shards[1]
  if (shard === undefined) throw new Error('there is no such shard')
  const dead = { 0: { [engine.peer(1).id]: 'Dead' }, 1: { [engine.peer(0).id]: 'Dead' } }
  let isFirst = true
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'PutObject' || !/shard-1\/checkpoint.json$/.test(key)) return undefined
    if (isFirst) shard.reportedStates = dead
    isFirst = false
    return undefined
  })
  const wereDead: boolean[] = []
  onStream(fixture, (id) => {
    if (id !== 1) return undefined
    wereDead.push(shard.reportedStates !== undefined)
    // It has caught up before the end of its stream.
    delete shard.reportedStates
    return undefined
  })
  const onLine = (line: string) => {
    if (/waiting until a replica is Active/.test(line)) delete shard.reportedStates
  }
  const { code, log } = await world.run({}, { onLine })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(wereDead, [false])
  await assertComplete(t, fixture)
})

t.test('a replica that only its own node calls Active is not streamed', async (t) => {
  const fixture = await shardFixture(t, { nodes: 3, replicationFactor: 2, parallelism: 1 })
  const { engine, nodes, s3, world } = fixture
  const shard = engine.collections.get('docs')?.shards[1]
  if (shard === undefined) throw new Error('there is no such shard')
  t.strictSame(shard.peers, [engine.peer(1).id, engine.peer(2).id])
  const dead = { [engine.peer(1).id]: 'Dead' }
  let isAlone = false
  s3.misbehave(({ operation, key }) => {
    if (operation !== 'PutObject' || !/shard-1\/checkpoint.json$/.test(key)) return undefined
    // Node 1 has just been restarted, and the others do not answer.
    isAlone = shard.reportedStates === undefined
    shard.reportedStates = { 0: dead, 2: dead }
    return undefined
  })
  const sources: number[] = []
  nodes.forEach((node, ordinal) => {
    node.misbehave((request) => {
      if (streamedShard(request) === 1) sources.push(ordinal)
      const isOfShards = request.path.join('/') === 'collections/docs/cluster'
      return isAlone && ordinal !== 1 && isOfShards ? { status: 503, body: 'busy' } : undefined
    })
  })
  const onLine = (line: string) => {
    if (/waiting for the engine/.test(line)) isAlone = false
  }
  const { code, log } = await world.run({}, { onLine })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(sources, [2])
  await assertComplete(t, fixture)
})

t.test(
  'a shard that may have points of a shard that is being removed is streamed again',
  async (t) => {
    const fixture = await shardFixture(t, { nodes: 2, shards: 3, parallelism: 1 })
    const { engine, world } = fixture
    const collection = engine.collections.get('docs')
    if (collection === undefined) throw new Error('there is no collection')
    engine.reshardingEnabled = true
    let streams = 0
    onStream(fixture, (id) => {
      if (id !== 0) return undefined
      streams += 1
      if (streams === 1) startResharding(engine, collection, 'docs', { direction: 'down' })
      return undefined
    })
    const onLine = (line: string) => {
      if (/retrying shard/.test(line) && collection.resharding !== undefined)
        abortResharding(engine, collection)
    }
    const { code, log } = await world.run({}, { onLine })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(
      log,
      /shard 0 of docs may have points of another one: the number of shards is being changed/,
    )
    t.equal(streams, 2)
    await assertComplete(t, fixture)
  },
)

/** What happens to shard 1 while shard 0 is streamed. */
const SHARD_MOVES: [string, (fixture: ShardFixture) => void][] = [
  ['moved', ({ engine }) => setPlacement(engine, [engine.peer(0).id])],
  ['replicated away', ({ engine }) => setPlacement(engine, [engine.peer(2).id, engine.peer(0).id])],
]

function setPlacement(engine: ShardFixture['engine'], peers: number[]): void {
  const shard = engine.collections.get('docs')?.shards[1]
  if (shard !== undefined) shard.peers = peers
}

for (const [how, reshuffle] of SHARD_MOVES) {
  t.test(`a shard that is ${how} during the backup is streamed from its new node`, async (t) => {
    const fixture = await shardFixture(t, { nodes: 3, parallelism: 1 })
    onStream(fixture, (id) => {
      if (id === 0) reshuffle(fixture)
      return undefined
    })
    const { code, log } = await fixture.world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    t.not(fixture.manifest().collections[0]?.snapshots[1]?.nodeIndex, 1)
    await assertComplete(t, fixture)
  })
}

t.test('a shard that leaves its pod during the request is found again', async (t) => {
  const fixture = await shardFixture(t, { nodes: 2 })
  onStream(fixture, (id, node) => {
    if (id === 1 && node === 1) setPlacement(fixture.engine, [fixture.engine.peer(0).id])
    return undefined
  })
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /answered 400: Wrong input: Shard 1 is not a local or queue proxy shard/)
  t.equal(fixture.manifest().collections[0]?.snapshots[1]?.nodeIndex, 0)
})

t.test(
  'after a shard key is created during the backup the topology is read again, and completed shards are not repeated',
  async (t) => {
    const fixture = await shardFixture(t, { nodes: 2 })
    const docs = fixture.engine.collections.get('docs')
    if (docs === undefined) throw new Error('there is no collection')
    docs.config.params['sharding_method'] = 'custom'
    const [first, second] = [fixture.engine.peer(0).id, fixture.engine.peer(1).id]
    docs.shards = [
      { id: 1, key: 'a', peers: [first] },
      { id: 2, key: 'b', peers: [second] },
    ]
    const streams: number[] = []
    onStream(fixture, (id) => {
      streams.push(id)
      if (id !== 1) return undefined
      docs.shards = docs.shards
        .filter(({ key }) => key !== 'b')
        .concat({ id: 3, key: 'c', peers: [second] })
      return undefined
    })
    const { code, log } = await fixture.world.run({ parallelism: 1 })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /collection changed during the backup, starting over/)
    t.strictSame(
      streams.filter((id) => id === 1),
      [1],
    )
    matchWhole(t, fixture.manifest().collections[0], {
      shardKeys: [{ key: 'a' }, { key: 'c' }],
      snapshots: [{ shardId: 1 }, { shardId: 3 }],
    })
    await assertComplete(t, fixture)
  },
)

t.test(
  'when a bucket accepts no data for over five minutes the engine closes the stream, and the error says so',
  async (t) => {
    let now = 0
    const cut = tarOf({ shard: Buffer.alloc(4096) }).subarray(0, 1024)
    const bytes = verifiedBytes(chunked(cut), {
      ...{
        description: 'stream of shard 0',
        digest: { sha256: '' },
        onBytes: () => undefined,
        now: () => now,
      },
    })
    await t.rejects(
      async () => {
        for await (const chunk of bytes) now += chunk.length * 800
      },
      {
        message:
          'stream of shard 0 ended early, after 1024 bytes: the bucket took nothing for 410 s, and the engine waits for 300 s',
      },
    )
  },
)

async function* chunked(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += 512) yield bytes.subarray(at, at + 512)
}

for (const state of ['Dead', 'Partial', 'Recovery']) {
  t.test(`a copy that is ${state} before the first stream fails that collection`, async (t) => {
    const fixture = await shardFixture(t, { nodes: 2, replicationFactor: 2 })
    const shard = fixture.engine.collections.get('docs')?.shards[0]
    if (shard !== undefined) shard.states = { [fixture.engine.peer(1).id]: state }
    t.equal((await fixture.world.run()).code, EXIT.failed)
    t.match(await fixture.result(), { error: new RegExp(`shard 0 on node 1 is ${state}`) })
  })
}

t.test(
  'the backup waits for a shard transfer that is in progress before the first stream',
  async (t) => {
    const fixture = await shardFixture(t, { nodes: 2 })
    const { engine } = fixture
    const shard = engine.collections.get('docs')?.shards[0]
    const [from, to] = [engine.peer(0).id, engine.peer(1).id]
    if (shard !== undefined)
      shard.arriving = [{ from, to, until: Date.now() + 1e9, state: 'Recovery', sync: true }]
    const time = instantClock(() => {
      if (shard !== undefined) shard.arriving = []
    })
    const { code, log } = await fixture.world.run({}, { time })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /waiting until every replica is Active .*reason=shard 0/)
  },
)

t.test(
  'the shards of a node that is killed during a stream are streamed from the other nodes',
  async (t) => {
    const fixture = await shardFixture(t, {
      nodes: 3,
      replicationFactor: 2,
      snapshotBytes: 9 * MIB,
    })
    let killed = false
    onStream(fixture, (id, node) => {
      if (id !== 1 || killed) return undefined
      killed = true
      setImmediate(() => void fixture.nodes[node]?.close())
      return { cut: 'within' }
    })
    const { code, log } = await fixture.world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    await assertComplete(t, fixture)
  },
)

t.test(
  'a node that does not know the collection does not end a backup that others know',
  async (t) => {
    const fixture = await shardFixture(t, { nodes: 2, replicationFactor: 2 })
    let isStreaming = false
    let unknown = 0
    fixture.nodes[0]?.misbehave((request) => {
      isStreaming ||= streamedShard(request) !== undefined
      return undefined
    })
    // The node lags behind: it has not applied yet what the others have.
    fixture.nodes[1]?.misbehave((request) => {
      const { method, path } = request
      isStreaming ||= streamedShard(request) !== undefined
      const isOfShards = path.join('/') === 'collections/docs/cluster'
      if (!isStreaming || method !== 'GET' || !isOfShards || unknown === 1) return undefined
      unknown += 1
      return {
        ...{ status: 404, headers: { 'content-type': 'application/json' } },
        body: '{"status":{"error":"Not found: Collection `docs` doesn\'t exist!"},"time":0}',
      }
    })
    const { code, log } = await fixture.world.run({ parallelism: 1 })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.equal(unknown, 1)
    await assertComplete(t, fixture)
  },
)

/** The shard is Active on its node. */
const PLACEMENT = {
  ...{ peer_id: 10, remote_shards: [], shard_transfers: [] },
  local_shards: [{ shard_id: 1, state: 'Active', points_count: 1 }],
}

/** A shard whose stream fits in no upload of the planned parts. */
function oversized(expectedBytes: number | undefined, streams = 1) {
  const underestimated: string[] = []
  const error = new StorageError('the object is larger', { reason: PARTS_EXHAUSTED })
  const context = {
    retryBudget: new RetryBudget(),
    ...{ folder: 'nightly/b/', plan: { uid: 'uid-b', cluster: { replicas: 1 } } },
    bucket: {
      getJson: async () => undefined,
      putJson: async () => true,
      openUploads: async () => [],
      delete: async () => undefined,
      upload: async () => {
        throw error
      },
    },
    shardSizes: {
      estimate: async () => expectedBytes,
      markUnderestimated: (name: string, shard: number) => underestimated.push(`${name} ${shard}`),
    },
    tools: {
      reporter: { verifyOwnership: async () => undefined },
      ...{ jobUid: 'job-1', podUid: 'pod-1', log: pino({ level: 'silent' }) },
      time: { now: () => new Date(0), monotonicMs: () => 0 },
      engineForPod: () => ({ open: async () => Readable.from([]), call: async () => PLACEMENT }),
    },
  }
  const source = {
    ...{ collection: 'docs', shard: { shardId: 1 }, node: 0, fingerprint: 'f', streams },
  }
  return { end: streamShard(source, context as unknown as RunContext), underestimated }
}

t.test('a shard larger than its estimate is streamed again in larger parts', async (t) => {
  const { end, underestimated } = oversized(10)
  await t.rejects(end, { code: 'EngineError', message: /docs.shard-1.*the object is larger/ })
  t.strictSame(underestimated, ['docs 1'])
})

t.test('a shard larger than the largest parts hold is rejected', async (t) => {
  const { end, underestimated } = oversized(undefined)
  await t.rejects(end, { code: 'Rejected', message: /docs.shard-1.*the object is larger/ })
  t.strictSame(underestimated, [])
})

t.test('a shard of unknown size that shared the memory is streamed again', async (t) => {
  const { end, underestimated } = oversized(undefined, 8)
  await t.rejects(end, { code: 'EngineError', message: /docs.shard-1.*the object is larger/ })
  t.strictSame(underestimated, ['docs 1'])
})

t.test('a shard that is larger than its share of the memory is streamed again alone', async (t) => {
  const fixture = await shardFixture(t, { nodes: 2, shards: 4, parallelism: 2 })
  const ended: [shard: string, streams: number | undefined, expectedBytes: number | undefined][] =
    []
  // oxlint-disable-next-line typescript/unbound-method -- called with its bucket below
  const { upload } = Bucket.prototype
  t.teardown(() => (Bucket.prototype.upload = upload))
  Bucket.prototype.upload = async function (options) {
    const { key, streams, expectedBytes } = options
    const shard = /shard-(\d+)/.exec(key)?.[1] ?? ''
    ended.push([shard, streams, expectedBytes])
    if (shard !== '1' || streams === 1) return upload.call(this, options)
    await Readable.from(options.source).toArray()
    throw new StorageError('the object is larger', { reason: PARTS_EXHAUSTED })
  }
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(ended.map(([shard, streams]) => `${shard} ${streams}`).toSorted(), [
    '0 2',
    '1 1',
    '1 2',
    '2 2',
    '3 2',
  ])
  t.strictSame(ended.at(-1), ['1', 1, undefined], 'after all others, in the largest parts')
  await assertComplete(t, fixture)
})

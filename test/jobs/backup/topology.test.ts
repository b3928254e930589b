/** `backup run` while nodes disagree about the peers, about the state of replicas, or about the collection. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { ownerKey } from '../../../crds/contract/backup-keys.ts'
import { requireSameVersion } from '../../../jobs/backup/source-cluster.ts'
import { findInstability, shardsOnNode, type Topology } from '../../../jobs/backup/topology.ts'
import type { BackupClusterInfo } from '../../../jobs/clients/engine/responses.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { newConfig } from '../../doubles/engine/collection.ts'
import { sentForm } from '../../doubles/engine/sent-form.ts'
import { setMaking, snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { matchWhole } from '../../match-whole.ts'
import { instantClock } from '../job-world.ts'
import { backupFixture, type BackupFixture } from './fixture.ts'

const isSnapshotCreation = ({ method, path }: EngineRequest) =>
  method === 'POST' && path[2] === 'snapshots'
const isShardStream = ({ method, path }: EngineRequest) =>
  method === 'GET' && path[4] === 'snapshot'

const json = (result: object) => ({ status: 200, body: JSON.stringify({ result }) })

/** Like a pod that lost its volume: it answers, is ready, and knows no peers and no collections. */
function isolate({ engine, nodes }: BackupFixture, until: () => boolean) {
  const { id, uri } = engine.peer(0)
  nodes[0]?.misbehave(({ path }) => {
    if (until()) return undefined
    if (path.join('/') === 'collections') return json({ collections: [] })
    if (path.join('/') !== 'cluster') return undefined
    return json({
      ...{ status: 'enabled', peer_id: id, peers: { [id]: { uri } } },
      raft_info: { leader: id },
      consensus_thread_status: { consensus_thread_status: 'working' },
    })
  })
}

/** What a node with this peer reports: its own shards, and those that it knows on others. */
function placementOf(
  peer: number,
  local: number[],
  remote: [shard: number, peer: number, state?: string][] = [],
): BackupClusterInfo {
  return {
    peer_id: peer,
    shard_count: 2,
    local_shards: local.map((shard_id) => ({ shard_id, points_count: 0, state: 'Active' })),
    remote_shards: remote.map(([shard_id, peer_id, state = 'Active']) => ({
      ...{ shard_id, peer_id, state },
    })),
    shard_transfers: [],
  }
}

/** Reports of two nodes with the peers 10 and 11, and what is said about them. */
const PLACEMENTS: [what: string, reports: BackupClusterInfo[], said: string | undefined][] = [
  [
    'replicas that both nodes know',
    [placementOf(10, [0], [[1, 11]]), placementOf(11, [1], [[0, 10]])],
    undefined,
  ],
  [
    'a replica of node 1 that is not Active',
    [placementOf(10, [0], [[1, 11, 'Dead']]), placementOf(11, [1], [[0, 10]])],
    'shard 1 on node 1 is Dead',
  ],
  [
    'a replica of a peer without a pod that is not Active',
    [placementOf(10, [0], [[1, 99, 'Partial']]), placementOf(11, [1], [[0, 10]])],
    'shard 1 on peer 99, which is none of the pods is Partial',
  ],
  [
    'a replica of a peer without a pod',
    [placementOf(10, [0], [[1, 99]]), placementOf(11, [1], [[0, 10]])],
    'shard 1 is said to be on peer 99, which is none of the pods, but is not there',
  ],
  [
    'a replica that its own node does not have',
    [placementOf(10, [0], [[0, 11]]), placementOf(11, [1], [[0, 10]])],
    'shard 0 is said to be on node 1, but is not there',
  ],
  [
    'a transfer to a peer without a pod',
    [
      {
        ...placementOf(10, [0], [[1, 11]]),
        shard_transfers: [{ shard_id: 1, from: 11, to: 99 }],
      },
      placementOf(11, [1], [[0, 10]]),
    ],
    'shard 1 is being transferred from node 1 to peer 99, which is none of the pods',
  ],
  [
    'as many replicas, on different nodes',
    [placementOf(10, [0, 1], []), placementOf(11, [1], [[0, 10]])],
    'nodes 0 and 1 do not agree on which node holds which shard',
  ],
]
for (const [what, reports, said] of PLACEMENTS) {
  t.test(`${what}: ${said ?? 'can be backed up'}`, async (t) => {
    t.equal(findInstability(reports), said)
  })
}

for (const method of ['Node', 'Shard'] as const) {
  t.test(
    `${method}: a cluster in two parts is not backed up, and the message says who sees what`,
    async (t) => {
      const fixture = await backupFixture(t, { nodes: 3, method })
      isolate(fixture, () => false)
      t.equal((await fixture.world.run()).code, EXIT.failed)
      t.match(await fixture.world.progress(), {
        state: 'Failed',
        message:
          'the nodes do not see one cluster: node 0 sees node 0, with 0 collections; nodes 1, 2 see',
      })
      t.notOk(fixture.keys().includes('nightly/b/manifest.json'))
    },
  )

  t.test(`${method}: the backup waits for nodes that agree in time`, async (t) => {
    const fixture = await backupFixture(t, { nodes: 3, method })
    let slept = 0
    isolate(fixture, () => slept > 3)
    const time = instantClock((count) => (slept = count))
    const { code, log } = await fixture.world.run({}, { time })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /waiting for the engine .*the nodes do not see one cluster/)
    t.strictSame(
      fixture.manifest().collections.map(({ name }) => name),
      ['docs'],
    )
  })
}

function shardOf({ engine }: BackupFixture, id: number) {
  const shard = engine.collections.get('docs')?.shards[id]
  if (shard === undefined) throw new Error('there is no such shard')
  return shard
}

t.test(
  'after a failure a node that others report as Dead is not asked again before all report it as Active',
  async (t) => {
    const fixture = await backupFixture(t, { nodes: 2, replicationFactor: 2 })
    const { engine, nodes, world } = fixture
    const shard = shardOf(fixture, 0)
    const peer = engine.peer(1).id
    const asked: boolean[] = []
    nodes[1]?.misbehave((request) => {
      if (!isSnapshotCreation(request)) return undefined
      asked.push(shard.reportedStates !== undefined)
      if (asked.length > 1) return undefined
      // It restarts: node 0 knows what it missed, while it reports itself as Active.
      shard.reportedStates = { 0: { [peer]: 'Dead' } }
      return { cut: 'before' }
    })
    const time = instantClock((slept) => {
      if (slept > 40) delete shard.reportedStates
    })
    const { code, log } = await world.run({}, { time })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /waiting until every replica is Active .*reason=shard 0 on node 1 is Dead/)
    t.strictSame(asked, [false, false], 'no node reported its replicas as Dead when it was asked')
  },
)

t.test(
  'a snapshot of a replica that was reported Dead during its creation is not used',
  async (t) => {
    const fixture = await backupFixture(t, { nodes: 2, replicationFactor: 2 })
    const { engine, world } = fixture
    const shard = shardOf(fixture, 1)
    const peer = engine.peer(1).id
    let made = 0
    setMaking(engine, {
      until: async (node) => {
        if (node === 1 && ++made === 1) shard.reportedStates = { 0: { [peer]: 'Recovery' } }
      },
    })
    const time = instantClock((slept) => {
      if (slept > 40) delete shard.reportedStates
    })
    const { code, log } = await world.run({}, { time: { ...time, now: () => new Date() } })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /snapshot docs-.* of node 1 was discarded: shard 1 on node 1 is Recovery/)
    t.equal(made, 2)
    t.equal(snapshotFiles(engine).size, 0)
    t.equal((await world.verify('s3://backups/nightly/b')).code, EXIT.done)
  },
)

t.test(
  'a replica that turned Dead while its node finished another snapshot is not backed up',
  async (t) => {
    const fixture = await backupFixture(t, { nodes: 2, replicationFactor: 2 })
    const { engine, nodes, world } = fixture
    const shard = shardOf(fixture, 1)
    const other = Promise.withResolvers<undefined>()
    const wereDead: boolean[] = []
    let made = 0
    setMaking(engine, {
      until: (node) => {
        if (node !== 1) return undefined
        made += 1
        if (made === 1) return other.promise
        wereDead.push(shard.reportedStates !== undefined)
        // It has caught up before its snapshot is complete.
        delete shard.reportedStates
        return undefined
      },
      failure: (node) => (node === 1 && made === 1 ? 'that of a user' : undefined),
    })
    const url = `http://127.0.0.1:${nodes[1]?.port}/collections/docs/snapshots?wait=false`
    await (await fetch(url, { method: 'POST' })).text()
    const onLine = (line: string) => {
      if (/waiting until every replica is Active/.test(line)) delete shard.reportedStates
      if (!/waiting for other snapshots/.test(line) || made > 1) return
      shard.reportedStates = { 0: { [engine.peer(1).id]: 'Dead' } }
      other.resolve(undefined)
    }
    const { code, log } = await world.run({}, { onLine })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /waiting for other snapshots/)
    t.strictSame(wereDead, [false])
  },
)

t.test('snapshots of a round in which a shard moved are not used', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2 })
  const { engine, nodes, world, manifest } = fixture
  const made = [0, 0]
  nodes.forEach((node, ordinal) => {
    node.misbehave((request) => {
      if (!isSnapshotCreation(request)) return undefined
      made[ordinal] = (made[ordinal] ?? 0) + 1
      if (ordinal === 1 && made[1] === 1) shardOf(fixture, 1).peers = [engine.peer(0).id]
      return undefined
    })
  })
  // File names have a resolution of seconds: those of the second round differ.
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /collection changed during the backup, starting over/)
  t.match(log, /its shards are on other nodes than before/)
  t.strictSame(made, [2, 2])
  matchWhole(t, manifest().collections[0]?.snapshots, [
    { localShards: [{ shardId: 0 }, { shardId: 1 }] },
    { localShards: [] },
  ])
})

t.test('snapshots of a round that ended with a Dead replica are not used', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2, replicationFactor: 2 })
  const { engine, nodes, s3, world } = fixture
  const shard = shardOf(fixture, 0)
  const made = [0, 0]
  nodes.forEach((node, ordinal) => {
    node.misbehave((request) => {
      if (isSnapshotCreation(request)) made[ordinal] = (made[ordinal] ?? 0) + 1
      return undefined
    })
  })
  // While the last snapshot is uploaded; its own copies were Active when it was created.
  s3.misbehave(({ operation, key }) => {
    const isLast = operation === 'PutObject' && /node-1.*\.snapshot$/.test(key)
    if (isLast && made[1] === 1) shard.reportedStates = { 1: { [engine.peer(0).id]: 'Dead' } }
    return undefined
  })
  const time = instantClock((slept) => {
    if (slept > 40) delete shard.reportedStates
  })
  const { code, log } = await world.run({}, { time })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /collection changed during the backup, starting over/)
  t.strictSame(made, [2, 2], 'complete snapshots are created again too')
})

/** Changes of a collection during its backup that move no shard. */
const CHANGES: [string, (fixture: BackupFixture) => void][] = [
  [
    'is dropped and created again',
    ({ engine }) => {
      const docs = engine.collections.get('docs')
      if (docs !== undefined) docs.uuid = 'another'
    },
  ],
  [
    'gets a payload index',
    ({ engine }) => {
      const docs = engine.collections.get('docs')
      if (docs !== undefined) docs.payloadSchema = { city: { data_type: 'keyword', points: 0 } }
    },
  ],
  [
    'gets other HNSW parameters',
    ({ engine }) => {
      const docs = engine.collections.get('docs')
      if (docs !== undefined) docs.config.hnsw_config['m'] = 32
    },
  ],
  [
    'is quantized',
    ({ engine }) => {
      const docs = engine.collections.get('docs')
      if (docs === undefined) return
      docs.config = { ...newConfig({}, 2), ...docs.config, quantization_config: { scalar: {} } }
    },
  ],
  ['is on nodes that are upgraded', (fixture) => setVersion(fixture, '1.18.4')],
]

/** Changes GET / of every node; other misbehaviours stay. */
const versions = new WeakMap<BackupFixture['engine'], string>()

function setVersion({ engine }: BackupFixture, version: string): void {
  versions.set(engine, version)
}

function changeDuring(
  fixture: BackupFixture,
  isMoment: (request: EngineRequest, node: number) => boolean,
  change: () => void,
) {
  let isChanged = false
  const calls: number[] = []
  fixture.nodes.forEach((node, ordinal) => {
    node.misbehave((request) => {
      const version = versions.get(fixture.engine)
      if (version !== undefined && request.path.join('/') === '') {
        return { status: 200, body: JSON.stringify({ title: 'engine', version }) }
      }
      if (isSnapshotCreation(request) || isShardStream(request)) calls.push(ordinal)
      if (!isChanged && isMoment(request, ordinal)) {
        isChanged = true
        change()
      }
      return undefined
    })
  })
  return calls
}

for (const [what, change] of CHANGES) {
  t.test(
    `Node: a collection that ${what} between two snapshots is taken again whole`,
    async (t) => {
      const fixture = await backupFixture(t, { nodes: 2 })
      const calls = changeDuring(
        fixture,
        (request, node) => isSnapshotCreation(request) && node === 1,
        () => change(fixture),
      )
      await assertRetaken(t, fixture, calls)
    },
  )

  t.test(`Shard: a collection that ${what} between two streams is taken again whole`, async (t) => {
    const fixture = await backupFixture(t, { nodes: 2, method: 'Shard', parallelism: 1 })
    const isSecond = (request: EngineRequest) => isShardStream(request) && request.path[3] === '1'
    const calls = changeDuring(fixture, isSecond, () => change(fixture))
    await assertRetaken(t, fixture, calls)
  })
}

for (const method of ['Node', 'Shard'] as const) {
  t.test(
    `${method}: a collection that node 0 shows now from its own shard, now from another node, has not changed`,
    async (t) => {
      const fixture = await backupFixture(t, { nodes: 2, method })
      const docs = fixture.engine.collections.get('docs')
      if (docs === undefined) throw new Error('no collection')
      docs.config.strict_mode_config = { enabled: true, search_max_oversampling: 1.1 }
      docs.config.metadata = {}
      docs.payloadSchema['body'] = {
        data_type: 'text',
        params: { type: 'text', tokenizer: 'word', stopwords: 'english' },
        points: 0,
      }
      let reads = 0
      fixture.nodes[0]?.misbehave(({ method: verb, path }) => {
        if (verb !== 'GET' || path.join('/') !== 'collections/docs') return undefined
        reads += 1
        if (reads % 2 === 0) return undefined
        const { config, payloadSchema } = sentForm(docs)
        return json({ status: 'green', config, payload_schema: payloadSchema, points_count: 0 })
      })
      const { code, log } = await fixture.world.run()
      t.equal(code, EXIT.done, log.slice(-2000))
      t.ok(reads > 1, `${reads} reads`)
      t.notMatch(log, /collection changed/)
      const { metadata: _, ...withoutMetadata } = docs.config
      matchWhole(t, fixture.manifest().collections[0], {
        config: withoutMetadata,
        payloadIndexes: {
          body: {
            dataType: 'text',
            params: { type: 'text', tokenizer: 'word', stopwords: 'english' },
          },
        },
      })
    },
  )
}

async function assertRetaken(t: Test, fixture: BackupFixture, calls: number[]) {
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /collection changed during the backup, starting over/)
  t.strictSame(calls.toSorted(), [0, 0, 1, 1])
  matchWhole(t, fixture.manifest().collections[0], {
    config: fixture.engine.collections.get('docs')?.config ?? {},
    engineVersion: versions.get(fixture.engine) ?? '1.18.3',
  })
}

t.test(
  'each collection has the version it was taken from, and the manifest the newest',
  async (t) => {
    const fixture = await backupFixture(t, { engineCollections: ['a', 'b'], nodes: 2 })
    setVersion(fixture, '1.9.2')
    changeDuring(
      fixture,
      ({ path }) => path[1] === 'b' && path[2] === 'cluster',
      () => setVersion(fixture, '1.10.0'),
    )
    const { code, log } = await fixture.world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    matchWhole(t, fixture.manifest(), {
      engineVersion: '1.10.0',
      collections: [
        { name: 'a', engineVersion: '1.9.2' },
        { name: 'b', engineVersion: '1.10.0' },
      ],
    })
  },
)

t.test(
  'a backup that cannot be restored to several nodes says so in its last report',
  async (t) => {
    const CASES: [version: string, nodes: number, isSaid: boolean][] = [
      ['1.15.4', 2, true],
      ['1.15.4', 1, false],
      ['1.16.0', 2, false],
    ]
    for (const [version, nodes, isSaid] of CASES) {
      const fixture = await backupFixture(t, { nodes })
      setVersion(fixture, version)
      changeDuring(
        fixture,
        () => false,
        () => undefined,
      )
      const { code, log } = await fixture.world.run()
      t.equal(code, EXIT.done, log.slice(-2000))
      const { message = '' } = (await fixture.world.progress()) ?? {}
      const words = `no VecRestore brings a backup of engine ${version} into several nodes`
      t.equal(message.includes(words), isSaid, `${version} on ${nodes} nodes: ${message}`)
    }
  },
)

/** Node 0 has not applied the last change; `apply` runs once the backup waits for it. */
function fallBehind({ engine }: BackupFixture, apply: () => void) {
  engine.lag.set(0, 1)
  return (line: string) => {
    if (!engine.lag.has(0) || !/has not applied 1 of the changes/.test(line)) return
    engine.lag.delete(0)
    apply()
  }
}

for (const method of ['Node', 'Shard'] as const) {
  t.test(
    `${method}: a payload index that a node has not applied yet is in the manifest`,
    async (t) => {
      const fixture = await backupFixture(t, { nodes: 2, method })
      const docs = fixture.engine.collections.get('docs')
      if (docs === undefined) throw new Error('no collection')
      const payloadIndexes = { city: { dataType: 'keyword' } }
      const onLine = fallBehind(fixture, () => {
        docs.payloadSchema = { city: { data_type: 'keyword', points: 0 } }
      })
      const { code, log } = await fixture.world.run({}, { onLine })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.notMatch(log, /collection changed/)
      matchWhole(t, fixture.manifest().collections[0], { payloadIndexes })
    },
  )

  t.test(
    `${method}: a payload index that a node has not applied at the end is waited for, and the collection is taken again`,
    async (t) => {
      const fixture = await backupFixture(t, { nodes: 2, method })
      const docs = fixture.engine.collections.get('docs')
      if (docs === undefined) throw new Error('no collection')
      let onLine: ((line: string) => void) | undefined
      fixture.s3.misbehave(({ operation, key }) => {
        if (operation !== 'PutObject' || !/snapshot$/.test(key)) return undefined
        onLine ??= fallBehind(fixture, () => {
          docs.payloadSchema = { city: { data_type: 'keyword', points: 0 } }
        })
        return undefined
      })
      const { code, log } = await fixture.world.run({}, { onLine: (line) => onLine?.(line) })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.match(log, /has not applied 1 of the changes/)
      t.match(log, /collection changed during the backup, starting over/)
      matchWhole(t, fixture.manifest().collections[0], {
        payloadIndexes: { city: { dataType: 'keyword' } },
      })
    },
  )
}

t.test('a node that stays behind fails the collection, and is named', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2 })
  fixture.engine.lag.set(1, 3)
  t.equal((await fixture.world.run()).code, EXIT.failed)
  t.match(await fixture.result(), {
    failed: 1,
    error: 'node 1 has not applied 3 of the changes that another node has applied',
  })
})

t.test('aliases are those of the node that has applied most', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2, engineCollections: ['v1', 'v2'] })
  const { engine, nodes, s3 } = fixture
  engine.aliases.set('prod', 'v2')
  const isLast = (key: string) => key.includes('v2') && key.endsWith('collection.json')
  s3.misbehave(({ operation, key }) => {
    if (operation === 'PutObject' && isLast(key)) engine.lag.set(0, 1)
    return undefined
  })
  let reads = 0
  nodes[0]?.misbehave(({ path }) => {
    if (path.join('/') !== 'aliases') return undefined
    reads += 1
    return json({ aliases: [{ alias_name: 'prod', collection_name: 'v1' }] })
  })
  const { code, log } = await fixture.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.equal(reads, 1, 'node 0 was asked while it had applied the same as the other')
  t.strictSame(fixture.manifest().aliases, [{ alias: 'prod', collection: 'v2' }])
})

t.test('a node with another collection of the same name is not backed up', async (t) => {
  const fixture = await backupFixture(t, { nodes: 2 })
  fixture.nodes[1]?.misbehave(({ path }) =>
    path.join('/') === 'telemetry'
      ? json({
          app: {},
          collections: { collections: [{ id: 'docs', config: { uuid: 'old' }, shards: [] }] },
        })
      : undefined,
  )
  t.equal((await fixture.world.run()).code, EXIT.failed)
  t.match(await fixture.result(), {
    error:
      /^collection docs: the nodes do not hold the same collection: its uuid is on node 0 .*, on node 1 old /,
  })
})

/** Changes that other programs made to owner.json between two pods. */
const OWNERS: [string, string[] | undefined, string[], string[]][] = [
  ['more than the spec names', ['public'], ['public', 'payroll', '..'], ['public']],
  ['less than the spec names', ['public', 'payroll'], [], ['public', 'payroll']],
  ['less than there is', undefined, [], ['payroll', 'public']],
]
for (const [what, asked, listed, taken] of OWNERS) {
  t.test(`an owner.json that lists ${what} does not decide what is backed up`, async (t) => {
    const fixture = await backupFixture(t, {
      engineCollections: ['payroll', 'public'],
      nodes: 1,
      ...(asked !== undefined && { collections: asked }),
    })
    const { world, store } = fixture
    const owner = {
      ...{ uid: world.uid, namespace: 'ns', name: 'b', collections: listed },
      ...{ cluster: { namespace: 'other', name: 'other' }, startedAt: '2030-01-01T00:00:00Z' },
    }
    store().put(ownerKey(world.folder), Buffer.from(JSON.stringify(owner)))
    const { code, log } = await world.run()
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(fixture.manifest(), {
      cluster: { namespace: 'ns', name: 'a' },
      collections: taken.map((name) => ({ name })),
    })
    t.equal(fixture.manifest().collections.length, taken.length)
  })
}

t.test('the shards of a node keep their shard keys', async (t) => {
  const shards = [
    { shardId: 0, shardKey: 'a', nodes: [0, 1] },
    { shardId: 1, shardKey: 7, nodes: [1] },
    { shardId: 2, nodes: [1] },
  ]
  const onNode = (ordinal: number) => shardsOnNode({ shards } as unknown as Topology, ordinal)
  t.strictSame(onNode(0), [{ shardId: 0, shardKey: 'a' }])
  t.strictSame(onNode(1), [
    { shardId: 0, shardKey: 'a' },
    { shardId: 1, shardKey: 7 },
    { shardId: 2 },
  ])
})

t.test('nodes of different versions are named with their versions', async (t) => {
  const views = (...versions: string[]) => versions.map((version, node) => ({ node, version }))
  t.equal(requireSameVersion(views('1.18.3', '1.18.3')), '1.18.3')
  t.throws(() => requireSameVersion(views('1.18.3', '1.18.2', '1.18.3')), {
    code: 'EngineError',
    message:
      'the nodes run different versions: node 0 runs 1.18.3, node 1 runs 1.18.2, node 2 runs 1.18.3',
  })
})

/** What an observation makes of nodes that agree, differ, or do not form one cluster. */
import t, { type Test } from 'tap'
import { matchWhole } from '../../../match-whole.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import {
  newObservationMemory,
  observeShards,
  type ObserveOptions,
} from '../../../../jobs/cluster/shards/observe.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { EngineCluster } from '../../../doubles/engine/cluster.ts'
import { startEngineNode, type EngineNode } from '../../../doubles/engine/node.ts'
import { counted } from '../../../doubles/engine/running.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const SILENT = jobLog({}, { write: () => undefined })

/** Three nodes with one collection of two shards, each with replicas on two nodes. */
async function world(t: Test, factor = 2) {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const nodes: EngineNode[] = []
  const start = async (ordinal: number, cluster = engine) => {
    const node = await startEngineNode({ ordinal, cluster })
    nodes[ordinal] = node
    t.teardown(() => node.close())
  }
  for (const ordinal of [0, 1, 2]) await start(ordinal)
  engine.createCollection('docs', 2, factor)
  const peer = (ordinal: number) => engine.peer(ordinal).id
  const observe = (options: Partial<ObserveOptions> = {}) =>
    observeShards(
      { nodes: 3, name: 'a', nowMs: 0, ...options },
      (ordinal) => {
        const transport = urlTransport(`http://127.0.0.1:${nodes[ordinal]?.port ?? 1}`, connections)
        return new Engine({ transport, credentials: async () => ({}), log: SILENT })
      },
      new AbortController().signal,
    )
  const shard = (id: number) => {
    const found = engine.find('docs')?.shards.find((one) => one.id === id)
    if (found === undefined) throw new Error(`there is no shard ${id}`)
    return found
  }
  return { engine, nodes, start, peer, observe, shard }
}

t.test('nodes that agree give peers, shards, sizes and zones', async (t) => {
  const { engine, observe, peer, shard } = await world(t)
  shard(0).vectorBytes = 500
  const active = (...ordinals: number[]) =>
    ordinals
      .map((ordinal) => ({ peer: peer(ordinal), state: 'Active' }))
      .toSorted((a, b) => a.peer - b.peer)
  const zones = { 0: 'a', 1: 'b', 2: 'b' }
  const used = (ordinal: number) => (ordinal === 2 ? 1 : ordinal === 0 ? 500 : 501)
  t.strictSame(await observe({ zones, volumeBytes: 10_000 }), {
    peers: [0, 1, 2]
      .map((ordinal) => ({
        id: peer(ordinal),
        ordinal,
        isMember: true,
        zone: ordinal === 0 ? 'a' : 'b',
        freeBytes: 10_000 - used(ordinal),
      }))
      .toSorted((a, b) => a.id - b.id),
    nodes: 3,
    collections: [
      {
        name: 'docs',
        factor: 2,
        shards: [
          { id: 0, bytes: 500, replicas: active(0, 1) },
          { id: 1, bytes: 1, replicas: active(1, 2) },
        ],
      },
    ],
    transfers: [],
  })
  t.equal(engine.peers().length, 3)
})

t.test('sizes are remembered, but not where volumes are watched', async (t) => {
  const { observe, shard } = await world(t)
  const bytesSeen = async (options: Partial<ObserveOptions>) => {
    const memory = newObservationMemory()
    const seen: (number | undefined)[] = []
    for (const vectorBytes of [500, 700]) {
      shard(0).vectorBytes = vectorBytes
      const { collections } = await observe({ ...options, memory })
      seen.push(collections[0]?.shards[0]?.bytes)
    }
    return seen
  }
  t.strictSame(await bytesSeen({ volumeBytes: 1_000, watchesVolumes: true }), [500, 700])
  t.strictSame(await bytesSeen({ volumeBytes: 1_000_000, watchesVolumes: true }), [500, 700])
  t.strictSame(await bytesSeen({ volumeBytes: 1_000 }), [500, 500])
})

t.test('the factor of a collection is what the nodes that answer report', async (t) => {
  const { engine, nodes, observe } = await world(t)
  const memory = newObservationMemory()
  const factor = async () =>
    (await observe({ memory, watchesVolumes: true })).collections[0]?.factor
  t.equal(await factor(), 2)
  await nodes[0]?.close()
  const params = engine.find('docs')?.config['params']
  Object.assign(params ?? {}, { replication_factor: 3 })
  t.equal(await factor(), 3)
})

t.test('a cluster may have 5000 collections; one with more is not planned for', async (t) => {
  const engine = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const node = await startEngineNode({ ordinal: 0, cluster: engine })
  t.teardown(() => node.close())
  const names = Array.from({ length: 1200 }, (_, index) => `tenant-${index}`)
  for (const name of names) engine.createCollection(name, 1, 1)
  const observe = () =>
    observeShards(
      { nodes: 1, name: 'a', nowMs: 0 },
      () => {
        const transport = urlTransport(`http://127.0.0.1:${node.port}`, connections)
        return new Engine({ transport, credentials: async () => ({}), log: SILENT })
      },
      new AbortController().signal,
    )
  const { collections, unsettled } = await observe()
  t.equal(unsettled, undefined)
  t.equal(collections.length, 1200)
  const result = { collections: Array.from({ length: 5001 }, (_, name) => ({ name: `${name}` })) }
  node.misbehave(({ path }) =>
    path.join('/') === 'collections'
      ? { status: 200, body: JSON.stringify({ result, status: 'ok', time: 0 }), headers: JSON_TYPE }
      : undefined,
  )
  t.match(await observe(), {
    unsettled:
      'node 0 does not report its shards: node 0 has more than 5000 collections, which is more than the operator works with',
  })
})

t.test('a pod that does not answer is no member, and the others still are', async (t) => {
  const { nodes, observe, peer } = await world(t)
  await nodes[2]?.close()
  const { peers, collections, unsettled, broken } = await observe()
  t.strictSame(peers.map(({ ordinal, isMember }) => [ordinal, isMember]).toSorted(), [
    [0, true],
    [1, true],
    [2, false],
  ])
  // The others go on reporting its replicas.
  const replicas = collections[0]?.shards[1]?.replicas ?? []
  t.strictSame(replicas.find((replica) => replica.peer === peer(2))?.state, 'Active')
  t.strictSame([unsettled, broken], [undefined, undefined])
})

t.test('a transfer has its target in transfer, and the comment of the target', async (t) => {
  const { engine, observe, peer, shard } = await world(t, 1)
  const state = 'Recovery'
  shard(0).peers.push(peer(2))
  shard(0).arriving = [
    { from: peer(0), to: peer(2), until: Date.now() + 60_000, state, sync: true },
  ]
  const { transfers, collections, unsettled } = await observe()
  t.strictSame(transfers, [
    { collection: 'docs', shard: 0, from: peer(0), to: peer(2), comment: 'downloading (0.00s)' },
  ])
  t.strictSame(
    collections[0]?.shards[0]?.replicas.find((replica) => replica.peer === peer(2))?.state,
    'InTransfer',
  )
  t.equal(unsettled, undefined)
  t.equal(engine.find('docs')?.shards.length, 2)
})

t.test('without a transfer, Dead is Dead and any other state is incomplete', async (t) => {
  const { observe, peer, shard } = await world(t)
  shard(0).states = { [peer(0)]: 'Dead', [peer(1)]: 'Partial' }
  shard(1).states = { [peer(1)]: 'ManualRecovery', [peer(2)]: 'Recovery' }
  const { collections } = await observe()
  const states = (index: number) =>
    (collections[0]?.shards[index]?.replicas ?? [])
      .map((replica) => {
        const ordinal = [0, 1, 2].find((node) => peer(node) === replica.peer)
        return `${ordinal} ${replica.state}`
      })
      .toSorted()
  t.strictSame(states(0), ['0 Dead', '1 Incomplete'])
  t.strictSame(states(1), ['1 Incomplete', '2 Incomplete'])
})

t.test('a replica that its node recovers from a snapshot is being worked on', async (t) => {
  const { engine, nodes, observe, peer, shard } = await world(t)
  shard(1).states = { [peer(1)]: 'ManualRecovery' }
  const state = async () => {
    const { collections } = await observe()
    return collections[0]?.shards[1]?.replicas.find((replica) => replica.peer === peer(1))?.state
  }
  const recovery = Promise.withResolvers<undefined>()
  const running = counted(engine, { ordinal: 1, collection: 'docs' }, () => recovery.promise)
  t.equal(await state(), 'InTransfer')
  nodes[1]?.misbehave(({ path }) =>
    path[0] === 'telemetry' ? { status: 500, body: 'no' } : undefined,
  )
  t.equal(await state(), 'InTransfer', 'what the node does is not known')
  nodes[1]?.misbehave()
  recovery.resolve(undefined)
  await running
  t.equal(await state(), 'Incomplete')
  const other = Promise.withResolvers<undefined>()
  for (const at of [
    { ordinal: 0, collection: 'docs' },
    { ordinal: 1, collection: 'other' },
  ]) {
    void counted(engine, at, () => other.promise)
  }
  t.equal(await state(), 'Incomplete', 'of another node, or of another collection')
  other.resolve(undefined)
})

for (const comparesCounts of [false, true]) {
  const title = `a node that stops to answer is not waited for again and again, ${comparesCounts}`
  t.test(title, async (t) => {
    const { engine, nodes, observe } = await world(t)
    for (let index = 0; index < 40; index += 1) engine.createCollection(`empty-${index}`, 1, 3)
    let calls = 0
    nodes[2]?.misbehave(({ method, path }) => {
      if (method !== 'POST' || path.at(-1) !== 'count') return undefined
      calls += 1
      return { cut: 'before' }
    })
    const { collections, peers } = await observe({ comparesCounts })
    t.equal(peers.length, 3)
    t.strictSame(
      collections.map(({ name }) => name),
      collections.map(({ name }) => name).toSorted(),
    )
    t.equal(collections.length, 41)
    const states = collections.flatMap(({ shards }) => shards.flatMap(({ replicas }) => replicas))
    t.ok(
      states.every(({ state }) => state === 'Active'),
      'nothing is known against them',
    )
    // Each call would take ten seconds.
    t.ok(calls > 0 && calls < 20, `${calls} calls`)
  })
}

const DISAGREEMENTS: {
  title: string
  change: (given: Awaited<ReturnType<typeof world>>) => unknown
  unsettled: RegExp
}[] = [
  {
    title: 'a node that is behind',
    change: ({ engine }) => engine.lag.set(1, 2),
    unsettled: /^nodes 0 and 1 have not applied the same changes$/,
  },
  {
    title: 'a node that does not list another',
    change: ({ engine, peer }) => engine.unlisted.set(0, [peer(2)]),
    unsettled: /^node 0 does not list node 2$/,
  },
  {
    title: 'different states of a replica',
    change: ({ peer, shard }) => {
      shard(0).reportedStates = { 2: { [peer(0)]: 'Dead' } }
    },
    unsettled: /^the nodes report different states of docs\/0 on peer \d+$/,
  },
  {
    title: 'a replica that only some nodes list',
    change: ({ peer, shard }) => {
      shard(0).phantoms = { 1: [peer(2)] }
    },
    unsettled: /^node 0 does not list the replica of docs\/0 on peer \d+$/,
  },
  {
    title: 'consensus that is stopped on a node',
    change: ({ engine }) => engine.stopConsensus(1, 'disk full'),
    unsettled: /^consensus is stopped_with_err on node 1: disk full$/,
  },
  {
    title: 'a change that a node has not applied',
    change: ({ engine }) => {
      const docs = engine.find('docs')
      if (docs) docs.unsettledUntil = Date.now() + 60_000
    },
    unsettled: /^node 0 has 1 changes to apply$/,
  },
  {
    title: 'a node that does not answer all calls',
    change: ({ nodes }) =>
      nodes[1]?.misbehave(({ path }) =>
        path[0] === 'collections' ? { cut: 'before' } : undefined,
      ),
    unsettled: /^node 1 does not report its shards: /,
  },
]
for (const { title, change, unsettled } of DISAGREEMENTS) {
  t.test(`${title} keeps the view unsettled`, async (t) => {
    const given = await world(t)
    change(given)
    const view = await given.observe()
    t.match(view.unsettled, unsettled)
    t.equal(view.broken, undefined)
  })
}

t.test('a change while the nodes are read keeps the view unsettled', async (t) => {
  const { engine, nodes, observe } = await world(t)
  nodes[2]?.misbehave(({ path }) => {
    if (path.join('/') === 'collections/docs/cluster') engine.changes += 1
    return undefined
  })
  t.equal((await observe()).unsettled, 'the cluster changed while it was read')
})

const BROKEN: [string, { unreadableOn: number[] } | { forgottenBy: number[] }][] = [
  ['cannot read', { unreadableOn: [1] }],
  ['does not list', { forgottenBy: [1] }],
]
for (const [what, change] of BROKEN) {
  t.test(`a replica that its node ${what} for half a minute is unreadable`, async (t) => {
    const { observe, peer, shard } = await world(t)
    const memory = newObservationMemory()
    const look = async (seconds: number) => {
      const { collections, unsettled } = await observe({ memory, nowMs: seconds * 1000 })
      const replicas = collections[0]?.shards[0]?.replicas ?? []
      return [replicas.find((replica) => replica.peer === peer(1))?.state, unsettled]
    }
    const isUnclear = ['Active', 'node 1 cannot read its replica of docs/0']
    Object.assign(shard(0), change)
    for (const second of [0, 0.2, 1, 29.9]) t.strictSame(await look(second), isUnclear)
    for (const second of [30, 31]) t.strictSame(await look(second), ['Unreadable', undefined])
    Object.assign(shard(0), { unreadableOn: [], forgottenBy: [] })
    t.strictSame(await look(40), ['Active', undefined])
    Object.assign(shard(0), change)
    for (const second of [41, 70]) t.strictSame(await look(second), isUnclear, 'counted again')
    t.strictSame(await look(71), ['Unreadable', undefined])
  })
}

t.test('a replica is disputed once nodes report different states for half a minute', async (t) => {
  const { engine, observe, peer, shard } = await world(t)
  const memory = newObservationMemory()
  const look = async (seconds: number) => {
    const { collections, unsettled } = await observe({ memory, nowMs: seconds * 1000 })
    const replicas = collections[0]?.shards[0]?.replicas ?? []
    return [replicas.find((replica) => replica.peer === peer(0))?.state, unsettled]
  }
  const isUnclear = ['Dead', `the nodes report different states of docs/0 on peer ${peer(0)}`]
  const dispute = () => Object.assign(shard(0), { reportedStates: { 2: { [peer(0)]: 'Dead' } } })
  dispute()
  for (const second of [0, 1, 29.9]) t.strictSame(await look(second), isUnclear)
  engine.lag.set(1, 2)
  matchWhole(t, await look(30), ['Disputed', /have not applied the same changes/])
  engine.lag.delete(1)
  for (const second of [31, 32]) t.strictSame(await look(second), ['Disputed', undefined])
  shard(0).reportedStates = {}
  t.strictSame(await look(40), ['Active', undefined])
  dispute()
  for (const second of [41, 70]) t.strictSame(await look(second), isUnclear, 'counted again')
  t.strictSame(await look(71), ['Disputed', undefined])
})

t.test('while nodes have not applied the same changes, no replica becomes disputed', async (t) => {
  const { engine, observe, peer, shard } = await world(t)
  const memory = newObservationMemory()
  shard(0).reportedStates = { 2: { [peer(0)]: 'Dead' } }
  engine.lag.set(1, 2)
  for (const second of [0, 60, 120]) await observe({ memory, nowMs: second * 1000 })
  t.equal(memory.disputes.size, 0)
})

t.test('no replica is disputed without another one that is Active for all nodes', async (t) => {
  const { observe, shard } = await world(t)
  const memory = newObservationMemory()
  const replicas = Object.fromEntries(shard(0).peers.map((holder) => [holder, 'Dead']))
  shard(0).reportedStates = { 2: replicas }
  for (const second of [0, 60, 120]) {
    const { unsettled } = await observe({ memory, nowMs: second * 1000 })
    t.match(unsettled, /^the nodes report different states of docs\/0 on peer /)
  }
  t.equal(memory.disputes.size, 0)
})

t.test('nor is one while the node of that other one does not answer', async (t) => {
  const { observe, nodes, peer, shard } = await world(t)
  const memory = newObservationMemory()
  shard(0).peers = [peer(0), peer(1)]
  shard(0).reportedStates = { 2: { [peer(0)]: 'Dead' } }
  await nodes[1]?.close()
  for (const second of [0, 60, 120]) await observe({ memory, nowMs: second * 1000 })
  t.equal(memory.disputes.size, 0)
})

t.test('a node that does not answer about a replica has not lost it', async (t) => {
  const { engine, nodes, observe, peer, shard } = await world(t)
  const docs = engine.find('docs')
  const point = (id: number) => ({ id, vector: [], payload: {}, shard: 0 })
  if (docs) docs.points = Array.from({ length: 1000 }, (_, id) => point(id))
  // It reports 0 points after an error, too.
  shard(0).lost = { 1: 1000 }
  let answer = { status: 429, body: '{"status":{"error":"Rate limiting exceeded"},"time":0}' }
  nodes[1]?.misbehave(({ method, path }) =>
    method === 'POST' && path.at(-1) === 'count' ? answer : undefined,
  )
  const memory = newObservationMemory()
  const look = async (seconds: number) => {
    const { collections, unsettled } = await observe({ memory, nowMs: seconds * 1000 })
    const replicas = collections[0]?.shards[0]?.replicas ?? []
    return [replicas.find((replica) => replica.peer === peer(1))?.state, unsettled]
  }
  for (const second of [0, 60]) t.strictSame(await look(second), ['Active', undefined])
  answer = { status: 200, body: '{"result":{"count":1000},"status":"ok","time":0}' }
  for (const second of [61, 120]) t.strictSame(await look(second), ['Active', undefined])
})

t.test(
  'a replica without points is unreadable if others have many, and not if they have few',
  async (t) => {
    const { engine, observe, peer, shard } = await world(t)
    const points = (count: number) =>
      Array.from({ length: count }, (_, id) => ({ id, vector: [], payload: {}, shard: 0 }))
    const states = async (count: number) => {
      const docs = engine.find('docs')
      if (docs) docs.points = points(count)
      shard(0).lost = { 1: count }
      const memory = newObservationMemory()
      await observe({ memory })
      const { collections } = await observe({ memory, nowMs: 30_000 })
      return collections[0]?.shards[0]?.replicas.find((replica) => replica.peer === peer(1))?.state
    }
    t.equal(await states(999), 'Active')
    t.equal(await states(1000), 'Unreadable')
  },
)

t.test('a node that was removed and still runs is no member of the cluster', async (t) => {
  const { engine, observe, peer } = await world(t, 1)
  const removed = peer(2)
  for (const shard of engine.find('docs')?.shards ?? []) {
    shard.peers = shard.peers.filter((holder) => holder !== removed)
  }
  engine.removePeer(removed)
  const { peers, unsettled, broken } = await observe()
  t.strictSame(peers.map(({ ordinal }) => ordinal).toSorted(), [0, 1])
  t.strictSame([unsettled, broken], [undefined, undefined])
})

t.test('two clusters behind one name are a split, whichever is larger', async (t) => {
  const { start, observe, nodes } = await world(t)
  await nodes[0]?.close()
  await start(0, new EngineCluster({ name: 'vec-other' }))
  t.strictSame(await observe(), {
    ...{ peers: [], nodes: 3, collections: [], transfers: [] },
    broken: {
      reason: 'SplitBrain',
      message: 'the pods form 2 separate clusters: nodes 1, 2; node 0',
    },
  })
})

t.test('without a majority, a leader or an answer nothing is planned', async (t) => {
  const { nodes, observe, engine } = await world(t)
  for (const ordinal of [0, 1, 2]) engine.stopConsensus(ordinal, 'disk full')
  t.strictSame((await observe()).broken, {
    reason: 'ConsensusStopped',
    message: 'consensus is stopped on nodes 0, 1, 2',
  })
  for (const ordinal of [0, 1, 2]) engine.resumeConsensus(ordinal)
  await nodes[1]?.close()
  await nodes[2]?.close()
  t.strictSame((await observe()).broken, {
    reason: 'NoLeader',
    message: '1 of 3 peers answer, which is no majority',
  })
  await nodes[0]?.close()
  t.strictSame((await observe()).broken, {
    reason: 'EngineNotReady',
    message: 'none of the 3 nodes answers',
  })
})

t.test('nodes that all refuse the API key are not called silent', async (t) => {
  const { nodes, observe } = await world(t)
  const refuse = (...ordinals: number[]) => {
    for (const [ordinal, node] of nodes.entries()) {
      node.misbehave(() => (ordinals.includes(ordinal) ? { status: 401, body: 'no' } : undefined))
    }
  }
  refuse(0, 1, 2)
  t.strictSame((await observe({ name: 'a' })).broken, {
    reason: 'EngineNotReady',
    message:
      'the API key in Secret vec-a-apikey is refused (401) by all 3 nodes, which use another key',
  })
  refuse(1, 2)
  t.match((await observe({ name: 'a' })).broken, { reason: 'NoLeader' }, 'one accepts it')
})

t.test('a node without distributed mode has no peers to place shards on', async (t) => {
  const alone = new EngineCluster({ name: 'vec-b', enabled: false })
  const { start, observe } = await world(t)
  await start(0, alone)
  t.strictSame((await observe({ nodes: 1 })).broken, {
    reason: 'EngineNotReady',
    message: 'node 0 has distributed mode disabled',
  })
})

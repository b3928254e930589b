/** Point counts after a restore: which differences are notes, and which are failures. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { findLoss, countNotes } from '../../../jobs/restore/point-count.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import type { EngineCluster } from '../../doubles/engine/cluster.ts'
import { UNAVAILABLE, type Misbehaviour } from '../../doubles/engine/misbehaviour.ts'
import { answerAs } from '../../doubles/engine/node.ts'
import { shardOf } from '../../doubles/engine/shard-points.ts'
import { matchWhole } from '../../match-whole.ts'
import { run, runToDone, restoreFixture, type RestoreFixture } from './restore-fixture.ts'

const JSON_TYPE = { 'content-type': 'application/json' }

function write(engine: EngineCluster, verb: 'PUT' | 'POST delete', body: object): void {
  const [method = '', ...rest] = verb.split(' ')
  const path = ['collections', 'docs', 'points', ...rest]
  void answerAs(engine, 0, { method, path, query: { wait: 'true' }, body })
}

function isSnapshot({ method, path }: EngineRequest): boolean {
  return method === 'POST' ? path.at(-1) === 'snapshots' : path.at(-1) === 'snapshot'
}

function isCount({ path }: EngineRequest): boolean {
  return path.at(-1) === 'count'
}

function isExactCount(request: EngineRequest): boolean {
  return isCount(request) && (request.body as { exact: boolean }).exact
}

function failure(status: number, error: string): Misbehaviour {
  return { status, body: JSON.stringify({ status: { error } }), headers: JSON_TYPE }
}

async function withAlias({ aliases }: EngineCluster): Promise<void> {
  aliases.set('live', 'docs')
}

/** Responses of each node that replace the usual ones. */
function onNodes(
  { nodes }: RestoreFixture,
  act: (request: EngineRequest, node: number) => Misbehaviour | undefined,
): void {
  for (const [ordinal, node] of nodes.entries()) node.misbehave((request) => act(request, ordinal))
}

/** Point 3 is missing in the snapshots and exists afterwards. */
function replacing() {
  let snapshots = 0
  return (request: EngineRequest, engine: EngineCluster) => {
    if (isSnapshot(request) && (snapshots += 1) === 1) {
      write(engine, 'POST delete', { points: [3] })
    } else if (snapshots >= 3 && isCount(request)) {
      write(engine, 'PUT', { points: [{ id: 3, vector: {}, payload: { name: 'docs', id: 3 } }] })
      snapshots = -1000
    }
  }
}

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}: a point replaced during the backup: every shard is restored`, async (t) => {
    const stood = await restoreFixture(t, { method, duringBackup: replacing(), prepare: withAlias })
    const restore = await stood.world.restore()
    await runToDone(t, restore)
    const { points } = stood.engine.collections.get('docs') ?? { points: [] }
    t.strictSame(
      points.map(({ id }) => id),
      [0, 1, 2, 4, 5, 6, 7, 8, 9],
    )
    matchWhole(t, await restore.result(), {
      collections: [{ name: 'docs', status: 'Completed', points: 9 }],
      notes: ['docs has 9 points; about 10 were recorded'],
    })
  })

  t.test(`by ${method}: so does a count that an earlier operator recorded as exact`, async (t) => {
    const stood = await restoreFixture(t, { method, duringBackup: replacing(), prepare: withAlias })
    stood.rewrite((manifest) => {
      delete manifest.aliases
      for (const docs of manifest.collections) {
        docs.exactPointsCount = 10
        for (const shard of docs.shards) delete shard.exactPointsCount
      }
    })
    stood.engine.aliases.clear()
    const restore = await stood.world.restore()
    await runToDone(t, restore)
    t.equal(stood.engine.collections.get('docs')?.points.length, 9)
    t.equal(stood.engine.aliases.get('live'), 'docs')
    matchWhole(t, await restore.result(), {
      notes: ['docs has 9 points; 10 were counted when it was backed up'],
    })
  })

  t.test(
    `by ${method}: points that are missing in a replica fail the restore after everything else is done`,
    async (t) => {
      const stood = await restoreFixture(t, {
        method,
        collections: ['docs', 'other'],
        prepare: withAlias,
      })
      stood.deleteCollections('docs', 'other')
      onNodes(stood, ({ method: verb, path, body }) => {
        const copy = (body as { replicate_shard?: { shard_id: number; to_peer_id: number } } | null)
          ?.replicate_shard
        if (verb !== 'POST' || path.join('/') !== 'collections/docs/cluster') return undefined
        const to = stood.engine.peers().find(({ id }) => id === copy?.to_peer_id)?.ordinal ?? 0
        const shard = stood.engine.collections.get('docs')?.shards[0]
        if (copy?.shard_id === 0 && shard !== undefined) shard.lost = { [to]: 1 }
        return undefined
      })
      const restore = await stood.world.restore()
      t.equal((await run(restore)).code, EXIT.failed)
      matchWhole(t, await restore.result(), {
        error: /^shard 0 of docs has \d+ points on node \d, but its snapshot holds \d+$/,
        completed: 1,
        collections: [
          { name: 'docs', status: 'Failed', isInPlace: true },
          { name: 'other', status: 'Completed' },
        ],
      })
      t.equal(stood.engine.aliases.get('live'), 'docs', 'its points are there')
    },
  )
}

async function restored(t: Test, act: (stood: RestoreFixture) => unknown) {
  const stood = await restoreFixture(t, { prepare: withAlias })
  stood.deleteCollections('docs')
  await act(stood)
  const restore = await stood.world.restore()
  const { code, log } = await run(restore)
  t.equal(stood.engine.aliases.get('live'), 'docs', 'whatever the counts are')
  return { stood, code, log, result: await restore.result() }
}

t.test('fewer points than the snapshot of a shard holds are a failure', async (t) => {
  const { code, result } = await restored(t, ({ rewrite }) =>
    rewrite(({ collections: [docs] }) => {
      for (const shard of docs?.shards ?? []) shard.exactPointsCount = 99
    }),
  )
  t.equal(code, EXIT.failed)
  t.match(result, {
    error: /^shard 0 of docs has \d+ points on node \d, but its snapshot holds 99$/,
  })
})

t.test('two replicas that differ are a failure, also without a recorded count', async (t) => {
  const { code, result } = await restored(t, (stood) => {
    stood.rewrite(({ collections: [docs] }) => {
      for (const shard of docs?.shards ?? []) delete shard.exactPointsCount
    })
    onNodes(stood, (request, node) => {
      if (!isCount(request) || request.path[3] !== '1' || node !== 1) return undefined
      return { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
    })
  })
  t.equal(code, EXIT.failed)
  t.match(result, { error: /^shard 1 of docs has 0 points on node 1, but \d on node \d$/ })
})

t.test(
  'a replica whose first count lags is counted once more, alone, and is no loss',
  async (t) => {
    const counted: string[] = []
    const { code, result } = await restored(t, (stood) =>
      onNodes(stood, (request) => {
        if (!isExactCount(request)) return undefined
        const [, , , shard = ''] = request.path
        counted.push(shard)
        const isFirst = counted.filter((one) => one === '1').length === 1
        if (shard !== '1' || !isFirst) return undefined
        return { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
      }),
    )
    t.equal(code, EXIT.done)
    t.notOk(result.error)
    t.notOk(result.notes)
    const times = (shard: string) => counted.filter((one) => one === shard).length
    t.strictSame(['0', '1', '2'].map(times), [2, 4, 2], 'two replicas of each shard')
  },
)

t.test('replicas may differ while a client writes', async (t) => {
  const { code, result } = await restored(t, (stood) => {
    let ids = 100
    onNodes(stood, (request, node) => {
      if (!isCount(request) || node !== 1) return undefined
      write(stood.engine, 'PUT', { points: [{ id: (ids += 1), vector: {}, payload: {} }] })
      return { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
    })
  })
  t.equal(code, EXIT.done)
  matchWhole(t, result, {
    notes: [
      /^shard \d of docs has 0 points .*; points of docs were written during the count$/,
      /^docs has \d\d points; 10 were counted when it was backed up$/,
    ],
  })
})

/** A client writes to shard 0 at each count of shard 1, of which node 1 has lost all points. */
function writeElsewhere(stood: RestoreFixture): void {
  let id = 100
  onNodes(stood, (request, node) => {
    if (!isCount(request) || request.path[3] !== '1') return undefined
    const collection = stood.engine.collections.get('docs')
    if (collection === undefined) return undefined
    do id += 1
    while (shardOf(collection, { id })?.id !== 0)
    write(stood.engine, 'PUT', { points: [{ id, vector: {}, payload: {} }] })
    if (node !== 1) return undefined
    return { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
  })
}

t.test('writes to one shard explain no loss in another', async (t) => {
  const { code, result } = await restored(t, writeElsewhere)
  t.equal(code, EXIT.failed)
  t.match(result, { error: /^shard 1 of docs has 0 points on node 1, but / })
})

t.test('a node that does not say how many writes it has applied explains no loss', async (t) => {
  let [counted, unanswered] = [0, 0]
  const { code, result } = await restored(t, (stood) =>
    onNodes(stood, (request, node) => {
      const isWriteCount = request.path[0] === 'telemetry' && request.query['details_level'] === '3'
      // The first reading follows the first count.
      if (isWriteCount && node === 0 && counted === 1) {
        unanswered += 1
        return UNAVAILABLE
      }
      if (!isCount(request) || request.path[3] !== '1' || node !== 1) return undefined
      counted += 1
      return { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
    }),
  )
  t.ok(unanswered > 0)
  t.equal(code, EXIT.failed)
  t.match(result, { error: /^shard 1 of docs has 0 points on node 1, but / })
})

t.test('a collection that is empty after the restore is a failure', async (t) => {
  const { code, result } = await restored(t, (stood) => {
    stood.rewrite(({ collections: [docs] }) => {
      for (const shard of docs?.shards ?? []) delete shard.exactPointsCount
    })
    onNodes(stood, (request) =>
      isCount(request)
        ? { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
        : undefined,
    )
  })
  t.equal(code, EXIT.failed)
  t.match(result, {
    error: 'docs is empty after the restore, but 10 points were counted when it was backed up',
  })
})

t.test('a count that the engine cancels is unknown, and is not repeated', async (t) => {
  let exact = 0
  const { code, result } = await restored(t, (stood) =>
    onNodes(stood, (request) => {
      if (!isExactCount(request)) return undefined
      exact += 1
      return failure(408, "Timeout error: Operation 'Count' timed out after 30 seconds")
    }),
  )
  t.equal(code, EXIT.done)
  t.equal(exact, 6, 'once for each replica of three shards')
  matchWhole(t, result, {
    notes: ['points of docs were not counted: no answer in 30 s'],
    collections: [{ points: 10 }],
  })
})

t.test('an estimated shard proves nothing, and the note says why', async (t) => {
  const reason = 'more than 5000000 points are not counted one by one'
  const estimate = (points: number) => ({ points, isExact: false, reason }) as const
  const source = {
    shards: [{ shardId: 0, nodes: [0, 1] }],
    shardKeys: [],
    snapshots: [],
    exactPointsCount: 9_000_000,
  }
  const item = { source, name: 'docs' } as never
  const counts = (one: number, other: number) =>
    new Map([
      [
        0,
        new Map([
          [0, estimate(one)],
          [1, estimate(other)],
        ]),
      ],
    ])
  const why = `points of docs were not counted: ${reason}`
  t.equal(findLoss(item, counts(8_000_000, 8_010_000)), undefined)
  t.strictSame(countNotes(item, counts(8_000_000, 8_010_000)), [why])
  t.strictSame(countNotes(item, counts(8_000_000, 4_000_000)), [
    why,
    'shard 0 of docs has about 4000000 points on one node, and 8000000 on another',
  ])
})

t.test('a node that is unreachable during the count does not fail the restore', async (t) => {
  const { code, result } = await restored(t, (stood) =>
    onNodes(stood, (request, node) =>
      node === 2 && isCount(request) ? failure(503, 'Service unavailable') : undefined,
    ),
  )
  t.equal(code, EXIT.done)
  matchWhole(t, result, {
    notes: [/^points of docs were not counted: .*503: Service unavailable$/],
  })
})

t.test('points that wait for the optimizers are not counted, and are not missing', async (t) => {
  const { code, result } = await restored(t, (stood) => {
    const queue = { length: 0, deferred_points: 4 }
    onNodes(stood, ({ method, path }) => {
      if (method !== 'GET' || path.join('/') !== 'collections/docs') return undefined
      const { config, payloadSchema } = stood.engine.collections.get('docs') ?? {}
      if (config === undefined) return undefined
      const found = { status: 'green', optimizer_status: 'ok', config, update_queue: queue }
      const body = JSON.stringify({ result: { ...found, payload_schema: payloadSchema } })
      return { status: 200, body, headers: JSON_TYPE }
    })
    stood.rewrite(({ collections: [docs] }) => {
      for (const shard of docs?.shards ?? []) shard.exactPointsCount = 99
    })
  })
  t.equal(code, EXIT.done)
  matchWhole(t, result, {
    notes: ['points of docs were not counted: 4 points are deferred until they are indexed'],
  })
})

/** Hides a point of each replica on one node, of shards that the other node holds, too. */
function deferOn(stood: RestoreFixture, ordinal: number, other: number): void {
  const { engine } = stood
  const docs = engine.collections.get('docs')
  const peer = (one: number) => engine.peers().find((each) => each.ordinal === one)?.id ?? 0
  if (docs === undefined) return
  docs.config.optimizer_config['prevent_unoptimized'] = true
  for (const shard of docs.shards) {
    const isShared = [ordinal, other].every((one) => shard.peers.includes(peer(one)))
    if (isShared) shard.deferredOn = { [ordinal]: 1 }
  }
}

function isInfo({ method, path }: EngineRequest): boolean {
  return method === 'GET' && path.join('/') === 'collections/docs'
}

t.test('points that only one node defers are no loss', async (t) => {
  for (const [node, other] of [
    [1, 0],
    [0, 1],
  ] as const) {
    const { code, result } = await restored(t, (stood) =>
      onNodes(stood, (request) => {
        if (isInfo(request)) deferOn(stood, node, other)
        return undefined
      }),
    )
    t.equal(code, EXIT.done)
    matchWhole(t, result, {
      notes: [
        /^points of docs were not counted: \d points are deferred until they are indexed$/,
        /^docs differs from the backup in optimizer_config.prevent_unoptimized/,
      ],
    })
  }
})

t.test('points that one node defers hide no loss on the others', async (t) => {
  const { code, result } = await restored(t, (stood) =>
    onNodes(stood, (request, node) => {
      if (isInfo(request)) deferOn(stood, 0, 1)
      if (!isCount(request) || node !== 2) return undefined
      return { status: 200, body: '{"result":{"count":0},"status":"ok"}', headers: JSON_TYPE }
    }),
  )
  t.equal(code, EXIT.failed)
  t.match(result, { error: /^shard \d of docs has 0 points on node 2, but / })
})

t.test(
  'a collection that does not turn green is Failed, and has its count and aliases',
  async (t) => {
    const { code, result } = await restored(t, (stood) =>
      onNodes(stood, ({ method, path }) => {
        if (method !== 'GET' || path.join('/') !== 'collections/docs') return undefined
        const { config } = stood.engine.collections.get('docs') ?? {}
        if (config === undefined) return undefined
        const result = { status: 'red', optimizer_status: { error: 'disk is full' }, config }
        return { status: 200, body: JSON.stringify({ result }), headers: JSON_TYPE }
      }),
    )
    t.equal(code, EXIT.failed)
    matchWhole(t, result, {
      error: 'docs is red on node 0: disk is full',
      collections: [{ status: 'Failed', isInPlace: true, points: 10 }],
    })
  },
)

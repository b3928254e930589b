/** `backup run` when the engine fails: each failure has a clear message, and nothing is left behind. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { snapshotFiles } from '../../doubles/engine/snapshots.ts'
import { instantClock } from '../job-world.ts'
import { backupFixture, type BackupFixture } from './fixture.ts'

const isDocs = ({ path }: EngineRequest) => path[1] === 'docs'
const isSnapshotCreation = (request: EngineRequest) => request.method === 'POST' && isDocs(request)
const isSnapshotDownload = (request: EngineRequest) =>
  request.method === 'GET' && isDocs(request) && request.path[3] !== undefined

/** What node 0 reports of the two shards, both of which are Active. */
function misreportPlacement(
  { engine, nodes }: BackupFixture,
  changes: (peers: [number, number]) => object,
) {
  const peers: [number, number] = [engine.peer(0).id, engine.peer(1).id]
  const result = {
    ...{ peer_id: peers[0], shard_count: 2, shard_transfers: [] },
    local_shards: [{ shard_id: 0, points_count: 0, state: 'Active' }],
    remote_shards: [{ shard_id: 1, peer_id: peers[1], state: 'Active' }],
    ...changes(peers),
  }
  nodes[0]?.misbehave((request) =>
    isDocs(request) && request.path[2] === 'cluster'
      ? { status: 200, body: JSON.stringify({ result }) }
      : undefined,
  )
}

/** What the engine does wrong, and the error of the collection. */
const ENGINE_FAULTS: [string, (fixture: BackupFixture) => void, RegExp][] = [
  [
    'a hash that is not what the engine said',
    ({ engine, nodes }) =>
      nodes[0]?.misbehave((request) => {
        for (const file of snapshotFiles(engine).values())
          if (isSnapshotDownload(request)) file.content[0] = 0
        return undefined
      }),
    /snapshot docs-.* of node 0 has the SHA-256 [0-9a-f]{64}, but the engine reported [0-9a-f]{64}/,
  ],
  [
    'a snapshot that vanished',
    ({ nodes }) =>
      nodes[0]?.misbehave((request) =>
        isSnapshotDownload(request)
          ? { status: 404, body: 'Not found: Snapshot x not found' }
          : undefined,
      ),
    /answered 404: Not found: Snapshot/,
  ],
  [
    'a node that dies while its snapshot is streamed',
    ({ nodes }) =>
      nodes[0]?.misbehave((request) =>
        isSnapshotDownload(request) ? { cut: 'within' } : undefined,
      ),
    /snapshot docs-.* of node 0 broke off/,
  ],
  [
    'a node that dies while it makes the snapshot',
    ({ nodes }) =>
      nodes[0]?.misbehave((request) =>
        isSnapshotCreation(request) ? { cut: 'before' } : undefined,
      ),
    /POST .*snapshots.* answered 503: error trying to reach service/,
  ],
  [
    'no space left on the node',
    ({ nodes }) =>
      nodes[0]?.misbehave((request) =>
        isSnapshotCreation(request)
          ? {
              status: 500,
              body: '{"status":{"error":"Service internal error: No space left on device (os error 28)"}}',
            }
          : undefined,
      ),
    /No space left on device .* \(the snapshot does not fit: enable snapshotPersistence or grow the data volume\)/,
  ],
  [
    'a wrong engine key',
    ({ nodes }) =>
      nodes[0]?.misbehave((request) =>
        isSnapshotCreation(request) ? { status: 401, body: 'Invalid API key or JWT' } : undefined,
      ),
    /answered 401: Invalid API key/,
  ],
  [
    'a copy that is not Active',
    ({ engine }) => {
      const shard = engine.collections.get('docs')?.shards[1]
      if (shard !== undefined) shard.states = { [engine.peer(1).id]: 'Dead' }
    },
    /shard 1 on node 1 is Dead \(waited \d+ s\)/,
  ],
  [
    'a shard whose transfer does not end',
    (scene) =>
      misreportPlacement(scene, ([from, to]) => ({
        shard_transfers: [{ shard_id: 0, from, to, sync: true }],
      })),
    /shard 0 is being transferred from node 0 to node 1 \(waited \d+ s\)/,
  ],
  [
    'a number of shards that is being changed',
    (scene) => misreportPlacement(scene, () => ({ resharding_operations: [{ direction: 'up' }] })),
    /the number of shards is being changed on node 0 \(waited \d+ s\)/,
  ],
  [
    'a node that does not know of a copy',
    (scene) => misreportPlacement(scene, () => ({ remote_shards: [] })),
    /the nodes do not agree on the copies there are: they know of 1, 2 \(waited \d+ s\)/,
  ],
]
for (const [what, arrange, words] of ENGINE_FAULTS) {
  t.test(`${what} fails that collection, says so, and the others are backed up`, async (t) => {
    const scene = await backupFixture(t, { engineCollections: ['docs', 'other'] })
    arrange(scene)
    const { code, log } = await scene.world.run()
    t.equal(code, EXIT.failed, log.slice(-3000))
    const backup = (await scene.world.progress())?.backup
    t.match(
      backup?.collections.find(({ name }) => name === 'docs'),
      { status: 'Failed', error: words },
    )
    t.match(backup?.error, words)
    t.match(backup, { completed: 1, failed: 1 })
    t.strictSame(
      scene.manifest().collections.map(({ name }) => name),
      ['other'],
    )
    t.equal(snapshotFiles(scene.engine).size, 0)
    t.equal(scene.store().uploads.size, 0)
  })
}

t.test('the backup waits for replicas that become Active in time', async (t) => {
  const { engine, world } = await backupFixture(t)
  const shard = engine.collections.get('docs')?.shards[0]
  if (shard === undefined) throw new Error('no shard')
  shard.states = { [engine.peer(0).id]: 'Partial' }
  const time = instantClock((slept) => {
    if (slept === 3) delete shard.states
  })
  const { code, log } = await world.run({}, { time })
  t.equal(code, EXIT.done)
  t.match(log, /waiting until every replica is Active .*reason=shard 0 on node 0 is Partial/)
})

t.test('a missing pod fails the backup with the call that got no answer', async (t) => {
  const { world } = await backupFixture(t)
  const cluster = { ...world.plan.cluster, replicas: 3 }
  t.equal((await world.run({ cluster })).code, EXIT.failed)
  t.match((await world.progress())?.message, /vec-a-2/)
})

/** `cluster shards` on the real engine, where ENGINE_BIN names it, while a client writes. */
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { matchWhole } from '../../../match-whole.ts'
import { call, createDocs, openRealCluster, pointsOn, startWriter } from './real-cluster.ts'

const bin = process.env['ENGINE_BIN']
const SHARDS = 4

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: no node to drain', { skip: true })
} else {
  t.setTimeout(300_000)
  t.test('a node is drained and removed while a client writes', { timeout: 300_000 }, async (t) => {
    const { subject, world, time } = await openRealCluster(t, bin)
    const writer = startWriter(subject, await createDocs(subject, SHARDS))
    await world.setReplicas(2)
    const { code, log } = await world.run({ nodes: 2 }, { time })
    const { expected, failures } = await writer.stop()
    t.equal(code, EXIT.done, log)
    t.comment(`${writer.count()} writes during the drain`)
    t.ok(writer.count() > 0)
    t.strictSame(failures, [])
    t.strictSame(await world.objects(), {
      replicas: 2,
      pods: ['vec-a-0', 'vec-a-1'],
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    })
    matchWhole(t, await world.progress(), { state: 'Done', shards: { moves: [], stepsLeft: 0 } })

    for (const node of [0, 1]) {
      const found = await pointsOn(subject, node, [0, 1, 2, 3])
      t.strictSame(found, expected, `the replicas on node ${node}`)
      const { peers, peer_id } = await call<{ peers: object; peer_id: number }>(
        ...([subject, node, 'GET', '/cluster'] as const),
      )
      t.equal(Object.keys(peers).length, 2)
      t.ok(String(peer_id) in peers)
    }
  })
}

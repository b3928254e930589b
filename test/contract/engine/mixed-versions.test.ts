/** The engine double with nodes of different versions, as the sources of these engines have it: no recording has them. */
import t, { type Test } from 'tap'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'

/** Nodes of these versions, and a call of one of them. */
async function nodesOf(t: Test, ...versions: string[]) {
  const cluster = new EngineCluster({ name: 'vec-a', version: '1.18.3' })
  const nodes = await Promise.all(
    versions.map((version, ordinal) => startEngineNode({ ordinal, cluster, version })),
  )
  t.teardown(() => Promise.all(nodes.map((node) => node.close())))
  const call = async (ordinal: number, method: string, body: object) => {
    const url = `http://127.0.0.1:${nodes[ordinal]?.port}/collections/docs`
    const headers = { 'content-type': 'application/json' }
    return (await fetch(url, { method, headers, body: JSON.stringify(body) })).status
  }
  return { cluster, call }
}

const turbo = { turbo: { bits: 'bits4' } }
const vector = { size: 4, distance: 'Dot' }
const WRITES: [method: string, body: object][] = [
  ['PUT', { vectors: vector, quantization_config: turbo }],
  ['PUT', { vectors: { ...vector, quantization_config: turbo } }],
  ['PUT', { vectors: { title: { ...vector, quantization_config: turbo } } }],
  ['PATCH', { quantization_config: turbo }],
  ['PATCH', { vectors: { '': { quantization_config: turbo } } }],
]

for (const [method, body] of WRITES) {
  const title = `${method} ${JSON.stringify(body)}`
  t.test(`${title}: a node of 1.17 refuses it, and stops if one of 1.18 takes it`, async (t) => {
    const { cluster, call } = await nodesOf(t, '1.17.1', '1.18.3', '1.17.1')
    if (method === 'PATCH') cluster.addCollection('docs', { vectors: vector })
    t.equal(await call(0, method, body), 400)
    t.equal(cluster.consensusError(0), undefined)
    t.equal(await call(1, method, body), 200)
    const stopped = [0, 1, 2].map((ordinal) => cluster.consensusError(ordinal))
    const error = 'Failed to handle committed entries'
    t.strictSame(stopped, [error, undefined, error])
    t.equal(await call(2, 'PATCH', { params: { replication_factor: 2 } }), 500)
  })
}

t.test('what all versions know stops no node', async (t) => {
  const { cluster, call } = await nodesOf(t, '1.17.1', '1.18.3')
  const scalar = { scalar: { type: 'int8' } }
  t.equal(await call(1, 'PUT', { vectors: { turbo: vector }, quantization_config: scalar }), 200)
  t.equal(await call(1, 'PATCH', { quantization_config: 'Disabled' }), 200)
  t.equal(cluster.consensusError(0), undefined)
})

t.test('nodes of one later version stop at nothing', async (t) => {
  const { cluster, call } = await nodesOf(t, '1.18.3', '1.19.0')
  t.equal(await call(1, 'PUT', { vectors: vector, quantization_config: turbo }), 200)
  t.equal(cluster.consensusError(0), undefined)
})

/** `status` of a cluster whose nodes do not agree about the states of the replicas. */
import t, { type Test } from 'tap'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import type { StatusReport } from '../../../jobs/kubectl/status.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { startEngineNode, type EngineNode } from '../../doubles/engine/node.ts'
import { matchWhole } from '../../match-whole.ts'
import { jobWorld, podOf } from '../job-world.ts'
import { runCommand } from './cli-user.ts'

/** Three nodes, each with a replica of the only shard. */
async function threeNodes(t: Test) {
  const { api, nodes: ports, env } = await jobWorld(t)
  const engine = new EngineCluster({ name: 'vec-a' })
  const nodes: EngineNode[] = []
  for (const ordinal of [0, 1, 2]) {
    const pod = `vec-a-${ordinal}`
    await api.create(podOf(pod, { 'app.kubernetes.io/instance': 'vec-a' }))
    const node = await startEngineNode({ ordinal, cluster: engine })
    ports.set(pod, node)
    nodes.push(node)
  }
  engine.createCollection('docs', 1, 3)
  const shard = engine.collections.get('docs')?.shards[0]
  if (shard === undefined) throw new Error('there is no shard')
  const status = async (...flags: string[]) => {
    const { code, out, err } = await runCommand(['status', 'qc/a', '-n', 'ns', ...flags], env)
    t.equal(code, EXIT_CODES.success, err)
    return out
  }
  return {
    ...{ engine, nodes, shard, status },
    peers: [0, 1, 2].map((ordinal) => String(engine.peer(ordinal).id)),
    engineReport: async () => {
      const { engine } = JSON.parse(await status('--json')) as StatusReport
      if (engine === undefined) throw new Error('there is no report of the engine')
      return engine
    },
  }
}

t.test('without a difference there is no note', async (t) => {
  const { peers, engineReport, status } = await threeNodes(t)
  t.match(await status(), /\ndocs +0 +Active +Active +Active\n/)
  const { shards, nodes, notes } = await engineReport()
  t.strictSame(notes, [])
  const copies = Object.fromEntries(peers.map((peer) => [peer, 'Active']))
  t.strictSame(shards, [{ collection: 'docs', shard: 0, copies }])
  t.strictSame(
    nodes.map(({ replicas }) => replicas),
    [1, 1, 1],
  )
})

t.test('a state that differs between nodes is shown as such, with what each says', async (t) => {
  const { engine, shard, peers, engineReport, status } = await threeNodes(t)
  const { id } = engine.peer(0)
  // Node 0 is cut off, and does not know what the others have agreed on.
  shard.reportedStates = { 1: { [id]: 'Dead' }, 2: { [id]: 'Dead' } }
  const note =
    'the nodes do not agree about docs/0 on vec-a-0: Active according to vec-a-0; Dead according to vec-a-1, vec-a-2'
  const text = await status()
  t.match(text, /\ndocs +0 +Active\/Dead +Active +Active\n/)
  t.match(text, `\n${note}\n`)
  const { shards, notes, nodes } = await engineReport()
  const [first = '', second = '', third = ''] = peers
  t.strictSame(shards, [
    {
      ...{ collection: 'docs', shard: 0 },
      copies: { [first]: 'Active/Dead', [second]: 'Active', [third]: 'Active' },
      differences: { [first]: { 'vec-a-0': 'Active', 'vec-a-1': 'Dead', 'vec-a-2': 'Dead' } },
    },
  ])
  t.strictSame(notes, [note])
  t.strictSame(
    nodes.map(({ replicas }) => replicas),
    [1, 1, 1],
  )
})

t.test('a collection that a node does not list is missing according to it', async (t) => {
  const { engine, status } = await threeNodes(t)
  engine.outdated.set(0, new Map([['docs', undefined]]))
  const text = await status()
  t.match(text, /\ndocs +0 +-\/Active +-\/Active +-\/Active\n/)
  t.match(
    text,
    '\nthe nodes do not agree about docs/0 on vec-a-2: missing according to vec-a-0; Active according to vec-a-1, vec-a-2\n',
  )
})

t.test('of many differences the first ones are listed, and the others counted', async (t) => {
  const { engine, engineReport } = await threeNodes(t)
  const names = Array.from({ length: 11 }, (_, index) => `many-${String(index).padStart(2, '0')}`)
  for (const name of names) {
    engine.createCollection(name, 1, 3)
    const shard = engine.collections.get(name)?.shards[0]
    if (shard !== undefined) shard.reportedStates = { 0: { [engine.peer(1).id]: 'Dead' } }
  }
  const { notes } = await engineReport()
  t.equal(notes.length, 11)
  t.match(
    notes[9],
    /^the nodes do not agree about many-09\/0 on vec-a-1: Dead according to vec-a-0;/,
  )
  t.equal(notes[10], 'the nodes do not agree about 1 more replicas')
})

t.test('a pod that does not answer is named, and the others are asked', async (t) => {
  const { engine, nodes, shard, peers, engineReport, status } = await threeNodes(t)
  shard.reportedStates = { 2: { [engine.peer(0).id]: 'Dead' } }
  await nodes[0]?.close()
  const text = await status()
  t.match(text, /\nCOLLECTION +SHARD +VEC-A-1 +VEC-A-2 +PEER \d+\n/)
  t.match(text, /\ndocs +0 +Active +Active +Active\/Dead\n/)
  t.match(text, /\nvec-a-0 does not report replica states: \S/)
  t.match(
    text,
    `\nthe nodes do not agree about docs/0 on peer ${peers[0]}: Active according to vec-a-1; Dead according to vec-a-2\n`,
  )
  const { notes } = await engineReport()
  t.equal(notes.length, 2)
})

t.test('a pod that does not list its collections is named, and the others are asked', async (t) => {
  const { nodes, engineReport, status } = await threeNodes(t)
  nodes[0]?.misbehave(({ path }) => (path[0] === 'collections' ? UNAVAILABLE : undefined))
  t.match(await status(), /\ndocs +0 +Active +Active +Active\n/)
  const report = await engineReport()
  matchWhole(t, report.notes, [/^vec-a-0 does not report replica states: GET \/collections .*503/])
  t.strictSame(
    report.nodes.map(({ replicas }) => replicas),
    [1, 1, 1],
  )
})

t.test(
  'without any answer about shards each pod is named, and no replicas are counted',
  async (t) => {
    const { nodes, engineReport } = await threeNodes(t)
    for (const node of nodes)
      node.misbehave(({ path }) => (path[0] === 'collections' ? UNAVAILABLE : undefined))
    const report = await engineReport()
    matchWhole(
      t,
      report.notes,
      [0, 1, 2].map((ordinal) => new RegExp(`^vec-a-${ordinal} does not report replica states: `)),
    )
    t.strictSame(report.shards, [])
    t.strictSame(
      report.nodes.map(({ replicas }) => replicas),
      [undefined, undefined, undefined],
    )
  },
)

/**
 * Volumes that are lost in a formed cluster of real engines, where ENGINE_BIN names one: with TLS between the nodes,
 * and all but one at once. Node 0 starts with the guard of the operator.
 */
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { ask, onceElected } from '../hard/ask.ts'
import { readReplicas, settle } from '../hard/replicas.ts'
import { matchWhole } from '../match-whole.ts'
import { ShardJobs } from './job.ts'
import { Operator } from './operator.ts'
import { NodesWorld, type WorldOptions } from './world.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const NODES = [0, 1, 2]
const SHARDS = 6
const POINTS = 300
const START_MS = 90_000
const WORK_MS = 240_000
/** The engine is refused several times meanwhile: it restarts after one to eight seconds. */
const LOOK_MS = 30_000
/** A Job waits a minute for nodes that may only be restarting. */
const REJECTION_MS = 90_000
const POLL_MS = 500
const CALL_MS = 2_000

if (bin === '') {
  t.pass('ENGINE_BIN names no engine: no volume to lose', { skip: true })
} else {
  t.setTimeout(900_000)
  suite()
}

interface Peers {
  peer_id: number
  peers: Record<string, { uri: string }>
}

/** A formed cluster of three nodes, with points in six shards of two replicas. */
async function formed(t: Test, options: Partial<WorldOptions> = {}) {
  const world = await NodesWorld.start({
    ...{ bin, octet: randomInt(20, 220), nodes: NODES.length, hasGuard: true, isDirect: true },
    ...options,
  })
  const operator = new Operator(world)
  t.teardown(async () => {
    await operator.close()
    await world.close()
  })
  const areMembers = async () => {
    const all = await Promise.all(NODES.map((node) => peersOf(world, node)))
    return all.every((found) => found !== undefined && peerIds(found).length === NODES.length)
  }
  t.ok(await until(areMembers, START_MS), 'three nodes')
  world.recordFormation(NODES.length)
  const { url } = world.node(0)
  const body = {
    ...{ vectors: { size: 4, distance: 'Dot' }, shard_number: SHARDS, replication_factor: 2 },
    wal_config: { wal_capacity_mb: 1 },
  }
  await onceElected(() => ask(url, 'PUT', '/collections/docs?timeout=60', body))
  const points = Array.from({ length: POINTS }, (_, id) => ({ id, vector: [id, 1, 2, 3] }))
  await ask(url, 'PUT', '/collections/docs/points?wait=true', { points })
  t.equal(await settle(() => world.urls(), 'docs', START_MS), undefined)
  matchWhole(t, await operator.observe(), { shardsPlaced: ['True', 'Placed', String], lost: [] })
  return { world, operator, before: peerIds(await peersOf(world, 1)) }
}

function peerIds(found: Peers | undefined): string[] {
  return Object.keys(found?.peers ?? {}).toSorted()
}

/** Undefined while the node does not answer. */
async function peersOf(world: NodesWorld, node: number): Promise<Peers | undefined> {
  try {
    const { url } = world.node(node)
    return (await ask(url, 'GET', '/cluster', undefined, CALL_MS)) as Peers
  } catch {
    return undefined
  }
}

/** Which peers each node that answers has listed in this time, other than the former ones. */
async function otherLists(world: NodesWorld, before: string[], ms: number): Promise<string[]> {
  const seen = new Set<string>()
  const end = Date.now() + ms
  while (Date.now() < end) {
    for (const node of NODES) {
      const found = await peersOf(world, node)
      const list = peerIds(found).join()
      if (found !== undefined && list !== before.join()) seen.add(`node ${node}: ${list}`)
    }
    await pause()
  }
  return [...seen]
}

async function until(isMet: () => Promise<boolean>, ms: number): Promise<boolean> {
  const end = Date.now() + ms
  while (!(await isMet())) {
    if (Date.now() > end) return false
    await pause()
  }
  return true
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS))
}

function logOf(world: NodesWorld, node: number): string {
  return readFileSync(world.node(node).log, 'utf8')
}

/** Every point is in one shard, and each shard has two equal replicas. */
async function isWhole(t: Test, world: NodesWorld): Promise<void> {
  const byShard = new Map<number, string[]>()
  for (const { shard, points } of await readReplicas(world.urls(), 'docs')) {
    const text = JSON.stringify([...points].toSorted(([a], [b]) => a - b))
    byShard.set(shard, [...(byShard.get(shard) ?? []), text])
  }
  t.equal(byShard.size, SHARDS)
  const ids: number[] = []
  for (const [shard, [first = '[]', second, ...more]] of byShard) {
    t.ok(first === second && more.length === 0, `two equal replicas of shard ${shard}`)
    ids.push(...(JSON.parse(first) as [number, object][]).map(([id]) => id))
  }
  t.strictSame(
    ids.toSorted((a, b) => a - b),
    Array.from({ length: POINTS }, (_, id) => id),
  )
}

function suite(): void {
  t.test('node 0 without its volume joins its cluster, with TLS between the nodes', async (t) => {
    const { world, operator, before } = await formed(t, { hasP2pTls: true })
    const own = await peersOf(world, 0)
    const lost = own?.peer_id ?? 0
    t.strictSame(
      Object.values(own?.peers ?? {}).filter(({ uri }) => !uri.startsWith('https://')),
      [],
    )
    await world.loseVolume(0)
    t.strictSame(await otherLists(world, before, LOOK_MS), [], 'no second cluster')
    t.match(logOf(world, 0), /joining the formed cluster through 127\.\d+\.0\.102/)
    t.match(logOf(world, 0), /already used by peer \d+ which still has shards/)

    matchWhole(t, await operator.observe(), {
      consensus: ['Unknown', 'PodsNotAnswering', /^no answer from vec-docs-0: GET /],
      shardsPlaced: [
        'False',
        'LostNode',
        'node 0 has lost its data (its volume is a new one): every shard on it has an Active replica on another node, so it can be replaced: annotate the VecCluster with vec-operator.dev/replace="0"',
      ],
      lost: [],
    })
    const due = await operator.observe({ [ANNOTATIONS.replace]: '0' })
    matchWhole(t, due, { repair: { is: 'step', purpose: 'lost node' }, lost: [lost] })
    const work = { nodes: NODES.length, lost: [...due.lost], zones: {}, balance: false }
    t.match(await new ShardJobs(world).until(work, WORK_MS), { state: 'Done' })

    t.equal(await settle(() => world.urls(), 'docs', START_MS), undefined)
    const after = await Promise.all(NODES.map(async (node) => peerIds(await peersOf(world, node))))
    const replaced = String((await peersOf(world, 0))?.peer_id)
    const expected = before.map((id) => (id === String(lost) ? replaced : id)).toSorted()
    t.not(replaced, String(lost))
    t.strictSame(after, [expected, expected, expected])
    await isWhole(t, world)
    matchWhole(t, await operator.observe(), {
      consensus: ['True', 'ConsensusWorking', String],
      shardsPlaced: ['True', 'Placed', String],
    })
  })

  t.test('all volumes but that of node 2 are lost: no second cluster', async (t) => {
    const { world, operator, before } = await formed(t)
    const { url } = world.node(2)
    const own = await readReplicas([url], 'docs')
    const survivor = (await peersOf(world, 2))?.peer_id
    await Promise.all([world.loseVolume(0), world.loseVolume(1)])
    t.strictSame(await otherLists(world, before, LOOK_MS), [])
    // Where it was the leader, node 2 calls itself so until it restarts.
    matchWhole(t, await operator.observe({ [ANNOTATIONS.replace]: '0,1' }), {
      consensus: [/^(False|Unknown)$/, /^(NoLeader|PodsNotAnswering)$/, String],
      shardsPlaced: [
        'False',
        'LostNode',
        'node 0 has lost its data (its volume is a new one); node 1 has lost its data (its volume is a new one): no majority is left (1 of 3 nodes), so no node can be replaced: restore a backup into a new cluster; no Completed VecBackup of the cluster exists',
      ],
      lost: [],
    })
    // The empty nodes are alone for a moment, and then the last one has only just started.
    await world.deletePod(2)
    t.strictSame(await otherLists(world, before, LOOK_MS), [])
    matchWhole(t, await operator.observe({ [ANNOTATIONS.replace]: '0,1' }), {
      consensus: ['False', 'NoLeader', 'no leader is known to vec-docs-2'],
      shardsPlaced: ['False', 'LostNode', /no majority is left/],
    })

    const lost = before.map(Number).filter((id) => id !== survivor)
    const work = { nodes: NODES.length, lost, zones: {}, balance: false }
    const ended = await new ShardJobs(world).until(work, REJECTION_MS)
    t.match(ended, { reason: 'NoLeader' })
    t.strictSame(await otherLists(world, before, POLL_MS), [])
    t.strictSame(await readReplicas([url], 'docs'), own, 'the replicas on node 2 are as before')
  })

  t.test('a split that is there is named, and nothing is done to it', async (t) => {
    const { world, operator } = await formed(t, { hasGuard: false })
    const others = [1, 2].map((node) => world.node(node).url)
    await world.loseVolume(0)
    const isAlone = async () => peerIds(await peersOf(world, 0)).length === 1
    t.ok(await until(isAlone, START_MS), 'without the guard node 0 founds a cluster')
    const own = await readReplicas(others, 'docs')
    matchWhole(t, await operator.observe(), {
      consensus: [
        'False',
        'SplitBrain',
        'the pods form 2 separate clusters: vec-docs-0 | vec-docs-1, vec-docs-2; backups, restores, migrations and helm runs wait until they form one cluster',
      ],
      shardsPlaced: [/^(False|Unknown)$/, String, String],
      lost: [],
    })
    const work = { nodes: NODES.length, lost: [], zones: {}, balance: true }
    // Node 0 has the address of a peer of the others: their leader sends to it, and it follows a node that it does not list.
    const jobs = new ShardJobs(world)
    t.equal((await jobs.until(work, REJECTION_MS)).state, undefined, 'no Job ends')
    t.notMatch(readFileSync(jobs.log, 'utf8'), /step started/)
    t.strictSame(
      await readReplicas(others, 'docs'),
      own,
      'the replicas of the others are as before',
    )
  })
}

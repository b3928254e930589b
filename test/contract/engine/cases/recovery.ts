/** Recovery of snapshots, and copies of shards: facts sections 6.2, 6.3 and 10. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Case } from '../case.ts'
import type { Answer, Stage } from '../stage.ts'
import { created } from './making.ts'

const DOCS = { vectors: { size: 2, distance: 'Dot' } }
const ZEROS = '0'.repeat(64)

interface View {
  peer_id: number
  local_shards: { shard_id: number; state: string; points_count: number }[]
  remote_shards: { shard_id: number; state: string; peer_id: number }[]
  shard_transfers: object[]
}

interface Snapshot {
  name: string
  checksum: string
}

/** Serves bytes by path while it is needed. */
export async function store(
  files: Record<string, Buffer | number>,
  use: (base: string) => Promise<void>,
): Promise<void> {
  const server = createServer((request, response) => {
    const file = files[new URL(request.url ?? '/', 'http://store').pathname.slice(1)]
    if (typeof file === 'number' || file === undefined) response.writeHead(file ?? 404).end()
    else response.end(file)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await use(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

function recover(stage: Stage, name: string, body: object, node = 0): Promise<Answer> {
  const path = `/collections/${name}/snapshots/recover?wait=true`
  return stage.ask('PUT', path, { body: { priority: 'snapshot', ...body }, node })
}

/** What was answered, without the port of the store. */
function note(stage: Stage, what: string, { status, body }: Answer): void {
  const text = JSON.stringify(body).replace(/127\.0\.0\.1:\d+/g, '<store>')
  stage.note(what, { status, answer: stage.normal(JSON.parse(text)) })
}

async function snapshotOf(stage: Stage, name: string, node = 0): Promise<[Snapshot, Buffer]> {
  const path = `/collections/${name}/snapshots`
  const { body } = await stage.ask('POST', `${path}?wait=true`, { node })
  const snapshot = (body as { result: Snapshot }).result
  return [snapshot, await stage.bytes(`${path}/${snapshot.name}`, node)]
}

export async function fill(stage: Stage, name: string, count: number): Promise<void> {
  const points = Array.from({ length: count }, (_, id) => ({
    id,
    vector: [id, 1],
    payload: { id },
  }))
  await stage.ask('PUT', `/collections/${name}/points?wait=true`, { body: { points } })
}

export async function view(stage: Stage, name: string, node: number): Promise<View> {
  const { body } = await stage.ask('GET', `/collections/${name}/cluster`, { node })
  return (body as { result: View }).result
}

/** Which nodes hold a replica of each shard, as reported by one of them. */
async function holders(stage: Stage, name: string, node = 0): Promise<unknown> {
  const { peer_id, local_shards, remote_shards } = await view(stage, name, node)
  const copies = [...local_shards.map((shard) => ({ ...shard, peer_id })), ...remote_shards]
  return stage.normal(copies.map(({ shard_id, peer_id, state }) => ({ shard_id, peer_id, state })))
}

/** Until a node sees that nothing moves and all is Active. */
export async function rest(stage: Stage, name: string, copies: number): Promise<void> {
  for (let node = 0; node < stage.nodes; node += 1) {
    await stage.awaited(
      `/collections/${name}/cluster`,
      (body) => {
        const { local_shards, remote_shards, shard_transfers } = (body as { result: View }).result
        const all = [...local_shards, ...remote_shards]
        const isActive = all.every(({ state }) => state === 'Active')
        return isActive && all.length === copies && shard_transfers.length === 0
      },
      { node },
    )
  }
}

export const RECOVERY: Case[] = [
  {
    title: 'a node that rejects a snapshot says why, and nothing is changed',
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      const files = { junk: Buffer.from('{"no":"snapshot"}'), forbidden: 403 }
      await store(files, async (base) => {
        const refused: [string, object][] = [
          ['junk', { location: `${base}/junk?signed=x`, checksum: ZEROS }],
          ['an object that may not be read', { location: `${base}/forbidden?signed=x` }],
          ['one that is not there', { location: `${base}/none?signed=x` }],
          ['a store that cannot be reached', { location: 'http://127.0.0.1:1/x?signed=x' }],
          ['an unknown priority', { location: `${base}/junk`, priority: 'mine' }],
        ]
        for (const [what, body] of refused) note(stage, what, await recover(stage, 'docs', body))
        const odd = await recover(stage, 'docs', { location: `${base}/junk`, checksum: 'abc' })
        stage.note('a checksum that is none', odd.status)
        note(stage, 'into nothing', await recover(stage, 'none', { location: `${base}/junk` }))
      })
      await stage.call('GET', '/collections')
    },
  },
  {
    title: 'a snapshot with another checksum, or of other vectors, is refused',
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      await fill(stage, 'docs', 3)
      const [, bytes] = await snapshotOf(stage, 'docs')
      await created(stage, 'wide', { vectors: { size: 3, distance: 'Dot' }, shard_number: 1 })
      await created(stage, 'many', { ...DOCS, shard_number: 2 })
      await store({ docs: bytes }, async (base) => {
        const location = `${base}/docs`
        const wrong = await recover(stage, 'docs', { location, checksum: ZEROS })
        stage.note('another checksum', wrong.status)
        for (const name of ['wide', 'many']) {
          const { status, body } = await recover(stage, name, { location })
          const text = JSON.stringify(body).replace(/(existing collection).*/, '$1')
          stage.note(`into ${name}`, [status, text])
        }
      })
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
  {
    title: 'a snapshot restores a missing collection with its configuration and indexes',
    sizes: ['one'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 2, metadata: { a: 1 } })
      await fill(stage, 'docs', 10)
      const index = { field_name: 'id', field_schema: 'integer' }
      await stage.ask('PUT', '/collections/docs/index?wait=true', { body: index })
      const [{ checksum }, bytes] = await snapshotOf(stage, 'docs')
      await stage.ask('DELETE', '/collections/docs')
      await store({ docs: bytes }, async (base) => {
        note(stage, 'recover', await recover(stage, 'docs', { location: `${base}/docs`, checksum }))
        note(stage, 'again', await recover(stage, 'copy', { location: `${base}/docs`, checksum }))
      })
      for (const name of ['docs', 'copy']) {
        await stage.awaited(`/collections/${name}`, (body) => JSON.stringify(body).includes('"id"'))
        const { body } = await stage.ask('GET', `/collections/${name}`)
        const { config, payload_schema } = (body as { result: Record<string, unknown> }).result
        // How many points an index has is not what the double counts.
        const indexes = Object.entries(payload_schema as Record<string, { data_type: string }>)
        stage.note(name, { config, indexes: indexes.map(([field, one]) => [field, one.data_type]) })
        await stage.call('POST', `/collections/${name}/points/count`, { body: {} })
      }
    },
  },
  {
    title: 'an uploaded snapshot is recovered as well, and remains as a file under its name',
    sizes: ['one'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      await fill(stage, 'docs', 5)
      const [{ name, checksum }, bytes] = await snapshotOf(stage, 'docs')
      await stage.ask('DELETE', `/collections/docs/snapshots/${name}`)
      await stage.ask('POST', '/collections/docs/points/delete?wait=true', {
        body: { points: [1] },
      })
      const path = '/collections/docs/snapshots/upload?wait=true&priority=snapshot&checksum='
      const wrong = await stage.send(path + ZEROS, { file: 'sent.snapshot', bytes })
      stage.note('another checksum', wrong.status)
      const sent = await stage.send(path + checksum, { file: 'sent.snapshot', bytes })
      note(stage, 'sent', sent)
      const { body } = await stage.ask('GET', '/collections/docs/snapshots')
      const files = (body as { result: { name: string }[] }).result
      stage.note('the file', files.filter(({ name: file }) => file === 'sent.snapshot').length)
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
      await stage.call('DELETE', '/collections/docs/snapshots/sent.snapshot')
    },
  },
  {
    title: 'a shard with one copy moves to the node that takes its snapshot',
    sizes: ['three'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 3 })
      await fill(stage, 'docs', 30)
      const snapshots = [await snapshotOf(stage, 'docs', 0), await snapshotOf(stage, 'docs', 1)]
      const [mine = [], other = []] = [
        await view(stage, 'docs', 0),
        await view(stage, 'docs', 1),
      ].map(({ local_shards }) => local_shards.map(({ shard_id }) => shard_id))
      const files = Object.fromEntries(snapshots.map(([, bytes], node) => [`${node}`, bytes]))
      await store(files, async (base) => {
        // The second node takes what the first one held.
        note(stage, 'recover', await recover(stage, 'docs', { location: `${base}/0` }, 1))
      })
      await rest(stage, 'docs', 3)
      const { local_shards } = await view(stage, 'docs', 1)
      const held = local_shards.map(({ shard_id }) => shard_id)
      stage.note('it has its own and those of the first', {
        own: other.every((id) => held.includes(id)),
        first: mine.every((id) => held.includes(id)),
      })
      stage.note('the first has none', (await view(stage, 'docs', 0)).local_shards)
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
  {
    title: 'with custom sharding a snapshot restores no keys and no points of a missing collection',
    sizes: ['three'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, sharding_method: 'custom', shard_number: 1 })
      await stage.ask('PUT', '/collections/docs/shards?timeout=20', { body: { shard_key: 'a' } })
      const body = { shard_key: 'a', points: [{ id: 1, vector: [1, 2] }] }
      await stage.ask('PUT', '/collections/docs/points?wait=true', { body })
      const files: Record<string, Buffer> = {}
      for (const node of [0, 1, 2]) [, files[String(node)]] = await snapshotOf(stage, 'docs', node)
      await stage.ask('DELETE', '/collections/docs?timeout=20')
      await store(files, async (base) => {
        for (const node of [0, 1, 2]) {
          const location = `${base}/${node}`
          note(stage, `node ${node}`, await recover(stage, 'docs', { location }, node))
        }
      })
      await stage.call('GET', '/collections/docs/shards')
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
      await stage.ask('PUT', '/collections/docs/shards?timeout=20', { body: { shard_key: 'x' } })
      await stage.ask('PUT', '/collections/docs/shards?timeout=20', { body: { shard_key: 'a' } })
      await store(files, async (base) => {
        const { status, body } = await recover(stage, 'docs', { location: `${base}/0` }, 0)
        stage.note('keys of other ids', [status, JSON.stringify(body).replace(/ at .*/, ' at …')])
      })
    },
  },
  {
    title: 'a replica is created on another node and dropped again; the last one cannot be dropped',
    sizes: ['three'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      await fill(stage, 'docs', 20)
      const path = '/collections/docs/cluster?timeout=20'
      const change = (body: object) => stage.ask('POST', path, { body })
      const peers: number[] = []
      for (const node of [0, 1, 2]) peers.push((await view(stage, 'docs', node)).peer_id)
      const views = await Promise.all([0, 1, 2].map((node) => view(stage, 'docs', node)))
      const from = peers[views.findIndex(({ local_shards }) => local_shards.length > 0)] ?? 0
      const to = peers.find((peer) => peer !== from) ?? 0
      const last = peers.find((peer) => peer !== from && peer !== to) ?? 0
      const noteAnswer = async (what: string, body: object) => {
        const { status, body: answer } = await change(body)
        const text = JSON.stringify(stage.normal(answer))
        const named = [from, to, last].reduce(
          (all, peer, index) => all.replaceAll(String(peer), `<${['from', 'to', 'last'][index]}>`),
          text,
        )
        stage.note(what, [status, named])
      }
      const move = { shard_id: 0, from_peer_id: from, to_peer_id: to }
      await noteAnswer('replicate', { replicate_shard: move })
      await rest(stage, 'docs', 2)
      stage.note('copies', ((await holders(stage, 'docs')) as object[]).length)
      await noteAnswer('an unknown peer', { replicate_shard: { ...move, to_peer_id: 1 } })
      await noteAnswer('a copy that is not there', { drop_replica: { shard_id: 0, peer_id: last } })
      await noteAnswer('drop', { drop_replica: { shard_id: 0, peer_id: to } })
      await rest(stage, 'docs', 1)
      await noteAnswer('the last one', { drop_replica: { shard_id: 0, peer_id: from } })
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
  {
    title: 'telemetry reports the disks of a node and its running recoveries',
    async play(stage) {
      await created(stage, 'docs', DOCS)
      const { body } = await stage.ask('GET', '/telemetry?details_level=2')
      const { app, collections } = (
        body as {
          result: {
            app: { system: { disk_size: number } }
            collections: { snapshots: { id: string; running_snapshot_recovery: number }[] }
          }
        }
      ).result
      stage.note('disk', typeof app.system.disk_size)
      stage.note(
        'recoveries',
        collections.snapshots
          .filter(({ id }) => id === 'docs')
          .map(({ running_snapshot_recovery }) => running_snapshot_recovery),
      )
    },
  },
]

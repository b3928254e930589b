/** Recovery of single shards: facts section 6.6. */
import type { Case } from '../case.ts'
import type { Answer, Stage } from '../stage.ts'
import { created } from './making.ts'
import { fill, rest, store, view } from './recovery.ts'

const DOCS = { vectors: { size: 2, distance: 'Dot' } }
const ZEROS = '0'.repeat(64)

/** Collection `docs`, with this many shards and points. */
async function sharded(stage: Stage, shards: number, points: number): Promise<void> {
  await created(stage, 'docs', { ...DOCS, shard_number: shards })
  await fill(stage, 'docs', points)
}

/** The one node that holds a shard. */
async function holderOf(stage: Stage, name: string, shard: number): Promise<number> {
  for (let node = 0; node < stage.nodes; node += 1) {
    const { local_shards } = await view(stage, name, node)
    if (local_shards.some(({ shard_id }) => shard_id === shard)) return node
  }
  throw new Error(`no node holds shard ${shard} of ${name}`)
}

/** Its snapshot, by path as `store` serves it. */
async function snapshotOf(stage: Stage, name: string, shard: number): Promise<Buffer> {
  const path = `/collections/${name}/shards/${shard}/snapshot`
  return stage.bytes(path, await holderOf(stage, name, shard))
}

function recover(
  stage: Stage,
  target: { name: string; shard: number; node: number },
  body: object,
): Promise<Answer> {
  const path = `/collections/${target.name}/shards/${target.shard}/snapshots/recover?wait=true`
  return stage.ask('PUT', path, { body: { priority: 'snapshot', ...body }, node: target.node })
}

/** What was answered, without the port of the store. */
function note(stage: Stage, what: string, { status, body }: Answer): void {
  const text = JSON.stringify(body).replace(/127\.0\.0\.1:\d+/g, '<store>')
  stage.note(what, { status, answer: stage.normal(JSON.parse(text)) })
}

/** Points of a shard, as reported by the node that holds it. */
async function pointsOf(stage: Stage, name: string, shard: number): Promise<number | undefined> {
  const { local_shards } = await view(stage, name, await holderOf(stage, name, shard))
  return local_shards.find(({ shard_id }) => shard_id === shard)?.points_count
}

/** Copies, by how many nodes there are. */
async function copiesOf(stage: Stage, name: string): Promise<number> {
  const { local_shards, remote_shards } = await view(stage, name, 0)
  return local_shards.length + remote_shards.length
}

export const SHARD_RECOVERY: Case[] = [
  {
    title: 'a node recovers the snapshot of its shard, and no replica moves',
    async play(stage) {
      await sharded(stage, 3, 60)
      await created(stage, 'again', { ...DOCS, shard_number: 3 })
      const files: Record<string, Buffer> = {}
      for (const shard of [0, 1, 2]) files[shard] = await snapshotOf(stage, 'docs', shard)
      await store(files, async (base) => {
        for (const shard of [0, 1, 2]) {
          const node = await holderOf(stage, 'again', shard)
          const target = { name: 'again', shard, node }
          note(
            stage,
            `shard ${shard}`,
            await recover(stage, target, { location: `${base}/${shard}` }),
          )
          stage.note('with as many points', {
            same:
              (await pointsOf(stage, 'again', shard)) === (await pointsOf(stage, 'docs', shard)),
            held: (await holderOf(stage, 'again', shard)) === node,
          })
        }
      })
      stage.note('copies', await copiesOf(stage, 'again'))
      await stage.call('POST', '/collections/again/points/count', { body: {} })
    },
  },
  {
    title: 'a node that rejects the snapshot of a shard says why, and nothing is changed',
    sizes: ['one'],
    async play(stage) {
      await sharded(stage, 2, 20)
      const bytes = await snapshotOf(stage, 'docs', 0)
      const junk = Buffer.from('{"no":"snapshot"}')
      const docs = { name: 'docs', shard: 0, node: 0 }
      await store({ shard: bytes, junk, forbidden: 403 }, async (base) => {
        const wrong = { location: `${base}/shard`, checksum: ZEROS }
        stage.note('another checksum', (await recover(stage, docs, wrong)).status)
        const refused: [string, object][] = [
          ['an object that may not be read', { location: `${base}/forbidden?signed=x` }],
          ['one that is not there', { location: `${base}/none?signed=x` }],
          ['a store that cannot be reached', { location: 'http://127.0.0.1:1/x?signed=x' }],
          ['junk', { location: `${base}/junk` }],
        ]
        for (const [what, body] of refused) note(stage, what, await recover(stage, docs, body))
        const location = `${base}/shard`
        const missing = { ...docs, shard: 9 }
        note(stage, 'a shard that is not there', await recover(stage, missing, { location }))
        const nowhere = { ...docs, name: 'none' }
        note(stage, 'into nothing', await recover(stage, nowhere, { location }))
      })
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
  {
    title: 'an uploaded snapshot of a shard is recovered as well, and no file remains',
    sizes: ['one'],
    async play(stage) {
      await sharded(stage, 1, 5)
      const bytes = await snapshotOf(stage, 'docs', 0)
      await stage.ask('POST', '/collections/docs/points/delete?wait=true', {
        body: { points: [1] },
      })
      const path = '/collections/docs/shards/0/snapshots/upload?wait=true&priority=snapshot'
      const sent = { file: 'sent.snapshot', bytes }
      const wrong = await stage.send(`${path}&checksum=${ZEROS}`, sent)
      stage.note('another checksum', wrong.status)
      note(stage, 'sent', await stage.send(path, sent))
      await stage.call('GET', '/collections/docs/snapshots')
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
  {
    title: 'the snapshot of another shard is recovered without an error',
    sizes: ['one'],
    async play(stage) {
      await sharded(stage, 2, 50)
      const bytes = await snapshotOf(stage, 'docs', 0)
      await store({ other: bytes }, async (base) => {
        const target = { name: 'docs', shard: 1, node: 0 }
        note(stage, 'recover', await recover(stage, target, { location: `${base}/other` }))
      })
      const counts = [await pointsOf(stage, 'docs', 0), await pointsOf(stage, 'docs', 1)]
      stage.note('both have the points of the first', counts[0] === counts[1])
    },
  },
  {
    title: 'a node without the shard gets a replica when it recovers the snapshot',
    sizes: ['three'],
    async play(stage) {
      await sharded(stage, 1, 20)
      const bytes = await snapshotOf(stage, 'docs', 0)
      const node = ((await holderOf(stage, 'docs', 0)) + 1) % 3
      await store({ shard: bytes }, async (base) => {
        const target = { name: 'docs', shard: 0, node }
        note(stage, 'recover', await recover(stage, target, { location: `${base}/shard` }))
      })
      await rest(stage, 'docs', 2)
      stage.note('copies', await copiesOf(stage, 'docs'))
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
  {
    title: 'a shard moves to the requested node',
    sizes: ['three'],
    async play(stage) {
      await sharded(stage, 1, 20)
      const holder = await holderOf(stage, 'docs', 0)
      const to = (holder + 1) % 3
      const { peer_id: from_peer_id } = await view(stage, 'docs', holder)
      const { peer_id: to_peer_id } = await view(stage, 'docs', to)
      const method = 'stream_records'
      const body = { move_shard: { shard_id: 0, from_peer_id, to_peer_id, method } }
      const path = '/collections/docs/cluster?timeout=20'
      note(stage, 'move', await stage.ask('POST', path, { body }))
      await rest(stage, 'docs', 1)
      stage.note('it is there', (await holderOf(stage, 'docs', 0)) === to)
      await stage.call('POST', '/collections/docs/points/count', { body: {} })
    },
  },
]

/** Streams of single shards: facts section 6.6. */
import { TarReader } from '../../../../jobs/backup/shards/stream-shard.ts'
import type { Case } from '../case.ts'
import { created } from './making.ts'
import { fill, view } from './recovery.ts'

const DOCS = { vectors: { size: 2, distance: 'Dot' } }

export const SHARD_STREAMS: Case[] = [
  {
    title: 'a shard is streamed as a tar with an end marker, without a length and without a file',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 3 })
      await fill(stage, 'docs', 30)
      for (let node = 0; node < stage.nodes; node += 1) {
        const { local_shards } = await view(stage, 'docs', node)
        for (const { shard_id: shard } of local_shards) {
          const path = `/collections/docs/shards/${shard}/snapshot`
          stage.note('headers', await stage.headers(path, node))
          const bytes = await stage.bytes(path, node)
          const [all, most] = [new TarReader(), new TarReader()]
          all.push(bytes)
          most.push(bytes.subarray(0, -1024))
          stage.note('all of it', all.state)
          stage.note('without its last blocks', most.state)
        }
        await stage.call('GET', '/collections/docs/snapshots', { node })
      }
    },
  },
  {
    title: 'a node streams the shards that it has, and rejects others with the reason',
    sizes: ['three'],
    async play(stage) {
      // The engine decides where a shard comes; the recording names the node that is asked.
      const node = 1
      await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      while ((await view(stage, 'docs', node)).local_shards.length > 0) {
        await stage.ask('DELETE', '/collections/docs')
        await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      }
      await stage.call('GET', '/collections/docs/shards/0/snapshot', { node })
      await stage.call('GET', '/collections/docs/shards/7/snapshot', { node })
      await stage.call('GET', '/collections/none/shards/0/snapshot', { node })
    },
  },
]

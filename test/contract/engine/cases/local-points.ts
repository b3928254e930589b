/** Reads that a node answers from its own replica of a shard, and from no other node. */
import type { Case } from '../case.ts'
import { created } from './making.ts'
import { fill, view } from './recovery.ts'

const DOCS = { vectors: { size: 2, distance: 'Dot' } }

export const LOCAL_POINTS: Case[] = [
  {
    title:
      'a node counts and scrolls its own replica of a shard, and refuses a shard it does not have',
    sizes: ['three'],
    async play(stage) {
      // The engine decides where a shard is placed; the recording names the nodes that are asked.
      const [holder, other] = [1, 2]
      const has = async (node: number) => (await view(stage, 'docs', node)).local_shards.length > 0
      await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      while (!(await has(holder))) {
        await stage.ask('DELETE', '/collections/docs')
        await created(stage, 'docs', { ...DOCS, shard_number: 1 })
      }
      await fill(stage, 'docs', 5)
      const points = '/collections/docs/shards/0/points'
      const page = { limit: 3, with_payload: true, with_vector: true }
      for (const node of [holder, other]) {
        await stage.call('POST', `${points}/count`, { node, body: { exact: true } })
        await stage.call('POST', `${points}/scroll`, { node, body: page })
        await stage.call('POST', `${points}/scroll`, { node, body: { ...page, offset: 4 } })
      }
      await stage.call('POST', '/collections/docs/shards/7/points/scroll', { body: page })
      await stage.call('POST', '/collections/none/shards/0/points/scroll', { body: page })
    },
  },
]

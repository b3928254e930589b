/** Where shards and their copies are put: facts sections 2 and 3. */
import type { Case } from '../case.ts'
import { VECTORS, created, info } from './making.ts'

interface Shards {
  local_shards: { shard_id: number; state: string }[]
  remote_shards: { shard_id: number; peer_id: number; state: string }[]
}

export const PLACING: Case[] = [
  {
    title: 'shards are spread evenly over the nodes, copies are capped by their number',
    async play(stage) {
      const wishes = [
        {},
        { shard_number: 6 },
        { shard_number: 3, replication_factor: 2 },
        { replication_factor: 5 },
      ]
      for (const [index, wish] of wishes.entries()) {
        const name = `c${index}`
        await created(stage, name, { ...VECTORS, ...wish })
        const views: Shards[] = []
        for (let node = 0; node < stage.nodes; node += 1) {
          const seen = await stage.ask('GET', `/collections/${name}/cluster`, { node })
          views.push((seen.body as { result: Shards }).result)
        }
        const copies = views.flatMap(({ local_shards }) =>
          local_shards.map(({ shard_id }) => shard_id),
        )
        stage.note(JSON.stringify(wish), {
          'copies of each shard': Object.values(Object.groupBy(copies, String)).map(
            (each) => each?.length,
          ),
          'shards of each node': views.map(({ local_shards }) => local_shards.length),
          'all known to each node': views.map(
            (view) => view.local_shards.length + view.remote_shards.length,
          ),
          states: [
            ...new Set(
              views.flatMap((view) =>
                [...view.local_shards, ...view.remote_shards].map(({ state }) => state),
              ),
            ),
          ],
          fields: views.map((view) => Object.keys(view).sort())[0],
        })
      }
    },
  },
  {
    title: 'custom sharding starts without shards',
    async play(stage) {
      await created(stage, 'docs', { ...VECTORS, sharding_method: 'custom', shard_number: 2 })
      await info(stage, 'docs')
      await stage.call('GET', '/collections/docs/cluster')
    },
  },
]

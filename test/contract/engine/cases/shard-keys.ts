/** Custom sharding: keys are made and deleted, and each has its own shards. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created, VECTORS } from './making.ts'

const CUSTOM = { ...VECTORS, sharding_method: 'custom', shard_number: 2, replication_factor: 2 }
const SHARDS = '/collections/docs/shards'

interface Copy {
  shard_id: number
  shard_key?: unknown
  state: string
}

interface View {
  result: { local_shards: Copy[]; remote_shards: Copy[] }
}

/** Keys, copies and states of each shard, as node 0 knows them; where they are is left to the engine. */
async function noteShards(stage: Stage): Promise<void> {
  const { body } = await stage.ask('GET', '/collections/docs/cluster')
  const { local_shards, remote_shards } = (body as View).result
  const copies = [...local_shards, ...remote_shards].map(
    ({ shard_id, shard_key, state }) => `${shard_id} ${JSON.stringify(shard_key)} ${state}`,
  )
  stage.note('copies of shards', copies.sort())
}

function make(stage: Stage, body: object) {
  return stage.call('PUT', `${SHARDS}?timeout=20`, { body })
}

export const SHARD_KEYS: Case[] = [
  {
    title: 'a shard key gets shards with consecutive ids from 1 on',
    async play(stage) {
      await created(stage, 'docs', CUSTOM)
      await make(stage, { shard_key: 'berlin' })
      await make(stage, { shard_key: 7, shards_number: 1, replication_factor: 1 })
      await make(stage, { shard_key: '7', shard_number: 1, replication_factor: 1 })
      await noteShards(stage)
      await stage.call('GET', SHARDS)
    },
  },
  {
    title: 'creating an existing shard key, or one without custom sharding, is 400',
    async play(stage) {
      await created(stage, 'docs', CUSTOM)
      await make(stage, { shard_key: 'berlin' })
      await make(stage, { shard_key: 'berlin' })
      await make(stage, {})
      await created(stage, 'auto')
      await stage.call('PUT', '/collections/auto/shards', { body: { shard_key: 'berlin' } })
      await stage.call('PUT', '/collections/none/shards', { body: { shard_key: 'berlin' } })
    },
  },
  {
    title:
      'a shard key that is deleted takes its shards with it, and the next id is one more than the highest',
    async play(stage) {
      await created(stage, 'docs', CUSTOM)
      for (const shard_key of ['a', 'b', 'c']) {
        await make(stage, { shard_key, shards_number: 1, replication_factor: 1 })
      }
      await stage.call('POST', `${SHARDS}/delete?timeout=20`, { body: { shard_key: 'b' } })
      await stage.awaited(
        '/collections/docs/cluster',
        (body) => !JSON.stringify(body).includes('"b"'),
      )
      await make(stage, { shard_key: 'd', shards_number: 1, replication_factor: 1 })
      await noteShards(stage)
      await stage.call('POST', `${SHARDS}/delete?timeout=20`, { body: { shard_key: 'b' } })
    },
  },
  {
    title: 'a shard key that is deleted takes its points with it',
    async play(stage) {
      await created(stage, 'docs', CUSTOM)
      for (const shard_key of ['a', 'b']) {
        await make(stage, { shard_key, shards_number: 1, replication_factor: 1 })
        const points = [1, 2, 3].map((id) => ({ id, vector: [id, 1, 1, 1] }))
        await stage.call('PUT', '/collections/docs/points?wait=true', {
          body: { shard_key, points },
        })
      }
      await stage.call('POST', `${SHARDS}/delete?timeout=20`, { body: { shard_key: 'b' } })
      await stage.awaited(
        '/collections/docs/cluster',
        (body) => !JSON.stringify(body).includes('"b"'),
      )
      const { body } = await stage.ask('POST', '/collections/docs/points/count', {
        body: { exact: true },
      })
      stage.note('points', (body as { result: object }).result)
    },
  },
]

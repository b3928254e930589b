/** As much of points as tokens, counts and migrations rest on: facts section 7. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'

const POINTS = '/collections/docs/points'
const BY_TAG = { filter: { must: [{ key: 't', match: { value: 'x' } }] } }

const IDS = [1, 2, 3, 4]

/** The payload is the number of the write. */
async function put(stage: Stage, ids: readonly number[], seq: number, waits: boolean) {
  const points = ids.map((id) => ({ id, vector: [1, seq], payload: { seq } }))
  const { status } = await stage.ask('PUT', `${POINTS}?wait=${waits}`, { body: { points } })
  return status
}

async function remove(stage: Stage, id: number) {
  const body = { points: [id] }
  return (await stage.ask('POST', `${POINTS}/delete?wait=false`, { body })).status
}

/** Ids and numbers of the points on each node that has the shard. */
async function replicas(stage: Stage): Promise<unknown[]> {
  const found: unknown[] = []
  for (let node = 0; node < stage.nodes; node += 1) {
    const path = '/collections/docs/shards/0/points/scroll'
    const { status, body } = await stage.ask('POST', path, { node, body: {} })
    if (status !== 200) continue
    const { points } = (body as { result: { points: { id: number; payload: { seq: number } }[] } })
      .result
    found.push(points.map(({ id, payload: { seq } }) => `${id}: ${seq}`))
  }
  return found
}

export const POINTS_CASES: Case[] = [
  {
    title: 'a shard applies writes in the order of their arrival, with and without wait',
    applyMs: 60_000,
    async play(stage) {
      await created(stage, 'docs', {
        ...{ vectors: { size: 2, distance: 'Dot' }, shard_number: 1 },
        replication_factor: stage.nodes > 1 ? 2 : 1,
      })
      for (let seq = 0; seq < 20; seq += 1) await put(stage, IDS, seq, false)
      stage.note('a deletion that does not wait', await remove(stage, 4))
      stage.note('a write that waits', await put(stage, [1, 2], 20, true))
      stage.note('after it', await replicas(stage))
      for (let seq = 21; seq < 40; seq += 1) await put(stage, IDS, seq, false)
      stage.note('a deletion that does not wait', await remove(stage, 1))
      const none = { filter: { must: [{ has_id: [99] }] } }
      await stage.call('POST', `${POINTS}/delete?wait=true`, { body: none })
      stage.note('after a deletion of nothing', await replicas(stage))
    },
  },
  {
    title: 'points are written, counted, scrolled by id and deleted',
    async play(stage) {
      await created(stage, 'docs', { vectors: { size: 2, distance: 'Dot' } })
      const points = [
        { id: 7, vector: [1, 2], payload: { t: 'x', n: 1 } },
        { id: 3, vector: [1.5, 2.5], payload: { t: 'y' } },
        { id: '6f1c5a3e-0000-4000-8000-000000000001', vector: {}, payload: { t: 'x' } },
      ]
      await stage.call('PUT', `${POINTS}?wait=true`, { body: { points } })
      await stage.call('POST', `${POINTS}/count`, { body: { exact: true } })
      await stage.call('POST', `${POINTS}/count`, { body: { ...BY_TAG, exact: true } })
      await stage.call('POST', `${POINTS}/scroll`, { body: { limit: 2, with_vector: true } })
      await stage.call('POST', `${POINTS}/scroll`, { body: { offset: 7, limit: 1 } })
      await stage.call('POST', `${POINTS}/scroll`, { body: { ...BY_TAG, with_payload: false } })
      await stage.call('GET', `${POINTS}/7`)
      await stage.call('POST', `${POINTS}/delete?wait=true`, { body: { points: [7] } })
      await stage.call('GET', `${POINTS}/7`)
      await stage.call('POST', `${POINTS}/delete?wait=true`, { body: BY_TAG })
      await stage.call('POST', `${POINTS}/count`, { body: {} })
    },
  },
  {
    title: 'a bad point is refused',
    async play(stage) {
      await created(stage, 'docs', { vectors: { size: 2, distance: 'Dot' } })
      await stage.call('PUT', POINTS, { body: { points: [] } })
      await stage.call('PUT', POINTS, { body: { points: [{ id: 1, vector: [1] }] } })
      await stage.call('POST', `${POINTS}/scroll`, { body: { limit: 0 } })
      await stage.call('PUT', '/collections/none/points', {
        body: { points: [{ id: 1, vector: [1] }] },
      })
      await stage.call('POST', '/collections/none/points/count', { body: {} })
    },
  },
]

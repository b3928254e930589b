/** What a migration rests on: pages, batches, samples and their limits, also under shard keys. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'

const POINTS = '/collections/docs/points'
const WRITE = `${POINTS}?wait=true`
const SMALL = { vectors: { size: 2, distance: 'Dot' } }
const ONE = { id: 1, vector: [1, 2] }
const TWO = { id: 2, vector: [3, 4] }
const THREE = { id: 3, vector: [5, 6] }
/** In the order of their bytes, as JSON; the second list sorts between, before and behind them. */
const UUIDS = ['"0fffffff-0000-4000-8000-00000000000a"', '"a0000000-0000-4000-8000-000000000001"']
const ABSENT = [
  '"00000000-0000-4000-8000-000000000000"',
  '"9fffffff-0000-4000-8000-000000000009"',
  '"f0000000-0000-4000-8000-000000000001"',
]

function write(stage: Stage, body: object) {
  return stage.call('PUT', WRITE, { body })
}

function scroll(stage: Stage, body: object) {
  return stage.call('POST', `${POINTS}/scroll`, { body })
}

async function makeKey(stage: Stage, key: string | number): Promise<void> {
  const body = { shard_key: key, shards_number: 1 }
  await stage.ask('PUT', '/collections/docs/shards?timeout=20', { body })
}

export const MIGRATION: Case[] = [
  {
    title: 'points come back as they were written, whatever their vectors',
    async play(stage) {
      await created(stage, 'docs', {
        vectors: {
          text: { size: 2, distance: 'Dot' },
          many: { size: 2, distance: 'Dot', multivector_config: { comparator: 'max_sim' } },
        },
        sparse_vectors: { words: {} },
      })
      const all = {
        text: [0.5, -1.25],
        many: [
          [0.5, 2],
          [3, 4],
        ],
        words: { indices: [7, 9], values: [0.25, 2] },
      }
      const payload = { nested: { list: [1, { deep: 'é😀' }], none: null }, real: 1.5 }
      const points = [
        { id: 1, vector: all, payload },
        { id: 2, vector: { text: [1, 2] } },
        { id: 3, vector: {} },
      ]
      await write(stage, { points })
      await scroll(stage, { limit: 10, with_payload: true, with_vector: true })
      const body = { ids: [3, 1, 9], with_payload: true, with_vector: true }
      await stage.call('POST', POINTS, { body })
    },
  },
  {
    title: 'a multivector of two vectors of integers is parsed as a sparse vector',
    // Words differ with the node that holds the shard.
    sizes: ['one'],
    async play(stage) {
      await created(stage, 'docs', {
        vectors: {
          many: { size: 2, distance: 'Dot', multivector_config: { comparator: 'max_sim' } },
        },
      })
      const body = (many: string) => `{"points":[{"id":1,"vector":{"many":${many}}}]}`
      await stage.call('PUT', WRITE, { body: body('[[1,2],[3,4]]') })
      // As the engine itself writes them.
      await stage.call('PUT', WRITE, { body: body('[[1.0,2.0],[3.0,4.0]]') })
    },
  },
  {
    title: 'the offset of a page is the first id of the next one; numbers come before UUIDs',
    async play(stage) {
      await created(stage, 'docs', SMALL)
      const id = '6f1c5a3e-0000-4000-8000-000000000001'
      await write(stage, { points: [{ id, vector: [1, 2] }, TWO, ONE] })
      await scroll(stage, { limit: 1 })
      await scroll(stage, { limit: 1, offset: 2 })
      await scroll(stage, { limit: 1, offset: id })
      await scroll(stage, { limit: 3, with_payload: false })
    },
  },
  {
    title: 'a page begins with the first id from its offset on, and the offset need not exist',
    async play(stage) {
      await created(stage, 'docs', SMALL)
      const ids = ['9', '10', '9007199254740993', '18446744073709551615', ...UUIDS]
      const points = ids.toReversed().map((id) => `{"id":${id},"vector":[1,2]}`)
      await stage.call('PUT', WRITE, { body: `{"points":[${points.join(',')}]}` })
      const absent = [...ABSENT, '9007199254740992', '9007199254740994', '18446744073709551614']
      for (const offset of ['0', ...ids, ...absent]) {
        await stage.call('POST', `${POINTS}/scroll`, { body: `{"limit":1,"offset":${offset}}` })
      }
    },
  },
  {
    title: 'a random sample has other points each time, and all points of a small collection',
    async play(stage) {
      await created(stage, 'docs', SMALL)
      await write(stage, { points: [ONE, TWO, THREE] })
      const body = { query: { sample: 'random' }, limit: 10, with_payload: false }
      const answer = await stage.ask('POST', `${POINTS}/query`, { body })
      const { points } = (answer.body as { result: { points: { id: number }[] } }).result
      stage.note(
        'sample',
        points.toSorted((one, other) => one.id - other.id),
      )
    },
  },
  {
    title: 'with custom sharding writes need a shard key, and an id may exist under several keys',
    async play(stage) {
      await created(stage, 'docs', { ...SMALL, sharding_method: 'custom' })
      await makeKey(stage, 'a')
      await makeKey(stage, 7)
      await write(stage, { points: [ONE, TWO], shard_key: 'a' })
      await write(stage, { points: [{ id: 1, vector: [9, 9] }], shard_key: 7 })
      await write(stage, { points: [ONE] })
      await write(stage, { points: [ONE], shard_key: '7' })
      const page = { limit: 10, with_vector: true }
      await scroll(stage, { ...page, shard_key: 'a' })
      await scroll(stage, { ...page, shard_key: 7 })
      await scroll(stage, { ...page, shard_key: 'b' })
      for (const key of ['a', 7, undefined]) {
        const body = { exact: true, ...(key !== undefined && { shard_key: key }) }
        await stage.call('POST', `${POINTS}/count`, { body })
      }
      const body = { ids: [1], with_vector: true, shard_key: 7 }
      await stage.call('POST', POINTS, { body })
    },
  },
  {
    title: 'a call with a shard key is 400 in a collection without custom sharding',
    async play(stage) {
      await created(stage, 'docs', SMALL)
      await write(stage, { points: [ONE], shard_key: 'a' })
      await scroll(stage, { shard_key: 'a' })
    },
  },
  {
    title: 'strict mode bounds pages and batches, and may forbid an exact count',
    async play(stage) {
      const strict = {
        ...{ enabled: true, max_query_limit: 2, upsert_max_batchsize: 2 },
        search_allow_exact: false,
      }
      await created(stage, 'docs', { ...SMALL, strict_mode_config: strict })
      await write(stage, { points: [ONE, TWO, THREE] })
      await write(stage, { points: [ONE, TWO] })
      await scroll(stage, { limit: 3 })
      await scroll(stage, { limit: 2 })
      await stage.call('POST', `${POINTS}/count`, { body: { exact: true } })
      const sample = { query: { sample: 'random' }, limit: 3 }
      await stage.call('POST', `${POINTS}/query`, { body: sample })
      await stage.call('POST', POINTS, { body: { ids: [1, 2, 3], with_payload: true } })
    },
  },
  {
    title: 'exceeding the rate limit is 429, and a batch above the whole limit must be split',
    sizes: ['one'],
    async play(stage) {
      const strict = { enabled: true, write_rate_limit: 2 }
      await created(stage, 'docs', { ...SMALL, strict_mode_config: strict })
      await write(stage, { points: [ONE, TWO, THREE] })
      await write(stage, { points: [ONE, TWO] })
      const late = await stage.ask('PUT', WRITE, { body: { points: [THREE] } })
      stage.note('too soon', late.status)
    },
  },
]

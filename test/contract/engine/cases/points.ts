/** As much of points as tokens, counts and migrations rest on: facts section 7. */
import type { Case } from '../case.ts'
import { created } from './making.ts'

const POINTS = '/collections/docs/points'
const BY_TAG = { filter: { must: [{ key: 't', match: { value: 'x' } }] } }

export const POINTS_CASES: Case[] = [
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

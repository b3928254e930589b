/** The memory of a Job that uploads what a data volume may hold. */
import t from 'tap'
import { uploadJobBytes } from '../../../crds/contract/limits.ts'
import { resourcesForVolume } from '../../../hooks/backup/job.ts'

const USUAL = { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } }

for (const volume of ['10Gi', '100Gi', '1Ti', '1500G', 'much']) {
  t.test(`with volumes of ${volume} a Job has its usual memory`, async (t) => {
    t.strictSame(resourcesForVolume(USUAL, volume), USUAL)
  })
}

for (const [volume, limit, request] of [
  ['2Ti', '620Mi', '236Mi'],
  ['5T', '1154Mi', '770Mi'],
  ['10Ti', '1250Mi', '866Mi'],
] as const) {
  t.test(`with volumes of ${volume} its limit is ${limit}`, async (t) => {
    t.strictSame(resourcesForVolume(USUAL, volume), {
      requests: { cpu: '100m', memory: request },
      limits: { memory: limit },
    })
  })
}

t.test('a limit that is set higher, or not at all, stays', async (t) => {
  const high = { requests: {}, limits: { memory: '4Gi' } }
  t.strictSame(resourcesForVolume(high, '5T'), high)
  const none = { requests: {}, limits: {} }
  t.strictSame(resourcesForVolume(none, '5T'), none)
})

t.test('a request that is not set is not below what is needed', async (t) => {
  const { requests, limits } = resourcesForVolume(
    { requests: {}, limits: { memory: '512Mi' } },
    '5T',
  )
  t.strictSame([requests, limits], [{ memory: '1154Mi' }, { memory: '1154Mi' }])
  t.equal(uploadJobBytes(5e12), 1154 * 2 ** 20)
})

/**
 * Memory of uploads as a share of the limit of their Job, for objects that are said to be of any size; and
 * parts of our own next to `Upload` of @aws-sdk/lib-storage, alternating.
 */
import { uploadJobBytes } from '../../crds/contract/limits.ts'
import type { Part, Plan } from './part.ts'
import { rest } from './rest.ts'
import { median, type Figure } from './table.ts'
import type { Order, Took } from './upload-process.ts'
import { startUploading, type Uploading } from './uploading.ts'

const MIB = 2 ** 20
const GIB = 2 ** 30
const TB = 1e12
const USUAL = 512 * MIB
const LARGE = uploadJobBytes(5 * TB)
/** Of 8 MiB: 1 GiB. */
const PARTS_OF_A_GIB = 128

type Case = Omit<Order, 'source' | 'endpoint'>

/** More parts than are ever held; what is said of the object decides how large they are. */
const CASES: readonly [what: string, order: Case][] = [
  [
    'a node of 1.5 TB',
    { memoryBytes: USUAL, sizes: { sizeBytes: 1.5 * TB }, desired: 1, parts: 4 },
  ],
  ['a node of 5 TB', { memoryBytes: LARGE, sizes: { sizeBytes: 5 * TB }, desired: 1, parts: 3 }],
  [
    'a shard of 5 TB',
    { memoryBytes: LARGE, sizes: { expectedBytes: 5 * TB }, desired: 8, parts: 3 },
  ],
  [
    'shards of 30 GiB, parallelism 8',
    { memoryBytes: USUAL, sizes: { expectedBytes: 30 * GIB }, desired: 8, parts: 8 },
  ],
  [
    'shards of 100 MiB, parallelism 8',
    { memoryBytes: USUAL, sizes: { expectedBytes: 100 * MIB }, desired: 8, parts: 12 },
  ],
  [
    'shards of 200 GiB, parallelism 8',
    { memoryBytes: USUAL, sizes: { expectedBytes: 200 * GIB }, desired: 8, parts: 5 },
  ],
  ['shards of any size, parallelism 2', { memoryBytes: USUAL, sizes: {}, desired: 2, parts: 4 }],
]

export const uploads: Part = {
  name: 'uploads',
  title: 'Uploads of a Job',
  columns: ['own parts', 'lib-storage'],
  targets: () => CASES.map(rowOf),
  measure,
}

async function measure({ pairs }: Plan): Promise<Figure[]> {
  const uploading = await startUploading()
  try {
    const shares: Figure[] = []
    for (const one of CASES) {
      const [, order] = one
      const { peak } = await uploading.run(order)
      const value = peak / order.memoryBytes
      shares.push({ what: rowOf(one), unit: '', value, target: 1, met: value < 1 })
    }
    return [...shares, ...(await beside(uploading, pairs))]
  } finally {
    uploading.close()
  }
}

function rowOf([what, { memoryBytes }]: (typeof CASES)[number]): string {
  return `${what}: RSS, in the limit of ${memoryBytes / MIB} MiB`
}

async function beside(uploading: Uploading, pairs: number): Promise<Figure[]> {
  const ours: Took[] = []
  const theirs: Took[] = []
  const gibibyte = { memoryBytes: USUAL, desired: 1, parts: PARTS_OF_A_GIB }
  for (let pair = 0; pair < pairs; pair += 1) {
    await rest()
    ours.push(await uploading.run({ ...gibibyte, sizes: { expectedBytes: GIB } }))
    await rest()
    // What is said to be small goes through the library, however long it turns out.
    theirs.push(await uploading.run({ ...gibibyte, sizes: { expectedBytes: 1 } }))
  }
  const figure = (what: string, unit: string, of: (took: Took) => number): Figure => ({
    what: `1 GiB: ${what}`,
    unit,
    value: median(ours.map(of)),
    yardstick: median(theirs.map(of)),
  })
  return [
    figure('bytes', 'MB/s', ({ bytes, seconds }) => bytes / 1e6 / seconds),
    figure('CPU', 's', ({ cpuSeconds }) => cpuSeconds),
    figure('RSS, peak', 'MiB', ({ peak }) => peak / MIB),
  ]
}

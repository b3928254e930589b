/** The memory of a process that uploads stays under its limit, whatever it is said to upload. */
import t from 'tap'
import { JOB_BASE_BYTES } from '../../../../crds/contract/limits.ts'
import { startUploading } from '../../../bench/uploading.ts'

const MIB = 2 ** 20
const GIB = 2 ** 30

for (const [what, order] of [
  // Parts of 36 MiB, of which two fit; three times as many bytes go through as there is memory for them.
  ['a large object', { sizes: { sizeBytes: 350 * GIB }, desired: 1, parts: 6 }],
  [
    'more large shards than fit at once',
    { sizes: { expectedBytes: 80 * GIB }, desired: 8, parts: 6 },
  ],
  ['small shards through the library', { sizes: { expectedBytes: MIB }, desired: 4, parts: 6 }],
] as const) {
  t.test(`RSS of a process that uploads ${what} is below its limit`, async (t) => {
    const uploading = await startUploading()
    t.teardown(() => uploading.close())
    const memoryBytes = JOB_BASE_BYTES + 80 * MIB
    const took = await uploading.run({ memoryBytes, ...order })
    t.equal(took.bytes, took.streams * order.parts * took.partBytes)
    t.ok(took.bytes > 80 * MIB)
    const share = took.peak / memoryBytes
    t.ok(share < 1, `${share.toFixed(2)} of the limit`)
  })
}

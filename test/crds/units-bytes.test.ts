import t from 'tap'
import { formatBytes } from '../../crds/units.ts'

for (const [bytes, text] of [
  [0, '0 B'],
  [1023, '1023 B'],
  [1024, '1 KiB'],
  [1_503_238_553, '1.4 GiB'],
  [1024 ** 3 - 1, '1 GiB'],
  [5 * 1024 ** 4, '5 TiB'],
  [3000 * 1024 ** 5, '3000 PiB'],
] as const) {
  t.test(`totalSize is human-readable: ${bytes} bytes are ${text}`, async (t) => {
    t.equal(formatBytes(bytes), text)
  })
}

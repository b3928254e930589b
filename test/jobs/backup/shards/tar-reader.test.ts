/** Whether a tar has come to its end, however it is cut into chunks, and of whatever kind its files are. */
import t from 'tap'
import { TarReader } from '../../../../jobs/backup/shards/stream-shard.ts'
import { tarOf } from '../../../doubles/engine/tar.ts'

const TAR = tarOf({
  empty: Buffer.alloc(0),
  small: Buffer.alloc(100, 'x'),
  even: Buffer.alloc(1024),
})

function tarState(bytes: Buffer, chunk = bytes.length) {
  const archive = new TarReader()
  for (let at = 0; at < bytes.length; at += chunk) archive.push(bytes.subarray(at, at + chunk))
  return archive.state
}

t.test('a whole one is whole, in chunks of any size', async (t) => {
  for (const chunk of [1, 7, 511, 512, 513, 4096])
    t.equal(tarState(TAR, chunk), 'whole', `${chunk}`)
})

t.test(
  'one that ends early is not, also where it ends in zeros or between two files',
  async (t) => {
    for (let bytes = 0; bytes < TAR.length - 1024 + 512; bytes += 100) {
      t.equal(tarState(TAR.subarray(0, bytes)), 'partial', `${bytes} bytes`)
    }
    t.equal(tarState(tarOf({ zeros: Buffer.alloc(8192) }).subarray(0, 4096)), 'partial')
  },
)

t.test('bytes after the end of the archive are ignored', async (t) => {
  t.equal(tarState(Buffer.concat([TAR, Buffer.alloc(8192)])), 'whole')
})

t.test('something else is foreign', async (t) => {
  t.equal(tarState(Buffer.alloc(512, '<html>')), 'foreign')
  const damaged = Buffer.from(TAR)
  damaged[3] = (damaged[3] ?? 0) + 1
  t.equal(tarState(damaged), 'foreign')
})

/** A header as tar writes it, with what a case changes in it. */
function withHeader(change: (header: Buffer) => void): Buffer {
  const header = Buffer.from(tarOf({ file: Buffer.alloc(0) }).subarray(0, 512))
  change(header)
  header.fill(' ', 148, 156)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}

t.test('a size that is too large for octal digits is read as a number', async (t) => {
  const header = withHeader((block) => {
    block.fill(0, 124, 136)
    block[124] = 0x80
    block.writeUIntBE(1024, 130, 6)
  })
  t.equal(tarState(Buffer.concat([header, Buffer.alloc(1024, 'y'), Buffer.alloc(1024)])), 'whole')
  t.equal(tarState(Buffer.concat([header, Buffer.alloc(1023, 'y')])), 'partial')
})

t.test('the map of a sparse file is between its header and its bytes', async (t) => {
  const header = withHeader((block) => {
    block.write('S', 156, 'latin1')
    block[482] = 1
    block.write(`${(512).toString(8).padStart(11, '0')}\0`, 124, 'latin1')
  })
  const [more, last] = [Buffer.alloc(512, 'm'), Buffer.alloc(512, 'l')]
  more[504] = 1
  last[504] = 0
  const whole = Buffer.concat([header, more, last, Buffer.alloc(512, 'd'), Buffer.alloc(1024)])
  t.equal(tarState(whole), 'whole')
  t.equal(tarState(whole.subarray(0, 4 * 512)), 'partial')
})

const INVALID_SIZES: [string, Buffer][] = [
  ['letters', Buffer.from('zzz')],
  ['digits that are not octal', Buffer.from('00000000989\0')],
  ['a negative number', Buffer.from('-0000000001\0')],
  ['a negative binary number', Buffer.alloc(12, 0xff)],
  ['a binary number above any size', Buffer.from([0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])],
]
for (const [what, bytes] of INVALID_SIZES) {
  t.test(`a header with ${what} as its size is foreign, whatever follows`, async (t) => {
    const header = withHeader((block) => {
      block.fill(0, 124, 136)
      bytes.copy(block, 124)
    })
    for (const chunk of [1, 512, 2048]) {
      t.equal(tarState(Buffer.concat([header, Buffer.alloc(1024, 1)]), chunk), 'foreign')
    }
  })
}

t.test(
  'no byte in the size field of a header keeps the archive from coming to an end',
  async (t) => {
    const states = new Set<string>()
    for (let at = 124; at < 136; at += 1) {
      for (let byte = 0; byte < 256; byte += 1) {
        const header = withHeader((block) => (block[at] = byte))
        states.add(tarState(Buffer.concat([header, Buffer.alloc(1024)])))
      }
    }
    t.strictSame([...states].sort(), ['foreign', 'partial', 'whole'])
  },
)

/** Answers in memory of their own: read whole, refused where they are too large, and given back. */
import { Readable } from 'node:stream'
import t from 'tap'
import { giveBack, ownBytes } from '../../../jobs/clients/own-bytes.ts'

const MIB = 1024 * 1024

function bodyOf(...chunks: string[]): Readable {
  return Readable.from(
    chunks.map((chunk) => Buffer.from(chunk)),
    { objectMode: false },
  )
}

for (const length of [6, undefined]) {
  const how = length === undefined ? 'not announced' : 'announced'
  t.test(`bytes whose number is ${how} come as they are`, async (t) => {
    t.equal(String(await ownBytes(bodyOf('one', 'two'), { length, maxBytes: 6 })), 'onetwo')
  })

  t.test(`more than there may be, ${how}, is not read to its end`, async (t) => {
    const body = bodyOf('one', 'two')
    t.equal(await ownBytes(body, { length, maxBytes: 5 }), undefined)
    t.ok(body.destroyed, 'the connection is closed')
  })
}

t.test('what is given back is memory no more', async (t) => {
  const large = await ownBytes(bodyOf('x'.repeat(MIB)), { length: MIB, maxBytes: MIB })
  t.equal(large?.length, MIB)
  giveBack(large ?? Buffer.alloc(0))
  t.equal(large?.length, 0)
})

t.test('memory that buffers share is never given back', async (t) => {
  const small = Buffer.from('small')
  giveBack(small)
  t.equal(String(small), 'small')
})

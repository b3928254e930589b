/** Response bodies in separate memory: complete, limited in size, and released. */
import { Readable } from 'node:stream'
import t from 'tap'
import { freeBuffer, readBody } from '../../../../jobs/clients/http/body.ts'

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
    t.equal(String(await readBody(bodyOf('one', 'two'), { length, maxBytes: 6 })), 'onetwo')
  })

  t.test(`more than there may be, ${how}, is not read to its end`, async (t) => {
    const body = bodyOf('one', 'two')
    t.equal(await readBody(body, { length, maxBytes: 5 }), undefined)
    t.ok(body.destroyed, 'the connection is closed')
  })
}

t.test('released memory is detached', async (t) => {
  const large = await readBody(bodyOf('x'.repeat(MIB)), { length: MIB, maxBytes: MIB })
  t.equal(large?.length, MIB)
  freeBuffer(large ?? Buffer.alloc(0))
  t.equal(large?.length, 0)
})

t.test('memory that buffers share is never released', async (t) => {
  const small = Buffer.from('small')
  freeBuffer(small)
  t.equal(String(small), 'small')
})

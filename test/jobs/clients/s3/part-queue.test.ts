/** Parts that are filled from a stream: in order, in buffers that are used again, and no more than stores take. */
import t from 'tap'
import { PARTS_EXHAUSTED, PartQueue } from '../../../../jobs/clients/s3/parts.ts'

t.test('buffers are used again, and never while one is being sent', async (t) => {
  const sent: { number: number; text: string; buffer: ArrayBufferLike }[] = []
  const queue = new PartQueue({ partBytes: 4, buffers: 3 }, async (body, number) => {
    const before = body.toString()
    await new Promise((resolve) => setImmediate(resolve))
    t.equal(body.toString(), before, 'nothing else is written into it meanwhile')
    sent.push({ number, text: before, buffer: body.buffer })
  })
  for (const chunk of ['ab', 'cdefg', 'h', 'ijklmnopqrstuvwxyz'])
    await queue.add(Buffer.from(chunk))
  t.equal(queue.singlePart(), undefined)
  t.equal(await queue.finish(), 26)
  t.strictSame(
    sent.sort((one, other) => one.number - other.number).map(({ text }) => text),
    ['abcd', 'efgh', 'ijkl', 'mnop', 'qrst', 'uvwx', 'yz'],
  )
  t.ok(new Set(sent.map(({ buffer }) => buffer)).size <= 3)
})

t.test('an object that fits into one part is returned as a whole, and not uploaded', async (t) => {
  for (const text of ['', 'abc', 'abcd']) {
    const queue = new PartQueue({ partBytes: 4, buffers: 2 }, async () => {
      t.fail('a part was sent')
    })
    await queue.add(Buffer.from(text))
    t.equal(queue.singlePart()?.toString(), text)
  }
})

t.test('of more than 10,000 parts none is sent', async (t) => {
  let last = 0
  const queue = new PartQueue({ partBytes: 1, buffers: 2 }, async (_, number) => {
    last = number
  })
  await queue.add(Buffer.alloc(10_000))
  await t.rejects(
    queue.add(Buffer.alloc(2)).then(() => queue.finish()),
    {
      code: 'StorageError',
      reason: PARTS_EXHAUSTED,
      message: /^the object is larger than 9.8 KiB, which is all that 10000 parts of 1 B hold/,
    },
  )
  await queue.abort()
  t.equal(last, 10_000)
})

/** Response bodies in separate memory: complete, limited in size, and released. */
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { fileFormBody, freeBuffer, readBody } from '../../../../jobs/clients/http/body.ts'

const MIB = 1024 * 1024

function bodyOf(...chunks: string[]): Readable {
  return Readable.from(
    chunks.map((chunk) => Buffer.from(chunk)),
    { objectMode: false },
  )
}

t.test('a file is sent as one field of a form, which ends when the sender lets it', async (t) => {
  const steps: string[] = []
  const { source, contentType, contentLength } = fileFormBody({
    ...{ field: 'snapshot', file: 'a.snapshot', source: bodyOf('one', 'two'), size: 6 },
    beforeEnd: async () => void steps.push('sent'),
  })
  const [, boundary = ''] = /^multipart\/form-data; boundary=(\S+)$/.exec(contentType) ?? []
  const body = await text(source)
  t.equal(
    body,
    `--${boundary}\r\nContent-Disposition: form-data; name="snapshot"; filename="a.snapshot"\r\n` +
      `Content-Type: application/octet-stream\r\n\r\nonetwo\r\n--${boundary}--\r\n`,
  )
  t.equal(contentLength, body.length)
  t.strictSame(steps, ['sent'])
  t.not(boundary, '')
})

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

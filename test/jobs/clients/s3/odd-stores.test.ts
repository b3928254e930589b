/** Stores that answer in unusual ways: without ranges, beyond a prefix, or the same page again. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { instantClock } from '../../job-world.ts'

type Answer = (request: IncomingMessage, response: ServerResponse) => unknown

async function stage(t: Test, answer: Answer) {
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/xml')
    answer(request, response)
  })
  let connections = 0
  server.on('connection', () => (connections += 1))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const endpoint = `http://127.0.0.1:${port}`
  const bucket = new Bucket({
    target: { bucket: 'b', region: 'us-east-1', endpoint, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(() => {
    bucket.close()
    server.close().closeAllConnections()
  })
  return { bucket, connections: () => connections }
}

function listing(keys: string[], rest = ''): string {
  const contents = keys.map((key) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`)
  return `<ListBucketResult>${rest}${contents.join('')}</ListBucketResult>`
}

const MORE = '<IsTruncated>true</IsTruncated>'

for (const [what, status, headers] of [
  ['ignores ranges', 200, {}],
  ['answers with another range', 206, { 'content-range': 'bytes 10-12/20' }],
] as const) {
  t.test(`a store that ${what} is an error, and its answer is not read`, async (t) => {
    const closed = Promise.withResolvers<unknown>()
    const { bucket } = await stage(t, (_, response) => {
      response.once('close', closed.resolve)
      response.writeHead(status, headers).write('abc')
    })
    await t.rejects(bucket.bytes('k', { from: 1, length: 3 }), {
      code: 'StorageError',
      message: 's3://b/k: the store does not answer with a range',
    })
    await closed.promise
  })
}

t.test('more bytes than a range has are not read', async (t) => {
  const closed = Promise.withResolvers<unknown>()
  const { bucket } = await stage(t, (_, response) => {
    response.once('close', closed.resolve)
    response.writeHead(206, { 'content-range': 'bytes 1-3/20' }).write('abcd')
  })
  await t.rejects(bucket.bytes('k', { from: 1, length: 3 }), {
    code: 'StorageError',
    reason: 'ResponseTooLarge',
  })
  await closed.promise
})

t.test('keys that a store lists outside the prefix are ignored, for deletions', async (t) => {
  const { bucket } = await stage(t, ({ url = '' }, response) => {
    const keys = ['p/a', 'q/a', 'p', 'p/b']
    const uploads = keys.map((key) => `<Upload><Key>${key}</Key><UploadId>u</UploadId></Upload>`)
    const isUploads = url.includes('uploads')
    response.end(
      isUploads
        ? `<ListMultipartUploadsResult>${uploads.join('')}</ListMultipartUploadsResult>`
        : listing(keys),
    )
  })
  t.strictSame(await bucket.list('p/'), {
    objects: [
      { key: 'p/a', sizeBytes: 1 },
      { key: 'p/b', sizeBytes: 1 },
    ],
    next: undefined,
  })
  t.strictSame(await bucket.openUploads('p/'), [
    { key: 'p/a', uploadId: 'u' },
    { key: 'p/b', uploadId: 'u' },
  ])
})

t.test('a listing that repeats its page is an error', async (t) => {
  let pages = 0
  const next = '<NextContinuationToken>same</NextContinuationToken>'
  const markers = `<NextKeyMarker>p/a</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>`
  const { bucket } = await stage(t, ({ url = '' }, response) => {
    pages += 1
    const isUploads = url.includes('uploads')
    const uploads = `<ListMultipartUploadsResult>${MORE}${markers}</ListMultipartUploadsResult>`
    response.end(isUploads ? uploads : listing(['p/a'], `${MORE}${next}`))
  })
  const repeated = { code: 'StorageError', message: 'LIST s3://b/p/ repeats the same page' }
  const all = async () => {
    for await (const { key } of bucket.listAll('p/')) t.equal(key, 'p/a')
  }
  await t.rejects(all(), repeated)
  t.equal(pages, 2)
  await t.rejects(bucket.openUploads('p/'), repeated)
  t.equal(pages, 4)
})

t.test('calls one after another share a connection, and at most 16 are open', async (t) => {
  const waiting: ServerResponse[] = []
  let isHeld = false
  const gate = Promise.withResolvers<undefined>()
  const { bucket, connections } = await stage(t, (_, response) => {
    if (!isHeld) {
      response.end('{}')
      return
    }
    waiting.push(response)
    if (waiting.length === 16) gate.resolve(undefined)
    if (waiting.length > 16) response.end('{}')
  })
  for (let count = 0; count < 3; count += 1) await bucket.getJson('k')
  t.equal(connections(), 1)
  isHeld = true
  const calls = Array.from({ length: 20 }, () => bucket.getJson('k'))
  await gate.promise
  t.equal(connections(), 16)
  for (const response of waiting) response.end('{}')
  await Promise.all(calls)
  t.equal(connections(), 16)
})

t.test('an object is read for as long as its bytes arrive, until the caller ends it', async (t) => {
  const { bucket } = await stage(t, ({ url }, response) => {
    response.writeHead(200, { 'content-length': '6' }).write('abc')
    if (url?.includes('whole') === true) response.end('def')
  })
  t.equal(await text(await bucket.read('whole')), 'abcdef')
  const abort = new AbortController()
  const body = await bucket.read('half', abort.signal)
  const reading = text(body)
  abort.abort(new Error('SIGTERM'))
  await t.rejects(reading)
  t.ok(body.destroyed)
})

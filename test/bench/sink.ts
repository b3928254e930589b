/** An S3 server that believes everything and keeps nothing but small objects and the sizes of large ones. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

export interface Sink {
  url: string
  close(): void
}

interface Answer {
  status: number
  headers?: Record<string, string>
  body?: string | Buffer
}

const CHECKSUMS = 'x-amz-checksum-algorithm'
/** Larger ones are not kept. */
const SMALL = 1024 * 1024

export async function startSink(): Promise<Sink> {
  const objects = new Map<string, Buffer>()
  const sizes = new Map<string, number>()
  const server = createServer((request, response) => {
    handled(request, objects, sizes)
      .then(({ status, headers, body }) => {
        response.writeHead(status, headers)
        response.end(request.method === 'HEAD' ? undefined : body)
      })
      .catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function handled(
  request: IncomingMessage,
  objects: Map<string, Buffer>,
  sizes: Map<string, number>,
): Promise<Answer> {
  const { pathname: key, searchParams: query } = new URL(request.url ?? '/', 'http://s3')
  const { method, headers } = request
  if (method === 'PUT') {
    const { 'x-amz-decoded-content-length': decoded, 'content-length': length } = headers
    const bytes = Number(decoded ?? length)
    if (bytes <= SMALL && !query.has('uploadId')) objects.set(key, await buffer(request))
    else await drained(request)
    sizes.set(key, bytes + (query.has('uploadId') ? (sizes.get(key) ?? 0) : 0))
    return { status: 200, headers: { etag: '"any"' } }
  }
  const body = await buffer(request)
  if (method === 'POST') return posted(key, query, headers)
  if (method === 'DELETE') return { status: 204 }
  if (query.has('list-type') || query.has('uploads')) return xml('<List></List>')
  const size = sizes.get(key)
  if (size === undefined) return { ...xml('<Error><Code>NoSuchKey</Code></Error>'), status: 404 }
  return {
    status: 200,
    headers: { 'content-length': String(size) },
    body: objects.get(key) ?? body,
  }
}

function posted(key: string, query: URLSearchParams, headers: IncomingHttpHeaders): Answer {
  if (query.has('delete')) return xml('<DeleteResult></DeleteResult>')
  const name = query.has('uploads')
    ? 'InitiateMultipartUploadResult'
    : 'CompleteMultipartUploadResult'
  const answer = xml(
    `<${name}><Key>${key}</Key><UploadId>any</UploadId><ETag>"any"</ETag></${name}>`,
  )
  // Clients that offer checksums have to compute them.
  const { [CHECKSUMS]: algorithm } = headers
  if (typeof algorithm !== 'string') return answer
  return { ...answer, headers: { ...answer.headers, [CHECKSUMS]: algorithm } }
}

function xml(body: string): Answer {
  return { status: 200, headers: { 'content-type': 'application/xml' }, body }
}

async function drained(request: IncomingMessage): Promise<void> {
  request.resume()
  await new Promise((resolve, reject) => request.once('end', resolve).once('error', reject))
}

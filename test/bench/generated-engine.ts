/** A node whose snapshots are as large as one likes: their bytes are made while they are read. */
import { createServer, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { HTTP_PORT } from '../../crds/contract/names.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { answerAs } from '../doubles/engine/node.ts'

export interface GeneratedEngine {
  url: string
  close(): void
}

const PIECE = Buffer.alloc(1024 * 1024, 'a snapshot of nothing in particular, ')

/** With the collection `docs`. */
export async function startGeneratedEngine(host: string, bytes: number): Promise<GeneratedEngine> {
  const cluster = new EngineCluster({ name: 'vec-a', staleMs: 0 })
  cluster.join(0)
  cluster.createCollection('docs')
  const server = createServer((request, response) => {
    void (async () => {
      const { method = 'GET', url = '/' } = request
      await buffer(request)
      const path = new URL(url, 'http://engine').pathname.slice(1).split('/')
      if (method === 'GET' && path[3] !== undefined) await stream(response, bytes)
      else if (path[0] === '') answer(response, 200, { title: 'engine', version: cluster.version })
      else {
        const { status, body } = await answerAs(cluster, 0, { method, path, query: {}, body: {} })
        // Nobody knows the hash of what is not made yet.
        const size = { size: bytes, checksum: null }
        const isMade = method === 'POST' && path[2] === 'snapshots'
        const { result } = body as { result: object }
        answer(response, status, isMade ? { result: { ...result, ...size } } : body)
      }
    })().catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(HTTP_PORT, host, resolve)
  })
  return {
    url: `http://${host}:${HTTP_PORT}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

async function stream(response: ServerResponse, bytes: number): Promise<void> {
  response.writeHead(200, { 'content-length': String(bytes) })
  await pipeline(pieces(bytes), response)
}

function* pieces(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= PIECE.length) yield PIECE.subarray(0, left)
}

/**
 * The metrics of a real engine: `node test/chart/engine-metrics.ts <program>...` records their names in
 * recorded/engine-metrics.json, by version. The engine shows some only once there is something to count.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { join } from 'node:path'
import { realSubject } from '../contract/engine/real.ts'

const RECORDED = join(import.meta.dirname, 'recorded/engine-metrics.json')

/** Names of time series by version of the engine. */
export type EngineMetrics = Record<string, string[]>

export function recordedMetrics(): EngineMetrics {
  return JSON.parse(readFileSync(RECORDED, 'utf8')) as EngineMetrics
}

/** What two nodes with a collection show after a write, a read by REST and one by gRPC. */
export async function realMetrics(bin: string): Promise<{ version: string; names: string[] }> {
  const engine = await realSubject(bin, { size: 'three', service: {} }, { nodes: 2 })
  try {
    const [url = ''] = engine.urls
    const put = async (path: string, body: object) => {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(url + path, { method: 'PUT', headers, body: JSON.stringify(body) })
      if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`)
    }
    await put('/collections/docs', { vectors: { size: 2, distance: 'Dot' }, shard_number: 2 })
    const points = [1, 2, 3, 4].map((id) => ({ id, vector: [id, 1] }))
    await put('/collections/docs/points?wait=true', { points })
    await fetch(`${url}/collections/docs/points/1`)
    await countByGrpc(engine.grpcUrls[0] ?? '')
    const { version } = (await (await fetch(url)).json()) as { version: string }
    const text = await (await fetch(`${url}/metrics`)).text()
    const names = [...text.matchAll(/^([a-z_]+)(?:\{| )/gm)].map(([, name = '']) => name)
    return { version, names: [...new Set(names)].toSorted() }
  } finally {
    await engine.close()
  }
}

/** The engine counts calls on points only. The message has the name of the collection as field 1. */
async function countByGrpc(url: string): Promise<void> {
  const session = connect(url)
  const call = session.request({
    ...{ ':method': 'POST', ':path': '/qdrant.Points/Count' },
    ...{ 'content-type': 'application/grpc', te: 'trailers' },
  })
  const message = Buffer.concat([Buffer.from([0x0a, 4]), Buffer.from('docs')])
  // Not compressed; the length in four bytes.
  call.end(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]))
  const [headers] = await Promise.all([
    new Promise<Record<string, unknown>>((resolve, reject) => {
      call.once('response', resolve)
      call.once('error', reject)
    }),
    call.resume().toArray(),
  ])
  session.close()
  if (headers[':status'] !== 200) throw new Error(`gRPC: ${JSON.stringify(headers)}`)
}

if (import.meta.main) {
  const all = new Map<string, string[]>()
  for (const bin of process.argv.slice(2)) {
    const { version, names } = await realMetrics(bin)
    all.set(version, names)
  }
  writeFileSync(RECORDED, `${JSON.stringify(Object.fromEntries(all), undefined, 2)}\n`)
}

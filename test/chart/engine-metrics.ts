/**
 * The metrics of a real engine: `node test/chart/engine-metrics.ts <program>...` records their names in
 * recorded/engine-metrics.json and their labels in recorded/engine-labels.json, by version. The engine shows some only once there is something to count.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:http2'
import { join } from 'node:path'
import { realSubject } from '../contract/engine/real.ts'

const RECORDED = join(import.meta.dirname, 'recorded/engine-metrics.json')
const RECORDED_LABELS = join(import.meta.dirname, 'recorded/engine-labels.json')

/** Names of the labels of each time series by its name. */
export type MetricLabels = Record<string, string[]>

/** Names of time series by version of the engine. */
export type EngineMetrics = Record<string, string[]>

export function recordedMetrics(): EngineMetrics {
  return JSON.parse(readFileSync(RECORDED, 'utf8')) as EngineMetrics
}

/** By version of the engine; not of every version whose names are recorded. */
export function recordedLabels(): Record<string, MetricLabels> {
  return JSON.parse(readFileSync(RECORDED_LABELS, 'utf8')) as Record<string, MetricLabels>
}

/** What two nodes with a collection show after a write, a read by REST and one by gRPC. */
export async function realMetrics(bin: string): Promise<{ version: string; labels: MetricLabels }> {
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
    return { version, labels: labelsIn(text) }
  } finally {
    await engine.close()
  }
}

function labelsIn(text: string): MetricLabels {
  const all = new Map<string, Set<string>>()
  for (const [, name = '', pairs = ''] of text.matchAll(/^([a-z_]+)(?:\{(.*)\})? /gm)) {
    const labels = all.get(name) ?? new Set<string>()
    for (const [, label = ''] of pairs.matchAll(/(\w+)="[^"]*"/g)) labels.add(label)
    all.set(name, labels)
  }
  const sorted = [...all].toSorted(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(sorted.map(([name, labels]) => [name, [...labels].toSorted()]))
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
  const [names, labels] = [recordedMetrics(), recordedLabels()]
  for (const bin of process.argv.slice(2)) {
    const found = await realMetrics(bin)
    names[found.version] = Object.keys(found.labels)
    labels[found.version] = found.labels
  }
  for (const [file, content] of [
    [RECORDED, names],
    [RECORDED_LABELS, labels],
  ] as const)
    writeFileSync(file, `${JSON.stringify(content, undefined, 2)}\n`)
}

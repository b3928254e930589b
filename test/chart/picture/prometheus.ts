/**
 * Prometheus over samples that were taken in another time: they become blocks of its store, and every
 * expression of the dashboard is evaluated by Prometheus itself.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

export interface Series {
  labels: Record<string, string>
  /** Seconds since 1970, and the value then. */
  values: [at: number, value: number][]
}

export interface Prometheus {
  /** The version it says it is. */
  version: string
  instant(expression: string, at: number): Promise<Series[]>
  range(expression: string, from: number, to: number): Promise<Series[]>
  close(): Promise<void>
}

/** The text of /metrics at a moment. */
export interface Sample {
  /** Seconds since 1970. */
  at: number
  text: string
  /** What Prometheus adds to each series of this scrape. */
  target: string
}

export const STEP_SECONDS = 30
/** Blocks have no marks for a target that did not answer: a value is forgotten after two scrapes. */
const LOOKBACK = '65s'

/** `program`: path of prometheus; promtool is next to it. */
export async function startPrometheus(program: string, samples: Sample[]): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-prometheus-'))
  const data = join(folder, 'data')
  writeFileSync(join(folder, 'samples'), openMetrics(samples))
  writeFileSync(join(folder, 'config'), '')
  const promtool = join(dirname(program), 'promtool')
  const blocks = ['tsdb', 'create-blocks-from', 'openmetrics', join(folder, 'samples'), data]
  await promisify(execFile)(promtool, blocks, { maxBuffer: 2 ** 26 })
  const port = await freePort()
  const child = spawn(program, [
    `--storage.tsdb.path=${data}`,
    `--config.file=${join(folder, 'config')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    `--query.lookback-delta=${LOOKBACK}`,
  ])
  const url = `http://127.0.0.1:${port}`
  await ready(url)
  const { version } = (await ask(`${url}/api/v1/status/buildinfo`, {})) as { version: string }
  const query = async (kind: string, parameters: Record<string, string>) => {
    const { result } = (await ask(`${url}/api/v1/${kind}`, parameters)) as { result: Found[] }
    return result.map(seriesOf)
  }
  return {
    version,
    instant: (expression, at) => query('query', { query: expression, time: String(at) }),
    range: (expression, from, to) =>
      query('query_range', {
        ...{ query: expression, start: String(from), end: String(to) },
        step: String(STEP_SECONDS),
      }),
    async close() {
      child.kill()
      await once(child, 'exit')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Series by series, each in the order of time; without types, which no query needs. */
function openMetrics(samples: Sample[]): string {
  const series = new Map<string, string[]>()
  for (const { at, text, target } of samples) {
    for (const line of text.split('\n').filter((one) => one !== '' && !one.startsWith('#'))) {
      const [, name = '', labels = '', value = ''] =
        /^([a-zA-Z0-9_:]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
      const key = `${name}{${labels === '' ? target : `${labels},${target}`}}`
      const lines = series.get(key) ?? []
      series.set(key, lines)
      lines.push(`${key} ${value.replace('Nan', 'NaN')} ${at.toFixed(3)}`)
    }
  }
  const sorted = [...series.keys()].toSorted()
  return `${sorted.flatMap((key) => series.get(key) ?? []).join('\n')}\n# EOF\n`
}

interface Found {
  metric: Record<string, string>
  value?: [number, string]
  values?: [number, string][]
}

function seriesOf({ metric, value, values = value === undefined ? [] : [value] }: Found): Series {
  return { labels: metric, values: values.map(([at, text]) => [at, Number(text)]) }
}

async function ask(url: string, parameters: Record<string, string>): Promise<unknown> {
  const answer = await fetch(`${url}?${new URLSearchParams(parameters).toString()}`)
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`)
  return ((await answer.json()) as { data: unknown }).data
}

async function ready(url: string): Promise<void> {
  for (let look = 0; look < 300; look += 1) {
    const answer = await fetch(`${url}/-/ready`).catch(() => undefined)
    if (answer?.ok === true) return
    await sleep(100)
  }
  throw new Error('Prometheus is not ready after 30 s')
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

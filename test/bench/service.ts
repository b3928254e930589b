/** The built service, a bare echo next to it, and an API server that answers at once: for parts about hooks. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Settings } from '../../hooks/protocol.ts'
import { parseOptions } from '../../metacontroller/options.ts'
import { startFixedApi, type FixedApi } from './api.ts'
import type { Sides } from './pairs.ts'
import type { Plan } from './part.ts'
import { BENCH, build, moveAside, ROOT, startBuiltService, startEcho, TOKEN } from './processes.ts'
import type { Measured } from './processes.ts'

export interface Stage {
  sides: Sides
  settings: Settings
  api: FixedApi
  /** One answer of the service, to be looked at. */
  ask: (path: string, body: Buffer) => Promise<string>
}

export async function withService<Result>(
  { profile }: Plan,
  measure: (stage: Stage) => Promise<Result>,
  nodeArgs: string[] = [],
): Promise<Result> {
  await build()
  moveAside(availableParallelism())
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const { settings } = optionsOf()
  const api = await startFixedApi(settings.version)
  const profiling = profile ? ['--cpu-prof', '--cpu-prof-dir', BENCH] : []
  const processes: Measured[] = []
  try {
    const service = await startBuiltService(folder, api.url, [...profiling, ...nodeArgs])
    processes.push(service)
    const echo = await startEcho(api.url, nodeArgs)
    processes.push(echo)
    const ask = (path: string, body: Buffer) => answerOf(service.url + path, body)
    return await measure({ sides: { service, echo }, settings, api, ask })
  } finally {
    await Promise.all(processes.map((process) => process.stop()))
    api.close()
    rmSync(folder, { recursive: true })
  }
}

/** As the service reads them from an empty environment: a request must show the Jobs it would make. */
export function optionsOf() {
  const manifest = readFileSync(join(ROOT, 'package.json'), 'utf8')
  const { version } = JSON.parse(manifest) as { version: string }
  const options = parseOptions(['--insecure-hooks', '--kubeconfig', 'any'], {}, version)
  if (options === undefined) throw new Error('no options')
  return options
}

async function answerOf(url: string, body: Buffer): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}` },
    body: new Uint8Array(body),
  })
  return response.text()
}

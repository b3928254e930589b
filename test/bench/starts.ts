/**
 * Cold starts, from the start of the process to the first useful call: of the hook service to its first
 * answer, of a Job to its first call of the API server. Next to each a Node that does nothing.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { encodePlan, JOB_ENV } from '../../crds/contract/job.ts'
import { startFixedApi } from './api.ts'
import { taken } from './job.ts'
import type { Part, Plan } from './part.ts'
import { APP, build, startBuiltService, TOKEN } from './processes.ts'
import { optionsOf } from './service.ts'
import { median, type Figure } from './table.ts'

const NAME = { namespace: 'ns', name: 'b' }
/** Issue 8: of the command line's own part. */
const CLI_MS = 400

export const starts: Part = {
  name: 'starts',
  title: 'cold starts, to the first useful call',
  columns: ['ours', 'bare Node'],
  targets: () => ["Job: the command line's own part of that"],
  measure,
}

async function measure({ pairs }: Plan): Promise<Figure[]> {
  await build()
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  try {
    const times = { service: [] as number[], job: [] as number[], node: [] as number[] }
    for (let pair = 0; pair < pairs; pair += 1) {
      times.service.push(await serviceStart(folder))
      times.job.push(await jobStart())
      times.node.push(await nodeStart())
    }
    const node = median(times.node)
    const job = figure('Job: to its first call of the API server', times.job, node)
    const own = job.value - node
    return [
      figure('hook service: to its first answer', times.service, node),
      job,
      {
        ...{ what: "Job: the command line's own part of that", unit: 'ms', value: own },
        ...{ target: CLI_MS, met: own < CLI_MS },
      },
    ]
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function figure(what: string, times: number[], yardstick: number): Figure {
  return { what, unit: 'ms', value: median(times), best: Math.min(...times), yardstick }
}

async function serviceStart(folder: string): Promise<number> {
  const api = await startFixedApi(optionsOf().settings.version)
  const began = performance.now()
  const service = await startBuiltService(folder, api.url)
  try {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
    const url = `${service.url}/vecclusters/customize`
    await (await fetch(url, { method: 'POST', headers, body: '{}' })).text()
    return performance.now() - began
  } finally {
    await service.stop()
    api.close()
  }
}

/** Until it asks for its resource, which is not there: then it ends by itself. */
async function jobStart(): Promise<number> {
  let askedAt = NaN
  const server = createServer((_, response) => {
    if (Number.isNaN(askedAt)) askedAt = performance.now()
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"message":"not found"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const plan = { resource: 'vecbackups', ...NAME, uid: 'u', run: 1, hash: 'h', ...NOWHERE }
  const began = performance.now()
  // As in its pod: no double of a cluster's names is loaded, for none is asked for.
  const args = [join(APP, 'jobs', 'main.js'), 'backup', 'run', 'ns/b']
  const env = {
    VEC_API_SERVER: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [JOB_ENV.plan]: encodePlan(plan, ''),
    [JOB_ENV.podUid]: 'pod',
    [JOB_ENV.jobUid]: 'job',
  }
  const child = spawn(process.execPath, args, { env, stdio: 'ignore' })
  await once(child, 'exit')
  server.close()
  if (Number.isNaN(askedAt)) throw new Error('the Job asked for nothing')
  return askedAt - began
}

/** Other fields of a backup plan; none of the addresses is called. */
const NOWHERE = {
  cluster: { namespace: 'ns', name: 'a', replicas: 1, tls: false },
  storage: {
    ...{ bucket: 'b', prefix: 'p', region: 'r', forcePathStyle: true },
    credentialsSecretRef: { name: 'k', accessKeyIdKey: 'i', secretAccessKeyKey: 's' },
  },
  method: 'Node',
  parallelism: 1,
}

async function nodeStart(): Promise<number> {
  const { seconds } = await taken({ file: process.execPath, args: ['-e', '0'], env: {} })
  return 1000 * seconds
}

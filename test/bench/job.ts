/** A Job as its pod would run it, from the built code, and what a process takes while it runs. */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { JOB_ENV } from '../../crds/contract/job.ts'
import { customResourceDefinition, type RESOURCES } from '../../crds/crd.ts'
import { podOf } from '../jobs/job-world.ts'
import { startApi } from '../world/api/server.ts'
import { ApiClient, type ApiObject } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'
import { APP, cpuOf, memoryOf, NAMES } from './processes.ts'

/**
 * Where test/doubles/loopback-names.ts finds the pods of a cluster: an address of this process alone,
 * for two benches on one machine must not measure each other's engine.
 */
export const CLUSTER_HOST = `127.${(process.pid >> 16) + 1}.${(process.pid >> 8) & 255}.${process.pid & 255 || 1}`

const LOOK_EVERY_MS = 50

export interface Command {
  file: string
  args: string[]
  env: NodeJS.ProcessEnv
}

/** What a process took, from its start to its end. */
export interface Taken {
  seconds: number
  cpuSeconds: number
  /** Resident memory at its most, in MiB. */
  peak: number
  output: string
}

export interface JobApi {
  uid: string
  /** The environment of every Job of that object, without its plan. */
  env: NodeJS.ProcessEnv
  /** Of engines that are reached through the API server, whatever their ports. */
  showPods(pods: { name: string; url: string }[]): Promise<void>
  close(): Promise<void>
}

/** An API server with the one object a Job reports on; its token is in the folder. */
export async function startJobApi(
  resource: (typeof RESOURCES)[number],
  object: ApiObject,
  folder: string,
): Promise<JobApi> {
  const server = await startApi(new ManualClock(new Date()))
  const api = new ApiClient({ server: server.url, token: server.token })
  const { namespace = 'default' } = object.metadata
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
  await api.create(customResourceDefinition(resource, '0.0.0'))
  const { uid = '' } = (await api.create(object)).metadata
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, server.token)
  return {
    uid,
    env: {
      VEC_API_SERVER: server.url,
      VEC_API_TOKEN_FILE: tokenFile,
      LOOPBACK_CLUSTER: CLUSTER_HOST,
      // As the hook sets them, and the heap that V8 gives itself in a container of 512 MiB.
      NODE_OPTIONS: '--use-system-ca --max-semi-space-size=1 --max-old-space-size=256',
      MALLOC_ARENA_MAX: '2',
      [JOB_ENV.podUid]: 'pod',
      [JOB_ENV.jobUid]: 'job',
    },
    async showPods(pods) {
      const ports = new Map(pods.map(({ name, url }) => [name, Number(new URL(url).port)]))
      server.attach({ log: () => undefined, port: (_, pod) => ports.get(pod) })
      const account = { name: 'default', namespace }
      await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
      for (const { name } of pods) await api.create(podOf(name))
    },
    async close() {
      await api.close()
      await server.close()
    },
  }
}

/** A command of the companion CLI; names of a cluster lead to this machine, where they are used. */
export function jobCommand(words: string[], env: NodeJS.ProcessEnv): Command {
  const names = env['VEC_ENGINE_ROUTE'] === 'proxy' ? [] : ['--import', NAMES]
  const args = [...names, join(APP, 'jobs', 'main.js'), ...words]
  return { file: process.execPath, args, env }
}

/**
 * Runs a command to its end; one that fails is an error with all it said. `heard` is called with each line
 * of its output as it comes, and the processor time of the process until then.
 */
export async function taken(
  { file, args, env }: Command,
  heard: (line: string, cpuSeconds: number) => void = () => undefined,
): Promise<Taken> {
  const began = performance.now()
  const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = Promise.all([linesOf(child, heard), text(child.stderr)])
  const most = { peak: 0, cpuSeconds: 0 }
  const look = () => {
    try {
      // One that has ended and was not waited for yet has no memory any more.
      most.peak = Math.max(most.peak, memoryOf(child.pid ?? 0).peak)
      most.cpuSeconds = cpuOf(child.pid ?? 0)
    } catch {
      // It has ended between two looks.
    }
  }
  const looking = setInterval(look, LOOK_EVERY_MS)
  const [code] = (await once(child, 'exit')) as [number | null]
  clearInterval(looking)
  const seconds = (performance.now() - began) / 1000
  const [output, complaints] = await said
  if (code !== 0) throw new Error(`${file} ended with ${code}: ${output}\n${complaints}`)
  return { ...most, seconds, output }
}

async function linesOf(
  { stdout, pid = 0 }: ChildProcessByStdio<null, Readable, Readable>,
  heard: (line: string, cpuSeconds: number) => void,
): Promise<string> {
  const lines: string[] = []
  for await (const line of createInterface(stdout)) {
    lines.push(line)
    heard(line, cpuOf(pid))
  }
  return lines.join('\n')
}

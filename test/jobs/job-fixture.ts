/** What every test of a command needs: an API server, a namespace, and the environment of a Job's pod. */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { JOB_ENV } from '../../crds/contract/job.ts'
import { customResourceDefinition, type Resource } from '../../crds/crd.ts'
import { COMPILED } from '../compiled.ts'
import { startApi, type EmbeddedApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'

export const CLI = fileURLToPath(new URL('../../jobs/main.ts', import.meta.url))
export const START = new Date('2030-01-01T00:00:00Z')
export const RUNNER = 'pod-1'
export const JOB = 'job-1'

/** `port` returns the loopback port of a pod. */
export async function openApi(
  t: Test,
  port: (pod: string) => number | undefined = () => undefined,
) {
  const server = await startApi(new ManualClock(START))
  const api = new ApiClient({ server: server.url, token: server.token })
  server.attach({ log: () => undefined, port: (_, pod) => port(pod) })
  t.teardown(async () => {
    await api.close()
    await server.close()
  })
  return { server, api }
}

/** Ports of pods whose names end in their ordinal. */
export function byOrdinal(ports: number[]): (pod: string) => number | undefined {
  return (pod) => ports[Number(/-(\d+)$/.exec(pod)?.[1])]
}

/** Creates the namespace `ns` with its account, and the CRD of one kind. */
export async function openNamespace(api: ApiClient, resource: Resource): Promise<void> {
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  const account = { name: 'default', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  await api.create(customResourceDefinition(resource, '0.0.0'))
}

/** Environment of a Job's pod. Its token is written into the folder, where its credentials are too. */
export function podEnv(folder: string, { url, token }: EmbeddedApi): NodeJS.ProcessEnv {
  writeFileSync(join(folder, 'token'), token)
  return {
    ...COMPILED,
    PATH: process.env['PATH'],
    VEC_API_SERVER: url,
    VEC_API_TOKEN_FILE: join(folder, 'token'),
    VEC_CREDENTIALS: join(folder, 'credentials'),
    VEC_ENGINE_ROUTE: 'proxy',
    [JOB_ENV.podUid]: RUNNER,
    [JOB_ENV.jobUid]: JOB,
  }
}

/** As the kubelet mounts a key of a Secret. */
export function mountCredential(folder: string, name: string, [key, value]: [string, string]) {
  mkdirSync(join(folder, 'credentials', name), { recursive: true })
  writeFileSync(join(folder, 'credentials', name, key), value)
}

/** A command in a separate process, with its log as text. */
export function startCli(t: Test, args: string[], env: NodeJS.ProcessEnv) {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: { LOG_FORMAT: 'text', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return { child, log: text(child.stdout) }
}

/** The embedded API with our CRDs, and the service's own client on it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Test } from 'tap'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { startApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'

export const VERSION = '0.1.0'

export async function embeddedApi(t: Test) {
  const clock = new ManualClock(new Date('2026-03-01T12:00:00Z'))
  const server = await startApi(clock)
  t.teardown(() => server.close())
  const { url, token } = server
  const api = new ApiClient({ server: url, token })
  const authorization = `Bearer ${token}`
  const authorize = async () => ({ headers: { authorization }, dispatcher: undefined })
  const kubernetes = new Kubernetes({ server: url, authorize }, pino({ level: 'silent' }))
  const namespaces = { apiVersion: 'v1', kind: 'Namespace' }
  for (const name of ['ns', 'other']) await api.create({ ...namespaces, metadata: { name } })
  return { clock, server, api, kubernetes, url, token }
}

export type Embedded = Awaited<ReturnType<typeof embeddedApi>>

export async function installCrds(api: ApiClient, version = VERSION): Promise<void> {
  for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, version))
}

/** A kubeconfig file for the embedded API. */
export function kubeconfigFile(t: Test, { url, token }: Pick<Embedded, 'url' | 'token'>): string {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'embedded',
    contexts: [{ name: 'embedded', context: { cluster: 'embedded', user: 'embedded' } }],
    // client-node takes plain HTTP only together with this.
    clusters: [{ name: 'embedded', cluster: { server: url, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'embedded', user: { token } }],
  }
  // t.testdir is the test's own: a second call empties it.
  const folder = mkdtempSync(join(tmpdir(), 'vec-kubeconfig-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'config'), JSON.stringify(config))
  return join(folder, 'config')
}

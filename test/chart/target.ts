/** A cluster for helm: the API server in memory, so that our chart is installed in a second. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'
import { compositeControllerCrd } from '../world/composite-controllers.ts'
import { runHelm } from './helm.ts'

export interface Target {
  client: ApiClient
  /** Runs helm against this cluster, in its namespace `default`. */
  helm: (args: string[]) => Promise<string>
  /** Path of the file with which helm reaches this cluster. */
  kubeconfig: string
  close(): Promise<void>
}

export async function startTarget(helm: string): Promise<Target> {
  const api = await startApi(new ManualClock(new Date()))
  const client = new ApiClient({ server: api.url, token: api.token })
  const folder = mkdtempSync(join(tmpdir(), 'vec-helm-'))
  const kubeconfig = join(folder, 'kubeconfig')
  writeFileSync(kubeconfig, kubeconfigOf(api.openUrl))
  for (const name of ['default', 'kube-system', 'metacontroller']) {
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
  return {
    client,
    kubeconfig,
    helm: (args) => runHelm(helm, [...args, '--kubeconfig', kubeconfig]),
    close: async () => {
      rmSync(folder, { recursive: true })
      await client.close()
      await api.close()
    },
  }
}

/** The API in memory has no OpenAPI document, and our CRDs are tested elsewhere. */
export const QUICK = ['--disable-openapi-validation', '--skip-crds']

/** Fields of a webhook that the chart relies on, and others. */
export const WEBHOOK = ['url', 'authorization', 'caBundle', 'responseUnMarshallMode', 'timeout']

/** The CRD of Metacontroller with a webhook that has these fields. */
export function withWebhook(webhook = WEBHOOK) {
  return compositeControllerCrd(
    nested('spec', {
      ...{ type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      properties: {
        parentResource: withFields(['resource', 'ignoreStatusChanges']),
        hooks: nested('sync', nested('webhook', withFields(webhook))),
      },
    }),
  )
}

function withFields(names: string[]) {
  return {
    type: 'object',
    'x-kubernetes-preserve-unknown-fields': true,
    properties: Object.fromEntries(names.map((name) => [name, ANYTHING])),
  }
}

const ANYTHING = { 'x-kubernetes-preserve-unknown-fields': true }

function nested(name: string, schema: object) {
  return { type: 'object', properties: { [name]: schema } }
}

/** The credential is in the address: helm sends none over plain HTTP. */
function kubeconfigOf(server: string): string {
  const name = 'memory'
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server } }],
    users: [{ name, user: {} }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  })
}

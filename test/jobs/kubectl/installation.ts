/** A cluster with the operator in it, for `doctor`: whole, or with parts that are missing or wrong. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../../crds/crd.ts'
import { cliVersion } from '../../../jobs/kubectl/command.ts'
import { controllers, PLURALS } from '../../../metacontroller/controllers.ts'
import { applyObject } from '../../world/apply.ts'
import type { ApiClient } from '../../world/client.ts'
import { compositeControllerCrd } from '../../world/composite-controllers.ts'
import { openApi } from '../job-fixture.ts'
import { podOf } from '../job-world.ts'
import { cliFor } from './cli-user.ts'

export interface Installation {
  /** Release of the operator that is installed. */
  release?: string
  metacontroller?: { version: string; args: string[]; ready?: boolean }
  kinds?: readonly string[]
  /** Arguments of the hook service; absent where there is no such pod. */
  service?: string[]
  /** What the service answers to /metrics. */
  metrics?: string
  /** Service that the hooks are called through, if it is not that of all replicas. */
  hookService?: string
  /** What the engine answers to /readyz; absent where it does not listen. */
  readyz?: number
}

export const COMPLETE: Installation = {
  metacontroller: { version: 'v4.17.2', args: ['--client-go-qps=100'] },
  kinds: PLURALS,
  service: ['metacontroller/serve.js'],
  readyz: 200,
}

/** What every service exports. */
export const BUILD_INFO = 'vec_operator_build_info{version="0.1.0"} 1\n'

export const WORKLOAD = { apiVersion: 'apps/v1', kind: 'Deployment' }

/** A cluster in which all of it is installed as the parts say, with one VecCluster that is Running. */
export async function installOperator(t: Test, components: Installation = COMPLETE) {
  const ports = new Map<string, number>()
  const { server, api } = await openApi(t, (pod) => ports.get(pod))
  const { release = cliVersion(), kinds = [], service, readyz, metacontroller } = components
  const { metrics = BUILD_INFO } = components
  const { hookService = 'vec-operator' } = components
  for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, release))
  for (const name of ['ns', 'vec-system', 'metacontroller']) {
    await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    const account = { name: 'default', namespace: name }
    await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  }
  await api.create(compositeControllerCrd())
  const url = `http://${hookService}.vec-system.svc.cluster.local:8080`
  const installation = { url, version: release, tokenFingerprint: 'f', namespacesHash: 'h', kinds }
  for (const controller of controllers(installation)) await api.create({ ...controller })
  await install(api, 'metacontroller', 'metacontroller', metacontroller)
  await serveBehindService(
    t,
    { api, ports },
    'vec-system',
    'vec-operator',
    8080,
    service && 200,
    metrics,
  )
  await install(api, 'vec-operator', 'vec-system', { version: release, args: service ?? [] })
  const cluster = { apiVersion: API_VERSION, kind: 'VecCluster', namespace: 'ns', name: 'docs' }
  await api.create({ ...cluster, metadata: cluster, spec: { version: '1.18.3' } })
  await api.patch(cluster, { status: { phase: 'Running' } }, { subresource: 'status' })
  await serveBehindService(t, { api, ports }, 'ns', 'vec-docs', 6333, readyz)
  return { api, server, cluster, type: cliFor(t, server, 'ns') }
}

async function install(
  api: ApiClient,
  name: string,
  namespace: string,
  components: Installation['metacontroller'],
): Promise<void> {
  const { version = '', args = [], ready = true } = components ?? {}
  const labels = { 'app.kubernetes.io/name': name }
  const containers = [{ name, image: `example.dev/${name}:${version}`, args }]
  const template = { metadata: { labels }, spec: { containers } }
  const spec = { selector: { matchLabels: labels }, template }
  await api.create({ ...WORKLOAD, metadata: { name, namespace, labels }, spec })
  const status = { readyReplicas: ready ? 1 : 0 }
  await api.patch({ ...WORKLOAD, namespace, name }, { status }, { subresource: 'status' })
}

/** A Service and a pod behind it that gives one answer; no pod where there is none to give. */
async function serveBehindService(
  t: Test,
  { api, ports }: { api: ApiClient; ports: Map<string, number> },
  namespace: string,
  name: string,
  port: number,
  answer: number | undefined,
  text = 'said',
): Promise<void> {
  const labels = { app: name }
  const spec = { selector: labels, ports: [{ port, targetPort: port }] }
  await api.create({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec })
  if (answer === undefined) return
  const server = createServer((_, response) => response.writeHead(answer).end(text))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const pod = `${name}-0`
  ports.set(pod, (server.address() as AddressInfo).port)
  const object = podOf(pod, labels)
  await applyObject(api, { ...object, metadata: { ...object.metadata, namespace } })
  const status = { conditions: [{ type: 'Ready', status: 'True' }] }
  const reference = { apiVersion: 'v1', kind: 'Pod', namespace, name: pod }
  await api.patch(reference, { status }, { subresource: 'status' })
}

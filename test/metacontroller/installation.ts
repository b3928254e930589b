/**
 * An installation for its check: CompositeControllers in the embedded API, and hooks that a test writes. The check has the
 * permissions that the chart gives it for a release in vec-system that watches the namespace shop.
 */
import { pino } from 'pino'
import type { Test } from 'tap'
import { checkInstallation } from '../../metacontroller/install-check.ts'
import { controllers, PLURALS } from '../../metacontroller/controllers.ts'
import {
  startScriptedApi,
  type ScriptedAnswer,
  type ScriptedCall,
} from '../doubles/scripted-api.ts'
import type { ApiObject } from '../world/client.ts'
import { compositeControllerCrd } from '../world/composite-controllers.ts'
import { embeddedApi, installCrds } from './embedded.ts'
import { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { recordedInstallCheck } from '../chart/golden.ts'
import { METACONTROLLER_ACCOUNT } from '../world/chart-roles.ts'

const TOKEN = 'the-token'
export const SECRET = { apiVersion: 'v1', kind: 'Secret', namespace: 'vec-system', name: 'token' }
/** Name of the CompositeController of VecCollection. */
export const NAME = 'veccollections.vec-operator.dev'
export const CONTROLLER = {
  ...{ apiVersion: 'metacontroller.k8s.io/v1alpha1', kind: 'CompositeController' },
  ...{ namespace: '', name: NAME },
}
const COLLECTION = { apiVersion: 'vec-operator.dev/v1alpha1', kind: 'VecCollection' }

/** The hooks of a service that accepts one token. */
export function service(call: ScriptedCall): ScriptedAnswer {
  if (!hasToken(call)) return { status: 401, body: { error: 'no' } }
  return { status: 200, body: { relatedResources: [] } }
}

export function hasToken({ headers }: ScriptedCall): boolean {
  return headers['authorization'] === `Bearer ${TOKEN}`
}

/** The hooks answer so; `run` checks the installation, and what it waits is not real time. */
export async function installation(
  t: Test,
  answer: Parameters<typeof startScriptedApi>[0] = service,
) {
  const embedded = await embeddedApi(t)
  const { api, server } = embedded
  await installCrds(api)
  await api.create(compositeControllerCrd())
  for (const name of ['vec-system', 'shop'])
    await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  const objects = recordedInstallCheck()
  for (const object of objects.filter(({ kind }) => /Role/.test(kind))) await api.create(object)
  const account = objects.find(({ kind }) => kind === 'ServiceAccount')?.metadata.name ?? ''
  server.enforceRbac({
    service: { namespace: 'vec-system', name: account },
    loop: METACONTROLLER_ACCOUNT,
  })
  const headers = { authorization: `Bearer ${server.serviceToken}` }
  const authorize = async () => ({ headers, dispatcher: undefined })
  const kubernetes = new Kubernetes({ server: server.url, authorize }, pino({ level: 'silent' }))
  const hooks = await startScriptedApi(answer)
  t.teardown(() => hooks.close())
  const token = { namespace: SECRET.namespace, name: SECRET.name, key: 'token' }
  const rendered = { version: '0.1.0', tokenFingerprint: 't', namespacesHash: 'n', token }
  for (const one of controllers({ url: hooks.url, ...rendered, kinds: PLURALS }))
    await api.create(one)
  const data = { token: Buffer.from(TOKEN).toString('base64') }
  const { apiVersion, kind, ...metadata } = SECRET
  await api.create({ apiVersion, kind, metadata, data })
  const stop = new AbortController()
  const pauses: { act: () => Promise<unknown> } = { act: async () => undefined }
  let waitedMs = 0
  const time = {
    monotonicMs: () => waitedMs,
    sleep: async (ms: number, signal?: AbortSignal) => {
      waitedMs += ms
      await pauses.act()
      signal?.throwIfAborted()
    },
  }
  const collections = async () => (await api.list(COLLECTION.apiVersion, COLLECTION.kind)).items
  return {
    ...{ api, hooks, stop, collections, server },
    /** `act` runs in each pause, in place of Metacontroller and the operator. */
    pauses,
    waitedMs: () => waitedMs,
    run: (namespace?: string) =>
      checkInstallation(
        { kubernetes, time, signal: stop.signal },
        { url: hooks.url, kinds: PLURALS, namespace },
      ),
  }
}

export type Installation = Awaited<ReturnType<typeof installation>>

export type Hooks = Record<string, { webhook: Record<string, unknown> }>

/** Changes the hooks of VecCollection. */
export async function changeHooks(
  { api }: Pick<Installation, 'api'>,
  edit: (hooks: Hooks) => void,
) {
  const live = (await api.get(CONTROLLER)) as ApiObject
  edit((live['spec'] as { hooks: Hooks }).hooks)
  await api.replace(live)
}

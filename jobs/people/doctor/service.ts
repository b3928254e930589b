/** Whether the hook service answers, asked through the API server, and which namespaces it serves. */
import { Type } from '@sinclair/typebox'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { ownControllers, hookUrlOf } from './metacontroller.ts'
import { unread, type Finding, type Patient } from './finding.ts'

interface Address {
  scheme: string
  name: string
  namespace: string
  port: string
}

const CALL_MS = 10_000

export async function checkService(patient: Patient): Promise<Finding[]> {
  const about = 'hook service'
  try {
    const address = await serviceAddress(patient)
    if (address === undefined) {
      const says =
        'no CompositeController calls it by the name of a Service: it runs outside, or not at all'
      return [{ about, level: 'warning', says }]
    }
    const { scheme, name, namespace, port } = address
    const target = `${scheme}:${name}:${port}`
    const path = `/api/v1/namespaces/${namespace}/services/${target}/proxy/healthz`
    const { kubernetes, signal } = patient
    const { status } = await kubernetes.call('GET', path, { timeoutMs: CALL_MS, signal })
    return [
      status === 200
        ? { about, level: 'fine', says: `${namespace}/${name} answers` }
        : { about, level: 'wrong', says: `${namespace}/${name} /healthz answered ${status}` },
    ]
  } catch (error) {
    return unread(about, error)
  }
}

/** Namespaces the service is restricted to; none for all, undefined where that cannot be read. */
export async function servedNamespaces(patient: Patient): Promise<string[] | undefined> {
  const address = await serviceAddress(patient)
  if (address === undefined) return undefined
  const { namespace } = address
  const [deployment] = await patient.kubernetes.list(
    { apiVersion: 'apps/v1', plural: 'deployments', namespace },
    Deployment,
    { labelSelector: 'app.kubernetes.io/name=vec-operator' },
  )
  return deployment && namespacesIn(deployment.spec.template.spec.containers[0]?.args ?? [])
}

const Deployment = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    template: Type.Object({
      spec: Type.Object({
        containers: Type.Array(Type.Object({ args: Type.Optional(Type.Array(Type.String())) })),
      }),
    }),
  }),
})

function namespacesIn(args: string[]): string[] {
  return args.flatMap((word, at) => {
    const value = args[at + 1]
    if (word === '--namespace' && value !== undefined) return [value]
    return word.startsWith('--namespace=') ? [word.slice('--namespace='.length)] : []
  })
}

/** `http://name.namespace.svc.cluster.local:8080/...`, from the hooks of any CompositeController. */
async function serviceAddress(patient: Patient): Promise<Address | undefined> {
  const [controller] = (await ownControllers(patient)) ?? []
  const url = controller && hookUrlOf(controller)
  const [name, namespace, svc = 'svc'] = url?.hostname.split('.') ?? []
  if (url === undefined || name === undefined || namespace === undefined || svc !== 'svc') {
    return undefined
  }
  const scheme = url.protocol.replace(':', '')
  return { scheme, name, namespace, port: url.port === '' ? '80' : url.port }
}

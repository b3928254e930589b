/** Checks that Metacontroller is installed, new enough, has a sufficient client rate limit and calls hooks of this release. */
import { Type, type Static } from '@sinclair/typebox'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import {
  COLLECTION_RECONCILE_SECONDS,
  EXPIRY_CHECK_SECONDS,
  KEY_RENEWAL_SECONDS,
  READINESS_CHECK_SECONDS,
  SCHEDULE_TICK_SECONDS,
} from '../../../crds/contract/limits.ts'
import { API_GROUP, API_VERSION } from '../../../crds/contract/names.ts'
import { RESOURCES, type Resource } from '../../../crds/crd.ts'
import { isOlder } from '../../../crds/versions.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { apiResource } from '../../clients/kubernetes/api-resources.ts'
import { checkLeader } from './leader.ts'
import { unreadable, type CheckContext, type CheckResult } from './check.ts'

const Hook = Type.Object({
  webhook: Type.Optional(Type.Object({ url: Type.Optional(Type.String()) })),
})

export const CompositeController = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ hooks: Type.Object({ sync: Type.Optional(Hook) }) }),
})
export type CompositeController = Static<typeof CompositeController>

/** The CompositeControllers of this operator; undefined if the kind is not installed. */
export async function listOwnControllers({
  kubernetes,
}: CheckContext): Promise<CompositeController[] | undefined> {
  const all = { apiVersion: 'metacontroller.k8s.io/v1alpha1', plural: 'compositecontrollers' }
  try {
    const found = await kubernetes.list(all, CompositeController)
    return found.filter(({ metadata }) => metadata.name.endsWith(`.${API_GROUP}`))
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return undefined
    throw error
  }
}

export function hookUrl({ spec }: CompositeController): URL | undefined {
  const url = spec.hooks.sync?.webhook?.url
  return url === undefined || !URL.canParse(url) ? undefined : new URL(url)
}

/** The kinds that hooks serve, and the release of the hooks. */
export async function checkControllers(context: CheckContext): Promise<CheckResult[]> {
  const about = 'CompositeControllers'
  const { release } = context
  try {
    const controllers = await listOwnControllers(context)
    if (controllers === undefined) {
      return [{ about, level: 'wrong', says: 'no such kind: Metacontroller is not installed' }]
    }
    const kinds = controllers.map(({ metadata }) => metadata.name.split('.')[0] ?? '')
    const missing = RESOURCES.map(({ plural }) => plural).filter(
      (plural) => !kinds.includes(plural),
    )
    const mismatches = controllers.flatMap((controller) => {
      const found = hookUrl(controller)?.searchParams.get('release') ?? 'no release'
      return found === release
        ? []
        : [`${controller.metadata.name} calls hooks of release ${found}`]
    })
    return [
      controllers.length === 0
        ? { about, level: 'wrong', says: 'none: nothing is reconciled' }
        : { about, level: 'fine', says: `served: ${kinds.toSorted().join(', ')}` },
      ...(missing.length > 0 && controllers.length > 0
        ? [{ about, level: 'warning' as const, says: `not served: ${missing.join(', ')}` }]
        : []),
      ...mismatches.map((says) => ({
        about,
        level: 'warning' as const,
        says: `${says}, but this program is ${release}`,
      })),
    ]
  } catch (error) {
    return unreadable(about, error)
  }
}

const MIN_METACONTROLLER_VERSION = '4.17.2'
const APP_NAMES = ['metacontroller', 'metacontroller-helm']
/** Default rate limit of Metacontroller's client. */
const DEFAULT_QPS = 5
/** Calls per sync: one live read, plus a margin for writes. */
const CALLS_PER_SYNC = 1.5

const Workload = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    template: Type.Object({
      spec: Type.Object({
        containers: Type.Array(
          Type.Object({
            image: Type.String(),
            command: Type.Optional(Type.Array(Type.String())),
            args: Type.Optional(Type.Array(Type.String())),
          }),
        ),
      }),
    }),
  }),
  status: Type.Optional(Type.Object({ readyReplicas: Type.Optional(Type.Integer()) })),
})
type Workload = Static<typeof Workload>

export async function checkMetacontroller(context: CheckContext): Promise<CheckResult[]> {
  const about = 'Metacontroller'
  try {
    const workloads = await listMetacontrollers(context)
    if (workloads.length === 0) {
      const says = `no StatefulSet or Deployment is labelled app.kubernetes.io/name=${APP_NAMES.join(' or ')}: its version and flags are unknown`
      return [{ about, level: 'warning', says }]
    }
    const required = await requiredQps(context)
    return workloads.flatMap((workload) => workloadResults(workload, required))
  } catch (error) {
    return unreadable(about, error)
  }
}

async function listMetacontrollers({ kubernetes }: CheckContext): Promise<Workload[]> {
  const labelSelector = `app.kubernetes.io/name in (${APP_NAMES.join(',')})`
  const lists = ['statefulsets', 'deployments'].map((plural) =>
    kubernetes.list({ apiVersion: 'apps/v1', plural }, Workload, { labelSelector }),
  )
  return (await Promise.all(lists)).flat()
}

function workloadResults({ metadata, spec, status }: Workload, required: number): CheckResult[] {
  const about = 'Metacontroller'
  const [container] = spec.template.spec.containers
  const version = /:v?(\d+\.\d+\.\d+[^@]*)/.exec(container?.image ?? '')?.[1]
  const label = `${metadata.namespace ?? ''}/${metadata.name}`
  const qps = clientQps([...(container?.command ?? []), ...(container?.args ?? [])])
  // A negative number disables the limit.
  const isSufficient = qps < 0 || qps >= required
  return [
    version === undefined
      ? {
          about,
          level: 'warning',
          says: `${label}: the image ${container?.image ?? ''} has no version tag`,
        }
      : isOlder(version, MIN_METACONTROLLER_VERSION)
        ? {
            about,
            level: 'wrong',
            says: `${label}: ${version} is older than ${MIN_METACONTROLLER_VERSION}`,
          }
        : { about, level: 'fine', says: `${label}: ${version}` },
    isSufficient
      ? { about, level: 'fine', says: `--client-go-qps ${qps}, required: ${required}` }
      : {
          about,
          level: 'wrong',
          says: `--client-go-qps is ${qps}; the resources in this cluster need ${required}: syncs are late`,
        },
    ...((status?.readyReplicas ?? 0) > 0
      ? []
      : [{ about, level: 'wrong' as const, says: `${label}: no pod is ready` }]),
  ]
}

function clientQps(args: string[]): number {
  for (const [index, arg] of args.entries()) {
    const [flag, value = args[index + 1]] = arg.split('=')
    if (flag?.replace(/^-+/, '') === 'client-go-qps') return Number(value)
  }
  return DEFAULT_QPS
}

/** Sync interval of each kind, in seconds; other kinds are resynced only as a safety net. */
const SYNC_INTERVALS: Readonly<Record<Resource['kind'], number>> = {
  VecCluster: READINESS_CHECK_SECONDS,
  VecCollection: COLLECTION_RECONCILE_SECONDS,
  VecAccessKey: KEY_RENEWAL_SECONDS,
  VecBackup: EXPIRY_CHECK_SECONDS,
  VecBackupSchedule: SCHEDULE_TICK_SECONDS,
  VecRestore: EXPIRY_CHECK_SECONDS,
  VecMigration: EXPIRY_CHECK_SECONDS,
}

/** Calls per second that Metacontroller needs for the existing resources, rounded up. */
async function requiredQps(context: CheckContext): Promise<number> {
  const rates = await Promise.all(
    RESOURCES.map(async ({ kind, plural }) => {
      const found = await context.kubernetes
        .list(apiResource(API_VERSION, plural)(context.namespace), AnyObject)
        .catch(() => [])
      return found.length / SYNC_INTERVALS[kind]
    }),
  )
  const perSecond = rates.reduce((sum, rate) => sum + rate, 0)
  return Math.ceil(perSecond * CALLS_PER_SYNC)
}

interface ServiceAddress {
  scheme: string
  name: string
  namespace: string
  port: string
}

const SERVICE_TIMEOUT_MS = 10_000

export async function checkService(context: CheckContext): Promise<CheckResult[]> {
  const about = 'hook service'
  try {
    const address = await serviceAddress(context)
    if (address === undefined) {
      const says =
        'no CompositeController calls it through a Service: it runs outside the cluster, or not at all'
      return [{ about, level: 'warning', says }]
    }
    const leadership = await checkLeader(context, address)
    if (leadership !== undefined && leadership.pod === undefined) return [leadership.result]
    const { namespace } = address
    const name = leadership?.pod ?? address.name
    const target = { ...address, pod: leadership?.pod }
    const { status } = await callThroughProxy(target, '/healthz', context)
    return [
      status === 200
        ? { about, level: 'fine', says: `${namespace}/${name} responds` }
        : { about, level: 'wrong', says: `${namespace}/${name} /healthz answered ${status}` },
      ...(leadership === undefined ? [] : [leadership.result]),
    ]
  } catch (error) {
    return unreadable(about, error)
  }
}

/** GET a path of the hook service; undefined if no CompositeController calls it through a Service. */
export async function callService(
  context: CheckContext,
  path: string,
): Promise<{ status: number; text: string } | undefined> {
  const address = await serviceAddress(context)
  if (address === undefined) return undefined
  const leadership = await checkLeader(context, address)
  return callThroughProxy({ ...address, pod: leadership?.pod }, path, context)
}

/** Of several replicas, the pod of the leader: the proxy of the API server does not find its EndpointSlice. */
async function callThroughProxy(
  { scheme, name, namespace, port, pod }: ServiceAddress & { pod: string | undefined },
  path: string,
  { kubernetes, signal }: CheckContext,
): Promise<{ status: number; text: string }> {
  const target = pod === undefined ? `services/${scheme}:${name}` : `pods/${scheme}:${pod}`
  const proxied = `/api/v1/namespaces/${namespace}/${target}:${port}/proxy${path}`
  return kubernetes.call('GET', proxied, { timeoutMs: SERVICE_TIMEOUT_MS, signal })
}

/** Namespaces that the service is restricted to; empty for all, undefined if they cannot be read. */
export async function watchedNamespaces(context: CheckContext): Promise<string[] | undefined> {
  const address = await serviceAddress(context)
  if (address === undefined) return undefined
  const { namespace } = address
  const [deployment] = await context.kubernetes.list(
    { apiVersion: 'apps/v1', plural: 'deployments', namespace },
    ServiceDeployment,
    { labelSelector: 'app.kubernetes.io/name=vec-operator' },
  )
  return deployment && parseNamespaces(deployment.spec.template.spec.containers[0]?.args ?? [])
}

const ServiceDeployment = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({
    template: Type.Object({
      spec: Type.Object({
        containers: Type.Array(Type.Object({ args: Type.Optional(Type.Array(Type.String())) })),
      }),
    }),
  }),
})

function parseNamespaces(args: string[]): string[] {
  return args.flatMap((arg, at) => {
    const value = args[at + 1]
    if (arg === '--namespace' && value !== undefined) return [value]
    return arg.startsWith('--namespace=') ? [arg.slice('--namespace='.length)] : []
  })
}

/** `http://name.namespace.svc.<cluster domain>:8080/...`, from the hooks of any CompositeController. */
async function serviceAddress(context: CheckContext): Promise<ServiceAddress | undefined> {
  const [controller] = (await listOwnControllers(context)) ?? []
  const url = controller && hookUrl(controller)
  const [name, namespace, svc = 'svc'] = url?.hostname.split('.') ?? []
  if (url === undefined || name === undefined || namespace === undefined || svc !== 'svc') {
    return undefined
  }
  const scheme = url.protocol.replace(':', '')
  return { scheme, name, namespace, port: url.port === '' ? '80' : url.port }
}

/** Whether Metacontroller is there, new enough and allowed enough calls, and calls hooks of this release. */
import { Type, type Static } from '@sinclair/typebox'
import { KubernetesError } from '../../../crds/errors.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import {
  COLLECTION_RECONCILE_SECONDS,
  EXPIRY_CHECK_SECONDS,
  KEY_RENEWAL_SECONDS,
  READINESS_CHECK_SECONDS,
  SCHEDULE_TICK_SECONDS,
} from '../../../crds/limits.ts'
import { API_GROUP, API_VERSION } from '../../../crds/names.ts'
import { isOlder } from '../../../crds/release.ts'
import { RESOURCES, type Resource } from '../../../crds/resources.ts'
import { place, unread, type Finding, type Patient } from './finding.ts'

const Hook = Type.Object({
  webhook: Type.Optional(Type.Object({ url: Type.Optional(Type.String()) })),
})

export const CompositeController = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ hooks: Type.Object({ sync: Type.Optional(Hook) }) }),
})
export type CompositeController = Static<typeof CompositeController>

/** The CompositeControllers of this operator; undefined where there is no such kind. */
export async function ownControllers({
  kubernetes,
}: Patient): Promise<CompositeController[] | undefined> {
  const all = { apiVersion: 'metacontroller.k8s.io/v1alpha1', plural: 'compositecontrollers' }
  try {
    const found = await kubernetes.list(all, CompositeController)
    return found.filter(({ metadata }) => metadata.name.endsWith(`.${API_GROUP}`))
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 404) return undefined
    throw error
  }
}

export function hookUrlOf({ spec }: CompositeController): URL | undefined {
  const url = spec.hooks.sync?.webhook?.url
  return url === undefined || !URL.canParse(url) ? undefined : new URL(url)
}

/** Which kinds are served, and by hooks of which release. */
export async function checkControllers(patient: Patient): Promise<Finding[]> {
  const about = 'CompositeControllers'
  const { release } = patient
  try {
    const controllers = await ownControllers(patient)
    if (controllers === undefined) {
      return [{ about, level: 'wrong', says: 'no such kind: Metacontroller is not installed' }]
    }
    const kinds = controllers.map(({ metadata }) => metadata.name.split('.')[0] ?? '')
    const missing = RESOURCES.map(({ plural }) => plural).filter((one) => !kinds.includes(one))
    const others = controllers.flatMap((controller) => {
      const found = hookUrlOf(controller)?.searchParams.get('release') ?? 'no release'
      return found === release ? [] : [`${controller.metadata.name} calls hooks of ${found}`]
    })
    return [
      controllers.length === 0
        ? { about, level: 'wrong', says: 'there are none: nothing is reconciled' }
        : { about, level: 'fine', says: `served: ${kinds.toSorted().join(', ')}` },
      ...(missing.length > 0 && controllers.length > 0
        ? [{ about, level: 'warning' as const, says: `not served: ${missing.join(', ')}` }]
        : []),
      ...others.map((says) => ({
        about,
        level: 'warning' as const,
        says: `${says}, this is ${release}`,
      })),
    ]
  } catch (error) {
    return unread(about, error)
  }
}

const OLDEST = '4.17.2'
const NAMES = ['metacontroller', 'metacontroller-helm']
/** What its client allows itself when no flag says otherwise. */
const DEFAULT_QPS = 5
/** One live read for each sync, and room for writes. */
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

export async function checkMetacontroller(patient: Patient): Promise<Finding[]> {
  const about = 'Metacontroller'
  try {
    const workloads = await metacontrollers(patient)
    if (workloads.length === 0) {
      const says = `no StatefulSet or Deployment is labelled app.kubernetes.io/name=${NAMES.join(' or ')}: its version and flags are not known`
      return [{ about, level: 'warning', says }]
    }
    const needed = await neededQps(patient)
    return workloads.flatMap((workload) => findingsOf(workload, needed))
  } catch (error) {
    return unread(about, error)
  }
}

async function metacontrollers({ kubernetes }: Patient): Promise<Workload[]> {
  const labelSelector = `app.kubernetes.io/name in (${NAMES.join(',')})`
  const lists = ['statefulsets', 'deployments'].map((plural) =>
    kubernetes.list({ apiVersion: 'apps/v1', plural }, Workload, { labelSelector }),
  )
  return (await Promise.all(lists)).flat()
}

function findingsOf({ metadata, spec, status }: Workload, needed: number): Finding[] {
  const about = 'Metacontroller'
  const [container] = spec.template.spec.containers
  const version = /:v?(\d+\.\d+\.\d+[^@]*)/.exec(container?.image ?? '')?.[1]
  const called = `${metadata.namespace ?? ''}/${metadata.name}`
  const qps = qpsOf([...(container?.command ?? []), ...(container?.args ?? [])])
  // A negative number lifts the limit.
  const carries = qps < 0 || qps >= needed
  return [
    version === undefined
      ? {
          about,
          level: 'warning',
          says: `${called}: the image ${container?.image ?? ''} names no version`,
        }
      : isOlder(version, OLDEST)
        ? { about, level: 'wrong', says: `${called}: ${version} is older than ${OLDEST}` }
        : { about, level: 'fine', says: `${called}: ${version}` },
    carries
      ? { about, level: 'fine', says: `--client-go-qps ${qps}, needed here: ${needed}` }
      : {
          about,
          level: 'wrong',
          says: `--client-go-qps is ${qps}; the resources here need ${needed}: syncs come late`,
        },
    ...((status?.readyReplicas ?? 0) > 0
      ? []
      : [{ about, level: 'wrong' as const, says: `${called}: no pod is ready` }]),
  ]
}

function qpsOf(words: string[]): number {
  for (const [at, word] of words.entries()) {
    const [flag, value = words[at + 1]] = word.split('=')
    if (flag?.replace(/^-+/, '') === 'client-go-qps') return Number(value)
  }
  return DEFAULT_QPS
}

/** How often a resource of each kind is synced, in seconds; the others only as a safety net. */
const INTERVALS: Readonly<Record<Resource['kind'], number>> = {
  VecCluster: READINESS_CHECK_SECONDS,
  VecCollection: COLLECTION_RECONCILE_SECONDS,
  VecAccessKey: KEY_RENEWAL_SECONDS,
  VecBackup: EXPIRY_CHECK_SECONDS,
  VecBackupSchedule: SCHEDULE_TICK_SECONDS,
  VecRestore: EXPIRY_CHECK_SECONDS,
  VecMigration: EXPIRY_CHECK_SECONDS,
}

/** Calls a second that Metacontroller needs for what there is, whole. */
async function neededQps(patient: Patient): Promise<number> {
  const rates = await Promise.all(
    RESOURCES.map(async ({ kind, plural }) => {
      const found = await patient.kubernetes
        .list(place(API_VERSION, plural, patient), AnyObject)
        .catch(() => [])
      return found.length / INTERVALS[kind]
    }),
  )
  const perSecond = rates.reduce((sum, rate) => sum + rate, 0)
  return Math.ceil(perSecond * CALLS_PER_SYNC)
}

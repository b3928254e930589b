/**
 * What the rooms read and write outside of Metacontroller's requests, by the real clients of
 * jobs/clients. Reads that many resources repeat are answered from a short memory.
 */
import { Value } from '@sinclair/typebox/value'
import { parseProgress } from '../crds/command.ts'
import { KubernetesError } from '../crds/errors.ts'
import { AnyObject, Pod, Secret, type Job } from '../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../crds/names.ts'
import type { AccessKeyPorts } from '../hooks/access-key/ports.ts'
import type { ClusterPorts } from '../hooks/cluster/ports.ts'
import { secondsSince } from '../hooks/conditions.ts'
import { isSigned } from '../hooks/signature.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { commonPorts, hasStatus } from './common-ports.ts'
import { leasePorts } from './leases.ts'
import { clusters, definitions, jobs, pods, secrets, served } from './places.ts'
import { remember } from './remember.ts'
import type { Log, MarkedCluster } from './start-mark.ts'
import { unfinishedJobs } from './unfinished.ts'

export interface PortTools {
  kubernetes: Kubernetes
  secret: ClusterPorts['secret']
  consensus: ClusterPorts['consensus']
  /** Those the service may read; empty means all. */
  namespaces: string[]
  /** Keys that sign our Jobs (hooks/signature.ts). */
  jobKeys: () => readonly string[]
  now: () => Date
  log: Log
}

const SECRET_SECONDS = 60
const FRESH_SECRET_SECONDS = 1
const HELM_JOBS_SECONDS = 5
/** A pod that does not run by then is not about to. */
const STARTLESS_SECONDS = 120
/** Of remembered Secrets, in bytes: those of all tenants are in one memory. */
const SECRETS_BYTES = 8 * 1024 * 1024

export function clusterPorts(tools: PortTools): ClusterPorts {
  const { kubernetes, namespaces, now } = tools
  const leases = leasePorts(kubernetes)
  const unfinished = async () => {
    const labelled = await unfinishedJobs(kubernetes, served(jobs, namespaces), {
      [LABELS.component]: 'helm',
    })
    return slotsOf(
      labelled.filter((job) => isSigned(job, tools.jobKeys())),
      now(),
    )
  }
  const helmSlots = remember(unfinished, HELM_JOBS_SECONDS, now)
  return {
    ...commonPorts(tools),
    secret: tools.secret,
    consensus: tools.consensus,
    pods: (namespace, release) => podsOf(tools, namespace, release),
    ...leases,
    unfinishedHelmJobs: async () => (await helmSlots()) ?? 0,
  }
}

/**
 * Others may label Jobs as ours, create one again that had our signature, or suspend ours: a VecCluster takes one
 * slot of the installation at most, and none with a Job that has no pods and gets none, or whose pods cannot start.
 */
function slotsOf(signed: Job[], now: Date): number {
  const atWork = signed.filter(
    (job) =>
      !isStartless(job, now) && (job.spec?.suspend !== true || (job.status?.active ?? 0) > 0),
  )
  return new Set(atWork.map(({ metadata }) => metadata.labels?.[LABELS.parent])).size
}

/** An image, a quota or full nodes keep its pods from starting: others need not wait until that is fixed. */
function isStartless({ metadata, status }: Job, now: Date): boolean {
  const seconds = secondsSince(metadata.creationTimestamp ?? '', now)
  return (status?.ready ?? 0) === 0 && seconds >= STARTLESS_SECONDS
}

export function accessKeyPorts(tools: Omit<PortTools, 'consensus' | 'jobKeys'>): AccessKeyPorts {
  return {
    secret: tools.secret,
    liveSecret: readSecret(tools.kubernetes),
    writeEvent: commonPorts(tools).writeEvent,
  }
}

/** Why a pod is not ready is a help, not a need: where pods cannot be listed there are none. */
async function podsOf({ kubernetes, log }: PortTools, namespace: string, release: string) {
  const labelSelector = `app.kubernetes.io/instance=${release}`
  try {
    return await kubernetes.list(pods(namespace), Pod, { labelSelector })
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    log.warn({ err: error, namespace, release }, 'pods cannot be listed')
    return []
  }
}

/** One memory of Secrets for everything that reads them. */
export function secretPort(kubernetes: Kubernetes, now: () => Date): ClusterPorts['secret'] {
  return remember(contentOnly(kubernetes), SECRET_SECONDS, now, SECRETS)
}

/** For who must know how things are now; many who ask at once share an answer. */
export function freshSecretPort(kubernetes: Kubernetes, now: () => Date): ClusterPorts['secret'] {
  return remember(contentOnly(kubernetes), FRESH_SECRET_SECONDS, now, SECRETS)
}

const SECRETS = { max: SECRETS_BYTES, sizeOf: (secret: Secret) => JSON.stringify(secret).length }

function readSecret(kubernetes: Kubernetes): ClusterPorts['secret'] {
  return (namespace, name) => kubernetes.get(secrets(namespace), name, Secret)
}

/** Type and content; what else is written on a Secret is of no use and may be long. */
function contentOnly(kubernetes: Kubernetes): ClusterPorts['secret'] {
  const read = readSecret(kubernetes)
  return async (namespace, name) => {
    const found = await read(namespace, name)
    if (found === undefined) return undefined
    const { apiVersion, kind, type, data } = found
    return {
      ...{ apiVersion, kind, metadata: { namespace, name } },
      ...(type !== undefined && { type }),
      ...(data !== undefined && { data }),
    }
  }
}

/** VecClusters of the namespaces served. */
export async function servedClusters(
  kubernetes: Kubernetes,
  namespaces: string[],
): Promise<MarkedCluster[]> {
  const lists = served(clusters, namespaces).map((place) =>
    kubernetes.collect(place, {}, (object: unknown) =>
      Value.Check(AnyObject, object) ? identityOf(object) : undefined,
    ),
  )
  return (await Promise.all(lists)).flat()
}

/** What a start mark depends on. */
function identityOf({ metadata }: AnyObject): MarkedCluster {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, annotations } = metadata
  const mark = annotations?.[ANNOTATIONS.startMark]
  const report = parseProgress(annotations?.[ANNOTATIONS.progress], uid ?? '')
  const appliedAt = report?.applied?.at
  return {
    ...(appliedAt !== undefined && { appliedAt }),
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(mark !== undefined && { annotations: { [ANNOTATIONS.startMark]: mark } }),
    },
  }
}

/**
 * Merge-patches a VecCluster; false when that cannot be done to it, whenever it is tried: it is gone,
 * its name is another resource's by now (the API finds another uid invalid), or it is not valid itself.
 */
export async function patchCluster(
  kubernetes: Kubernetes,
  { metadata }: MarkedCluster,
  patch: object,
): Promise<boolean> {
  try {
    await kubernetes.patch(clusters(metadata.namespace), metadata.name, patch)
    return true
  } catch (error) {
    if (hasStatus(error, 404, 409, 422)) return false
    throw error
  }
}

/** A definition by its name; it has no namespace. */
export function readCrd(kubernetes: Kubernetes, name: string): Promise<AnyObject | undefined> {
  return kubernetes.get(definitions(), name, AnyObject)
}

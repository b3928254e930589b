/** `status`: all resources of a namespace in a table, or one with its cluster, nodes, shards and Jobs. */
import { VecCluster } from '../../crds/cluster.ts'
import { parseProgress, type Progress } from '../../crds/command.ts'
import { KubernetesError } from '../../crds/errors.ts'
import { endOf, Job } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/names.ts'
import { RESOURCES, type Resource } from '../../crds/resources.ts'
import type { Kubernetes } from '../clients/kubernetes.ts'
import {
  CLUSTER_FLAGS,
  Complaint,
  ENDS,
  JSON_FLAG,
  isOn,
  type PeopleCall,
  type PeopleCommand,
} from './command.ts'
import { engineView } from './engine-view.ts'
import { curesOf } from './explain.ts'
import { Shown, clusterOf, factsOf, listed, partsOf, resourceOf, summaryOf } from './resource.ts'
import type { JobView, Picture } from './picture.ts'
import { drawing, list } from './status-text.ts'

export const status: PeopleCommand = {
  name: 'status',
  operands: '[<kind>/<name>]',
  takes: { least: 0, most: 2 },
  summary: 'show resources, or one with its cluster, nodes, shards and Jobs',
  details: [
    'A kind is written as for kubectl: VecCluster, vecclusters, veccluster or qc. Engines are asked through the API server, with the key of the cluster where you may read its Secret.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    'all-namespaces': { type: 'boolean', short: 'A', says: 'in all namespaces' },
    ...JSON_FLAG,
  },
  run: show,
}

async function show(call: PeopleCall): Promise<number> {
  const { kubernetes, namespace } = await call.reach()
  const [kind, name] = call.operands.flatMap((operand) => operand.split('/'))
  if (kind === undefined) {
    const place = isOn(call, 'all-namespaces') ? undefined : namespace
    const lists = RESOURCES.map((resource) => listed(kubernetes, resource, place))
    const summaries = (await Promise.all(lists)).flat().map(summaryOf)
    call.print(isOn(call, 'json') ? json(summaries) : list(summaries, place, call.time.now()))
    return ENDS.fine
  }
  const resource = resourceOf(kind)
  if (name === undefined || name === '') {
    throw new Complaint(`status ${kind}: the name is missing: ${kind}/<name>`, ENDS.usage)
  }
  const picture = await pictureOf(kubernetes, resource, { namespace, name }, call)
  call.print(isOn(call, 'json') ? json(picture) : drawing(picture, call.time.now()))
  return ENDS.fine
}

async function pictureOf(
  kubernetes: Kubernetes,
  { kind, plural }: Resource,
  { namespace, name }: { namespace: string; name: string },
  call: PeopleCall,
): Promise<Picture> {
  const shown = await kubernetes.get({ apiVersion: API_VERSION, plural, namespace }, name, Shown)
  if (shown === undefined) throw new Complaint(`${kind} ${namespace}/${name} not found`)
  const [cluster, jobs] = await Promise.all([
    clusterFor(kubernetes, shown),
    jobsOf(kubernetes, shown),
  ])
  const collection = kind === 'VecCollection' ? (shown.spec.collectionName ?? name) : undefined
  const isOther = kind !== 'VecCluster'
  return {
    resource: {
      ...summaryOf(shown),
      conditions: shown.status?.conditions ?? [],
      cures: curesOf(kind, shown.status),
      facts: factsOf(shown),
      parts: partsOf(shown),
    },
    ...(cluster !== undefined && {
      ...(isOther && { cluster: { ...summaryOf(cluster), facts: factsOf(cluster) } }),
      engine: await engineView(kubernetes, { cluster, collection }, call),
    }),
    jobs,
  }
}

async function clusterFor(kubernetes: Kubernetes, shown: Shown): Promise<VecCluster | undefined> {
  const place = clusterOf(shown)
  if (place === undefined) return undefined
  const { namespace, name } = place
  const clusters = { apiVersion: API_VERSION, plural: VecCluster.plural, namespace }
  try {
    return await kubernetes.get(clusters, name, VecCluster.schema)
  } catch (error) {
    // It may stand in a namespace that is not the caller's to read.
    if (error instanceof KubernetesError && error.status === 403) return undefined
    throw error
  }
}

/** The Jobs that work for a resource, newest first; the last report tells of one of them. */
async function jobsOf(kubernetes: Kubernetes, { metadata }: Shown): Promise<JobView[]> {
  const { namespace = '', uid = '', annotations } = metadata
  const progress = parseProgress(annotations?.[ANNOTATIONS.progress], uid)
  const place = { apiVersion: 'batch/v1', plural: 'jobs', namespace }
  const jobs = await kubernetes.list(place, Job, { labelSelector: `${LABELS.parent}=${uid}` })
  return jobs
    .toSorted((one, other) => timeOf(other).localeCompare(timeOf(one)))
    .map((job) => ({
      name: job.metadata.name,
      verb: job.metadata.labels?.[LABELS.verb] ?? '',
      state: endOf(job)?.type ?? (job.status?.active === undefined ? 'Pending' : 'Running'),
      ...(job.metadata.creationTimestamp !== undefined && {
        createdAt: job.metadata.creationTimestamp,
      }),
      message: reportOf(job, progress),
    }))
}

/** What the last report says, where it is this Job's. */
function reportOf({ metadata }: Job, progress: Progress | undefined): string {
  if (progress === undefined || progress.job !== metadata.uid) return ''
  const { state, message } = progress
  return message === undefined ? state : `${state}: ${message}`
}

function timeOf({ metadata }: Job): string {
  return `${metadata.creationTimestamp ?? ''} ${metadata.name}`
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}

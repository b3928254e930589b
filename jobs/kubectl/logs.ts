/**
 * `logs`: the log of the newest Job of a resource. Lists the Jobs of a resource and their pods,
 * newest first.
 */
import { KubernetesError } from '../../crds/contract/errors.ts'
import { Job, AnyObject, Pod } from '../../crds/kubernetes.ts'
import { pods, jobs } from '../clients/kubernetes/api-resources.ts'
import { resourcePath, type Kubernetes } from '../clients/kubernetes/client.ts'
import { escapeUnprintable } from '../log.ts'
import {
  booleanFlag,
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
} from './command.ts'
import { parseReference, readResource } from './resource.ts'
import { LABELS } from '../../crds/contract/names.ts'

export const logs: CliCommand = {
  name: 'logs',
  operands: '<kind>/<name>',
  operandCount: { min: 1, max: 2 },
  summary: 'print the log of the newest Job of a resource',
  details: [
    'A Job whose pod was replaced has a log for each pod; that of the newest pod is printed. Finished Jobs are deleted after a day unless the chart says otherwise.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    job: { type: 'string', value: 'NAME', description: 'Job; default: the newest one' },
    follow: { type: 'boolean', short: 'f', description: 'print new lines until the pod ends' },
  },
  run: printLog,
}

/** Longer than any Job. */
const FOLLOW_MS = 7 * 24 * 3_600_000
const READ_MS = 600_000
const MAX_ERROR = 500

async function printLog(call: Invocation): Promise<number> {
  const { resource, name } = parseReference(call.operands, 'logs')
  const { kubernetes, namespace } = await call.connect()
  const object = await readResource(kubernetes, resource, { namespace, name })
  const job = selectJob(await listJobs(kubernetes, object), {
    desired: stringFlag(call, 'job'),
    label: `${resource.kind} ${namespace}/${name}`,
  })
  const [pod] = await listPods(kubernetes, job)
  if (pod === undefined) {
    throw new CliError(`Job ${job.metadata.name} has no pod: see kubectl describe job`)
  }
  // A pod may have containers that admission has added.
  const container = job.spec?.template.spec.containers[0]?.name
  for await (const line of readLog(kubernetes, { ...pod.metadata, container }, call)) {
    call.print(`${escapeUnprintable(line)}\n`)
  }
  return EXIT_CODES.success
}

function selectJob(
  jobs: Job[],
  { desired, label }: { desired: string | undefined; label: string },
) {
  const job =
    desired === undefined ? jobs[0] : jobs.find(({ metadata }) => metadata.name === desired)
  if (job !== undefined) return job
  throw new CliError(
    desired === undefined ? `${label} has no Job` : `${label} has no Job ${desired}`,
  )
}

/** Lines of the log of a container. */
async function* readLog(
  kubernetes: Kubernetes,
  pod: { namespace?: string; name: string; container: string | undefined },
  call: Invocation,
): AsyncGenerator<string> {
  const { namespace = '', name, container } = pod
  const isFollowing = booleanFlag(call, 'follow')
  const query = new URLSearchParams({
    ...(container !== undefined && { container }),
    ...(isFollowing && { follow: 'true' }),
  })
  const path = resourcePath({ ...pods(namespace), subresource: 'log' }, name)
  const timeoutMs = isFollowing ? FOLLOW_MS : READ_MS
  const options = { headers: {}, timeoutMs, stallMs: timeoutMs, signal: call.signal }
  const response = await kubernetes.open('GET', `${path}?${query.toString()}`, options)
  if (response.status !== 200) {
    const text = (await response.body.toArray()).join('').slice(0, MAX_ERROR)
    throw new KubernetesError(`GET ${path} answered ${response.status}: ${text}`, {
      status: response.status,
    })
  }
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of response.body) {
    const lines = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

export async function listJobs(
  kubernetes: Kubernetes,
  { metadata: { namespace = '', uid = '' } }: AnyObject,
): Promise<Job[]> {
  const labelSelector = `${LABELS.parent}=${uid}`
  const found = await kubernetes.list(jobs(namespace), Job, { labelSelector })
  return found.toSorted(newestFirst)
}

async function listPods(
  kubernetes: Kubernetes,
  { metadata: { namespace = '', name } }: Job,
): Promise<Pod[]> {
  const labelSelector = `job-name=${name}`
  const found = await kubernetes.list(pods(namespace), Pod, { labelSelector })
  return found.toSorted(newestFirst)
}

interface Created {
  metadata: { name: string; creationTimestamp?: string | undefined }
}

function newestFirst(left: Created, right: Created): number {
  return sortKey(right).localeCompare(sortKey(left))
}

function sortKey({ metadata }: Created): string {
  return `${metadata.creationTimestamp ?? ''} ${metadata.name}`
}

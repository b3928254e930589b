/**
 * `support-bundle`: everything that explains the state of the resources of a namespace, in one file. It
 * reads no Secret but the API key that the engines need, and nothing secret is written.
 */
import { writeFile } from 'node:fs/promises'
import { gunzipSync } from 'node:zlib'
import { VecCluster } from '../../crds/cluster.ts'
import { EngineError, KubernetesError } from '../../crds/contract/errors.ts'
import { JOB_ENV } from '../../crds/contract/job.ts'
import { API_VERSION, LABELS, MANAGED_BY, releaseName } from '../../crds/contract/names.ts'
import { RESOURCES } from '../../crds/crd.ts'
import { redact as redactUrls } from '../clients/http/redact.ts'
import { errorMessage } from '../clients/http/request.ts'
import {
  apiResource,
  events,
  jobs,
  persistentVolumeClaims,
  pods,
  statefulSets,
  type ApiResourceFn,
} from '../clients/kubernetes/api-resources.ts'
import { resourcePath, type Kubernetes } from '../clients/kubernetes/client.ts'
import { requireSuccess } from '../clients/kubernetes/responses.ts'
import {
  CliError,
  CLUSTER_FLAGS,
  cliVersion,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
} from './command.ts'
import { readEngineStatus } from './engine-status.ts'
import { formatJson } from './output.ts'

export const supportBundle: CliCommand = {
  name: 'support-bundle',
  operands: '',
  operandCount: { min: 0, max: 0 },
  summary: 'collect what explains the state of a namespace into one file',
  details: [
    'Contains the resources of the seven kinds, their Jobs, pods, StatefulSets, volume claims and Events, the last lines of the logs of these pods, and what the nodes report about their shards. Contains no Secret; values of fields and variables that are named like a password, token or key, and credentials in URLs, are replaced. What you may not read is listed under "errors".',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    output: {
      type: 'string',
      short: 'o',
      value: 'FILE',
      description: 'file to write; default: vec-operator-<namespace>.json; - prints it',
    },
  },
  run: collect,
}

const LOG_LINES = 2_000

type Objects = object[]

interface Bundle {
  createdAt: string
  cliVersion: string
  namespace: string
  kubernetes?: unknown
  resources: Record<string, Objects>
  objects: Record<string, Objects>
  /** By pod, or by pod and container if it has several. */
  logs: Record<string, string>
  /** What the nodes report, by VecCluster. */
  engines: Record<string, unknown>
  /** What could not be read. */
  errors: string[]
}

async function collect(call: Invocation): Promise<number> {
  const { kubernetes, namespace } = await call.connect()
  const reader = new Reader(kubernetes, namespace)
  const resources: Bundle['resources'] = {}
  for (const { plural } of RESOURCES) {
    resources[plural] = await reader.list(apiResource(API_VERSION, plural))
  }
  const ownJobs = await reader.list(jobs, `${LABELS.managedBy}=${MANAGED_BY}`)
  const jobPods = await reader.list(pods, LABELS.parent)
  const clusters = resources[VecCluster.plural] ?? []
  const objects: Bundle['objects'] = { jobs: ownJobs, pods: jobPods, statefulsets: [], claims: [] }
  for (const cluster of clusters) {
    const selector = `app.kubernetes.io/instance=${releaseName(nameOf(cluster))}`
    objects['pods']?.push(...(await reader.list(pods, selector)))
    objects['statefulsets']?.push(...(await reader.list(statefulSets, selector)))
    objects['claims']?.push(...(await reader.list(persistentVolumeClaims, selector)))
  }
  const known = new Set([...Object.values(resources), ...Object.values(objects)].flat().map(nameOf))
  const allEvents = await reader.list(events)
  objects['events'] = allEvents.filter((event) => known.has(involvedName(event)))
  const logs: Bundle['logs'] = {}
  for (const pod of objects['pods'] ?? []) {
    const containers = containersOf(pod)
    for (const container of containers) {
      const log = await reader.log(nameOf(pod), container)
      const key = containers.length === 1 ? nameOf(pod) : `${nameOf(pod)}/${container}`
      if (log !== undefined) logs[key] = log
    }
  }
  const bundle: Bundle = {
    createdAt: call.time.now().toISOString(),
    cliVersion: cliVersion(),
    namespace,
    kubernetes: await reader.version(),
    resources,
    objects,
    logs,
    engines: await readEngines(clusters, reader, call),
    errors: reader.errors,
  }
  const text = formatJson(redact(bundle))
  const file = stringFlag(call, 'output') ?? `vec-operator-${namespace}.json`
  if (file === '-') call.print(text)
  else {
    await writeFile(file, text, { mode: 0o600 }).catch((error: unknown) => {
      throw new CliError(errorMessage(error))
    })
    call.print(`${file} written; ${reader.errors.length} errors\n`)
  }
  return EXIT_CODES.success
}

async function readEngines(
  clusters: Objects,
  reader: Reader,
  call: Invocation,
): Promise<Bundle['engines']> {
  const engines: Bundle['engines'] = {}
  for (const cluster of clusters) {
    const name = nameOf(cluster)
    engines[name] = await reader.attempt(`the nodes of VecCluster ${name}`, () =>
      readEngineStatus(reader.kubernetes, { cluster: cluster as VecCluster }, call),
    )
  }
  return engines
}

/** Reads what the caller may read, and notes the rest. */
class Reader {
  readonly kubernetes: Kubernetes
  readonly errors: string[] = []
  readonly #namespace: string

  constructor(kubernetes: Kubernetes, namespace: string) {
    this.kubernetes = kubernetes
    this.#namespace = namespace
  }

  async attempt<Result>(what: string, read: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await read()
    } catch (error) {
      if (!(error instanceof KubernetesError || error instanceof EngineError)) throw error
      this.errors.push(`${what}: ${error.message}`)
      return undefined
    }
  }

  async list(resourceIn: ApiResourceFn, labelSelector?: string): Promise<Objects> {
    const resource = resourceIn(this.#namespace)
    const selector = labelSelector === undefined ? {} : { labelSelector }
    const read = () => this.kubernetes.collect(resource, selector, (object) => object)
    return (await this.attempt(resource.plural, read)) ?? []
  }

  log(pod: string, container: string): Promise<string | undefined> {
    const resource = { ...pods(this.#namespace), subresource: 'log' }
    const query = new URLSearchParams({ container, tailLines: String(LOG_LINES) })
    const path = `${resourcePath(resource, pod)}?${query.toString()}`
    return this.attempt(`log of container ${container} of pod ${pod}`, async () =>
      requireSuccess(await this.kubernetes.call('GET', path), `GET ${path}`),
    )
  }

  version(): Promise<unknown> {
    return this.attempt('version of Kubernetes', async () => {
      const response = await this.kubernetes.call('GET', '/version')
      return JSON.parse(requireSuccess(response, 'GET /version')) as unknown
    })
  }
}

function nameOf(object: object): string {
  return (object as { metadata?: { name?: string } }).metadata?.name ?? ''
}

function containersOf(pod: object): string[] {
  const { initContainers = [], containers = [] } = (pod as { spec?: PodContainers }).spec ?? {}
  return [...initContainers, ...containers].map(({ name }) => name)
}

interface PodContainers {
  initContainers?: { name: string }[]
  containers?: { name: string }[]
}

function involvedName(event: object): string {
  return (event as { involvedObject?: { name?: string } }).involvedObject?.name ?? ''
}

const SECRET_NAME =
  /(password|passwd|passphrase|token|secret|credential|(api|access|secret|private)[-_.]?key|signature|authorization)$/i
const REDACTED = 'redacted'

/**
 * Without text in fields and variables that are named like a secret, without the credentials in URLs, and without
 * kubectl's copy of a manifest. JSON in a text, such as an annotation or the plan of a Job, is redacted as well.
 */
export function redact(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redact)
  if (typeof value === 'string') return redactText(value)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([key]) => key !== LAST_APPLIED)
  const { name } = value as { name?: unknown }
  const isSecretVariable = typeof name === 'string' && SECRET_NAME.test(name)
  return Object.fromEntries(
    entries.map(([key, inner]) => {
      const isSecret = SECRET_NAME.test(key) || (key === 'value' && isSecretVariable)
      if (isSecret && typeof inner === 'string') return [key, REDACTED]
      return [key, redact(key === 'value' && name === JOB_ENV.plan ? planText(inner) : inner)]
    }),
  )
}

function redactText(text: string): string {
  const parsed = parseObject(text)
  return parsed === undefined ? redactUrls(text) : JSON.stringify(redact(parsed))
}

/** Undefined if the text is not a JSON object or array. */
function parseObject(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text) as object
  } catch {
    return undefined
  }
}

/** The plan of a Job is compressed, and has the spec. */
function planText(value: unknown): unknown {
  try {
    return gunzipSync(Buffer.from(String(value), 'base64')).toString()
  } catch {
    return REDACTED
  }
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

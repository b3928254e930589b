/**
 * Options of the service from command-line arguments and environment variables; arguments take
 * precedence. An invalid value is rejected with the name of the flag or variable. Also what differs outside of a pod: the
 * kubeconfig, and calls to engines through the API server.
 */
import { isIP, isIPv6 } from 'node:net'
import { parseArgs } from 'node:util'
import { Type, type Static, type TSchema } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { DEFAULT_CLUSTER_DOMAIN, isDnsLabel } from '../crds/contract/names.ts'
import { StringMap } from '../crds/schema.ts'
import { compareMinors } from '../crds/versions.ts'
import { volumesError } from '../hooks/job-pod.ts'
import type { Settings } from '../hooks/protocol.ts'
import type { LeaderOptions } from './leader/replica.ts'

export interface Options {
  /** Kubeconfig for the Kubernetes API; absent inside a cluster. */
  kubeconfig?: string
  port: number
  host: string
  tokenFile?: string
  insecureHooks: boolean
  tls?: { certFile: string; keyFile: string }
  /** Secret in which the service stores the token and the certificate that no file provides. */
  identity?: {
    secret: { namespace: string; name: string }
    hosts: string[]
    rotation: string
    ownTls: boolean
  }
  /** This replica and the Service of the leader; absent if there is one replica. */
  leader?: LeaderOptions
  /** Namespace of the pod, which contains the image pull Secrets. */
  ownNamespace?: string
  /**
   * `direct` if pod addresses and names resolve from this process; `proxy` calls through the API
   * server.
   */
  engineRoute: 'direct' | 'proxy'
  /** Addresses that a purge may connect to; absent outside a cluster. */
  purgeRules?: { allowHttp: boolean; denied: string[] }
  /** Release, image, chart and Jobs. Includes the log settings, which also apply to Jobs. */
  settings: Settings
}

type Environment = Readonly<Record<string, string | undefined>>

export const USAGE = `Usage: vec-operator serve [options]
  --namespace NAME    serve this namespace only; repeatable
  --kubeconfig FILE   kubeconfig for the API (default: the pod's ServiceAccount, then KUBECONFIG)
  --port NUMBER       port of the hooks (PORT, 8080)
  --host ADDRESS      address to listen on (HOST, 0.0.0.0)
  --cross-namespace open|closed
                      whether other namespaces may use clusters without the annotation allowed-namespaces
                      (CROSS_NAMESPACE, open)
  --insecure-hooks    accept calls without a token: any client that reaches the port may call the hooks
  --log-level LEVEL   DEBUG, INFO, WARNING or ERROR (LOG_LEVEL, INFO)
  --log-format FORMAT json or text (LOG_FORMAT, json)
  --help              print this
Environment only: HOOK_SECRET, HOOK_HOSTS, HOOK_TLS, HOOK_TOKEN_ROTATION, HOOK_TOKEN_FILE, PURGE_HTTP, PURGE_DENIED, TLS_CERT_FILE, TLS_KEY_FILE, IMAGE, IMAGE_PULL_POLICY,
IMAGE_PULL_SECRETS, POD_NAMESPACE, LEADER_SERVICE, POD_NAME, POD_UID, POD_IP, CLUSTER_DOMAIN, ENGINE_CHART_NAME, ENGINE_CHART_REPOSITORY, ENGINE_CHART_PULL_SECRET, ENGINE_CHART_CREDENTIALS_SECRET, ENGINE_CHART_CA, ENGINE_STEP_VERSIONS, ENGINE_ROUTE, JOB_RESOURCES, JOB_PODS,
JOB_HISTORY_SECONDS, MAX_HELM_JOBS
`

const FLAGS = {
  namespace: { type: 'string', multiple: true },
  kubeconfig: { type: 'string' },
  port: { type: 'string' },
  host: { type: 'string' },
  'cross-namespace': { type: 'string' },
  'insecure-hooks': { type: 'boolean', default: false },
  'log-level': { type: 'string' },
  'log-format': { type: 'string' },
  help: { type: 'boolean', default: false },
} as const

const LOG_LEVELS = ['DEBUG', 'INFO', 'WARNING', 'ERROR']
const LOG_FORMATS = ['json', 'text']

const ResourceRequirements = Type.Object({ requests: StringMap(), limits: StringMap() })
const JobResources = Type.Object({ helm: ResourceRequirements, data: ResourceRequirements })

const UnknownMap = Type.Record(Type.String(), Type.Unknown())
const JobPod = Type.Partial(
  Type.Object({
    labels: StringMap(),
    annotations: StringMap(),
    nodeSelector: StringMap(),
    tolerations: Type.Array(UnknownMap),
    affinity: UnknownMap,
    priorityClassName: Type.String(),
    podSecurityContext: UnknownMap,
    securityContext: UnknownMap,
    env: Type.Array(Type.Object({ name: Type.String() })),
    volumes: Type.Array(Type.Object({ name: Type.String() })),
    volumeMounts: Type.Array(Type.Object({ name: Type.String(), mountPath: Type.String() })),
  }),
)
const JobPods = Type.Object({ helm: Type.Optional(JobPod), data: Type.Optional(JobPod) })

/** A host name has at most 253 characters; those of pods have up to 187 before the domain. */
const MAX_DOMAIN = 66

const HELM_RESOURCES = { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '256Mi' } }
const DATA_RESOURCES = { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } }

/** Options of the process; `undefined` requests the usage text. */
export function parseOptions(
  args: string[],
  env: Environment,
  version: string,
): Options | undefined {
  const { values: flags } = parseArgs({ args, options: FLAGS, strict: true })
  if (flags.help) return undefined
  const inCluster = env['KUBERNETES_SERVICE_HOST'] !== undefined && flags.kubeconfig === undefined
  const kubeconfig = flags.kubeconfig ?? (inCluster ? undefined : env['KUBECONFIG'])
  const tokenFile = env['HOOK_TOKEN_FILE']
  const identity = parseIdentity(env)
  if (tokenFile === undefined && identity === undefined && !flags['insecure-hooks']) {
    throw new Error(
      'neither HOOK_SECRET nor HOOK_TOKEN_FILE is set; --insecure-hooks accepts calls without a token',
    )
  }
  const tls = parseTlsFiles(env)
  const port = parseInteger('PORT', flags.port ?? env['PORT'] ?? '8080', 65535)
  const leader = parseLeader(env, port)
  const logLevel = parseChoice(
    'LOG_LEVEL',
    LOG_LEVELS,
    flags['log-level'] ?? env['LOG_LEVEL'] ?? 'INFO',
  )
  const logFormat = parseChoice(
    'LOG_FORMAT',
    LOG_FORMATS,
    flags['log-format'] ?? env['LOG_FORMAT'] ?? 'json',
  )
  return {
    ...(kubeconfig !== undefined && { kubeconfig }),
    port,
    host: flags.host ?? env['HOST'] ?? '0.0.0.0',
    ...(tokenFile !== undefined && { tokenFile }),
    insecureHooks: flags['insecure-hooks'],
    ...(tls && { tls }),
    ...(identity && { identity }),
    ...(leader && { leader }),
    ...(inCluster && { purgeRules: parsePurgeRules(env) }),
    ...(env['POD_NAMESPACE'] !== undefined && { ownNamespace: env['POD_NAMESPACE'] }),
    engineRoute: parseChoice(
      'ENGINE_ROUTE',
      ['direct', 'proxy'] as const,
      env['ENGINE_ROUTE'] ?? (inCluster ? 'direct' : 'proxy'),
    ),
    settings: parseSettings(env, {
      ...{ version, logLevel, logFormat },
      namespaces: parseNamespaces(flags.namespace ?? []),
      crossNamespace: parseChoice(
        'CROSS_NAMESPACE',
        ['open', 'closed'] as const,
        flags['cross-namespace'] ?? env['CROSS_NAMESPACE'] ?? 'open',
      ),
    }),
  }
}

function parseSettings(
  env: Environment,
  base: Pick<Settings, 'version' | 'logLevel' | 'logFormat' | 'namespaces' | 'crossNamespace'>,
): Settings {
  return {
    ...base,
    clusterDomain: parseDomain(env['CLUSTER_DOMAIN'] ?? DEFAULT_CLUSTER_DOMAIN),
    image: env['IMAGE'] ?? `ghcr.io/vec-operator/vec-operator:${base.version}`,
    imagePullPolicy: parseChoice(
      'IMAGE_PULL_POLICY',
      ['Always', 'IfNotPresent', 'Never'] as const,
      env['IMAGE_PULL_POLICY'] ?? 'IfNotPresent',
    ),
    imagePullSecrets: parsePullSecrets(env),
    // The server sets the keys for each decision because tokens rotate.
    jobKeys: [],
    chart: parseChart(env),
    stepVersions: parseStepVersions(env['ENGINE_STEP_VERSIONS'] ?? ''),
    maxHelmJobs: parseInteger('MAX_HELM_JOBS', env['MAX_HELM_JOBS'] ?? '10', 1000),
    historySeconds: parseInteger(
      'JOB_HISTORY_SECONDS',
      env['JOB_HISTORY_SECONDS'] ?? '86400',
      10 ** 8,
    ),
    jobResources: parseJobResources(env['JOB_RESOURCES']),
    jobPods: parseJobPods(env['JOB_PODS']),
  }
}

function parseChart(env: Environment): Settings['chart'] {
  const pullSecret = env['ENGINE_CHART_PULL_SECRET']
  const credentialsSecret = env['ENGINE_CHART_CREDENTIALS_SECRET']
  const caBundle = env['ENGINE_CHART_CA']
  const repository = env['ENGINE_CHART_REPOSITORY'] ?? 'https://qdrant.github.io/qdrant-helm'
  for (const name of ['ENGINE_CHART_PULL_SECRET', 'ENGINE_CHART_CREDENTIALS_SECRET']) {
    if (env[name] !== undefined && env['POD_NAMESPACE'] === undefined)
      throw new Error(`${name} needs POD_NAMESPACE, the namespace it is in`)
  }
  if (credentialsSecret !== undefined && !/^https?:[/][/]/.test(repository)) {
    throw new Error(
      'ENGINE_CHART_CREDENTIALS_SECRET is for an http:// or https:// ENGINE_CHART_REPOSITORY; an oci:// registry needs ENGINE_CHART_PULL_SECRET',
    )
  }
  return {
    name: env['ENGINE_CHART_NAME'] ?? 'qdrant',
    repository,
    ...(pullSecret !== undefined && { pullSecret }),
    ...(credentialsSecret !== undefined && { credentialsSecret }),
    ...(caBundle !== undefined && { caBundle }),
  }
}

/** Image pull Secrets are copied from the namespace of the pod; outside a cluster there is none. */
function parsePullSecrets(env: Environment): string[] {
  const names = (env['IMAGE_PULL_SECRETS'] ?? '').split(',').filter((name) => name !== '')
  if (names.length > 0 && env['POD_NAMESPACE'] === undefined) {
    throw new Error('IMAGE_PULL_SECRETS needs POD_NAMESPACE, the namespace they are in')
  }
  return names
}

/**
 * With an empty name the API server answers 404 to each list, as it does where a kind is not installed: the
 * work of other resources on a cluster would not be seen.
 */
function parseNamespaces(names: string[]): string[] {
  const invalid = names.find((name) => !isDnsLabel(name))
  if (invalid === undefined) return names
  throw new Error(`--namespace: "${invalid}" is not the name of a namespace`)
}

/** Part of the host names of engines; a final dot would be missing from their certificates. */
function parseDomain(text: string): string {
  if (text.length > MAX_DOMAIN || !text.split('.').every(isDnsLabel)) {
    throw new Error(
      `CLUSTER_DOMAIN: "${text}" is not a DNS domain such as cluster.local, without a dot at its end`,
    )
  }
  return text
}

function parseStepVersions(text: string): string[] {
  const versions = text.split(',').filter((version) => version !== '')
  for (const [index, version] of versions.entries()) {
    if (!/^\d+\.\d+\.\d+$/.test(version)) {
      throw new Error(`ENGINE_STEP_VERSIONS: "${version}" is not a version such as 1.17.1`)
    }
    const other = versions.slice(0, index).find((one) => compareMinors(one, version) === 0)
    if (other !== undefined) {
      throw new Error(
        `ENGINE_STEP_VERSIONS: ${other} and ${version} have the same minor version: name one of them`,
      )
    }
  }
  return versions
}

function parseJobResources(text: string | undefined): Settings['jobResources'] {
  if (text === undefined) return { helm: HELM_RESOURCES, data: DATA_RESOURCES }
  return parseJson('JOB_RESOURCES', text, JobResources)
}

function parseJobPods(text: string | undefined): Settings['jobPods'] {
  const { helm = {}, data = {} } = text === undefined ? {} : parseJson('JOB_PODS', text, JobPods)
  for (const [component, pod] of Object.entries({ helm, data })) {
    const error = volumesError(pod)
    if (error !== undefined) throw new Error(`JOB_PODS.${component}${error}`)
  }
  return { helm, data }
}

function parseJson<Schema extends TSchema>(
  name: string,
  text: string,
  schema: Schema,
): Static<Schema> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error(`${name} is not JSON`)
  }
  if (Value.Check(schema, value)) return value
  const { path = '', message = '' } = Value.Errors(schema, value).First() ?? {}
  throw new Error(`${name}${path.replaceAll('/', '.')}: ${message}`)
}

function parsePurgeRules(env: Environment): NonNullable<Options['purgeRules']> {
  const http = parseChoice('PURGE_HTTP', ['allow', 'refuse'] as const, env['PURGE_HTTP'] ?? 'allow')
  const denied = (env['PURGE_DENIED'] ?? '').split(',').filter((network) => network !== '')
  return { allowHttp: http === 'allow', denied: [...denied, ...apiServerNetwork(env)] }
}

/** A purge must not connect to the API server, which is never an object store. */
function apiServerNetwork({ KUBERNETES_SERVICE_HOST: host = '' }: Environment): string[] {
  if (isIP(host) === 0) return []
  return [`${host}/${isIPv6(host) ? 128 : 32}`]
}

/** `LEADER_SERVICE` is `<namespace>/<name>`; the kubelet sets the others. */
function parseLeader(env: Environment, port: number): LeaderOptions | undefined {
  const reference = env['LEADER_SERVICE']
  if (reference === undefined) return undefined
  const { POD_NAME: name, POD_UID: uid, POD_IP: address = '' } = env
  if (name === undefined || uid === undefined || isIP(address) === 0)
    throw new Error('LEADER_SERVICE needs POD_NAME, POD_UID and POD_IP, an address')
  const service = parseReference('LEADER_SERVICE', reference)
  return { service, replica: { pod: { name, uid }, address, port } }
}

function parseReference(variable: string, text: string): { namespace: string; name: string } {
  const [namespace = '', name = '', ...rest] = text.split('/')
  if (namespace === '' || name === '' || rest.length > 0)
    throw new Error(`${variable}: "${text}" is not <namespace>/<name>`)
  return { namespace, name }
}

/**
 * `HOOK_SECRET` is `<namespace>/<name>`; `HOOK_HOSTS` are the host names that Metacontroller calls.
 */
function parseIdentity(env: Environment): Options['identity'] {
  const { HOOK_SECRET: reference, HOOK_HOSTS: hosts, HOOK_TLS: tls = 'on' } = env
  if (reference === undefined) return undefined
  const secret = parseReference('HOOK_SECRET', reference)
  const hostNames = (hosts ?? '').split(',').filter((host) => host !== '')
  if (hostNames.length === 0)
    throw new Error('HOOK_SECRET needs HOOK_HOSTS, the names of this service')
  return {
    secret,
    hosts: hostNames,
    rotation: env['HOOK_TOKEN_ROTATION'] ?? '',
    ownTls: parseChoice('HOOK_TLS', ['on', 'off'] as const, tls) === 'on',
  }
}

function parseTlsFiles(env: Environment): Options['tls'] {
  const { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = env
  if (certFile === undefined && keyFile === undefined) return undefined
  if (certFile === undefined || keyFile === undefined) {
    throw new Error('TLS_CERT_FILE and TLS_KEY_FILE need each other')
  }
  return { certFile, keyFile }
}

function parseChoice<const Choice extends string>(
  name: string,
  choices: readonly Choice[],
  text: string,
): Choice {
  const choice = choices.find((candidate) => candidate === text)
  if (choice === undefined)
    throw new Error(`${name}: "${text}" is not one of ${choices.join(', ')}`)
  return choice
}

function parseInteger(name: string, text: string, maximum: number): number {
  const number = Number(text)
  if (!/^[0-9]+$/.test(text) || number > maximum) {
    throw new Error(`${name}: "${text}" is not a whole number up to ${maximum}`)
  }
  return number
}

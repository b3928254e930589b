/**
 * The service process: connects real clients to the hooks and the hooks to the server, then opens
 * the port. All decisions are in hooks/.
 */
import type { Server } from 'node:https'
import type { Logger } from 'pino'
import manifest from '../package.json' with { type: 'json' }
import { buildServer, type ServerOptions } from '../hooks/server.ts'
import { AddressGuard } from '../jobs/clients/http/address-guard.ts'
import { EngineConnections } from '../jobs/clients/engine/transport.ts'
import { serviceAccess } from '../jobs/clients/kubernetes/access.ts'
import { jobLog } from '../jobs/log.ts'
import { PLURALS } from './controllers.ts'
import { watchCrdVersions } from './crd-version.ts'
import { liveStatusReader } from './ports/common.ts'
import { engineLookup, serviceReader } from './ports/engine-client.ts'
import { loadHookCredentials, type HookCredentials } from './identity/hook-credentials.ts'
import { serviceMetrics } from './metrics/index.ts'
import { startReplica, type LeaderOptions } from './leader/replica.ts'
import { parseOptions, USAGE, type Options } from './options.ts'
import { patchCluster, readCrd, listClusters } from './ports/cluster.ts'
import { createKindHooks } from './hooks.ts'
import { ServiceKubernetes } from './ports/kubernetes-client.ts'
import { markClustersOnStartup } from './startup-upgrades.ts'
import { systemTimers, type Timers } from './runtime.ts'

export interface ServiceOptions extends Omit<Options, 'insecureHooks'> {
  insecureHooks?: boolean
  log: Logger
  /** Clock and timers; tests replace them. */
  now?: () => Date
  setTimeout?: Timers['setTimeout']
  /** How long a hook waits for an engine before the call continues in the background. */
  inlineMs?: number
}

export interface Service {
  url: string
  close(): Promise<void>
}

/**
 * Tenants control their engines: the responses of one engine must not exhaust the memory of the
 * service.
 */
const ENGINE_RESPONSE_LIMITS = { maxBytes: 2 * 1024 * 1024, budgetBytes: 8 * 1024 * 1024 }
const SHUTDOWN_TIMEOUT_MS = 20_000

export async function startService(options: ServiceOptions): Promise<Service> {
  return serveHooks(options, await connect(options))
}

async function serveHooks(options: ServiceOptions, foundation: Foundation): Promise<Service> {
  const { log, settings } = options
  const { namespaces } = settings
  const { now, timers, kubernetes, metrics } = foundation
  const credentials = await loadCredentials(options, foundation)
  const startedAt = now()
  metrics.lead()
  const guard = new AddressGuard({ allowHttp: true, denied: [] })
  const connections = new EngineConnections({
    ...ENGINE_RESPONSE_LIMITS,
    clusterDomain: settings.clusterDomain,
    ...(options.engineRoute === 'direct' && {
      lookup: engineLookup(guard, serviceReader(kubernetes, now)),
    }),
  })
  const kindHooks = createKindHooks({
    ...{ ...options, namespaces, kubernetes, connections, now, timers, metrics },
    jobKeys: () => credentials.jobKeys(),
  })
  const crdVersions = await watchCrdVersions({
    version: settings.version,
    plurals: kindHooks.map(({ plural }) => plural),
    read: (name) => readCrd(kubernetes, name),
    timers,
    log,
  })
  const server = buildServer({
    ...serverOptions(options, foundation, credentials),
    hooks: kindHooks,
    outdatedCrd: (plural) => crdVersions.outdatedReason(plural),
    liveStatus: liveStatusReader(kubernetes),
  })
  const url = await server.listen({ port: options.port, host: options.host })
  const stopStartupMarks = markClustersOnStartup({
    ...{ startedAt, version: settings.version },
    list: () => listClusters(kubernetes, namespaces),
    patch: (cluster, patch) => patchCluster(kubernetes, cluster, patch),
    now,
    timers,
    log,
  })
  const stopWatching = credentials.watch(server.server as unknown as Server)
  log.info({ url, version: settings.version, namespaces }, 'serving')
  return {
    url,
    async close() {
      crdVersions.stop()
      stopStartupMarks()
      stopWatching()
      await server.close()
      await connections.close()
    },
  }
}

/** Answers probes, and no hooks: another replica is the leader. */
async function serveProbes(options: ServiceOptions, foundation: Foundation): Promise<Service> {
  const credentials = await loadCredentials(options, foundation)
  const server = buildServer({ ...serverOptions(options, foundation, credentials), hooks: [] })
  const url = await server.listen({ port: options.port, host: options.host })
  const stopWatching = credentials.watchCertificate(server.server as unknown as Server)
  options.log.info({ url }, 'waiting for leadership')
  return {
    url,
    async close() {
      stopWatching()
      await server.close()
    },
  }
}

type Foundation = Awaited<ReturnType<typeof connect>>

/** What a process has once, whether it leads or waits: its clock, its metrics and its client. */
async function connect(options: ServiceOptions) {
  const { log, settings, now = () => new Date() } = options
  const timers = options.setTimeout ? { setTimeout: options.setTimeout } : systemTimers
  const metrics = serviceMetrics(settings.version, now)
  const kubernetes = new ServiceKubernetes(await serviceAccess(options.kubeconfig), log, {
    onCall: (call) => metrics.recordCall('kubernetes', call),
    now,
  })
  return { now, timers, metrics, kubernetes }
}

function loadCredentials(
  options: ServiceOptions,
  { kubernetes, now, timers }: Foundation,
): Promise<HookCredentials> {
  const { log } = options
  return loadHookCredentials(options, { kubernetes, plurals: PLURALS, now, timers, log })
}

function serverOptions(
  { log, settings }: ServiceOptions,
  { now, metrics }: Foundation,
  credentials: HookCredentials,
): Omit<ServerOptions, 'hooks'> {
  return {
    ...{ log, now, settings, metrics },
    tokens: () => credentials.tokens(),
    jobKeys: () => credentials.jobKeys(),
    ...(credentials.tls && { tls: credentials.tls }),
  }
}

/** One of several replicas, which is the leader or waits to be. */
export async function startElected(
  options: ServiceOptions & { leader: LeaderOptions },
  onLost: (reason: string) => void,
): ReturnType<typeof startReplica> {
  const { log, leader } = options
  const foundation = await connect(options)
  const { kubernetes, now, timers } = foundation
  return startReplica({
    ...{ ...leader, kubernetes, now, timers, log, onLost },
    startStandby: () => serveProbes(options, foundation),
    startLeader: () => serveHooks(options, foundation),
  })
}

async function main(): Promise<void> {
  const options = parseOptions(process.argv.slice(2), process.env, manifest.version)
  if (options === undefined) {
    process.stdout.write(USAGE)
    return
  }
  const { logLevel, logFormat } = options.settings
  const log = jobLog({ LOG_LEVEL: logLevel, LOG_FORMAT: logFormat })
  const { leader } = options
  const service =
    leader === undefined
      ? await startService({ ...options, log })
      : await startElected({ ...options, leader, log }, (reason) => {
          log.fatal({ reason }, 'the process ends: it must not answer hooks')
          process.exit(1)
        })
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => void stop(service, log, signal))
  }
}

/**
 * Completes the requests in progress, then exits; the timeout prevents a hanging hook from keeping
 * the process alive.
 */
async function stop(service: Pick<Service, 'close'>, log: Logger, signal: string): Promise<void> {
  log.info({ signal }, 'stopping')
  setTimeout(() => process.exit(1), SHUTDOWN_TIMEOUT_MS).unref()
  await service.close()
  process.exit(0)
}

if (import.meta.main) {
  main().catch((error: unknown) => {
    process.stderr.write(`vec-operator: ${error instanceof Error ? error.message : 'failed'}\n`)
    process.exit(1)
  })
}

/**
 * The Kubernetes API by kubeconfig, with all login methods of @kubernetes/client-node. Importing
 * that package costs 0.4 s and 60 MB, so only processes outside the cluster do it.
 */
import { existsSync } from 'node:fs'
import { delimiter } from 'node:path'
import { HttpMethod, KubeConfig, RequestContext } from '@kubernetes/client-node'
import type { Dispatcher } from 'undici'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import type { ApiAccess } from './client.ts'

/** Uses these files, a list as in KUBECONFIG; without them, KUBECONFIG or ~/.kube/config. */
export function kubeconfigAccess(files?: string): ApiAccess {
  return accessFrom(loadConfig(files))
}

/** The same with a given context, and the namespace of that context. */
export function contextAccess({ kubeconfig, context }: { kubeconfig?: string; context?: string }): {
  access: ApiAccess
  namespace: string | undefined
} {
  const config = loadConfig(kubeconfig)
  if (context !== undefined) {
    if (config.getContextObject(context) === null) {
      throw new KubernetesError(`the kubeconfig has no context ${context}`)
    }
    config.setCurrentContext(context)
  }
  const current = config.getContextObject(config.getCurrentContext())
  return { access: accessFrom(config), namespace: current?.namespace }
}

/**
 * Merges several files as kubectl does: a missing file is skipped, and for each name, and for the
 * current context, the first file that defines it wins. The client would reject both.
 */
function loadConfig(paths = process.env['KUBECONFIG'] ?? ''): RecordingConfig {
  const config = new RecordingConfig()
  const files = existsSync(paths) ? [paths] : paths.split(delimiter).filter((file) => file !== '')
  if (files.length === 0) {
    config.loadFromDefault()
    if (config.getCurrentCluster()?.server === NO_SERVER) {
      throw new KubernetesError('KUBECONFIG is not set, and there is no ~/.kube/config')
    }
    return config
  }
  const configs = files.filter((file) => existsSync(file)).map(loadFile)
  if (configs.length === 0) throw new KubernetesError(`kubeconfig ${paths} does not exist`)
  config.loadFromOptions({
    clusters: uniqueByName(configs.flatMap(({ clusters }) => clusters)),
    users: uniqueByName(configs.flatMap(({ users }) => users)),
    contexts: uniqueByName(configs.flatMap(({ contexts }) => contexts)),
    currentContext: configs.map(({ currentContext }) => currentContext).find(Boolean),
  })
  return config
}

/** What the client falls back to without any file. */
const NO_SERVER = 'http://localhost:8080'

function loadFile(file: string): KubeConfig {
  const config = new KubeConfig()
  config.loadFromFile(file)
  return config
}

function uniqueByName<T extends { name: string }>(entries: T[]): T[] {
  return [...new Map(entries.toReversed().map((entry) => [entry.name, entry])).values()]
}

function accessFrom(config: RecordingConfig): ApiAccess {
  const cluster = config.getCurrentCluster()
  if (cluster === null) throw new KubernetesError('the kubeconfig has no current context')
  const server = cluster.server.replace(/\/$/, '')
  let cached: { options: string; dispatcher: Dispatcher | undefined } | undefined
  return {
    server,
    authorize: async () => {
      const context = new RequestContext(server, HttpMethod.GET)
      await config.applySecurityAuthentication(context)
      // The client creates a connection pool for each call; calls with equal options share the
      // first pool.
      const { options } = config
      if (cached?.options !== options) cached = { options, dispatcher: context.getDispatcher() }
      return { headers: context.getHeaders(), dispatcher: cached.dispatcher }
    },
  }
}

/**
 * Records the connection options of the last call: authorities and client certificates may be
 * renewed.
 */
class RecordingConfig extends KubeConfig {
  options = ''

  override createDispatcherOptions(...[cluster, agent]: DispatcherParameters): DispatcherOptions {
    const options = super.createDispatcherOptions(cluster, agent)
    this.options = JSON.stringify(options)
    return options
  }
}

type DispatcherParameters = Parameters<KubeConfig['createDispatcherOptions']>
type DispatcherOptions = ReturnType<KubeConfig['createDispatcherOptions']>

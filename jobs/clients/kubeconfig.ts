/**
 * The Kubernetes API by kubeconfig, with all that @kubernetes/client-node knows about logging in.
 * Importing that costs 0.4 s and 60 MB, so only who runs outside the cluster does.
 */
import { HttpMethod, KubeConfig, RequestContext } from '@kubernetes/client-node'
import type { Dispatcher } from 'undici'
import { KubernetesError } from '../../crds/errors.ts'
import type { Access } from './kubernetes.ts'

/** As that file says; without one, as KUBECONFIG or ~/.kube/config. */
export function kubeconfigAccess(file?: string): Access {
  return accessBy(configFrom(file))
}

/** The same in a context of one's choice, and the namespace of that context. */
export function contextAccess({ kubeconfig, context }: { kubeconfig?: string; context?: string }): {
  access: Access
  namespace: string | undefined
} {
  const config = configFrom(kubeconfig)
  if (context !== undefined) {
    if (config.getContextObject(context) === null) {
      throw new KubernetesError(`the kubeconfig has no context ${context}`)
    }
    config.setCurrentContext(context)
  }
  const current = config.getContextObject(config.getCurrentContext())
  return { access: accessBy(config), namespace: current?.namespace }
}

function configFrom(file: string | undefined): ObservedConfig {
  const config = new ObservedConfig()
  if (file === undefined) config.loadFromDefault()
  else config.loadFromFile(file)
  return config
}

function accessBy(config: ObservedConfig): Access {
  const cluster = config.getCurrentCluster()
  if (cluster === null) throw new KubernetesError('the kubeconfig has no current context')
  const server = cluster.server.replace(/\/$/, '')
  let kept: { options: string; dispatcher: Dispatcher | undefined } | undefined
  return {
    server,
    authorize: async () => {
      const context = new RequestContext(server, HttpMethod.GET)
      await config.applySecurityAuthentication(context)
      // The client makes a pool of connections for each call; all that agree in how share the first.
      const { options } = config
      if (kept?.options !== options) kept = { options, dispatcher: context.getDispatcher() }
      return { headers: context.getHeaders(), dispatcher: kept.dispatcher }
    },
  }
}

/** Tells how the last call was to connect: authorities and client certificates may be renewed. */
class ObservedConfig extends KubeConfig {
  options = ''

  override createDispatcherOptions(...[cluster, agent]: DispatcherParameters): DispatcherOptions {
    const options = super.createDispatcherOptions(cluster, agent)
    this.options = JSON.stringify(options)
    return options
  }
}

type DispatcherParameters = Parameters<KubeConfig['createDispatcherOptions']>
type DispatcherOptions = ReturnType<KubeConfig['createDispatcherOptions']>

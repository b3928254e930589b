/**
 * The Kubernetes API for the hook service and for people's commands: the same client, which finds its
 * way by kubeconfig with all that @kubernetes/client-node knows about logging in. Importing that costs
 * 0.4 s and 126 MB, so Jobs use `podAccess` instead.
 */
import { existsSync } from 'node:fs'
import { HttpMethod, KubeConfig, RequestContext } from '@kubernetes/client-node'
import type { Dispatcher } from 'undici'
import { KubernetesError } from '../../crds/errors.ts'
import { ACCOUNT_FOLDER, type Access } from './kubernetes.ts'

/** A kubeconfig that was named; else the mounted service account; else KUBECONFIG or ~/.kube/config. */
export function serviceAccess(kubeconfig?: string, root = ''): Access {
  const config = new ObservedConfig()
  if (kubeconfig !== undefined) config.loadFromFile(kubeconfig)
  else if (existsSync(`${root}${ACCOUNT_FOLDER}/token`)) config.loadFromCluster(root)
  else config.loadFromDefault()
  return accessBy(config)
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

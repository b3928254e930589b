/**
 * The Kubernetes API for the hook service and for people's commands: the same client, which finds its
 * way by kubeconfig with all that @kubernetes/client-node knows about logging in. Importing that costs
 * 0.4 s and 126 MB, so Jobs use `podAccess` instead.
 */
import { existsSync } from 'node:fs'
import { HttpMethod, KubeConfig, RequestContext } from '@kubernetes/client-node'
import { KubernetesError } from '../../crds/errors.ts'
import { ACCOUNT_FOLDER, type Access } from './kubernetes.ts'

/** A kubeconfig that was named; else the mounted service account; else KUBECONFIG or ~/.kube/config. */
export function serviceAccess(kubeconfig?: string, root = ''): Access {
  const config = new KubeConfig()
  if (kubeconfig !== undefined) config.loadFromFile(kubeconfig)
  else if (existsSync(`${root}${ACCOUNT_FOLDER}/token`)) config.loadFromCluster(root)
  else config.loadFromDefault()
  return accessBy(config)
}

function accessBy(config: KubeConfig): Access {
  const cluster = config.getCurrentCluster()
  if (cluster === null) throw new KubernetesError('the kubeconfig has no current context')
  const server = cluster.server.replace(/\/$/, '')
  return {
    server,
    authorize: async () => {
      const context = new RequestContext(server, HttpMethod.GET)
      await config.applySecurityAuthentication(context)
      return { headers: context.getHeaders(), dispatcher: context.getDispatcher() }
    },
  }
}

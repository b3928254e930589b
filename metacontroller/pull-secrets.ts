/** The image pull Secrets of the operator's own namespace, and their copies for Jobs. */
import type { ClusterPorts } from '../hooks/cluster/ports.ts'
import type { PullSecretPorts } from '../hooks/pull-secrets.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { copyPorts } from './copies.ts'
import type { Log } from './start-mark.ts'

export interface PullSecretTools {
  kubernetes: Kubernetes
  secret: ClusterPorts['secret']
  ownNamespace: string
  log: Log
}

export function pullSecretPorts(tools: PullSecretTools): PullSecretPorts {
  const { kubernetes, secret, ownNamespace, log } = tools
  return {
    ...copyPorts(kubernetes),
    original: (name) => secret(ownNamespace, name),
    warn: (err, message) => log.warn({ err }, message),
  }
}

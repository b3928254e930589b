/**
 * Cluster DNS: CoreDNS as a process on the node, asked by the pods, and by host processes that are
 * to resolve Services.
 */
import { kubeconfigFile } from './control-plane.ts'
import { NODE_ADDRESS } from './network.ts'
import { portAnswers, waitFor } from './process.ts'
import type { Ground } from './state.ts'
import type { Tools } from './tools.ts'

export async function startDns(ground: Ground, tools: Tools): Promise<void> {
  // All other names are answered here as well: no question of a pod leaves this machine.
  const corefile = `cluster.local:53 in-addr.arpa:53 {
  bind ${NODE_ADDRESS}
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig ${kubeconfigFile(ground)}
    pods insecure
    ttl 1
  }
}
.:53 {
  bind ${NODE_ADDRESS}
  template ANY ANY {
    rcode NXDOMAIN
  }
}
`
  ground.write(
    'resolv.conf',
    `nameserver ${NODE_ADDRESS}\nsearch svc.cluster.local cluster.local\noptions ndots:5\n`,
  )
  const coredns = ground.start({
    name: 'coredns',
    command: tools.coredns,
    args: ['-conf', ground.write('Corefile', corefile)],
  })
  await waitFor('CoreDNS', () => portAnswers(NODE_ADDRESS, 53), { process: coredns })
}

/** A command line for a host process that resolves names as a pod does. */
export function withClusterDns(ground: Ground, command: string, args: readonly string[]) {
  const script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
  return {
    command: 'unshare',
    args: ['--mount', 'sh', '-c', script, ground.path('resolv.conf'), command, ...args],
  }
}

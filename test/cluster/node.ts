/**
 * The one node: containerd with a root of its own, the kubelet, and kube-proxy. Pods are real
 * containers in network namespaces of their own.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { kubeconfigFile } from './control-plane.ts'
import { NODE_ADDRESS, POD_RANGE } from './network.ts'
import { program } from './packages.ts'
import { freePort, run, startProcess, succeeds, waitFor } from './process.ts'
import type { ProcessRecord } from './process.ts'
import type { Ground } from './state.ts'
import type { Tools } from './tools.ts'

export const NODE_NAME = 'vec-node'

const socket = (ground: Ground) => ground.path('containerd/socket')

/** Runs containerd's own client in the namespace that the kubelet looks into. */
export function ctr(ground: Ground, ...args: string[]): Promise<string> {
  return run(program('ctr'), ['--address', socket(ground), '--namespace', 'k8s.io', ...args])
}

/** Process ids of a pod's containers as this machine sees them; its sandbox is left out. */
export async function podProcesses(
  ground: Ground,
  namespace: string,
  pod: string,
): Promise<number[]> {
  const filter = [
    `labels."io.kubernetes.pod.namespace"==${namespace}`,
    `labels."io.kubernetes.pod.name"==${pod}`,
    `labels."io.cri-containerd.kind"==container`,
  ].join(',')
  const containers = (await ctr(ground, 'containers', 'list', '--quiet', filter)).split('\n')
  const processes: number[] = []
  for (const container of containers.filter(Boolean)) {
    // A container that has ended has no task.
    const listed = await ctr(ground, 'tasks', 'ps', container).catch(() => '')
    for (const [pid] of listed.matchAll(/^\d+/gm)) processes.push(Number(pid))
  }
  return processes
}

/**
 * Looks up the processes of a pod's containers, and those that they start later; the answer stops them at once
 * when it is called, and says whether there were any: the pod may have ended.
 */
export async function prepareFreeze(
  ground: Ground,
  namespace: string,
  pod: string,
): Promise<() => boolean> {
  const groups = (await podProcesses(ground, namespace, pod)).map(controlGroupOf)
  const processes = (group: string) => readFileSync(group, 'utf8').split('\n').filter(Boolean)
  return () => {
    const pids = groups.flatMap((group) => unlessEnded(() => processes(group)) ?? [])
    const stopped = pids.map((pid) => unlessEnded(() => process.kill(Number(pid), 'SIGSTOP')))
    return stopped.includes(true)
  }
}

/** Undefined if the process or its control group is gone. */
function unlessEnded<Result>(act: () => Result): Result | undefined {
  try {
    return act()
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (['ENOENT', 'ENODEV', 'ESRCH'].includes(code)) return undefined
    throw error
  }
}

/** The file with the processes of the control group of a process, whatever the version of the hierarchy. */
function controlGroupOf(pid: number): string {
  for (const line of readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n')) {
    const [, controllers = '', path = '/'] = line.split(':')
    const file = join('/sys/fs/cgroup', controllers, path, 'cgroup.procs')
    if (path !== '/' && existsSync(file)) return file
  }
  throw new Error(`process ${pid} has no control group of its own`)
}

/** The control groups that share out the processors, by their version, and what one process weighs. */
const CPU_HIERARCHIES = [
  { folder: '/sys/fs/cgroup/cpu', mark: 'tasks', weight: 'cpu.shares', process: 1024 },
  { folder: '/sys/fs/cgroup', mark: 'cgroup.controllers', weight: 'cpu.weight', process: 100 },
]
/** Without it all pods together have the CPU weight of one process, and other processes starve them. */
const PODS_WEIGH_PROCESSES = 4

function weighPods(): void {
  for (const { folder, mark, weight, process } of CPU_HIERARCHIES) {
    if (!existsSync(join(folder, mark))) continue
    const pods = join(folder, 'k8s.io')
    mkdirSync(pods, { recursive: true })
    // Absent where another hierarchy shares out the processors.
    if (!existsSync(join(pods, weight))) continue
    writeFileSync(join(pods, weight), `${PODS_WEIGH_PROCESSES * process}`)
  }
}

export async function startContainerd(ground: Ground, sandboxImage: string): Promise<void> {
  // Images are ten thousand small files: in memory they come and go in a moment. It is memory only
  // as far as it is used.
  const root = ground.path('containerd/root')
  mkdirSync(root, { recursive: true })
  await run(program('mount'), ['-t', 'tmpfs', '-o', 'size=8g,mode=711', 'vec-operator', root])
  const config = ground.write('containerd/config.toml', containerdConfig(ground, sandboxImage))
  const containerd = ground.start({
    name: 'containerd',
    command: program('containerd'),
    args: ['--config', config],
  })
  const answers = async () => existsSync(socket(ground)) && (await succeeds(ctr(ground, 'version')))
  await waitFor('containerd', answers, { process: containerd })
  weighPods()
}

/** For a clean-up that finds it dead; nothing else is started then. */
export async function startContainerdAgain(ground: Ground, record: ProcessRecord) {
  const again = startProcess(record, ground.directory)
  await waitFor('containerd', () => succeeds(ctr(ground, 'version')), { process: again })
  return again
}

export async function startKubelet(ground: Ground, tools: Tools): Promise<void> {
  const configuration = kubeletConfiguration(ground, await freePort())
  const kubelet = ground.start({
    name: 'kubelet',
    command: tools.kubelet,
    args: [
      `--config=${ground.write('kubelet.json', JSON.stringify(configuration, undefined, 2))}`,
      `--kubeconfig=${kubeconfigFile(ground)}`,
      `--hostname-override=${NODE_NAME}`,
      `--node-ip=${NODE_ADDRESS}`,
      `--root-dir=${ground.path('kubelet')}`,
      `--cert-dir=${ground.path('kubelet/pki')}`,
    ],
  })
  await waitFor('the node to be Ready', () => nodeReady(ground, tools), { process: kubelet })
}

export async function startProxy(ground: Ground, tools: Tools): Promise<void> {
  const configuration = {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    clientConnection: { kubeconfig: kubeconfigFile(ground) },
    clusterCIDR: POD_RANGE,
    hostnameOverride: NODE_NAME,
    healthzBindAddress: `127.0.0.1:${await freePort()}`,
    metricsBindAddress: `127.0.0.1:${await freePort()}`,
    iptables: { minSyncPeriod: '100ms', localhostNodePorts: false },
    // Zero: leave the settings of the machine alone.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  }
  ground.start({
    name: 'kube-proxy',
    command: tools['kube-proxy'],
    args: [`--config=${ground.write('kube-proxy.json', JSON.stringify(configuration))}`],
  })
}

export async function nodeReady(ground: Ground, tools: Pick<Tools, 'kubectl'>): Promise<boolean> {
  const condition = '{.status.conditions[?(@.type=="Ready")].status}'
  const query = ['get', 'node', NODE_NAME, '--ignore-not-found', '-o', `jsonpath=${condition}`]
  const status = await run(tools.kubectl, ['--kubeconfig', kubeconfigFile(ground), ...query])
  return status === 'True'
}

/**
 * Kills every container by way of containerd, while it still answers: a shim left without it
 * would have to be found by hand.
 */
export async function endContainers(ground: Ground): Promise<void> {
  if (!existsSync(socket(ground)) || !(await succeeds(ctr(ground, 'version')))) return
  const containers = (await ctr(ground, 'containers', 'list', '-q')).split('\n').filter(Boolean)
  // A container that ends at this moment is no failure.
  await Promise.allSettled(containers.map((id) => ctr(ground, 'tasks', 'delete', '--force', id)))
}

/** Deepest first, because volumes are mounted inside mounts. */
export async function unmountBelow(directory: string): Promise<void> {
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => (line.split(' ')[1] ?? '').replaceAll('\\040', ' '))
    .filter((point) => point.startsWith(`${directory}/`))
  for (const point of mounts.toReversed()) await run(program('umount'), ['--lazy', point])
}

function containerdConfig(ground: Ground, sandboxImage: string): string {
  return `version = 2
root = "${ground.path('containerd/root')}"
state = "${ground.path('containerd/state')}"
[grpc]
  address = "${socket(ground)}"
[plugins."io.containerd.internal.v1.opt"]
  path = "${ground.path('containerd/opt')}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${sandboxImage}"
  # A virtual machine's root may not have CAP_SYS_RESOURCE; every sandbox would fail without this.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "${ground.path('cni/conf')}"
`
}

function kubeletConfiguration(ground: Ground, healthzPort: number): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    containerRuntimeEndpoint: `unix://${socket(ground)}`,
    address: NODE_ADDRESS,
    healthzPort,
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    clusterDNS: [NODE_ADDRESS],
    clusterDomain: 'cluster.local',
    podLogsDir: ground.path('pod-logs'),
    volumePluginDir: ground.path('volume-plugins'),
    // The machine's cgroup hierarchy is used as it is, whatever its version.
    cgroupDriver: 'cgroupfs',
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    // A full disk is the machine's business; "0" is refused.
    evictionHard: {
      'memory.available': '1Mi',
      'nodefs.available': '1Mi',
      'nodefs.inodesFree': '1',
      'imagefs.available': '1Mi',
    },
    imageGCHighThresholdPercent: 100,
    maxPods: 250,
    // Changed Secrets are to reach mounted files in seconds.
    syncFrequency: '10s',
    shutdownGracePeriod: '0s',
  }
}

/**
 * The local real cluster: brings up etcd, the control plane, one node with containerd, DNS, storage
 * and S3 on this machine, hands out what is needed to use it, and takes all of it down again.
 */
import { shutDownOnSignal } from '../world/signals.ts'
import { cleanUp } from './cleanup.ts'
import {
  caFile,
  kubeconfigFile,
  startApi,
  startControllers,
  writeKubeconfig,
  type Audit,
} from './control-plane.ts'
import { startDns, withClusterDns } from './dns.ts'
import { busyboxImage } from './images.ts'
import { NODE_ADDRESS, openNetwork, podNetworkNamespaces } from './network.ts'
import {
  ctr,
  podProcesses,
  prepareFreeze,
  startContainerd,
  startKubelet,
  startProxy,
} from './node.ts'
import { processId, run } from './process.ts'
import type { RunOptions } from './process.ts'
import { CLUSTER_DIRECTORY, Ground } from './state.ts'
import type { Connection } from './state.ts'
import { createStorageClass, startS3, volumesOnHost } from './storage.ts'
import { prepareTools } from './tools.ts'
import type { Log, Tools } from './tools.ts'
import {
  describeVolumes,
  prepareVolumeDriver,
  startVolumeDriver,
  type VolumeDriver,
} from './volume-driver.ts'

export interface LocalClusterOptions {
  readonly log?: Log
  /** Leaves the cluster running when this process ends, for interactive use; else it ends with the run. */
  readonly detached?: boolean
  /** Stops a cluster that a user left running, instead of refusing to start. */
  readonly replace?: boolean
  /** Whose API requests are written to auditLog, without bodies. */
  readonly audit?: Audit
}

export type ProcessName =
  | 'etcd'
  | 'kube-apiserver'
  | 'kube-controller-manager'
  | 'kube-scheduler'
  | 'containerd'
  | 'kubelet'
  | 'kube-proxy'
  | 'coredns'
  | 's3'
  | 'csi-driver'
  | 'csi-provisioner'
  | 'csi-resizer'

export interface HostProcess {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
}

export interface LocalCluster extends Connection {
  readonly directory: string
  readonly kubeconfig: string
  readonly caFile: string
  /** Where S3 and DNS answer, for pods and for this machine alike. */
  readonly nodeAddress: string
  readonly auditLog: string
  /** Paths of the programs. */
  readonly tools: Tools
  kubectl(args: readonly string[], options?: RunOptions): Promise<string>
  helm(args: readonly string[], options?: RunOptions): Promise<string>
  /** Lets a process be a ServiceAccount, as in a pod; answers with its kubeconfig. */
  kubeconfigOf(namespace: string, account: string): Promise<string>
  /** Makes an image archive known to the node. */
  loadImage(archive: string): Promise<void>
  /** Ends a process of the cluster and starts it with the same command line. */
  restart(name: ProcessName | (string & {})): Promise<void>
  /** Stops the processes of a pod as a node that hangs would, or lets them go on. */
  freezePod(namespace: string, pod: string, frozen: boolean): Promise<void>
  /** Stops the processes of a pod at once when the answer is called. */
  prepareFreeze(namespace: string, pod: string): Promise<() => boolean>
  /** Starts a process of the host that sees Services by name; it ends with the cluster. */
  startHostProcess(spec: HostProcess): void
  stopHostProcess(name: string): Promise<void>
  stop(): Promise<void>
}

export async function startLocalCluster(options: LocalClusterOptions = {}): Promise<LocalCluster> {
  const log = options.log ?? (() => undefined)
  const tools = await prepareTools(log)
  const driver = await prepareVolumeDriver(log)
  const sandbox = await busyboxImage()
  await makeSpace(options.replace ?? false, log)

  const ground = Ground.create(CLUSTER_DIRECTORY, {
    owner: processId(process.pid),
    before: { networkNamespaces: podNetworkNamespaces(), volumes: volumesOnHost() },
    connection: undefined,
    processes: [],
  })
  const { shutDown: end, unregister: forget } = shutDownOnSignal(async (signal) => {
    if (signal !== undefined) log(`${signal}: taking the cluster down`)
    await cleanUp(ground)
  })
  try {
    const connection = await bringUp(ground, tools, {
      ...{ sandbox, driver, log },
      audit: options.audit,
    })
    ground.update({ connection })
    if (options.detached ?? false) ground.update({ owner: undefined })
    return handle(ground, tools, connection, end)
  } catch (error) {
    await end()
    throw error
  } finally {
    if (options.detached ?? false) forget()
  }
}

/** The running cluster, if any: started by a user, or by a run whose process is alive. */
export async function openLocalCluster(log: Log): Promise<LocalCluster | undefined> {
  const ground = Ground.open(CLUSTER_DIRECTORY)
  const connection = ground?.state.connection
  if (ground === undefined || connection === undefined) return undefined
  return handle(ground, await prepareTools(log), connection, () => cleanUp(ground))
}

async function makeSpace(replace: boolean, log: Log): Promise<void> {
  const earlier = Ground.open(CLUSTER_DIRECTORY)
  if (earlier === undefined) return
  const running = earlier.state.owner !== undefined || !replace
  if (earlier.held && running) {
    throw new Error('a cluster is up on this machine: npm run cluster -- down')
  }
  log('cleaning up after an earlier run')
  await cleanUp(earlier)
}

interface BringUp {
  readonly sandbox: { readonly name: string; readonly archive: string }
  readonly driver: VolumeDriver
  readonly audit: Audit | undefined
  readonly log: Log
}

/** What does not depend on each other starts at the same time. */
async function bringUp(ground: Ground, tools: Tools, { sandbox, driver, audit, log }: BringUp) {
  await openNetwork(ground)
  const [api, s3] = await all([
    startApi(ground, tools, { audit }),
    startS3(ground, tools),
    startContainerd(ground, sandbox.name).then(() => importImage(ground, sandbox.archive)),
  ])
  log(`the API server answers at ${api.server}`)
  await all([
    startControllers(ground, tools),
    startKubelet(ground, tools),
    startProxy(ground, tools),
    startDns(ground, tools),
    createStorageClass(ground, tools),
    startVolumeDriver(ground, tools, driver),
  ])
  log('the node is Ready')
  return { ...api, s3, volumes: describeVolumes(driver) }
}

/** Like Promise.all, but a failure waits for the others: they must not start things behind it. */
async function all<T extends readonly Promise<unknown>[]>(
  work: readonly [...T],
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(work)
  return Promise.all(work)
}

function handle(
  ground: Ground,
  tools: Tools,
  connection: Connection,
  stop: () => Promise<void>,
): LocalCluster {
  const env = { KUBECONFIG: kubeconfigFile(ground) }
  return {
    ...connection,
    directory: ground.directory,
    kubeconfig: kubeconfigFile(ground),
    caFile: caFile(ground),
    nodeAddress: NODE_ADDRESS,
    auditLog: ground.path('logs/audit.log'),
    tools,
    kubectl: (args, options) => run(tools.kubectl, args, { ...options, env }),
    helm: (args, options) =>
      run(tools.helm, args, { ...options, env: { ...options?.env, ...env } }),
    kubeconfigOf: async (namespace, account) => {
      const token = ['create', 'token', account, '--namespace', namespace, '--duration', '24h']
      const made = (await run(tools.kubectl, token, { env })).trim()
      return writeKubeconfig(ground, connection.server, made, `kubeconfig-${account}`)
    },
    loadImage: (archive) => importImage(ground, archive),
    restart: async (name) => {
      await ground.restart(name)
    },
    freezePod: async (namespace, pod, frozen) => {
      const signal = frozen ? 'SIGSTOP' : 'SIGCONT'
      for (const pid of await podProcesses(ground, namespace, pod)) process.kill(pid, signal)
    },
    prepareFreeze: (namespace, pod) => prepareFreeze(ground, namespace, pod),
    startHostProcess: ({ name, command, args }) => {
      ground.start({ name, ...withClusterDns(ground, command, args) })
    },
    stopHostProcess: (name) => ground.stop(name),
    stop,
  }
}

async function importImage(ground: Ground, archive: string): Promise<void> {
  await ctr(ground, 'images', 'import', archive)
  // An archive names its image by a tag only; one from a registry is known by its digest as well.
  const listed = (await ctr(ground, 'images', 'list')).split('\n').map((line) => line.split(/ +/))
  const names = new Set(listed.map(([name]) => name))
  for (const [name = '', , digest = ''] of listed) {
    const byDigest = `${name.replace(/:[^:/]+$/, '')}@${digest}`
    if (!digest.startsWith('sha256:') || !name.includes('/') || names.has(byDigest)) continue
    names.add(byDigest)
    await ctr(ground, 'images', 'tag', name, byDigest)
  }
}

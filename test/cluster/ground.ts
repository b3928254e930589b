/** The cluster of a run: a local one, created for it, or the one that KUBECONFIG names. */
import { readFileSync } from 'node:fs'
import type { StoreAccess } from '../world/buckets/buckets.ts'
import { ApiClient } from '../world/client.ts'
import { openForeignGround } from './foreign.ts'
import type { Image } from './buildah.ts'
import { openChartRegistry, type ChartRegistry } from './chart-registry.ts'
import { statusOfClosed } from './chart-repository.ts'
import { buildImages, loadImages } from './engines.ts'
import {
  installChart,
  installOperator,
  installPrevious,
  leaveRegistry,
  rotateToken,
  setReplicas,
  HELM_TEST,
  NAMESPACE,
  UNINSTALL,
  upgradeOperator,
  useRegistry,
  whatIsReal,
} from './install.ts'
import { startLocalCluster, type LocalCluster } from './local.ts'
import { realMetacontroller } from './metacontroller.ts'
import { runQuickstart, type Quickstart } from './quickstart.ts'
import { prepareTools, type Log } from './tools.ts'

export interface Ground {
  api: ApiClient
  /** A client of whom this token belongs to. */
  connect(token: string): ApiClient
  /** Path of a real helm. */
  helm: string
  /** Audit log of the API server; only on a cluster of our own. */
  auditLog?: string
  /** What is real here and what is a stand-in, a line each. */
  parts: string[]
  /** The S3 store, as pods and this machine reach it; throws where none is named. */
  store(): StoreAccess
  /** Address of this machine that pods can reach; absent where nothing of ours may stand before the store. */
  gateHost?: string
  /** Installs the seven CRDs; no controller reconciles them yet. */
  defineKinds(): Promise<void>
  install(): Promise<void>
  /**
   * HTTP statuses of the repository of the engine's chart, for a request with the credentials of the operator and for one
   * without; throws on a cluster whose repository is not ours.
   */
  chartRepositoryStatus(): Promise<[number, number]>
  /**
   * Lets helm Jobs pull the engine's chart from an OCI registry of its own, and from the former repository when it is
   * closed; throws on a cluster that was given its operator.
   */
  openChartRegistry(): Promise<Omit<ChartRegistry, 'ca'>>
  /** The operator's image, as built here; throws on a cluster that was given its image. */
  operatorImage(): Promise<{ sizeBytes: number }>
  /** Installs the operator's chart of an earlier commit and returns which; throws if there is none. */
  installPrevious(): Promise<string>
  /** Upgrades that to the chart of this work tree, and waits until it runs. */
  upgradeFromPrevious(): Promise<void>
  /** Runs `helm test`, as a user would: the output of helm, with which it also rejects. */
  helmTest(): Promise<string>
  /** Runs `helm uninstall`, as a user would; rejects with helm's output. */
  uninstall(): Promise<void>
  /** Replaces the operator's chart by one of another release. */
  upgradeOperator(version: string): Promise<void>
  restartControllers(): Promise<void>
  /** Rotates the token of the hooks, as a user would. */
  rotateToken(): Promise<void>
  /** Sets the number of replicas of the service, and waits until they run. */
  setReplicas(replicas: number): Promise<void>
  /** Stops the processes of a pod's containers, or lets them go on. */
  freezePod(namespace: string, pod: string, frozen: boolean): Promise<void>
  /** Looks up the processes of a pod; they are stopped at once when the answer is called. */
  prepareFreeze(namespace: string, pod: string): Promise<() => boolean>
  /** Removes the operator and Metacontroller, and runs the commands of docs/quickstart.md. */
  runQuickstart(): Promise<Quickstart>
  /** Ends all that was started here. */
  close(): Promise<void>
}

export async function openGround(env: NodeJS.ProcessEnv, log: Log): Promise<Ground> {
  const { KUBECONFIG: kubeconfig } = env
  if (kubeconfig !== undefined && kubeconfig !== '') return openForeignGround(kubeconfig, env, log)
  // Images are built while the cluster starts. One of each for the whole run: what they are made of may
  // change meanwhile.
  const images = buildImages(await prepareTools(log))
  images.catch(() => undefined)
  const cluster = await startLocalCluster({ log, replace: true, audit: 'accounts' })
  const loaded = images.then(async (all) => {
    await loadImages(cluster, all, log)
    return all.operator
  })
  loaded.catch(() => undefined)
  return localGround(cluster, { log, operatorImage: () => loaded })
}

interface Parts {
  log: Log
  /** The operator's image, once all images are known to the node. */
  operatorImage: () => Promise<Image>
}

function localGround(cluster: LocalCluster, { log, operatorImage }: Parts): Ground {
  const { server, token, caFile } = cluster
  const ca = readFileSync(caFile, 'utf8')
  const api = new ApiClient({ server, token, ca })
  const restartLoop = async () => {
    // Metacontroller follows its CompositeControllers; our loop reads them at its start.
    if (realMetacontroller(process.env) === undefined) await cluster.restart('loop')
  }
  return {
    api,
    connect: (of) => new ApiClient({ server, token: of, ca }),
    helm: cluster.tools.helm,
    auditLog: cluster.auditLog,
    store: () => cluster.s3,
    gateHost: cluster.nodeAddress,
    parts: [
      'etcd, Kubernetes, kubelet, containerd, CoreDNS, Helm, S3: real, on this machine',
      cluster.volumes,
      ...whatIsReal(process.env),
    ],
    defineKinds: async () => {
      await cluster.kubectl(['apply', '--server-side', '-f', 'chart/crds'])
      await cluster.kubectl([
        'wait',
        '--for=condition=Established',
        '--timeout=60s',
        'crd',
        '--all',
      ])
    },
    install: async () => {
      await installOperator(cluster, { log, image: await operatorImage() })
    },
    chartRepositoryStatus: () => statusOfClosed(cluster),
    openChartRegistry: async () => {
      const registry = await openChartRegistry(cluster, NAMESPACE, log)
      await useRegistry(cluster, registry)
      await restartLoop()
      return {
        ...registry,
        close: async () => {
          await leaveRegistry(cluster)
          await restartLoop()
          await registry.close()
        },
      }
    },
    operatorImage,
    installPrevious: async () => installPrevious(cluster, await operatorImage()),
    upgradeFromPrevious: async () => {
      await installChart(cluster, await operatorImage())
      await restartLoop()
    },
    helmTest: () => cluster.helm(HELM_TEST),
    uninstall: async () => {
      await cluster.helm(UNINSTALL)
    },
    upgradeOperator: async (version) => {
      await upgradeOperator(cluster, version)
      await restartLoop()
    },
    rotateToken: async () => {
      await rotateToken(cluster)
      await restartLoop()
    },
    setReplicas: async (replicas) => {
      await setReplicas(cluster, replicas)
      await restartLoop()
    },
    restartControllers: () => cluster.restart('kube-controller-manager'),
    freezePod: (namespace, pod, frozen) => cluster.freezePod(namespace, pod, frozen),
    prepareFreeze: (namespace, pod) => cluster.prepareFreeze(namespace, pod),
    runQuickstart: async () => runQuickstart(cluster, await operatorImage()),
    close: async () => {
      await api.close()
      await cluster.stop()
    },
  }
}

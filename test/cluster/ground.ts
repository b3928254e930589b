/** The cluster a run stands on: the local one, made for it, or the one that KUBECONFIG names. */
import { readFileSync } from 'node:fs'
import type { StoreAccess } from '../world/buckets/buckets.ts'
import { ApiClient } from '../world/client.ts'
import { openForeignGround } from './foreign.ts'
import { installOperator, UNINSTALL, upgradeOperator, whatIsReal } from './install.ts'
import { startLocalCluster, type LocalCluster } from './local.ts'
import { realMetacontroller } from './metacontroller.ts'
import type { Log } from './tools.ts'

export interface Ground {
  api: ApiClient
  /** Path of a real helm. */
  helm: string
  /** Log of what accounts asked of the API server; only where the cluster is ours. */
  auditLog?: string
  /** What is real here and what is a stand-in, a line each. */
  parts: string[]
  /** The S3 store, as pods and this machine reach it; throws where none is named. */
  store(): StoreAccess
  /** Address of this machine that pods can reach; absent where nothing of ours may stand before the store. */
  gateHost?: string
  /** Makes the seven kinds known, without anybody who looks after them yet. */
  defineKinds(): Promise<void>
  install(): Promise<void>
  /** As a person would; rejects with what helm says. */
  uninstall(): Promise<void>
  /** Replaces the operator's chart by one of another release. */
  upgradeOperator(version: string): Promise<void>
  restartControllers(): Promise<void>
  /** Stops the processes of a pod's containers, or lets them go on. */
  freezePod(namespace: string, pod: string, frozen: boolean): Promise<void>
  /** Ends all that was started here. */
  close(): Promise<void>
}

export async function openGround(env: NodeJS.ProcessEnv, log: Log): Promise<Ground> {
  const { KUBECONFIG: kubeconfig } = env
  if (kubeconfig !== undefined && kubeconfig !== '') return openForeignGround(kubeconfig, env, log)
  return localGround(await startLocalCluster({ log, replace: true, audit: 'accounts' }), log)
}

function localGround(cluster: LocalCluster, log: Log): Ground {
  const { server, token, caFile } = cluster
  const api = new ApiClient({ server, token, ca: readFileSync(caFile, 'utf8') })
  return {
    api,
    helm: cluster.tools.helm,
    auditLog: cluster.auditLog,
    store: () => cluster.s3,
    gateHost: cluster.nodeAddress,
    parts: [
      'etcd, Kubernetes, kubelet, containerd, CoreDNS, Helm, S3: real, on this machine',
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
      await installOperator(cluster, { log })
    },
    uninstall: async () => {
      await cluster.helm(UNINSTALL)
    },
    upgradeOperator: async (version) => {
      await upgradeOperator(cluster, version)
      // Metacontroller follows its CompositeControllers; our loop reads them at its start.
      if (realMetacontroller(process.env) === undefined) await cluster.restart('loop')
    },
    restartControllers: () => cluster.restart('kube-controller-manager'),
    freezePod: (namespace, pod, frozen) => cluster.freezePod(namespace, pod, frozen),
    close: async () => {
      await api.close()
      await cluster.stop()
    },
  }
}

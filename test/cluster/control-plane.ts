/**
 * The control plane: etcd, API server, controller manager and scheduler, with keys and tokens made
 * created for each cluster.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'

import { NODE_ADDRESS, SERVICE_RANGE } from './network.ts'
import { program } from './packages.ts'
import { freePort, portAnswers, run, succeeds, waitFor } from './process.ts'
import type { Ground } from './state.ts'
import type { Tools } from './tools.ts'

export interface ControlPlane {
  readonly server: string
  readonly token: string
  readonly caFile: string
  readonly kubeconfig: string
}

/** Whose requests the API server writes down. */
export type Audit = 'all' | 'accounts'

export const caFile = (ground: Ground) => ground.path('certificates/apiserver.crt')
export const kubeconfigFile = (ground: Ground) => ground.path('kubeconfig')

/** Starts etcd and the API server; answers once the API is ready. */
export async function startApi(
  ground: Ground,
  tools: Tools,
  { audit }: { audit: Audit | undefined },
) {
  const etcd = await startEtcd(ground)
  const port = await freePort()
  const token = randomBytes(24).toString('hex')
  writeServiceAccountKeys(ground)
  const policyFile = (content: string) => ground.write('audit-policy.json', content)
  const apiServer = ground.start({
    name: 'kube-apiserver',
    command: tools['kube-apiserver'],
    args: [
      `--etcd-servers=${etcd}`,
      `--bind-address=${NODE_ADDRESS}`,
      `--advertise-address=${NODE_ADDRESS}`,
      `--secure-port=${port}`,
      `--cert-dir=${ground.path('certificates')}`,
      `--service-cluster-ip-range=${SERVICE_RANGE}`,
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${ground.path('service-account.pub')}`,
      `--service-account-signing-key-file=${ground.path('service-account.key')}`,
      `--token-auth-file=${ground.write('tokens.csv', `${token},admin,admin,system:masters\n`, 0o600)}`,
      '--authorization-mode=Node,RBAC',
      '--kubelet-preferred-address-types=InternalIP',
      '--allow-privileged',
      ...(audit === undefined ? [] : auditFlags(audit, policyFile, ground.path('logs/audit.log'))),
    ],
  })

  const server = `https://${NODE_ADDRESS}:${port}`
  await waitFor('the API server', () => portAnswers(NODE_ADDRESS, port), { process: apiServer })
  writeKubeconfig(ground, server, token)
  const kubectl = ['--kubeconfig', kubeconfigFile(ground), 'get', '--raw', '/readyz']
  const ready = () => succeeds(run(tools.kubectl, kubectl))
  await waitFor('the API server to be ready', ready, { process: apiServer })
  return { server, token }
}

/** What works on the API: neither is waited for, the first thing they do shows that they live. */
export async function startControllers(ground: Ground, tools: Tools): Promise<void> {
  const kubeconfig = `--kubeconfig=${kubeconfigFile(ground)}`
  ground.start({
    name: 'kube-controller-manager',
    command: tools['kube-controller-manager'],
    args: [
      kubeconfig,
      '--bind-address=127.0.0.1',
      `--secure-port=${await freePort()}`,
      `--service-account-private-key-file=${ground.path('service-account.key')}`,
      // Pods are to trust the certificate that the API server made for itself.
      `--root-ca-file=${caFile(ground)}`,
      '--leader-elect=false',
      '--enable-hostpath-provisioner=true',
    ],
  })
  ground.start({
    name: 'kube-scheduler',
    command: tools['kube-scheduler'],
    args: [
      kubeconfig,
      '--bind-address=127.0.0.1',
      `--secure-port=${await freePort()}`,
      '--leader-elect=false',
    ],
  })
}

async function startEtcd(ground: Ground): Promise<string> {
  const port = await freePort()
  const address = `http://127.0.0.1:${port}`
  const etcd = ground.start({
    name: 'etcd',
    command: program('etcd'),
    args: [
      '--data-dir',
      ground.path('etcd'),
      '--listen-client-urls',
      address,
      '--advertise-client-urls',
      address,
      '--listen-peer-urls',
      `http://127.0.0.1:${await freePort()}`,
      // A lost cluster is recreated: nothing here is worth an fsync.
      '--unsafe-no-fsync',
    ],
  })
  await waitFor('etcd', () => portAnswers('127.0.0.1', port), { process: etcd })
  return address
}

function writeServiceAccountKeys(ground: Ground): void {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  ground.write('service-account.key', privateKey, 0o600)
  ground.write('service-account.pub', publicKey)
}

/** User and verb of each call, without bodies: enough to count the writes of an idle hour. */
export function auditFlags(
  audit: Audit,
  policyFile: (content: string) => string,
  log: string,
): string[] {
  // The rest of a cluster calls all the time: none of it has an account of its own here.
  const accounts = [
    { level: 'Metadata', userGroups: ['system:serviceaccounts'] },
    { level: 'None' },
  ]
  const policy = {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived'],
    rules: audit === 'all' ? [{ level: 'Metadata' }] : accounts,
  }
  const file = policyFile(JSON.stringify(policy))
  return [
    `--audit-policy-file=${file}`,
    `--audit-log-path=${log}`,
    // Else a second file is begun at 100 MB, and a whole suite may fill that.
    '--audit-log-maxsize=4096',
  ]
}

/** Access to the API for another user or process; returns the path of the kubeconfig file. */
export function writeKubeconfig(
  ground: Ground,
  server: string,
  token: string,
  file = 'kubeconfig',
): string {
  const certificate = readFileSync(caFile(ground)).toString('base64')
  const name = 'vec-operator'
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority-data': certificate } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  }
  return ground.write(file, JSON.stringify(kubeconfig, undefined, 2), 0o600)
}

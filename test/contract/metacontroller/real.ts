/**
 * The real thing: etcd, an API server, the controllers that collect garbage and end namespaces, and,
 * where METACONTROLLER_BIN names it, Metacontroller itself. No node: nothing here runs a pod.
 */
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { auditFlags } from '../../cluster/control-plane.ts'
import { program } from '../../cluster/packages.ts'
import {
  alive,
  freePort,
  portAnswers,
  startProcess,
  stopProcess,
  waitFor,
  type ProcessRecord,
} from '../../cluster/process.ts'
import { prepareTools } from '../../cluster/tools.ts'
import { ApiClient, type Connection } from '../../world/client.ts'
import type { Subject } from './subject.ts'

const TOKEN = 'contract'
const AUDIT_LOG = 'audit.log'
const RESTART_MS = 100

export interface RealApi {
  api: ApiClient
  connection: Connection
  kubeconfig: string
  /** What accounts asked of the API. */
  auditLog: string
  /** Lets a process be a ServiceAccount; answers with its kubeconfig. */
  kubeconfigOf(namespace: string, account: string): Promise<string>
  /** Starts a process that ends with the API. */
  start(name: string, command: string, args: string[]): ProcessRecord
  stop(record: ProcessRecord): Promise<void>
  close(): Promise<void>
}

export async function startRealApi(log: (line: string) => void): Promise<RealApi> {
  const tools = await prepareTools(log)
  const folder = mkdtempSync(join(tmpdir(), 'vec-contract-'))
  const records: ProcessRecord[] = []
  const start = (name: string, command: string, args: string[]) => {
    const record = startProcess({ name, command, args, log: join(folder, `${name}.log`) }, folder)
    records.push(record)
    return record
  }
  const close = async () => {
    for (const record of records.toReversed()) await stopProcess(record)
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const etcd = await startEtcd(folder, start)
    const server = await startApiServer({ folder, etcd, command: tools['kube-apiserver'] }, start)
    const kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), server, TOKEN)
    const ca = readFileSync(join(folder, 'certificates/apiserver.crt'), 'utf8')
    const connection = { server, token: TOKEN, ca }
    const api = new ApiClient(connection)
    const ready = () =>
      api.raw('GET', '/readyz').then(
        () => true,
        () => false,
      )
    await waitFor('the API server to be ready', ready)
    start('kube-controller-manager', tools['kube-controller-manager'], [
      `--kubeconfig=${kubeconfig}`,
      '--controllers=garbage-collector-controller,namespace-controller',
      '--leader-elect=false',
      `--secure-port=${await freePort()}`,
      '--bind-address=127.0.0.1',
    ])
    const stop = (record: ProcessRecord) => stopProcess(record)
    return {
      ...{ api, connection, kubeconfig, start, stop, auditLog: join(folder, AUDIT_LOG) },
      kubeconfigOf: async (namespace, account) => {
        const token = await tokenOf(api, namespace, account)
        return writeKubeconfig(join(folder, `kubeconfig-${account}`), server, token)
      },
      close: async () => {
        await api.close()
        await close()
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

type Start = (name: string, command: string, args: string[]) => ProcessRecord

async function startEtcd(folder: string, start: Start): Promise<string> {
  const port = await freePort()
  const address = `http://127.0.0.1:${port}`
  const record = start('etcd', program('etcd'), [
    `--data-dir=${join(folder, 'etcd')}`,
    `--listen-client-urls=${address}`,
    `--advertise-client-urls=${address}`,
    `--listen-peer-urls=http://127.0.0.1:${await freePort()}`,
    '--unsafe-no-fsync',
  ])
  await waitFor('etcd', () => portAnswers('127.0.0.1', port), { process: record })
  return address
}

async function startApiServer(
  { folder, etcd, command }: { folder: string; etcd: string; command: string },
  start: Start,
): Promise<string> {
  const port = await freePort()
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  const file = (name: string, content: string) => {
    const path = join(folder, name)
    writeFileSync(path, content, { mode: 0o600 })
    return path
  }
  const record = start('kube-apiserver', command, [
    `--etcd-servers=${etcd}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    `--cert-dir=${join(folder, 'certificates')}`,
    '--service-cluster-ip-range=10.96.0.0/16',
    '--service-account-issuer=https://kubernetes.default.svc',
    `--service-account-key-file=${file('sa.pub', publicKey)}`,
    `--service-account-signing-key-file=${file('sa.key', privateKey)}`,
    `--token-auth-file=${file('tokens.csv', `${TOKEN},admin,admin,system:masters\n`)}`,
    '--authorization-mode=RBAC',
    // Without it every namespace would wait for a service account that no controller creates.
    '--disable-admission-plugins=ServiceAccount',
    ...auditFlags('accounts', (policy) => file('policy.json', policy), join(folder, AUDIT_LOG)),
  ])
  await waitFor('the API server', () => portAnswers('127.0.0.1', port), { process: record })
  return `https://127.0.0.1:${port}`
}

async function tokenOf(api: ApiClient, namespace: string, account: string): Promise<string> {
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`
  const { status } = JSON.parse(await api.raw('POST', path, request)) as {
    status: { token: string }
  }
  return status.token
}

function writeKubeconfig(path: string, server: string, token: string): string {
  const name = 'contract'
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  }
  writeFileSync(path, JSON.stringify(kubeconfig), { mode: 0o600 })
  return path
}

/** Metacontroller as a process; it is started again where a case made it end. */
export function metacontrollerSubject(real: RealApi, bin: string): Subject {
  let record: ProcessRecord | undefined
  const start = () =>
    real.start('metacontroller', bin, [
      `--kubeconfig=${real.kubeconfig}`,
      '--discovery-interval=500ms',
      '--client-go-qps=100',
      '--client-go-burst=200',
      '--metrics-address=0',
      '--health-probe-bind-address=0',
    ])
  return {
    api: real.api,
    now: () => Date.now(),
    pass: (seconds) => delay(seconds * 1000),
    run: async (controller) => {
      if (record === undefined || !alive(record)) record = start()
      const running = record
      await real.api.create(controller)
      return {
        crashed: () => !alive(running),
        stop: async () => {
          const { metadata } = controller as { metadata: { name: string } }
          const kind = { apiVersion: 'metacontroller.k8s.io/v1alpha1', kind: 'CompositeController' }
          await real.api.delete({ ...kind, namespace: '', name: metadata.name })
          // Metacontroller does not report that a controller has ended.
          await delay(RESTART_MS)
        },
      }
    },
  }
}

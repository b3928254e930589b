/**
 * Installs the operator as a user would: CRDs, images, the engine's chart in a repository that pods
 * can reach, `helm install` of chart/, and a Metacontroller to drive it.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'

import { PULL_SECRET, pullSecret } from '../world/pull-secret.ts'
import { enginePartsOf } from '../real-parts.ts'
import type { Image } from './buildah.ts'
import { buildImages, INSTALLABLE_VERSIONS, loadImages } from './engines.ts'
import type { LocalCluster } from './local.ts'
import {
  installDefinitions,
  realMetacontroller,
  startMetacontroller,
  startOwnLoop,
} from './metacontroller.ts'
import type { StartLoop, StopLoop } from './metacontroller.ts'
import { program } from './packages.ts'
import { previousChart } from './previous-chart.ts'
import { portAnswers, waitFor } from './process.ts'
import type { Log } from './tools.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')
const CHART_PORT = 8879

export const RELEASE = 'vec-operator'
export const NAMESPACE = 'vec-system'

/** Value of the chart: Jobs are to be given what they pull the image with. */
export const PULLED = `imagePullSecrets[0].name=${PULL_SECRET}`

/** Arguments of helm. The log of the test is on standard output only with --logs. */
export const HELM_TEST = ['test', RELEASE, '--namespace', NAMESPACE, '--logs']

/** Arguments of helm. */
export const UNINSTALL = ['uninstall', RELEASE, '--namespace', NAMESPACE, '--wait']

export interface InstallOptions {
  readonly log?: Log
  /** Image known to the node; by default the operator's is built from this work tree. */
  readonly image?: Image
  /** Runs where METACONTROLLER_BIN names no Metacontroller; by default our own, as a process. */
  readonly startLoop?: StartLoop
  /** More chart values, as `helm --set` takes them. */
  readonly values?: readonly string[]
}

export interface Installed {
  /** Repository in which the engine's chart is; reachable from pods. */
  readonly chartRepository: string
  readonly stop: StopLoop
}

export async function installOperator(
  cluster: LocalCluster,
  options: InstallOptions = {},
): Promise<Installed> {
  const { log = () => undefined, startLoop = startOwnLoop, values = [] } = options
  const real = realMetacontroller(process.env)
  const definitions = join(REPOSITORY, 'chart/crds')
  await cluster.kubectl(['apply', '--server-side', '-f', definitions])
  await installDefinitions(cluster, real)
  const image = options.image ?? (await buildAndLoad(cluster, log))
  const chartRepository = await serveEngineChart(cluster)
  await makeNamespace(cluster)
  await installChart(cluster, image, { values: [PULLED, ...values] })
  log(`the operator runs in ${NAMESPACE}`)

  const start = real === undefined ? startLoop : () => startMetacontroller(cluster, real)
  return { chartRepository, stop: await start(cluster) }
}

/** Upgrades the installed chart to that of another release, as a user would. */
export async function upgradeOperator(cluster: LocalCluster, version: string): Promise<void> {
  const chart = join(REPOSITORY, 'chart')
  const folder = join(cluster.directory, 'releases')
  mkdirSync(folder, { recursive: true })
  const versions = ['--version', version, '--app-version', version]
  await cluster.helm(['package', chart, '--destination', folder, ...versions])
  await cluster.helm([
    ...['upgrade', RELEASE, join(folder, `vec-operator-${version}.tgz`)],
    ...['--namespace', NAMESPACE, '--reuse-values', '--wait', '--timeout', '120s'],
    // Each release has other values, as it would have another image: its pod is replaced.
    ...['--set', 'operator.logLevel=DEBUG'],
    ...['--set', `resources.requests.cpu=${100 + minorOf(version)}m`],
  ])
}

function minorOf(version: string): number {
  return Number(version.split('.')[1])
}

/** As in docs/operations.md; the other values stay. */
export async function rotateToken(cluster: LocalCluster): Promise<void> {
  await setValue(cluster, `hooks.token.rotation=${Date.now()}`)
}

export async function setReplicas(cluster: LocalCluster, replicas: number): Promise<void> {
  await setValue(cluster, `replicaCount=${replicas}`)
}

async function setValue(cluster: LocalCluster, value: string): Promise<void> {
  await cluster.helm([
    ...['upgrade', RELEASE, join(REPOSITORY, 'chart'), '--namespace', NAMESPACE],
    ...['--reuse-values', '--wait', '--timeout', '120s'],
    ...['--set', value],
  ])
}

export interface ChartOptions {
  /** Folder of the chart; by default that of this work tree. */
  readonly chart?: string
  /** Whether the service must run before this answers. */
  readonly wait?: boolean
  /** More chart values, as `helm --set` takes them. */
  readonly values?: readonly string[]
}

/** helm alone, on a cluster that has all else: installs the chart, or upgrades to it. */
export async function installChart(
  cluster: LocalCluster,
  { name }: Image,
  { chart = join(REPOSITORY, 'chart'), wait = true, values = [PULLED] }: ChartOptions = {},
): Promise<void> {
  const [repository = '', tag = ''] = name.split(/:(?=[^:/]+$)/)
  const settings = [
    `image.repository=${repository}`,
    `image.tag=${tag}`,
    `engineChart.repository=${chartRepositoryOn(cluster)}`,
    'metacontroller.rbac.create=true',
    ...values,
  ]
  await cluster.helm([
    ...['upgrade', '--install', RELEASE, chart, '--namespace', NAMESPACE, '--skip-crds'],
    ...(wait ? ['--wait', '--timeout', '120s'] : []),
    ...settings.flatMap((setting) => ['--set', setting]),
  ])
}

/** With what every chart knows, and without its service: the image belongs to the chart that is here. */
export async function installPrevious(cluster: LocalCluster, image: Image): Promise<string> {
  const folder = join(cluster.directory, 'previous')
  const { commit, folder: chart } = await previousChart(REPOSITORY, folder)
  await installChart(cluster, image, { chart, wait: false, values: [] })
  return commit
}

/** The lines in which a run names its real parts. */
export function whatIsReal(env: NodeJS.ProcessEnv): string[] {
  const parts = {
    METACONTROLLER_BIN: 'our own loop',
    ENGINE_BIN: 'a double',
    ENGINE_CHART: 'a double',
  }
  return Object.entries(parts).map(([name, standIn]) => `${name}: ${env[name] ?? standIn}`)
}

/** Whatever of ours runs there must keep to the strictest of Kubernetes' standards. */
const RESTRICTED = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: NAMESPACE, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
}

async function makeNamespace(cluster: LocalCluster): Promise<void> {
  for (const object of [RESTRICTED, pullSecret(NAMESPACE)]) {
    await cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(object) })
  }
}

async function buildAndLoad(cluster: LocalCluster, log: Log): Promise<Image> {
  const images = await buildImages(cluster.tools)
  await loadImages(cluster, images, log)
  return images.operator
}

/** Helm in a pod cannot read a directory of this machine: the chart is served over HTTP. */
async function serveEngineChart(cluster: LocalCluster): Promise<string> {
  const folder = join(cluster.directory, 'charts')
  const url = chartRepositoryOn(cluster)
  mkdirSync(folder, { recursive: true })
  for (const version of INSTALLABLE_VERSIONS) {
    const { chart = join(REPOSITORY, 'test/doubles/chart') } = enginePartsOf(version, process.env)
    const versions = ['--version', version, '--app-version', `v${version}`]
    await cluster.helm(['package', chart, '--destination', folder, ...versions])
  }
  await cluster.helm(['repo', 'index', folder, '--url', url])
  if (!(await portAnswers(cluster.nodeAddress, CHART_PORT))) {
    const listen = `${cluster.nodeAddress}:${CHART_PORT}`
    const args = ['httpd', '-f', '-p', listen, '-h', folder]
    cluster.startHostProcess({ name: 'charts', command: program('busybox'), args })
    await waitFor('the chart repository', () => portAnswers(cluster.nodeAddress, CHART_PORT))
  }
  return url
}

/** Where the engine's chart is served, for pods and for this machine. */
export function chartRepositoryOn({ nodeAddress }: LocalCluster): string {
  return `http://${nodeAddress}:${CHART_PORT}`
}

/**
 * Installs the operator as a user would: CRDs, images, the engine's chart in a repository that pods
 * can reach, `helm install` of chart/, and a Metacontroller to drive it.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { JOB_VOLUME } from '../world/job-volume.ts'
import { PULL_SECRET, pullSecret } from '../world/pull-secret.ts'
import type { Image } from './buildah.ts'
import { CHART_PULL_SECRET, type ChartRegistry } from './chart-registry.ts'
import {
  CHART_CREDENTIALS,
  chartCredentials,
  closedRepositoryOn,
  openRepositoryOn,
  serveEngineChart,
} from './chart-repository.ts'
import { buildImages, loadImages } from './engines.ts'
import type { LocalCluster } from './local.ts'
import {
  installDefinitions,
  realMetacontroller,
  startMetacontroller,
  startOwnLoop,
} from './metacontroller.ts'
import type { StartLoop, StopLoop } from './metacontroller.ts'
import { previousChart } from './previous-chart.ts'
import type { Log } from './tools.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')

export const RELEASE = 'vec-operator'
export const NAMESPACE = 'vec-system'

/** Value of the chart: Jobs are to be given what they pull the image with. */
export const PULLED = `imagePullSecrets[0].name=${PULL_SECRET}`

/** Values of the chart: the pods of all Jobs have a volume of their own. */
export const JOB_VOLUMES = ['helm', 'data'].flatMap((kind) => [
  `jobs.pods.${kind}.volumes[0].name=${JOB_VOLUME.name}`,
  `jobs.pods.${kind}.volumes[0].emptyDir.sizeLimit=${JOB_VOLUME.sizeLimit}`,
  `jobs.pods.${kind}.volumeMounts[0].name=${JOB_VOLUME.name}`,
  `jobs.pods.${kind}.volumeMounts[0].mountPath=${JOB_VOLUME.mountPath}`,
])

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
  /** Address of the open repository of the engine's chart; reachable from pods. */
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
  await serveEngineChart(cluster)
  await makeNamespace(cluster)
  await installChart(cluster, image, { values: [...installationValues(cluster), ...values] })
  log(`the operator runs in ${NAMESPACE}`)

  const start = real === undefined ? startLoop : () => startMetacontroller(cluster, real)
  return { chartRepository: openRepositoryOn(cluster), stop: await start(cluster) }
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
  await setValues(cluster, [`hooks.token.rotation=${Date.now()}`])
}

export async function setReplicas(cluster: LocalCluster, replicas: number): Promise<void> {
  await setValues(cluster, [`replicaCount=${replicas}`])
}

/** Lets helm Jobs pull the engine's chart from the registry. */
export async function useRegistry(
  cluster: LocalCluster,
  { address, ca }: Pick<ChartRegistry, 'address' | 'ca'>,
): Promise<void> {
  const caFile = join(cluster.directory, 'chart-registry-ca.crt')
  writeFileSync(caFile, ca)
  const values = [
    `engineChart.repository=${address}`,
    `engineChart.pullSecret=${CHART_PULL_SECRET}`,
    'engineChart.credentialsSecret=',
  ]
  await setValues(cluster, values, ['--set-file', `engineChart.caBundle=${caFile}`])
}

/** Lets them download it from the repository of the installation again. */
export async function leaveRegistry(cluster: LocalCluster): Promise<void> {
  const none = ['engineChart.pullSecret=', 'engineChart.caBundle=']
  await setValues(cluster, [...repositoryValues(cluster), ...none])
}

async function setValues(
  cluster: LocalCluster,
  values: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  await cluster.helm([
    ...['upgrade', RELEASE, join(REPOSITORY, 'chart'), '--namespace', NAMESPACE],
    ...['--reuse-values', '--wait', '--timeout', '120s'],
    ...values.flatMap((value) => ['--set', value]),
    ...flags,
  ])
}

export interface ChartOptions {
  /** Folder of the chart; by default that of this work tree. */
  readonly chart?: string
  /** Whether the service must run before this answers. */
  readonly wait?: boolean
  /** More chart values, as `helm --set` takes them; by default those of an installation here. */
  readonly values?: readonly string[]
}

/** Values of an installation by the chart of this work tree. */
function installationValues(cluster: LocalCluster): string[] {
  return [...repositoryValues(cluster), PULLED, ...JOB_VOLUMES]
}

function repositoryValues(cluster: LocalCluster): string[] {
  return [
    `engineChart.repository=${closedRepositoryOn(cluster)}`,
    `engineChart.credentialsSecret=${CHART_CREDENTIALS}`,
  ]
}

/** helm alone, on a cluster that has all else: installs the chart, or upgrades to it. */
export async function installChart(
  cluster: LocalCluster,
  { name }: Image,
  {
    chart = join(REPOSITORY, 'chart'),
    wait = true,
    values = installationValues(cluster),
  }: ChartOptions = {},
): Promise<void> {
  const [repository = '', tag = ''] = name.split(/:(?=[^:/]+$)/)
  const settings = [
    `image.repository=${repository}`,
    `image.tag=${tag}`,
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
  const values = [`engineChart.repository=${openRepositoryOn(cluster)}`]
  await installChart(cluster, image, { chart, wait: false, values })
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
  const secrets = [pullSecret(NAMESPACE), chartCredentials(cluster, NAMESPACE)]
  for (const object of [RESTRICTED, ...secrets]) {
    await cluster.kubectl(['apply', '-f', '-'], { input: JSON.stringify(object) })
  }
}

async function buildAndLoad(cluster: LocalCluster, log: Log): Promise<Image> {
  const images = await buildImages(cluster.tools)
  await loadImages(cluster, images, log)
  return images.operator
}

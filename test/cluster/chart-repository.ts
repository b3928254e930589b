/**
 * Repositories of the engine's chart, over HTTP: helm in a pod cannot read a directory of this machine. The open
 * one needs no credentials, like the public one; the operator is installed with the closed one, which needs them.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { enginePartsOf } from '../real-parts.ts'
import { INSTALLABLE_VERSIONS } from './engines.ts'
import type { LocalCluster } from './local.ts'
import { program } from './packages.ts'
import { portAnswers, waitFor } from './process.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')
const OPEN_PORT = 8879
const CLOSED_PORT = 8880

const USERNAME = 'operator'

/** Name of the Secret that the operator is installed with. */
export const CHART_CREDENTIALS = 'chart-credentials'

/** The Secret with the credentials of the closed repository. */
export function chartCredentials(cluster: LocalCluster, namespace: string) {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: CHART_CREDENTIALS, namespace },
    type: 'kubernetes.io/basic-auth',
    stringData: { username: USERNAME, password: passwordOf(cluster) },
  }
}

/** For pods and for this machine. */
export function openRepositoryOn({ nodeAddress }: LocalCluster): string {
  return `http://${nodeAddress}:${OPEN_PORT}`
}

/** As above; answers requests with the credentials only. */
export function closedRepositoryOn({ nodeAddress }: LocalCluster): string {
  return `http://${nodeAddress}:${CLOSED_PORT}`
}

/** Serves the chart in all versions that can be installed, at both addresses. */
export async function serveEngineChart(cluster: LocalCluster): Promise<void> {
  const folder = join(cluster.directory, 'charts')
  mkdirSync(folder, { recursive: true })
  for (const version of INSTALLABLE_VERSIONS) {
    const { chart = join(REPOSITORY, 'test/doubles/chart') } = enginePartsOf(version, process.env)
    const versions = ['--version', version, '--app-version', `v${version}`]
    await cluster.helm(['package', chart, '--destination', folder, ...versions])
  }
  // Addresses relative to the index: the same files are served at both.
  await cluster.helm(['repo', 'index', folder])
  const withAccounts = ['-h', folder, '-r', 'charts', '-c', accountsFile(cluster)]
  await serve(cluster, 'charts', OPEN_PORT, ['-h', folder])
  await serve(cluster, 'closed-charts', CLOSED_PORT, withAccounts)
}

/** HTTP status of the index of the closed repository: with and without the credentials. */
export async function statusOfClosed(cluster: LocalCluster): Promise<[number, number]> {
  const url = `${closedRepositoryOn(cluster)}/index.yaml`
  const authorization = `Basic ${Buffer.from(`${USERNAME}:${passwordOf(cluster)}`).toString('base64')}`
  const answers = [await fetch(url, { headers: { authorization } }), await fetch(url)] as const
  for (const answer of answers) await answer.body?.cancel()
  return [answers[0].status, answers[1].status]
}

/** Password file of the closed repository, random for each cluster: another command on the same cluster reads it. */
function accountsFile({ directory }: LocalCluster): string {
  const file = join(directory, 'chart-accounts')
  if (!existsSync(file)) writeFileSync(file, `/:${USERNAME}:${crypto.randomUUID()}\n`)
  return file
}

function passwordOf(cluster: LocalCluster): string {
  return readFileSync(accountsFile(cluster), 'utf8').trim().split(':').at(-1) ?? ''
}

async function serve(cluster: LocalCluster, name: string, port: number, options: string[]) {
  if (await portAnswers(cluster.nodeAddress, port)) return
  const args = ['httpd', '-f', '-p', `${cluster.nodeAddress}:${port}`, ...options]
  cluster.startHostProcess({ name, command: program('busybox'), args })
  await waitFor(`the chart repository ${name}`, () => portAnswers(cluster.nodeAddress, port))
}

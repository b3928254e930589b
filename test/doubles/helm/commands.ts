/** upgrade --install, uninstall and status of this helm, in the steps and the words of helm 3. */
import { spawnSync } from 'node:child_process'
import { parseAllDocuments, stringify } from 'yaml'
import { ApiError, referenceOf, type ApiClient, type ApiObject } from '../../world/client.ts'
import { renderChart, type Rendered } from '../chart-objects.ts'
import type { Secrets } from '../chart-objects/key-secret.ts'
import { ChartError } from '../chart-objects/values.ts'
import { History, type Revision } from './history.ts'
import {
  HelmFailure,
  applyObject,
  checkKinds,
  checkOwners,
  deleteObjects,
  owned,
} from './objects.ts'
import { checkIndex, missingVersion } from './repositories.ts'
import { checkpoint, isKnownVersion, settings } from './settings.ts'

export interface UpgradeOptions {
  release: string
  chart: string
  repository: string
  version: string
  namespace: string
  createNamespace: boolean
  /** A command that changes the manifests, with its arguments. */
  postRenderer: string[]
  values: object
}

export async function upgrade(api: ApiClient, options: UpgradeOptions): Promise<string> {
  const { release, chart, repository, version, namespace } = options
  const history = new History(api, release, namespace)
  const last = (await history.revisions()).at(-1)
  checkIndex(chart, repository)
  if (!isKnownVersion(version)) throw missingVersion(chart, version, repository)
  if (last === undefined) return install(api, options, history)
  try {
    return await upgradeFrom(api, options, history, last)
  } catch (error) {
    throw new HelmFailure(`UPGRADE FAILED: ${wordsOf(error)}`)
  }
}

async function install(api: ApiClient, options: UpgradeOptions, history: History): Promise<string> {
  if (options.createNamespace) await ensureNamespace(api, options.namespace)
  const objects = await render(api, options)
  await building('unable to build kubernetes objects from release manifest', () =>
    checkKinds(api, objects),
  )
  await building('Unable to continue with install', () => checkOwners(api, objects, options))
  const revision = newRevision(1, 'pending-install', options, objects)
  await created(() => history.add(revision))
  await apply(api, history, revision, objects)
  await history.mark(revision, 'deployed', 'Install complete')
  return `Release "${options.release}" does not exist. Installing it now.\n${summary(options, 1)}`
}

async function upgradeFrom(
  api: ApiClient,
  options: UpgradeOptions,
  history: History,
  last: Revision,
): Promise<string> {
  if (last.status.startsWith('pending-')) {
    throw new HelmFailure('another operation (install/upgrade/rollback) is in progress')
  }
  const revisions = await history.revisions()
  const deployed = revisions.findLast(({ status }) => status === 'deployed')
  if (deployed === undefined && last.status !== 'failed' && last.status !== 'superseded') {
    throw new HelmFailure(`"${options.release}" has no deployed releases`)
  }
  const current = deployed ?? last
  const objects = await render(api, options)
  await checkKinds(api, objects)
  const known = new Set(current.objects.map(nameOf))
  const added = objects.filter((object) => !known.has(nameOf(object)))
  await building('Unable to continue with update', () => checkOwners(api, added, options))

  const revision = newRevision(last.version + 1, 'pending-upgrade', options, objects)
  await history.add(revision)
  await apply(api, history, revision, objects)
  const names = new Set(objects.map(nameOf))
  const removed = current.objects.filter((object) => !names.has(nameOf(object)))
  await deleteObjects(api, owned(removed, options).map(referenceOf), false)
  for (const old of revisions.filter(({ status }) => status === 'deployed')) {
    await history.mark(old, 'superseded')
  }
  await history.mark(revision, 'deployed', 'Upgrade complete')
  return `Release "${options.release}" has been upgraded. Happy Helming!\n${summary(options, revision.version)}`
}

export async function uninstall(
  api: ApiClient,
  options: { release: string; namespace: string; wait: boolean },
): Promise<string> {
  const { release, namespace, wait } = options
  const history = new History(api, release, namespace)
  const revisions = await history.revisions()
  const last = revisions.at(-1)
  if (last === undefined) {
    throw new HelmFailure(`uninstall: Release not loaded: ${release}: release: not found`)
  }
  await history.mark(last, 'uninstalling', 'Deletion in progress (or silently failed)')
  await checkpoint('uninstalling')
  await deleteObjects(api, owned(last.objects, options).map(referenceOf).reverse(), wait)
  for (const { version } of revisions) await history.remove(version)
  return `release "${release}" uninstalled`
}

export async function status(
  api: ApiClient,
  { release, namespace }: { release: string; namespace: string },
): Promise<string> {
  const last = await lastRevision(api, release, namespace)
  const { version, description } = last
  return JSON.stringify({
    name: release,
    namespace,
    version,
    info: { status: last.status, description },
  })
}

/** Of `get manifest`. */
export async function manifest(
  api: ApiClient,
  { release, namespace }: { release: string; namespace: string },
): Promise<string> {
  return manifestOf((await lastRevision(api, release, namespace)).objects)
}

async function lastRevision(api: ApiClient, release: string, namespace: string): Promise<Revision> {
  const last = (await new History(api, release, namespace).revisions()).at(-1)
  if (last === undefined) throw new HelmFailure('release: not found')
  return last
}

async function render(api: ApiClient, options: UpgradeOptions): Promise<ApiObject[]> {
  const { release, namespace, version, values } = options
  const secrets = await secretsOf(api, namespace)
  try {
    const objects = renderChart(values, { release, namespace, version, secrets })
    return owned(postRendered(objects, options), options)
  } catch (error) {
    if (error instanceof ChartError) throw new HelmFailure(error.message)
    throw error
  }
}

/** The manifests go through the command as helm writes them: a document each, with its source. */
function postRendered(objects: Rendered[], { postRenderer }: UpgradeOptions): Rendered[] {
  const [command, ...args] = postRenderer
  if (command === undefined) return objects
  const input = manifestOf(objects)
  const { status: code, stdout, stderr, error } = spawnSync(command, args, { input })
  if (code !== 0) {
    const cause = error?.message ?? `exit status ${code}. error output:\n${stderr.toString()}`
    throw new HelmFailure(
      `error while running post render on files: error while running command ${command}: ${cause}`,
    )
  }
  return parseAllDocuments(stdout.toString()).map((document) => document.toJS() as Rendered)
}

function manifestOf(objects: { kind: string }[]): string {
  return objects
    .map((object) => `---\n# Source: qdrant/templates/${object.kind}.yaml\n${stringify(object)}`)
    .join('')
}

async function secretsOf(api: ApiClient, namespace: string): Promise<Secrets> {
  const { items } = await api.list('v1', 'Secret', { namespace })
  return Object.fromEntries(
    items.map((secret) => [secret.metadata.name, secret['data'] as Record<string, string>]),
  )
}

/** What was applied before an error stays: pods that restart later pick it up. */
async function apply(api: ApiClient, history: History, revision: Revision, objects: ApiObject[]) {
  try {
    await checkpoint('pending')
    for (const object of objects) {
      if (object.kind === 'StatefulSet') failOnRequest()
      await applyObject(api, object)
    }
    await checkpoint('applied')
  } catch (error) {
    await history.mark(revision, 'failed', wordsOf(error))
    throw new HelmFailure(wordsOf(error))
  }
}

function failOnRequest(): void {
  const { fail } = settings()
  if (fail !== undefined) throw new HelmFailure(fail)
}

function newRevision(
  version: number,
  status: Revision['status'],
  options: UpgradeOptions,
  objects: ApiObject[],
): Revision {
  return {
    version,
    status,
    chartVersion: options.version,
    objects: objects as Revision['objects'],
    description: 'Preparing',
  }
}

async function building(prefix: string, check: () => Promise<void>): Promise<void> {
  try {
    await check()
  } catch (error) {
    throw new HelmFailure(`${prefix}: ${wordsOf(error)}`)
  }
}

async function created(create: () => Promise<void>): Promise<void> {
  try {
    await create()
  } catch (error) {
    throw new HelmFailure(`create: failed to create: ${wordsOf(error)}`)
  }
}

async function ensureNamespace(api: ApiClient, name: string): Promise<void> {
  try {
    await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error
  }
}

function nameOf({ kind, metadata }: { kind: string; metadata: { name: string } }): string {
  return `${kind}/${metadata.name}`
}

function summary({ release, namespace }: UpgradeOptions, revision: number): string {
  return [
    `NAME: ${release}`,
    `LAST DEPLOYED: ${new Date().toUTCString()}`,
    `NAMESPACE: ${namespace}`,
    'STATUS: deployed',
    `REVISION: ${revision}`,
    'TEST SUITE: None',
  ].join('\n')
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

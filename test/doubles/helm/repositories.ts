/** Repositories of HELM_REPOSITORY_CONFIG: `repo update`, and the charts that helm then knows as `<name>/<chart>`. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { HelmFailure } from './objects.ts'
import { settings } from './settings.ts'

interface Entry {
  name: string
  url: string
  username?: string
  password?: string
}

/** Succeeds also without the index, as helm does: only its output says so. */
export function updateRepository(name: string): string {
  const { url, username = '', password = '' } = entryOf(name)
  const { credentials } = settings()
  const isRejected =
    credentials !== undefined &&
    (credentials.username !== username || credentials.password !== password)
  if (!isRejected) {
    mkdirSync(cacheFolder(), { recursive: true })
    writeFileSync(indexFile(name), '')
  }
  return [
    'Hang tight while we grab the latest from your chart repositories...',
    isRejected
      ? `...Unable to get an update from the "${name}" chart repository (${url}):\n\tfailed to fetch ${url}/index.yaml : 401 Unauthorized`
      : `...Successfully got an update from the "${name}" chart repository`,
    'Update Complete. ⎈Happy Helming!⎈',
  ].join('\n')
}

/** What helm says of a version that the repository does not have. */
export function missingVersion(chart: string, version: string, repository: string): HelmFailure {
  if (repository !== '')
    return new HelmFailure(
      `chart "${chart}" version "${version}" not found in ${repository} repository`,
    )
  const [name = '', ownName = ''] = chart.split('/')
  return new HelmFailure(
    `chart "${ownName}" matching ${version} not found in ${name} index. (try 'helm repo update'): no chart version found for ${ownName}-${version}`,
  )
}

/** Throws if the chart is in a repository whose index helm has not downloaded. */
export function checkIndex(chart: string, repository: string): void {
  const [name = ''] = chart.split('/')
  if (repository !== '' || existsSync(indexFile(entryOf(name).name))) return
  throw new HelmFailure("no cached repo found. (try 'helm repo update')")
}

function entryOf(name: string): Entry {
  const file = process.env['HELM_REPOSITORY_CONFIG'] ?? ''
  const { repositories = [] } = existsSync(file)
    ? (parse(readFileSync(file, 'utf8')) as { repositories?: Entry[] })
    : {}
  const entry = repositories.find((candidate) => candidate.name === name)
  if (entry === undefined) throw new HelmFailure(`repo ${name} not found`)
  return entry
}

function indexFile(name: string): string {
  return join(cacheFolder(), `${name}-index.yaml`)
}

function cacheFolder(): string {
  return process.env['HELM_REPOSITORY_CACHE'] ?? ''
}

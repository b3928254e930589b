/** A chart repository over HTTP that needs credentials: files for helm, which must not get them as arguments. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HelmError } from '../../crds/contract/errors.ts'
import { JOB_ENV } from '../../crds/contract/job.ts'
import { credentialFile, readSecretFile } from './kubernetes/access.ts'

export interface ChartCredentials {
  username: string
  password: string
}

/** Reader of the mounted copy of the Secret; undefined if the repository needs no credentials. */
export function mountedChartCredentials(
  env: NodeJS.ProcessEnv,
): (() => ChartCredentials) | undefined {
  const credential = env[JOB_ENV.chartCredentials]
  if (credential === undefined) return undefined
  const read = (key: string) => {
    // Without the line end that a Secret from a file has.
    const value = readSecretFile(credentialFile(env, credential, key))?.replace(/\r?\n$/, '') ?? ''
    // helm calls the repository without credentials if one of them is empty.
    if (value === '') {
      throw new HelmError(
        `the Secret that the chart value engineChart.credentialsSecret names has no ${key}: set its keys username and password`,
      )
    }
    return value
  }
  return () => ({ username: read('username'), password: read('password') })
}

export interface RepositoryEntry extends ChartCredentials {
  url: string
  caFile?: string
}

export interface RepositoryFiles {
  /** Name by which helm knows the repository. */
  name: string
  /** Variables by which helm finds the files. */
  env: NodeJS.ProcessEnv
}

const NAME = 'engine-charts'

/** Writes what `helm repo add` would, without calling the repository. */
export async function writeRepository(
  folder: string,
  entry: RepositoryEntry,
): Promise<RepositoryFiles> {
  const file = join(folder, 'repositories.yaml')
  const content = JSON.stringify({ apiVersion: '', repositories: [{ name: NAME, ...entry }] })
  await writeFile(file, content, { mode: 0o600 })
  const cache = join(folder, 'cache')
  return { name: NAME, env: { HELM_REPOSITORY_CONFIG: file, HELM_REPOSITORY_CACHE: cache } }
}

/** Why `helm repo update` has not downloaded the index, which it prints and then succeeds. */
export function indexError(output: string): string | undefined {
  const [, message] = /^[.]{3}Unable to get an update from [^\n]*\n\t([^\n]*)/m.exec(output) ?? []
  return message
}

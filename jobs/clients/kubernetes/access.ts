/**
 * How the hook service and the user commands reach the Kubernetes API: as in a pod, or by
 * kubeconfig. Also reads mounted Secret files.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CREDENTIALS_FOLDER } from '../../../crds/contract/names.ts'
import { inClusterAccess, SERVICE_ACCOUNT_FOLDER, type ApiAccess } from './client.ts'

/**
 * The given kubeconfig; otherwise the service account, if it runs in a pod; otherwise KUBECONFIG or
 * ~/.kube/config.
 */
export async function serviceAccess(kubeconfig?: string, root = ''): Promise<ApiAccess> {
  if (kubeconfig === undefined && isInPod(process.env, root))
    return inClusterAccess(process.env, root)
  // Loaded on demand: in a pod it would use a third of the service's memory.
  const { kubeconfigAccess } = await import('./kubeconfig.ts')
  return kubeconfigAccess(kubeconfig)
}

/** Command line options that select how to reach the API. */
interface AccessOptions {
  kubeconfig?: string | undefined
  context?: string | undefined
}

/** The same for a user, with the namespace of the context; a context belongs to a kubeconfig. */
export async function userAccess(
  { kubeconfig, context }: AccessOptions,
  env: NodeJS.ProcessEnv = process.env,
  root = '',
): Promise<{ access: ApiAccess; namespace: string | undefined }> {
  const isExplicit = [kubeconfig, context, env['KUBECONFIG']].some((option) => option !== undefined)
  if (!isExplicit && isInPod(env, root)) {
    const file = `${root}${SERVICE_ACCOUNT_FOLDER}/namespace`
    const namespace = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
    return { access: inClusterAccess(env, root), namespace }
  }
  const { contextAccess } = await import('./kubeconfig.ts')
  const files = kubeconfig ?? env['KUBECONFIG']
  return contextAccess({
    ...(files !== undefined && { kubeconfig: files }),
    ...(context !== undefined && { context }),
  })
}

function isInPod(env: NodeJS.ProcessEnv, root: string): boolean {
  return env['VEC_API_SERVER'] !== undefined || existsSync(`${root}${SERVICE_ACCOUNT_FOLDER}/token`)
}

/** Path of a value of a mounted credential; VEC_CREDENTIALS names another folder of credentials. */
export function credentialFile(env: NodeJS.ProcessEnv, credential: string, key: string): string {
  return join(env['VEC_CREDENTIALS'] ?? CREDENTIALS_FOLDER, credential, key)
}

/** The text of the file; undefined if the key is missing. */
export function readSecretFile(path: string): string | undefined {
  try {
    // The file is in memory: going through the thread pool takes ten times as long, for every call.
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

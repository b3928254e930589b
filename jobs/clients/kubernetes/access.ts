/** How the hook service and people's commands reach the Kubernetes API: as in a pod, or by kubeconfig. */
import { existsSync, readFileSync } from 'node:fs'
import { inClusterAccess, SERVICE_ACCOUNT_FOLDER, type ApiAccess } from './client.ts'

/** A kubeconfig that was named; else as in a pod, where there is one; else KUBECONFIG or ~/.kube/config. */
export async function serviceAccess(kubeconfig?: string, root = ''): Promise<ApiAccess> {
  if (kubeconfig === undefined && isInPod(process.env, root))
    return inClusterAccess(process.env, root)
  // In a pod its memory would be a third of all the service takes.
  const { kubeconfigAccess } = await import('./kubeconfig.ts')
  return kubeconfigAccess(kubeconfig)
}

/** What a person may say of how to reach the API. */
interface AccessOptions {
  kubeconfig?: string | undefined
  context?: string | undefined
}

/** The same for people, and the namespace they are in; a context is one of a kubeconfig. */
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

/** Its text; undefined when there is no such key. */
export function readSecretFile(path: string): string | undefined {
  try {
    // The file lies in memory: a way through the thread pool takes ten times as long, at every call.
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

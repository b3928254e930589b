/** How the hook service and people's commands reach the Kubernetes API: as in a pod, or by kubeconfig. */
import { existsSync, readFileSync } from 'node:fs'
import { ACCOUNT_FOLDER, podAccess, type Access } from './kubernetes.ts'

/** A kubeconfig that was named; else as in a pod, where there is one; else KUBECONFIG or ~/.kube/config. */
export async function serviceAccess(kubeconfig?: string, root = ''): Promise<Access> {
  if (kubeconfig === undefined && isInPod(process.env, root)) return podAccess(process.env, root)
  // In a pod its memory would be a third of all the service takes.
  const { kubeconfigAccess } = await import('./kubeconfig.ts')
  return kubeconfigAccess(kubeconfig)
}

/** What a person may say of how to reach the API. */
interface Wish {
  kubeconfig?: string | undefined
  context?: string | undefined
}

/** The same for people, and the namespace they are in; a context is one of a kubeconfig. */
export async function peopleAccess(
  { kubeconfig, context }: Wish,
  env: NodeJS.ProcessEnv = process.env,
  root = '',
): Promise<{ access: Access; namespace: string | undefined }> {
  const asked = [kubeconfig, context, env['KUBECONFIG']].some((wish) => wish !== undefined)
  if (!asked && isInPod(env, root)) {
    const file = `${root}${ACCOUNT_FOLDER}/namespace`
    const namespace = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
    return { access: podAccess(env, root), namespace }
  }
  const { contextAccess } = await import('./kubeconfig.ts')
  const files = kubeconfig ?? env['KUBECONFIG']
  return contextAccess({
    ...(files !== undefined && { kubeconfig: files }),
    ...(context !== undefined && { context }),
  })
}

function isInPod(env: NodeJS.ProcessEnv, root: string): boolean {
  return env['VEC_API_SERVER'] !== undefined || existsSync(`${root}${ACCOUNT_FOLDER}/token`)
}

/** How the hook service and people's commands reach the Kubernetes API: as in a pod, or by kubeconfig. */
import { existsSync } from 'node:fs'
import { ACCOUNT_FOLDER, podAccess, type Access } from './kubernetes.ts'

/** A kubeconfig that was named; else as in a pod, where there is one; else KUBECONFIG or ~/.kube/config. */
export async function serviceAccess(kubeconfig?: string, root = ''): Promise<Access> {
  const inPod =
    process.env['VEC_API_SERVER'] !== undefined || existsSync(`${root}${ACCOUNT_FOLDER}/token`)
  if (kubeconfig === undefined && inPod) return podAccess(process.env, root)
  // In a pod its memory would be a third of all the service takes.
  const { kubeconfigAccess } = await import('./kubeconfig.ts')
  return kubeconfigAccess(kubeconfig)
}

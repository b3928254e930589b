/** Checks that one of several replicas of the hook service is the leader. */
import { LEADER_SUFFIX } from '../../../crds/contract/names.ts'
import { Lease } from '../../../crds/kubernetes.ts'
import { leases } from '../../clients/kubernetes/api-resources.ts'
import type { CheckContext, CheckResult } from './check.ts'

/** Clocks differ; a leader renews every two seconds. */
const MAX_AGE_MS = 60_000

export interface Leadership {
  /** Absent if no replica is the leader. */
  pod?: string
  result: CheckResult
}

/** Undefined if the Service that hooks are sent to is not that of a leader. */
export async function checkLeader(
  { kubernetes, time }: CheckContext,
  { namespace, name }: { namespace: string; name: string },
): Promise<Leadership | undefined> {
  if (!name.endsWith(LEADER_SUFFIX)) return undefined
  const lease = await kubernetes.get(leases(namespace), name, Lease)
  if (lease === undefined) return undefined
  const about = 'hook service'
  const { holderIdentity: holder = '', renewTime = '' } = lease.spec ?? {}
  const [pod = ''] = holder.split('_')
  const isRenewed = time.now().getTime() - Date.parse(renewTime) <= MAX_AGE_MS
  if (pod === '') {
    const says = `no replica is the leader: Lease ${namespace}/${name}`
    return { result: { about, level: 'wrong', says } }
  }
  if (!isRenewed) {
    const says = `the leader ${pod} has not renewed its Lease since ${renewTime}`
    return { result: { about, level: 'wrong', says } }
  }
  return { pod, result: { about, level: 'fine', says: `${pod} is the leader` } }
}

/** Whether the engine of each VecCluster answers, by its Service and through the API server. */
import { VecCluster } from '../../../crds/cluster.ts'
import { KubernetesError } from '../../../crds/errors.ts'
import { API_VERSION, HTTP_PORT, releaseName } from '../../../crds/names.ts'
import { oneLine } from '../table.ts'
import { place, unread, type Finding, type Patient } from './finding.ts'

const CALL_MS = 10_000

export async function checkClusters(patient: Patient): Promise<Finding[]> {
  const about = 'clusters'
  try {
    const clusters = await patient.kubernetes.list(
      place(API_VERSION, VecCluster.plural, patient),
      VecCluster.schema,
    )
    if (clusters.length === 0) return [{ about, level: 'fine', says: 'there are none' }]
    return await Promise.all(clusters.map((cluster) => checkOne(cluster, patient)))
  } catch (error) {
    return unread(about, error)
  }
}

async function checkOne(cluster: VecCluster, patient: Patient): Promise<Finding> {
  const { name, namespace } = cluster.metadata
  const about = `cluster ${namespace}/${name}`
  const { phase, conditions = [] } = cluster.status ?? {}
  if (phase === undefined) {
    // There is no engine to ask, and the condition says what is missing.
    const why = conditions.find(({ type }) => type === 'Applied')?.message ?? 'not looked at yet'
    return { about, level: 'warning', says: `not installed: ${oneLine(why)}` }
  }
  const answer = await engineAnswer(cluster, patient)
  if (answer === undefined) return { about, level: 'fine', says: `${phase}, its engine is ready` }
  // One that is on its way has no engine to answer yet.
  return { about, level: phase === 'Running' ? 'wrong' : 'warning', says: `${phase}; ${answer}` }
}

/** What is wrong with its answer; undefined when it is ready. `/readyz` asks for no key. */
async function engineAnswer(
  { metadata, spec }: VecCluster,
  { kubernetes, signal }: Patient,
): Promise<string | undefined> {
  const target = `${spec.tls.enabled ? 'https' : 'http'}:${releaseName(metadata.name)}:${HTTP_PORT}`
  const path = `/api/v1/namespaces/${metadata.namespace}/services/${target}/proxy/readyz`
  try {
    const { status } = await kubernetes.call('GET', path, { timeoutMs: CALL_MS, signal })
    return status === 200 ? undefined : `its engine /readyz answered ${status}`
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof KubernetesError) return error.message
    throw error
  }
}

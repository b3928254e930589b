/** Leases that stand in the way of somebody: their holder is gone, or nobody serves it. */
import { KubernetesError } from '../../../crds/errors.ts'
import { AnyObject, Job, Lease, endOf } from '../../../crds/kubernetes.ts'
import { API_VERSION, LABELS, MANAGED_BY } from '../../../crds/names.ts'
import { RESOURCES } from '../../../crds/resources.ts'
import { holderIn } from '../../../crds/rules/holder.ts'
import { place, unread, type Finding, type Patient } from './finding.ts'
import { servedNamespaces } from './service.ts'

const LEASES = 'coordination.k8s.io/v1'

export async function checkLeases(patient: Patient): Promise<Finding[]> {
  const about = 'Leases'
  try {
    const selection = { labelSelector: `${LABELS.managedBy}=${MANAGED_BY}` }
    const leases = await patient.kubernetes.list(place(LEASES, 'leases', patient), Lease, selection)
    const served = await servedNamespaces(patient).catch(unknownWhereRefused)
    const troubles = await Promise.all(
      leases.map(async (lease) => troubleOf(lease, served, patient)),
    )
    const found = troubles.filter((trouble) => trouble !== undefined)
    if (found.length > 0) return found.map((says) => ({ about, level: 'warning', says }))
    const held = leases.length === 1 ? '1 Lease' : `${leases.length} Leases`
    return [{ about, level: 'fine', says: `${held}, none without a holder` }]
  } catch (error) {
    return unread(about, error)
  }
}

async function troubleOf(
  lease: Lease,
  served: string[] | undefined,
  patient: Patient,
): Promise<string | undefined> {
  const { metadata, spec } = lease
  const called = `${metadata.namespace ?? ''}/${metadata.name}`
  // It was given back, and goes on existing for the queue in it.
  if (spec?.holderIdentity === undefined) return undefined
  const held = holderIn(lease)
  const resource = RESOURCES.find(({ kind }) => kind === held?.kind)
  if (resource === undefined || held === undefined) {
    return `${called} is held by ${spec.holderIdentity}, which is not of this operator`
  }
  const { namespace, name, uid } = held
  const holder = `${resource.kind} ${namespace}/${name}`
  const { kubernetes } = patient
  const place = { apiVersion: API_VERSION, plural: resource.plural, namespace }
  const found = await kubernetes.get(place, name, AnyObject)
  if (found === undefined || found.metadata.uid !== uid) {
    const busy = await unfinishedJobs(patient, namespace, uid)
    return busy.length === 0
      ? `${called}: its holder ${holder} is gone; the next one takes it by itself`
      : `${called}: its holder ${holder} is gone, and its Job ${busy.join(', ')} still runs in ${namespace}`
  }
  if (served === undefined || served.length === 0 || served.includes(namespace)) return undefined
  return `${called}: its holder ${holder} is in a namespace that is not served`
}

async function unfinishedJobs({ kubernetes }: Patient, namespace: string, uid: string) {
  const jobs = await kubernetes.list({ apiVersion: 'batch/v1', plural: 'jobs', namespace }, Job, {
    labelSelector: `${LABELS.parent}=${uid}`,
  })
  return jobs.filter((job) => endOf(job) === undefined).map(({ metadata }) => metadata.name)
}

/** Without the rights to read it, or without Metacontroller, nobody knows which namespaces are served. */
function unknownWhereRefused(error: unknown): undefined {
  if (error instanceof KubernetesError) return undefined
  throw error
}

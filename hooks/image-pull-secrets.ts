/**
 * The image pull Secrets of the installation, and the Secrets with which helm downloads the engine's chart. A Job runs in
 * the namespace of its resource, which does not have them, so each is copied for the Job as other Secrets are
 * (data-job/secret-copies.ts). No decision of a kind depends on them, so this module wraps the
 * hooks.
 */
import { KubernetesError } from '../crds/contract/errors.ts'
import type { Job, Secret } from '../crds/kubernetes.ts'
import { LABELS, pullSecretCredential } from '../crds/contract/names.ts'
import {
  secretCopyRefs,
  secretCopiesToWrite,
  readSecretCopies,
  type SecretCopyPorts,
  type CopySource,
} from './data-job/secret-copies.ts'
import { isUnfinished, isSigned } from './request.ts'
import type { HookRequest, AnyParent, KindHooks, Settings } from './protocol.ts'

export interface ImagePullSecretPorts extends SecretCopyPorts {
  /** A Secret of the operator's own namespace, at most 60 s old. */
  pullSecret(name: string): Promise<Secret | undefined>
  /** Logs a warning of the service. */
  warn(error: Error, message: string): void
}

/**
 * Wraps the hooks: writes the copies that the Jobs need before the decision; kinds without Jobs are
 * unchanged.
 */
export function withImagePullSecrets(kindHooks: KindHooks, ports: ImagePullSecretPorts): KindHooks {
  if (!kindHooks.childKinds.includes(JOB_KIND)) return kindHooks
  // Per parent, the observed Jobs that have finished and whose copies are deleted: each is cleaned
  // up once.
  const cleaned = new Map<string, Set<string>>()
  const withSyncedCopies =
    (decide: KindHooks['sync']): KindHooks['sync'] =>
    async (request, context) => {
      const { uid } = (request as HookRequest<AnyParent>).parent.metadata
      const jobs = Object.values(request.children[JOB_KIND] ?? {}) as Job[]
      cleaned.set(
        uid,
        await syncCopies(jobs, context.settings, ports, cleaned.get(uid) ?? new Set()),
      )
      const desired = await decide(request, context)
      if (desired.finalized === true) cleaned.delete(uid)
      return desired
    }
  return {
    ...kindHooks,
    sync: withSyncedCopies(kindHooks.sync),
    ...(kindHooks.finalize && { finalize: withSyncedCopies(kindHooks.finalize) }),
  }
}

const JOB_KIND = 'Job.batch/v1'
const CHART_CREDENTIAL_KEYS = new Set(['username', 'password'])

/** Returns the Jobs that have finished and have no copies left. */
async function syncCopies(
  jobs: Job[],
  settings: Settings,
  ports: ImagePullSecretPorts,
  cleaned: ReadonlySet<string>,
): Promise<Set<string>> {
  const cleanedNow = new Set<string>()
  for (const job of jobs) {
    const { uid = '', deletionTimestamp } = job.metadata
    const names = secretNames(job, settings)
    if (!isUnfinished(job)) {
      if (!cleaned.has(uid)) await deleteCopies(job, names, ports)
      cleanedNow.add(uid)
    } else if (deletionTimestamp === undefined && isSigned(job, settings.jobKeys))
      await createCopies(job, names, settings, ports)
  }
  return cleanedNow
}

/** Without duplicates: image and chart may come from the same registry. */
function secretNames(job: Job, { imagePullSecrets, chart }: Settings): string[] {
  const isPuller = job.metadata.labels?.[LABELS.release] !== undefined
  const names = isPuller ? [chart.pullSecret, chart.credentialsSecret] : []
  return [...new Set([...imagePullSecrets, ...names])].filter((name) => name !== undefined)
}

async function createCopies(
  job: Job,
  names: readonly string[],
  settings: Settings,
  ports: ImagePullSecretPorts,
): Promise<void> {
  try {
    const secrets = await Promise.all(names.map((name) => ports.pullSecret(name)))
    const sources = names.flatMap((name, index) => copySource(name, secrets[index], settings))
    const copies = await readSecretCopies(names.map(pullSecretCredential), job, ports)
    for (const copy of secretCopiesToWrite(sources, copies, job)) await ports.writeSecretCopy(copy)
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    // The node may have the image already. A Job whose image cannot be pulled reports that itself.
    ports.warn(error, 'an image pull Secret could not be copied')
  }
}

async function deleteCopies(job: Job, names: readonly string[], ports: ImagePullSecretPorts) {
  for (const copy of secretCopyRefs(names.map(pullSecretCredential), job))
    await ports.deleteSecretCopy(copy)
}

function copySource(
  name: string,
  secret: Secret | undefined,
  { imagePullSecrets, chart }: Settings,
): CopySource[] {
  if (secret === undefined) return []
  const { data = {}, type } = secret
  const credential = pullSecretCredential(name)
  const keys = Object.keys(data)
  if (name === chart.credentialsSecret && !imagePullSecrets.includes(name)) {
    return [{ credential, keys: keys.filter((key) => CHART_CREDENTIAL_KEYS.has(key)), secret }]
  }
  // The kubelet checks the type.
  return [{ credential, keys, secret, ...(type !== undefined && { type }) }]
}

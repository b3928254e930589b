/**
 * The image pull Secrets of the installation. A Job runs in the namespace of its resource, where nobody
 * else puts them: each is copied for the Job as other Secrets are (copies.ts). No decision of a room
 * depends on them, so this stands around the rooms.
 */
import { KubernetesError } from '../crds/errors.ts'
import type { Job, Secret } from '../crds/kubernetes.ts'
import { pullCredential } from '../crds/names.ts'
import { copiesFor, copiesToWrite, readCopies, type CopyPorts, type Original } from './copies.ts'
import { isUnfinished } from './job.ts'
import type { HookRequest } from './protocol.ts'
import type { AnyParent, Room } from './room.ts'
import { isSigned } from './signature.ts'

export interface PullSecretPorts extends CopyPorts {
  /** A Secret of the operator's own namespace, at most 60 s old. */
  original(name: string): Promise<Secret | undefined>
  /** A warning in the log of the service. */
  warn(error: Error, message: string): void
}

/** The room, with the copies that its Jobs need made before it decides; others stay as they are. */
export function withPullSecrets(room: Room, ports: PullSecretPorts): Room {
  if (!room.childKinds.includes(JOBS)) return room
  // By parent, the Jobs shown that have ended and whose copies are gone: each is cleaned up once.
  const cleaned = new Map<string, Set<string>>()
  const before =
    (decide: Room['sync']): Room['sync'] =>
    async (request, context) => {
      const { uid } = (request as HookRequest<AnyParent>).parent.metadata
      const jobs = Object.values(request.children[JOBS] ?? {}) as Job[]
      const { imagePullSecrets: names, jobKeys } = context.settings
      cleaned.set(
        uid,
        await lookAfter(jobs, { names, keys: jobKeys }, ports, cleaned.get(uid) ?? new Set()),
      )
      const desired = await decide(request, context)
      if (desired.finalized === true) cleaned.delete(uid)
      return desired
    }
  return {
    ...room,
    sync: before(room.sync),
    ...(room.finalize && { finalize: before(room.finalize) }),
  }
}

const JOBS = 'Job.batch/v1'

/** Which of the Jobs have ended and left no copy behind. */
async function lookAfter(
  jobs: Job[],
  { names, keys }: { names: readonly string[]; keys: readonly string[] },
  ports: PullSecretPorts,
  cleaned: ReadonlySet<string>,
): Promise<Set<string>> {
  const clean = new Set<string>()
  for (const job of jobs) {
    const { uid = '', deletionTimestamp } = job.metadata
    if (!isUnfinished(job)) {
      if (!cleaned.has(uid)) await takeBack(job, names, ports)
      clean.add(uid)
    } else if (deletionTimestamp === undefined && isSigned(job, keys)) await lend(job, names, ports)
  }
  return clean
}

async function lend(job: Job, names: readonly string[], ports: PullSecretPorts): Promise<void> {
  try {
    const secrets = await Promise.all(names.map((name) => ports.original(name)))
    const originals = names.flatMap((name, at) => originalOf(name, secrets[at]))
    const copies = await readCopies(names.map(pullCredential), job, ports)
    for (const copy of copiesToWrite(originals, copies, job)) await ports.writeCopy(copy)
  } catch (error) {
    if (!(error instanceof KubernetesError)) throw error
    // The node may have the image. A Job whose image cannot be pulled tells so itself.
    ports.warn(error, 'an image pull Secret could not be copied')
  }
}

async function takeBack(job: Job, names: readonly string[], ports: PullSecretPorts) {
  for (const copy of copiesFor(names.map(pullCredential), job)) await ports.deleteCopy(copy)
}

function originalOf(name: string, secret: Secret | undefined): Original[] {
  if (secret === undefined) return []
  const { data = {}, type } = secret
  const keys = Object.keys(data)
  // The kubelet looks at the type.
  return [{ credential: pullCredential(name), keys, secret, ...(type !== undefined && { type }) }]
}

/**
 * Copies of Secrets that a Job of another namespace needs. A copy belongs to its Job: a Secret of that
 * name with another owner is never read, changed or deleted.
 */
import { Secret } from '../crds/kubernetes.ts'
import type { CopyPorts } from '../hooks/copies.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes.ts'
import { put, remove } from './optimistic.ts'
import { secrets } from './places.ts'

export function copyPorts(kubernetes: Kubernetes): CopyPorts {
  const read = (namespace: string, name: string) => kubernetes.get(secrets(namespace), name, Secret)
  return {
    copy: read,
    async writeCopy(copy) {
      const { namespace = '', name, ownerReferences: [owner] = [] } = copy.metadata
      const found = await read(namespace, name)
      if (found !== undefined && !isOwned(found, owner?.uid)) return
      const resourceVersion = found?.metadata.resourceVersion
      const metadata = {
        ...copy.metadata,
        ...(resourceVersion !== undefined && { resourceVersion }),
      }
      // One that came too late is made up for in the next pass.
      await put(kubernetes, secrets(namespace), { ...copy, metadata })
    },
    async deleteCopy({ namespace, name, ownerUid }) {
      const found = await read(namespace, name)
      if (found === undefined || !isOwned(found, ownerUid)) return
      await remove(kubernetes, secrets(namespace), found)
    },
  }
}

function isOwned({ metadata }: Secret, uid: string | undefined): boolean {
  return metadata.ownerReferences?.some((owner) => owner.uid === uid) === true
}

/**
 * The volumes of claims: the provisioner binds a claim to a volume of the requested size, and the
 * resizer of the CSI driver brings a bound volume to the size that is requested later, and to the
 * VolumeAttributesClass.
 */
import { parseQuantity } from '../../../crds/units.ts'
import { recordAt, valueAt } from '../api/json.ts'
import type { Resources } from '../api/resources.ts'
import type { ApiObject } from '../client.ts'
import type { Controller } from './queue.ts'

/** How long the resizer and the kubelet need for one volume. */
const RESIZE_MS = 2_000

/** Status of a claim with a volume of the requested size and class. */
export function boundStatus(claim: ApiObject): Record<string, unknown> {
  const storage = valueAt(claim, 'spec.resources.requests.storage')
  const attributesClass = valueAt(claim, 'spec.volumeAttributesClassName')
  return {
    phase: 'Bound',
    ...(storage !== undefined && { capacity: { storage } }),
    ...(attributesClass !== undefined && { currentVolumeAttributesClassName: attributesClass }),
  }
}

/** Keys are `namespace/name` of a claim. Volumes grow some time after the request. */
export function volumeResizer(resources: Resources): Controller {
  const due = new Set<string>()
  const kind = resources.kinds.of('v1', 'PersistentVolumeClaim')
  return {
    keys: ({ kind, metadata: { namespace = '', name } }) =>
      kind === 'PersistentVolumeClaim' ? [`${namespace}/${name}`] : [],
    sync(key, again) {
      const [namespace = '', name = ''] = key.split('/')
      const claim = resources.find(kind, namespace, name)
      if (claim === undefined || !isGrowing(claim)) {
        due.delete(key)
        return
      }
      if (!due.has(key)) {
        due.add(key)
        again(RESIZE_MS)
        return
      }
      due.delete(key)
      const grown = (old: ApiObject) => ({
        ...old,
        status: { ...recordAt(old, 'status'), ...boundStatus(old) },
      })
      resources.update(kind, { namespace, name }, grown, 'status')
    },
  }
}

function isGrowing(claim: ApiObject): boolean {
  const size = (path: string) => parseQuantity(String(valueAt(claim, path)))
  return size('spec.resources.requests.storage') > size('status.capacity.storage')
}

/** The namespace controller: creates the account of a new namespace; empties and removes a deleted one. */
import type { Resources } from '../api/resources.ts'
import { isDeleting, type ApiObject } from '../client.ts'
import type { Controller } from './queue.ts'

/** Keys are names of namespaces. */
export function namespaceController(resources: Resources): Controller {
  return {
    keys: ({ kind, metadata }) =>
      kind === 'Namespace' ? [metadata.name] : metadata.namespace ? [metadata.namespace] : [],
    sync(name) {
      const kind = resources.kinds.of('v1', 'Namespace')
      const namespace = resources.find(kind, '', name)
      if (namespace === undefined) return
      if (!isDeleting(namespace)) makeAccount(resources, name)
      else if (empty(resources, name)) finalize(resources, namespace)
    },
  }
}

function makeAccount(resources: Resources, namespace: string): void {
  const kind = resources.kinds.of('v1', 'ServiceAccount')
  if (resources.find(kind, namespace, 'default') !== undefined) return
  const metadata = { name: 'default', namespace }
  resources.create(kind, namespace, { apiVersion: 'v1', kind: 'ServiceAccount', metadata })
}

/** Deletes the content of a namespace; returns whether nothing is left. */
function empty(resources: Resources, namespace: string): boolean {
  let left = 0
  for (const kind of resources.kinds.all().filter(({ namespaced }) => namespaced)) {
    for (const object of resources.store.list(kind, namespace)) {
      const at = { namespace, name: object.metadata.name }
      const gone =
        !isDeleting(object) && resources.delete(kind, at, { propagationPolicy: 'Background' }).gone
      if (!gone) left += 1
    }
  }
  return left === 0
}

function finalize(resources: Resources, { metadata }: ApiObject): void {
  const at = { namespace: '', name: metadata.name }
  const change = (old: ApiObject) => ({ ...old, spec: { finalizers: [] } })
  resources.update(resources.kinds.of('v1', 'Namespace'), at, change, 'finalize')
}

/** The controller of custom kinds: a definition that is deleted takes its objects with it, and waits for them. */
import type { Kind } from '../api/kinds.ts'
import type { Resources } from '../api/resources.ts'
import { isDeleting, type ApiObject } from '../client.ts'
import type { Controller } from './queue.ts'

const CLEANUP = 'customresourcecleanup.apiextensions.k8s.io'

/** Keys are names of definitions. */
export function definitionController(resources: Resources): Controller {
  return {
    keys({ apiVersion, kind, metadata }) {
      if (kind === 'CustomResourceDefinition') return [metadata.name]
      const group = apiVersion.split('/')[0] ?? ''
      const custom = customKinds(resources).find((one) => one.kind === kind && one.group === group)
      return custom?.definition === undefined ? [] : [custom.definition.metadata.name]
    },
    sync(name) {
      const definitions = resources.kinds.of('apiextensions.k8s.io/v1', 'CustomResourceDefinition')
      const definition = resources.find(definitions, '', name)
      if (definition === undefined) return
      const finalizers = definition.metadata.finalizers ?? []
      const write = (next: string[]) =>
        resources.update(definitions, { namespace: '', name }, (old) => withFinalizers(old, next))
      if (!isDeleting(definition)) {
        if (!finalizers.includes(CLEANUP)) write([...finalizers, CLEANUP])
      } else if (finalizers.includes(CLEANUP) && empty(resources, name)) {
        write(finalizers.filter((one) => one !== CLEANUP))
      }
    },
  }
}

/** Deletes the objects of a definition; returns whether none is left. */
function empty(resources: Resources, definition: string): boolean {
  const kind = customKinds(resources).find((one) => one.definition?.metadata.name === definition)
  if (kind === undefined) return true
  const objects = resources.store.list(kind)
  const left = objects.filter((object) => {
    const { namespace = '', name } = object.metadata
    return isDeleting(object) || !resources.delete(kind, { namespace, name }).gone
  })
  return left.length === 0
}

function customKinds(resources: Resources): Kind[] {
  return resources.kinds.all().filter(({ definition }) => definition !== undefined)
}

function withFinalizers(object: ApiObject, finalizers: string[]): ApiObject {
  return { ...object, metadata: { ...object.metadata, finalizers } }
}

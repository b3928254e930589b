/** Requests as Metacontroller sends them. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { childKind } from '../../hooks/answer-validation.ts'
import type { HookRequest, Observations } from '../../hooks/protocol.ts'

interface Parent {
  metadata: { deletionTimestamp?: string }
}

/** Children may be desired and not created yet. */
export function hookRequest<P extends Parent>(
  parent: P,
  children: readonly object[] = [],
  related: readonly object[] = [],
): HookRequest<P> {
  return {
    parent,
    children: groupObjects(children),
    related: groupObjects(related),
    finalizing: parent.metadata.deletionTimestamp !== undefined,
  }
}

/** Objects by `Kind.group/version`, then by `namespace/name`. */
export function groupObjects(objects: readonly object[]): Observations {
  const groups: Observations = {}
  for (const object of objects as readonly AnyObject[]) {
    const { apiVersion, kind, metadata } = object
    const group = (groups[childKind(apiVersion, kind)] ??= {})
    group[`${metadata.namespace ?? ''}/${metadata.name}`] = object
  }
  return groups
}

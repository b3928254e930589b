/** Who holds a Lease: a resource whose Jobs carry its uid. In the Lease stands `Kind/namespace/name/uid`. */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Lease } from '../kubernetes.ts'
import { NamespaceName, ObjectName, Uid } from '../schema.ts'

const Holder = Type.Object({
  kind: Type.String({ minLength: 1 }),
  namespace: NamespaceName(),
  name: ObjectName(),
  uid: Uid(),
})
export type Holder = Static<typeof Holder>

const PARTS = 4

/** The holder that stands in a Lease; undefined too for what nobody of us wrote. */
export function holderIn({ spec }: Lease): Holder | undefined {
  return holderOfIdentity(spec?.holderIdentity)
}

/** As `identityOf` wrote it. */
export function holderOfIdentity(identity: string | undefined): Holder | undefined {
  const parts = identity?.split('/')
  if (parts?.length !== PARTS) return undefined
  const [kind, namespace, name, uid] = parts
  const holder = { kind, namespace, name, uid }
  return Value.Check(Holder, holder) ? holder : undefined
}

export function identityOf({ kind, namespace, name, uid }: Holder): string {
  return [kind, namespace, name, uid].join('/')
}

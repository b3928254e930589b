/** The hooks of one kind, as the server sees them: without the types of the kind. */
import { Type, type Static, type TObject, type TSchema } from '@sinclair/typebox'
import {
  lenientSchema,
  lenientFields,
  SyncRequest,
  type Context,
  type Desired,
  type HookRequest,
  type RelatedRule,
} from './protocol.ts'
import { ObjectMeta, type Condition } from '../crds/schema.ts'

/** The parts of crds/<kind>.ts that the hooks of a kind are built on. */
interface KindDefinition<Parent extends TSchema> {
  kind: string
  plural: string
  schema: Parent
  status: TSchema
  spec: TObject
}

interface HooksSpec<Parent extends TSchema, Status> {
  resource: KindDefinition<Parent>
  /** Kinds that the CompositeController declares as children, as `Kind.group/version`. */
  childKinds: readonly string[]
  /** Returns the related objects that this kind needs; reads only the parent. */
  customize(parent: Static<Parent>): RelatedRule[]
  sync(request: HookRequest<Static<Parent>>, context: Context): Promise<Desired<Status>>
  /** Fields of the spec that its deletion reads. */
  finalizeReads: readonly (keyof Spec<Parent>)[]
  /** Absent if deletion leaves nothing to clean up. */
  finalize?(request: HookRequest<Static<Parent>>, context: Context): Promise<Desired<Status>>
}

/** The fields of every parent, whatever its kind. */
export interface AnyParent {
  kind: string
  metadata: {
    name: string
    namespace: string
    uid: string
    generation: number
    creationTimestamp: string
    deletionTimestamp?: string
    annotations?: Record<string, string>
  }
  status?: { phase?: string; conditions?: Condition[] }
}

type Spec<Parent extends TSchema> = Static<Parent> extends { spec: infer Fields } ? Fields : never

type HookFunction = (request: HookRequest<unknown>, context: Context) => Promise<Desired<unknown>>

export interface KindHooks {
  kind: string
  plural: string
  status: TSchema
  childKinds: readonly string[]
  /** Body of sync. */
  request: TObject
  parent: TSchema
  /**
   * A resource that is being deleted: only the fields that its deletion reads must be valid. An
   * older schema may have admitted it, and an immutable spec cannot be changed.
   */
  deletedParent: TSchema
  customize(parent: unknown): RelatedRule[]
  sync: HookFunction
  finalize?: HookFunction
}

/**
 * Removes the types of a kind. The server checks each request against `request` before it calls a
 * hook, so the parent that a hook receives was validated when the JSON arrived.
 */
export function kindHooks<Parent extends TSchema, Status>(
  hooks: HooksSpec<Parent, Status>,
): KindHooks {
  const { kind, plural, schema, status } = hooks.resource
  return {
    kind,
    plural,
    status,
    childKinds: hooks.childKinds,
    parent: schema,
    request: SyncRequest(schema),
    deletedParent: Type.Object({
      apiVersion: Type.String(),
      kind: Type.Literal(kind),
      metadata: lenientSchema(ObjectMeta),
      spec: lenientFields(hooks.resource.spec, hooks.finalizeReads.map(String)),
      status: Type.Optional(lenientSchema(status)),
    }),
    customize: (parent) => hooks.customize(parent),
    sync: (request, context) => hooks.sync(request, context),
    ...(hooks.finalize && { finalize: hooks.finalize.bind(hooks) }),
  }
}

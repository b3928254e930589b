/** Metacontroller's part between the objects and the hooks, at once and without its caches. */
import type { Resource } from '../../crds/crd.ts'
import { childKind } from '../../hooks/answer-validation.ts'
import type { HookRequest, Observations, RelatedRule } from '../../hooks/protocol.ts'
import { controllers, finalizerName, PLURALS } from '../../metacontroller/controllers.ts'
import { equal } from '../world/api/json.ts'
import { apiVersionOf, type Kind } from '../world/api/kinds.ts'
import { ApiFailure } from '../world/api/failure.ts'
import type { Resources } from '../world/api/resources.ts'
import type { ApiObject } from '../world/client.ts'
import type { SyncAnswer } from '../world/loop/answer.ts'
import { merged, withLastApplied } from '../world/loop/apply.ts'
import { controllerReference, same } from '../world/loop/object.ts'
import { UID_LABEL } from '../world/loop/selector.ts'
import { Broken } from './promises.ts'

const NOWHERE = { url: '', version: '', tokenFingerprint: '', namespacesHash: '' }
const TABLE = new Map(
  controllers({ ...NOWHERE, kinds: PLURALS }).map(({ spec }) => [
    spec.parentResource.resource,
    spec,
  ]),
)

/** Whether Metacontroller puts its finalizer on parents of this kind. */
export function isFinalized(plural: string): boolean {
  return TABLE.get(plural)?.hooks.finalize !== undefined
}

export class Composites {
  readonly #resources: Resources

  constructor(resources: Resources) {
    this.#resources = resources
  }

  /** With all children and what customize asked for. */
  request(resource: Resource, parent: ApiObject, rules: RelatedRule[]): HookRequest<ApiObject> {
    const ends = parent.metadata.deletionTimestamp !== undefined
    const related: Observations = {}
    for (const { apiVersion, resource: plural, namespace, names } of rules) {
      const kind = this.#named(apiVersion, plural)
      const found = names.map((name) => this.#resources.find(kind, namespace, name))
      insert(related, kind, found)
    }
    const children: Observations = {}
    for (const { kind } of this.#childKinds(resource)) {
      insert(children, kind, this.#childrenOf(kind, parent))
    }
    const finalizing = ends && isFinalized(resource.plural)
    return { parent, children, related, finalizing }
  }

  /** Does what an answer says; throws `Broken` for what the API server will not have. */
  apply(resource: Resource, request: HookRequest<ApiObject>, answer: SyncAnswer): void {
    const { parent } = request
    const { children, status, finalized } = answer
    const wanted = (children ?? []) as unknown as ApiObject[]
    // As Metacontroller: the same status is not written again, so it is not judged again either.
    if (!equal(parent.status, status)) {
      this.#accepted('status', () => this.#update(parent, (old) => ({ ...old, status }), 'status'))
    }
    for (const { kind, method } of this.#childKinds(resource)) {
      const shown = Object.values(request.children[keyOf(kind)] ?? {}) as ApiObject[]
      const named = wanted.filter((child) => child.kind === kind.kind)
      const names = new Set(named.map(({ metadata }) => metadata.name))
      for (const child of shown) if (!names.has(child.metadata.name)) this.#remove(kind, child)
      for (const child of named) {
        const there = shown.find(({ metadata }) => metadata.name === child.metadata.name)
        if (there === undefined) this.#create(kind, parent, child)
        else if (method === 'InPlace') this.#merge(there, child)
      }
    }
    if (finalized === true) this.#finish(resource, parent)
  }

  #create(kind: Kind, parent: ApiObject, child: ApiObject): void {
    const { namespace = '', uid = '' } = parent.metadata
    const made = withLastApplied(child, child)
    const metadata = {
      ...made.metadata,
      labels: { ...child.metadata.labels, [UID_LABEL]: uid },
      ownerReferences: [controllerReference(parent)],
    }
    this.#accepted(`${kind.kind} ${child.metadata.name}`, () => {
      this.#resources.create(kind, namespace, { ...made, metadata })
    })
  }

  #merge(there: ApiObject, child: ApiObject): void {
    const next = merged(there, child)
    if (same(next, there) || there.metadata.deletionTimestamp !== undefined) return
    this.#accepted(`${there.kind} ${there.metadata.name}`, () => this.#update(there, () => next))
  }

  #finish(resource: Resource, parent: ApiObject): void {
    const left = (parent.metadata.finalizers ?? []).filter(
      (name) => name !== finalizerName(resource.plural),
    )
    this.#update(parent, (old) => ({ ...old, metadata: { ...old.metadata, finalizers: left } }))
  }

  #update(object: ApiObject, to: (old: ApiObject) => ApiObject, part?: 'status'): void {
    const { apiVersion, kind, metadata } = object
    const at = { namespace: metadata.namespace ?? '', name: metadata.name }
    this.#resources.update(this.#resources.kinds.of(apiVersion, kind), at, to, part)
  }

  /** Nothing here waits for pods that end. */
  #remove(kind: Kind, child: ApiObject): void {
    this.#resources.store.remove(kind, child)
  }

  /** A name that is taken makes no difference; whatever else is refused should not have been asked. */
  #accepted(what: string, write: () => void): void {
    try {
      write()
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error
      if (error.reason === 'AlreadyExists') return
      throw new Broken(`the API server refuses ${what}: ${error.message}`)
    }
  }

  #childrenOf(kind: Kind, { metadata }: ApiObject): ApiObject[] {
    return this.#resources.store
      .list(kind, metadata.namespace)
      .filter((object) =>
        object.metadata.ownerReferences?.some(
          ({ uid, controller }) => controller === true && uid === metadata.uid,
        ),
      )
  }

  #childKinds({ plural }: Resource) {
    return (TABLE.get(plural)?.childResources ?? []).map(
      ({ apiVersion, resource, updateStrategy }) => ({
        kind: this.#named(apiVersion, resource),
        method: updateStrategy.method,
      }),
    )
  }

  #named(apiVersion: string, plural: string): Kind {
    const [version = '', group = ''] = apiVersion.split('/').toReversed()
    const kind = this.#resources.kinds.find(group, version, plural)
    if (kind === undefined) throw new Error(`no kind ${plural} in ${apiVersion}`)
    return kind
  }
}

function keyOf(kind: Kind): string {
  return childKind(apiVersionOf(kind), kind.kind)
}

function insert(into: Observations, kind: Kind, objects: (ApiObject | undefined)[]): void {
  const known = (into[keyOf(kind)] ??= {})
  for (const object of objects) {
    if (object === undefined) continue
    known[`${object.metadata.namespace ?? ''}/${object.metadata.name}`] = object
  }
}

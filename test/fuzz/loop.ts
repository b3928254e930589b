/**
 * Metacontroller's pass over objects in memory. It is the pass of test/world/loop, which the contract
 * cases compare with the real Metacontroller; only its client, its caches and its hooks are replaced:
 * no HTTP, and caches that never lag.
 */
import type { Resource } from '../../crds/crd.ts'
import type { HookRequest } from '../../hooks/protocol.ts'
import { controllers, PLURALS } from '../../metacontroller/controllers.ts'
import { ApiFailure } from '../world/api/failure.ts'
import { apiVersionOf, type Kind } from '../world/api/kinds.ts'
import type { Resources } from '../world/api/resources.ts'
import { ApiClient, ApiError, type ApiObject } from '../world/client.ts'
import type { Clock } from '../world/clock.ts'
import type { CustomizeAnswer, SyncAnswer } from '../world/loop/answer.ts'
import { Children } from '../world/loop/children.ts'
import { checkController, type CompositeController } from '../world/loop/composite.ts'
import { Customize } from '../world/loop/customize.ts'
import type { Discovery, ResourceKind } from '../world/loop/discovery.ts'
import { Finalizer } from '../world/loop/finalizer.ts'
import type { Hook } from '../world/loop/hooks.ts'
import type { Informer, Informers } from '../world/loop/informer.ts'
import { keyOf } from '../world/loop/object.ts'
import type { Parts } from '../world/loop/parts.ts'
import { runPass } from '../world/loop/pass.ts'
import type { Reference } from '../world/world.ts'

const NO_SERVICE = {
  url: 'http://service.test',
  version: '',
  tokenFingerprint: '',
  namespacesHash: '',
}
const CONTROLLERS = new Map<string, CompositeController>(
  controllers({ ...NO_SERVICE, kinds: PLURALS }).map((controller) => {
    const checked = checkController(JSON.parse(JSON.stringify(controller)))
    return [checked.spec.parentResource.resource, checked]
  }),
)

/** Whether Metacontroller puts its finalizer on parents of this kind. */
export function isFinalized(plural: string): boolean {
  return controllerOf(plural).spec.hooks.finalize !== undefined
}

export type HookName = 'sync' | 'finalize' | 'customize'

/** Sends a request to a hook and returns its answer. */
export type CallHook = (
  resource: Resource,
  hook: HookName,
  body: object,
) => Promise<SyncAnswer | CustomizeAnswer>

export class Loop {
  readonly #api: MemoryClient
  readonly #resources: Resources
  readonly #clock: Clock
  readonly #call: CallHook
  readonly #parts = new Map<string, Parts>()

  constructor(resources: Resources, clock: Clock, call: CallHook) {
    this.#api = new MemoryClient(resources)
    this.#resources = resources
    this.#clock = clock
    this.#call = call
  }

  /** One pass. Throws as Metacontroller would log it. Returns after how many seconds it repeats, if at all. */
  async pass(resource: Resource, parent: ApiObject): Promise<number | undefined> {
    const controller = controllerOf(resource.plural)
    let resyncMs: number | undefined
    const options = {
      api: this.#api,
      controller,
      parts: await this.#partsOf(resource),
      finalizer: this.#finalizerOf(controller),
      selected: () => true,
      resync: (_: ApiObject, ms: number) => void (resyncMs = ms),
    }
    await runPass(options, parent)
    return resyncMs === undefined ? undefined : resyncMs / 1000
  }

  /** The request that the next pass would send; nothing of its answer is applied. */
  async request(resource: Resource, parent: ApiObject): Promise<HookRequest<ApiObject>> {
    let captured: HookRequest<ApiObject> | undefined
    const capture = hookOf(async (body) => {
      captured = JSON.parse(JSON.stringify(body)) as HookRequest<ApiObject>
      throw new Captured()
    })
    const parts = await this.#partsOf(resource)
    const controller = controllerOf(resource.plural)
    const options = {
      api: this.#api,
      controller,
      parts: { ...parts, sync: capture, finalize: parts.finalize && capture },
      finalizer: this.#finalizerOf(controller),
      selected: () => true,
      resync: () => undefined,
    }
    await runPass(options, parent).catch((error: unknown) => {
      if (captured === undefined) throw error
    })
    if (captured === undefined) throw new Error(`no hook of ${resource.plural} was called`)
    const { parent: sent, children, related, finalizing } = captured
    return { parent: sent, children, related, finalizing }
  }

  #finalizerOf({ metadata, spec }: CompositeController): Finalizer {
    return new Finalizer(this.#api, metadata.name, spec.hooks.finalize !== undefined)
  }

  async #partsOf(resource: Resource): Promise<Parts> {
    const known = this.#parts.get(resource.plural)
    if (known !== undefined) return known
    const controller = controllerOf(resource.plural)
    const { parentResource, childResources = [], hooks } = controller.spec
    const discovery = new MemoryDiscovery(this.#resources) as unknown as Discovery
    const informer = (apiVersion: string, plural: string) => this.#informer(apiVersion, plural)
    const childManagement = new Children(this.#api, discovery)
    await childManagement.learnMethods(controller)
    const hook = (name: HookName) => hookOf((body) => this.#call(resource, name, body))
    const parents = informer(parentResource.apiVersion, parentResource.resource)
    const customize = new Customize({
      controller,
      hook: hooks.customize && (hook('customize') as unknown as Hook<typeof CustomizeAnswer>),
      parents,
      informers: {
        of: async (apiVersion: string, plural: string) => informer(apiVersion, plural),
      } as unknown as Informers,
      namespaces: informer('v1', 'namespaces'),
      clock: this.#clock,
      enqueue: () => undefined,
    })
    const parts: Parts = {
      ...{ parents, childManagement, customize },
      children: childResources.map(({ apiVersion, resource: plural }) =>
        informer(apiVersion, plural),
      ),
      sync: hook('sync'),
      finalize: hooks.finalize && hook('finalize'),
      close: async () => undefined,
    }
    this.#parts.set(resource.plural, parts)
    return parts
  }

  /** A cache that is always up to date. */
  #informer(apiVersion: string, plural: string): Informer {
    const kind = kindNamed(this.#resources, apiVersion, plural)
    const { store } = this.#resources
    const found = {
      kind: discovered(kind),
      synced: true,
      list: (namespace = '') => store.list(kind, namespace === '' ? undefined : namespace),
      get: (key: string) => store.list(kind).find((object) => keyOf(object) === key),
      subscribe: () => undefined,
    }
    return found as unknown as Informer
  }
}

class Captured extends Error {}

function controllerOf(plural: string): CompositeController {
  const found = CONTROLLERS.get(plural)
  if (found === undefined) throw new Error(`no CompositeController for ${plural}`)
  return found
}

function hookOf(call: (body: object) => Promise<unknown>): Hook<typeof SyncAnswer> {
  return { call, close: async () => undefined } as unknown as Hook<typeof SyncAnswer>
}

function kindNamed({ kinds }: Resources, apiVersion: string, plural: string): Kind {
  const [version = '', group = ''] = apiVersion.split('/').toReversed()
  const kind = kinds.find(group, version, plural)
  if (kind === undefined) throw new Error(`no kind ${plural} in ${apiVersion}`)
  return kind
}

function discovered(kind: Kind): ResourceKind {
  const { plural, namespaced } = kind
  return { apiVersion: apiVersionOf(kind), resource: plural, kind: kind.kind, namespaced }
}

class MemoryDiscovery {
  readonly #resources: Resources

  constructor(resources: Resources) {
    this.#resources = resources
  }

  async resource(apiVersion: string, plural: string): Promise<ResourceKind> {
    return discovered(kindNamed(this.#resources, apiVersion, plural))
  }

  async kind(apiVersion: string, kind: string): Promise<ResourceKind> {
    return discovered(this.#resources.kinds.of(apiVersion, kind))
  }
}

/** The loop's client of the API without HTTP. */
class MemoryClient extends ApiClient {
  readonly #resources: Resources

  constructor(resources: Resources) {
    super({ server: 'http://nowhere.test' })
    this.#resources = resources
  }

  override async get({ apiVersion, kind, namespace, name }: Reference) {
    return this.#resources.find(this.#resources.kinds.of(apiVersion, kind), namespace, name)
  }

  override async create(object: object): Promise<ApiObject> {
    const { apiVersion, kind, metadata } = object as ApiObject
    const known = this.#resources.kinds.of(apiVersion, kind)
    return judged(() =>
      this.#resources.create(known, metadata.namespace ?? '', object as ApiObject),
    )
  }

  override async replace(object: object): Promise<ApiObject> {
    return this.#update(object as ApiObject, 'object')
  }

  override async replaceStatus(object: object): Promise<ApiObject> {
    return this.#update(object as ApiObject, 'status')
  }

  override async delete(
    { apiVersion, kind, namespace, name }: Reference,
    { uid }: { uid?: string } = {},
  ): Promise<void> {
    const known = this.#resources.kinds.of(apiVersion, kind)
    const preconditions = uid === undefined ? {} : { preconditions: { uid } }
    judged(() => this.#resources.delete(known, { namespace, name }, preconditions))
  }

  #update(object: ApiObject, part: 'object' | 'status'): ApiObject {
    const { apiVersion, kind, metadata } = object
    const known = this.#resources.kinds.of(apiVersion, kind)
    const at = { namespace: metadata.namespace ?? '', name: metadata.name }
    return judged(() => this.#resources.update(known, at, () => object, part))
  }
}

function judged<Result>(call: () => Result): Result {
  try {
    return call()
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error
    throw new ApiError(error.code, error.reason, error.message)
  }
}

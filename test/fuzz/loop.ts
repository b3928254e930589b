/**
 * Metacontroller's pass over objects in memory. It is the pass of test/world/loop, which the contract
 * cases compare with the real Metacontroller; only its client, its caches and its hooks are replaced:
 * no HTTP, and caches that never lag.
 */
import type { Resource } from '../../crds/crd.ts'
import type { HookRequest } from '../../hooks/protocol.ts'
import { ApiFailure } from '../world/api/failure.ts'
import type { Resources } from '../world/api/resources.ts'
import { ApiError, type ApiObject, type ObjectApi } from '../world/client.ts'
import type { Clock } from '../world/clock.ts'
import type { CustomizeAnswer, SyncAnswer } from '../world/loop/answer.ts'
import { hookOf, passInMemory, type HookName } from '../world/loop/in-memory.ts'
import { runPass, type PassOptions } from '../world/loop/pass.ts'
import type { Reference } from '../world/world.ts'

/** Sends a request to a hook and returns its answer. */
export type CallHook = (
  resource: Resource,
  hook: HookName,
  body: object,
) => Promise<SyncAnswer | CustomizeAnswer>

export class Loop {
  readonly #resources: Resources
  readonly #clock: Clock
  readonly #call: CallHook
  readonly #options = new Map<string, PassOptions>()

  constructor(resources: Resources, clock: Clock, call: CallHook) {
    this.#resources = resources
    this.#clock = clock
    this.#call = call
  }

  /** One pass. Throws as Metacontroller would log it. Returns after how many seconds it repeats, if at all. */
  async pass(resource: Resource, parent: ApiObject): Promise<number | undefined> {
    let resyncMs: number | undefined
    const options = await this.#optionsOf(resource)
    const resync = (_: ApiObject, ms: number) => void (resyncMs = ms)
    await runPass({ ...options, resync }, parent)
    return resyncMs === undefined ? undefined : resyncMs / 1000
  }

  /** The request that the next pass would send; nothing of its answer is applied. */
  async request(resource: Resource, parent: ApiObject): Promise<HookRequest<ApiObject>> {
    let captured: HookRequest<ApiObject> | undefined
    const capture = hookOf(async (body) => {
      captured = JSON.parse(JSON.stringify(body)) as HookRequest<ApiObject>
      throw new Captured()
    })
    const options = await this.#optionsOf(resource)
    const { parts } = options
    const capturing = { ...parts, sync: capture, finalize: parts.finalize && capture }
    await runPass({ ...options, parts: capturing }, parent).catch((error: unknown) => {
      if (captured === undefined) throw error
    })
    if (captured === undefined) throw new Error(`no hook of ${resource.plural} was called`)
    const { parent: sent, children, related, finalizing } = captured
    return { parent: sent, children, related, finalizing }
  }

  async #optionsOf(resource: Resource): Promise<PassOptions> {
    const known = this.#options.get(resource.plural)
    if (known !== undefined) return known
    const { kinds, store } = this.#resources
    const options = await passInMemory(resource.plural, {
      api: apiOver(this.#resources),
      kinds,
      clock: this.#clock,
      list: (kind, namespace) => store.list(kind, namespace),
      call: (hook, body) => this.#call(resource, hook, body),
    })
    this.#options.set(resource.plural, options)
    return options
  }
}

class Captured extends Error {}

/** The loop's client of the API without HTTP. */
function apiOver(resources: Resources): ObjectApi {
  const kindOf = ({ apiVersion, kind }: Pick<Reference, 'apiVersion' | 'kind'>) =>
    resources.kinds.of(apiVersion, kind)
  const update = async (object: ApiObject, part: 'object' | 'status') => {
    const { namespace = '', name } = object.metadata
    return judged(() => resources.update(kindOf(object), { namespace, name }, () => object, part))
  }
  return {
    get: async (reference) =>
      resources.find(kindOf(reference), reference.namespace, reference.name),
    create: async (object) => {
      const { metadata } = object as ApiObject
      const kind = kindOf(object as ApiObject)
      return judged(() => resources.create(kind, metadata.namespace ?? '', object as ApiObject))
    },
    replace: (object) => update(object as ApiObject, 'object'),
    replaceStatus: (object) => update(object as ApiObject, 'status'),
    delete: async (reference, options) => {
      const uid = options?.uid
      const { namespace, name } = reference
      const preconditions = uid === undefined ? {} : { preconditions: { uid } }
      judged(() => resources.delete(kindOf(reference), { namespace, name }, preconditions))
    },
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

/** The finalizer that lets a controller clean up before its parent is removed. */
import { isDeleting, type ObjectApi, type ApiObject } from '../client.ts'
import { updateLive } from './update.ts'

const GARBAGE_COLLECTOR = ['foregroundDeletion', 'orphan']

export class Finalizer {
  readonly name: string
  /** The controller has a finalize hook. */
  readonly #enabled: boolean
  readonly #api: ObjectApi

  constructor(api: ObjectApi, controller: string, enabled: boolean) {
    this.#api = api
    this.name = `metacontroller.io/compositecontroller-${controller}`
    this.#enabled = enabled
  }

  on({ metadata }: ApiObject): boolean {
    return metadata.finalizers?.includes(this.name) ?? false
  }

  /** Adds or takes away; the cached parent is believed where it is as it should be. */
  async settle(parent: ApiObject): Promise<ApiObject> {
    if (this.on(parent) === this.#enabled) return parent
    if (!this.#enabled) return this.remove(parent)
    // We may have taken it away already: adding it again would keep the parent for ever.
    if (isDeleting(parent)) return parent
    return updateLive(this.#api, parent, (live) =>
      this.on(live) ? undefined : withFinalizers(live, [...finalizersOf(live), this.name]),
    )
  }

  async remove(parent: ApiObject): Promise<ApiObject> {
    return updateLive(this.#api, parent, (live) =>
      this.on(live)
        ? withFinalizers(
            live,
            finalizersOf(live).filter((name) => name !== this.name),
          )
        : undefined,
    )
  }

  /** Whether the children of a parent that is being deleted are still ours to look after. */
  governs(parent: ApiObject): boolean {
    // The garbage collector removes or orphans them itself; we would only fight it.
    if (GARBAGE_COLLECTOR.some((name) => finalizersOf(parent).includes(name))) return false
    return this.#enabled && this.on(parent)
  }
}

function finalizersOf({ metadata }: ApiObject): string[] {
  return metadata.finalizers ?? []
}

function withFinalizers(object: ApiObject, finalizers: string[]): ApiObject {
  return { ...object, metadata: { ...object.metadata, finalizers } }
}

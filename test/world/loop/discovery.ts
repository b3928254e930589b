/** Kinds and resources from the API's discovery; read again when a resource is not known yet. */
import { ApiError, type ApiClient } from '../client.ts'

export interface ResourceKind {
  apiVersion: string
  /** Lowercase plural. */
  resource: string
  kind: string
  namespaced: boolean
}

export class Discovery {
  readonly #api: ApiClient
  readonly #known = new Map<string, ResourceKind[]>()

  constructor(api: ApiClient) {
    this.#api = api
  }

  async resource(apiVersion: string, resource: string): Promise<ResourceKind> {
    const found = await this.#find(apiVersion, (known) => known.resource === resource)
    if (found !== undefined) return found
    throw new Error(`discovery: can't find resource ${resource} in apiVersion ${apiVersion}`)
  }

  async kind(apiVersion: string, kind: string): Promise<ResourceKind> {
    const found = await this.#find(apiVersion, (known) => known.kind === kind)
    if (found !== undefined) return found
    throw new Error(`discovery: can't find kind ${kind} in apiVersion ${apiVersion}`)
  }

  async #find(apiVersion: string, matches: (known: ResourceKind) => boolean) {
    const known = this.#known.get(apiVersion)?.find(matches)
    if (known !== undefined) return known
    const kinds = await this.#ask(apiVersion)
    this.#known.set(apiVersion, kinds)
    return kinds.find(matches)
  }

  async #ask(apiVersion: string): Promise<ResourceKind[]> {
    const path = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    try {
      const { resources } = JSON.parse(await this.#api.raw('GET', path)) as {
        resources: { name: string; kind: string; namespaced: boolean }[]
      }
      return resources
        .filter(({ name }) => !name.includes('/'))
        .map(({ name, kind, namespaced }) => ({ apiVersion, resource: name, kind, namespaced }))
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return []
      throw error
    }
  }
}

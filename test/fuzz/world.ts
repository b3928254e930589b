/**
 * The same cases through a whole world: its API server, the loop in Metacontroller's place, the service
 * with its own ports, Jobs as processes, helm, an engine and a store. Nothing in it may fail for them.
 */
import { ANNOTATIONS } from '../../crds/names.ts'
import type { Resource } from '../../crds/resources.ts'
import { running } from '../scenarios/scenario.ts'
import { ApiError, type ApiObject } from '../world/client.ts'
import { startEmbeddedWorld, type EmbeddedWorld } from '../world/embedded.ts'
import { Broken } from './promises.ts'

export interface Visit {
  resource: Resource
  name: string
  spec: unknown
  /** Put into the progress annotation when the resource has been seen. */
  report?: string
}

/** Of the world's time. */
const LOOK_SECONDS = 30
const END_SECONDS = 120
/** What the samples refer to. */
const CLUSTER = { namespace: 'other', name: 'main' }

export class FuzzedWorld {
  readonly #world: EmbeddedWorld
  #heard = 0

  private constructor(world: EmbeddedWorld) {
    this.#world = world
  }

  /** With one running cluster. */
  static async open(): Promise<FuzzedWorld> {
    const world = await startEmbeddedWorld()
    const metadata = { name: CLUSTER.namespace }
    await world.apply({ apiVersion: 'v1', kind: 'Namespace', metadata })
    const spec = { apiKey: { autoGenerate: true, jwtRbac: true } }
    await running(world, CLUSTER.namespace, CLUSTER.name, spec)
    return new FuzzedWorld(world)
  }

  /** Makes it, looks at it, deletes it; a word for how it went. Throws `Broken` when something failed. */
  async holds({ resource, name, spec, report }: Visit): Promise<string> {
    const world = this.#world
    const namespace = await world.namespace('fuzz')
    const identity = { apiVersion: 'vec-operator.dev/v1alpha1', kind: resource.kind }
    const reference = { ...identity, namespace, name }
    try {
      await world.apply({ ...identity, metadata: { namespace, name }, spec })
    } catch (error) {
      return refusedWith(error)
    }
    await world.pass(LOOK_SECONDS)
    if (report !== undefined) {
      const annotations = { [ANNOTATIONS.progress]: report }
      await world.patch(reference, { metadata: { annotations } }).catch(refusedWith)
      await world.pass(LOOK_SECONDS)
    }
    await this.#check()
    const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
    await world.patch(reference, { metadata: { annotations } })
    await world.delete(reference)
    await world.pass(END_SECONDS)
    await this.#check()
    const left = (await world.get(reference)) as ApiObject | undefined
    return left === undefined ? 'lived to its end' : 'waits at its end'
  }

  async close(): Promise<void> {
    await this.#world.close()
  }

  /** What the service and the loop said since the last look. */
  async #check(): Promise<void> {
    const log = await this.#world.serviceLog()
    const said = log.slice(this.#heard).split('\n')
    this.#heard = log.length
    const failed = said.find((line) => /hook failed|"level":(50|60|"(ERROR|FATAL)")/.test(line))
    if (failed !== undefined) throw new Broken(failed.slice(0, 2000))
    // Throws where the loop has died.
    await this.#world.until(
      { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: CLUSTER.namespace },
      'there',
      () => true,
    )
  }
}

function refusedWith(error: unknown): string {
  if (!(error instanceof ApiError) || error.status >= 500) throw error
  if (/spec|metadata|<nil>/.test(error.message)) return 'refused'
  throw new Broken(`the refusal names no field: ${error.message}`)
}

/**
 * The same cases through a whole world: its API server, the loop in Metacontroller's place, the service
 * with its own ports, Jobs as processes, helm, an engine and a store. Nothing in it may fail for them.
 */
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import type { Resource } from '../../crds/crd.ts'
import { running } from '../scenarios/scenario.ts'
import { ApiError, type ApiObject } from '../world/client.ts'
import { startEmbeddedWorld, type EmbeddedWorld } from '../world/embedded.ts'
import type { Reference } from '../world/world.ts'
import { Broken, checkNews, judged, type Answer, type HookCall } from './promises.ts'

export interface Visit {
  resource: Resource
  name: string
  /** Made where it is to stand. */
  spec: (namespace: string) => Promise<unknown>
  /** What happens to it once it has been seen. */
  meanwhile?: (reference: Reference) => Promise<unknown>
  /** Whether its deletion removes its files from the bucket. */
  isPurged?: boolean
}

/** Of the world's time. */
const LOOK_SECONDS = 30
const END_SECONDS = 120
/** What the samples refer to. */
export const CLUSTER = { namespace: 'other', name: 'main' }

export class FuzzedWorld {
  readonly world: EmbeddedWorld
  /** How many answers were late, and asked for once more. */
  askedAgain = 0

  private constructor(world: EmbeddedWorld) {
    this.world = world
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
  async holds({ resource, name, spec, meanwhile, isPurged = false }: Visit): Promise<string> {
    const { world } = this
    const namespace = await world.namespace('fuzz')
    const identity = { apiVersion: API_VERSION, kind: resource.kind }
    const reference = { ...identity, namespace, name }
    try {
      const metadata = { namespace, name }
      await world.apply({ ...identity, metadata, spec: await spec(namespace) })
    } catch (error) {
      return refusedWith(error)
    }
    await world.advance(LOOK_SECONDS)
    if (meanwhile !== undefined) {
      await meanwhile(reference).catch(refusedWith)
      await world.advance(LOOK_SECONDS)
    }
    await this.check()
    const annotations = { [ANNOTATIONS.retainObjects]: String(!isPurged) }
    await world.patch(reference, { metadata: { annotations } })
    await world.delete(reference)
    await world.advance(END_SECONDS)
    await this.check()
    const left = (await world.get(reference)) as ApiObject | undefined
    return left === undefined ? 'lived to its end' : 'waits at its end'
  }

  /** Asks the service what no Metacontroller would; throws `Broken` where the answer breaks a promise. */
  async ask(call: HookCall): Promise<{ status: number }> {
    await this.check()
    const all: string[] = []
    const asked = await judged({ ...call, hostile: true }, () => this.#answer(call, all))
    if (asked.isAskedAgain) this.askedAgain += 1
    await this.check(all.filter((line) => !line.includes('"type":"InvalidAnswer"')))
    return asked.answer
  }

  /** Adds what the service and the loop say meanwhile. */
  async #answer({ resource, hook, body }: HookCall, all: string[]): Promise<Answer> {
    const began = performance.now()
    const answer = await this.world.callHook(`/${resource.plural}/${hook}`, body)
    const seconds = (performance.now() - began) / 1000
    const news = this.world.newLogLines()
    all.push(...news)
    const said = news.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Said)
    return { ...answer, seconds, said }
  }

  async close(): Promise<void> {
    await this.world.close()
  }

  /** What the service and the loop said since the last look; throws `Broken` where a hook failed. */
  async check(news = this.world.newLogLines()): Promise<void> {
    this.askedAgain += await checkNews(news, async () => {
      await this.world.advance(LOOK_SECONDS)
      return this.world.newLogLines()
    })
    // Throws where the loop has died.
    await this.world.waitFor(
      { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: CLUSTER.namespace },
      'there',
      () => true,
    )
  }
}

type Said = Record<string, unknown>

function refusedWith(error: unknown): string {
  if (!(error instanceof ApiError) || error.status >= 500) throw error
  if (/spec|metadata|<nil>/.test(error.message)) return 'refused'
  throw new Broken(`the refusal names no field: ${error.message}`)
}

/** What the scenarios about the inside of an engine share: collections, access keys, and a look at the engine. */
import type { VecAccessKey } from '../../crds/access-key.ts'
import type { VecCollection } from '../../crds/collection.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import type { Condition } from '../../crds/schema.ts'
import type { Reference, World } from '../world/world.ts'

type Status = Partial<NonNullable<VecCollection['status']> & NonNullable<VecAccessKey['status']>>

/** The resource of this kind and name, as a user writes it, and its reference. */
export function resource(kind: 'VecCollection' | 'VecAccessKey', namespace: string, name: string) {
  const reference: Reference = { apiVersion: API_VERSION, kind, namespace, name }
  const of = (spec: object): object => ({
    apiVersion: API_VERSION,
    kind,
    metadata: { namespace, name },
    spec: { clusterRef: { name: 'a' }, ...spec },
  })
  return { reference, of }
}

export function inside(object: AnyObject | undefined): Omit<Status, 'phase'> & { phase?: string } {
  return (object as { status?: Status } | undefined)?.status ?? {}
}

export function readyOf(object: AnyObject | undefined): Condition | undefined {
  return inside(object).conditions?.find(({ type }) => type === 'Ready')
}

/** Waits until the resource has the phase, for its present generation. */
export function untilPhase(world: World, reference: Reference, phase: string, seconds = 180) {
  return world.waitFor(
    reference,
    phase,
    (object) =>
      inside(object).phase === phase &&
      readyOf(object)?.observedGeneration === object?.metadata.generation,
    seconds,
  )
}

export function untilReadyReason(
  world: World,
  reference: Reference,
  reason: string,
  seconds = 180,
) {
  return world.waitFor(reference, reason, (object) => readyOf(object)?.reason === reason, seconds)
}

/** Calls on the first node of cluster `a`. */
export function engineIn(world: World, namespace: string) {
  const pod = { namespace, name: 'vec-a-0' }
  const call = (method: string, path: string, body?: object, key?: string) =>
    world.engine(pod, method, path, body, key)
  return {
    call,
    async collection(name: string) {
      const answer = await call('GET', `/collections/${encodeURIComponent(name)}`)
      return (answer as { result: Live }).result
    },
    async exists(name: string): Promise<boolean> {
      const answer = await call('GET', `/collections/${encodeURIComponent(name)}/exists`)
      return (answer as { result: { exists: boolean } }).result.exists
    },
    async aliases(): Promise<Record<string, string>> {
      const answer = (await call('GET', '/aliases')) as {
        result: { aliases: { alias_name: string; collection_name: string }[] }
      }
      return Object.fromEntries(
        answer.result.aliases.map(({ alias_name, collection_name }) => [
          alias_name,
          collection_name,
        ]),
      )
    },
  }
}

interface Live {
  config: {
    params: Record<string, unknown>
    hnsw_config: Record<string, unknown>
    quantization_config: unknown
  }
  payload_schema: Record<string, { data_type: string }>
  points_count: number
}

interface Secret extends AnyObject {
  data?: Record<string, string>
  type?: string
}

export async function secretIn(world: World, namespace: string, name: string) {
  const reference = { apiVersion: 'v1', kind: 'Secret', namespace, name }
  const secret = await (world.get(reference) as Promise<Secret | undefined>)
  const data = Object.entries(secret?.data ?? {})
  return {
    secret,
    data: Object.fromEntries(
      data.map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
    ),
  }
}

/** Two engine doubles and a VecMigration from the one, by its address, into the other. */
import type { Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { VecMigration } from '../../../crds/migration.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import type { EngineConfig } from '../../doubles/engine/config.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode, type EngineNode } from '../../doubles/engine/node.ts'
import { migrationWorld, type MigrationWorldOptions } from './migration-world.ts'

interface PairOptions {
  spec?: Partial<VecMigration['spec']>
  plan?: MigrationWorldOptions['plan']
  sourceConfig?: EngineConfig
  sourceTls?: { cert: string; key: string }
  targetConfig?: EngineConfig
  /** Without cluster mode, an engine reports no uuid of a collection. */
  isTargetStandalone?: boolean
  /** Further nodes of the target; those of `target` are node 0. */
  otherTargetNodes?: number
}

export type EnginePair = Awaited<ReturnType<typeof startEnginePair>>

export async function startEnginePair(t: Test, options: PairOptions = {}) {
  const source = await startEngine(t, 'vec-source', {
    config: options.sourceConfig,
    tls: options.sourceTls,
  })
  const target = await startEngine(t, 'vec-a', {
    config: options.targetConfig,
    isStandalone: options.isTargetStandalone,
  })
  const others = await Promise.all(
    Array.from({ length: options.otherTargetNodes ?? 0 }, (_, index) =>
      startEngineNode({ ordinal: index + 1, cluster: target.engine }),
    ),
  )
  t.teardown(() => Promise.all(others.map((node) => node.close())))
  const world = await migrationWorld(t, {
    source: source.url,
    ports: [target.node, ...others].map(({ port }) => port),
    ...(options.spec !== undefined && { spec: options.spec }),
    ...(options.plan !== undefined && { plan: { source: { url: source.url }, ...options.plan } }),
  })
  return { source, target, world }
}

export interface TestEngine {
  engine: EngineCluster
  node: EngineNode
  url: string
  /** Requests with the full key; throws if the engine rejects one. */
  call(method: string, path: string, body?: object | string): Promise<unknown>
  /** Every point of a collection, in the order of ids, as the bytes of the engine. */
  points(collection: string, shardKey?: string | number, limit?: number): Promise<string>
}

interface EngineOptions {
  config: EngineConfig | undefined
  tls?: PairOptions['sourceTls'] | undefined
  isStandalone?: boolean | undefined
}

async function startEngine(
  t: Test,
  name: string,
  { config, tls, isStandalone = false }: EngineOptions,
): Promise<TestEngine> {
  const engine = new EngineCluster({ name, staleMs: 0, enabled: !isStandalone })
  const node = await startEngineNode({
    ordinal: 0,
    cluster: engine,
    ...(config !== undefined && { config }),
    ...(tls !== undefined && { tls }),
  })
  t.teardown(() => node.close())
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${node.port}`
  return { engine, node, url, ...engineCalls(url, config?.service?.api_key) }
}

/** For `catch`: the count of a collection that does not exist yet. Other errors are thrown. */
export function zeroIfAbsent(error: unknown): { count: number } {
  if (error instanceof Error && / answered 404: /.test(error.message)) return { count: 0 }
  throw error
}

/** Also for real engines. */
export function engineCalls(url: string, key?: string): Pick<TestEngine, 'call' | 'points'> {
  const send = async (method: string, path: string, body?: object | string) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json', ...(key !== undefined && { 'api-key': key }) },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return text
  }
  return {
    call: async (method, path, body) =>
      (JSON.parse(await send(method, path, body)) as { result: unknown }).result,
    async points(collection, shardKey, limit = 100_000) {
      const body = {
        limit,
        with_vector: true,
        ...(shardKey !== undefined && { shard_key: shardKey }),
      }
      const text = await send('POST', `/collections/${collection}/points/scroll`, body)
      return text.slice(text.indexOf('['), text.lastIndexOf('],"next_page_offset"') + 1)
    },
  }
}

/** Whether two arrays of points, as JSON, are the same to the last digit, whatever the order of keys. */
export function samePoints(left: string, right: string): boolean {
  return canonical(left) === canonical(right)
}

type Reviver = (this: unknown, key: string, value: unknown, context: { source?: string }) => unknown

/** Each number as it is written, and each object with its keys in order. */
function canonical(json: string): string {
  const parse = JSON.parse as (text: string, reviver: Reviver) => unknown
  const value = parse(json, (_, part, { source }) => {
    if (typeof part === 'number') return { number: source }
    if (typeof part !== 'object' || part === null || Array.isArray(part)) return part
    return Object.entries(part).toSorted(([left], [right]) => (left < right ? -1 : 1))
  })
  return JSON.stringify(value)
}

/** So many small points, numbered from one. */
export function manyPoints(count: number, from = 1): object[] {
  return Array.from({ length: count }, (_, n) => ({
    id: from + n,
    vector: [n / 8, 1.5],
    payload: { n: from + n },
  }))
}

/** As JSON, with small numbers as ids, numbers that JavaScript has no number for, and UUIDs. */
export function mixedPoints(count: number): string {
  const idOf = [
    (n: number) => String(n),
    (n: number) => String(18_446_744_073_709_551_615n - BigInt(n)),
    (n: number) => `"${String(n).padStart(8, 'f')}-0000-4000-8000-000000000001"`,
  ]
  const points = Array.from({ length: count }, (_, n) => {
    const id = idOf[n % idOf.length]?.(n) ?? ''
    return `{"id":${id},"vector":[${n},1.5],"payload":{"n":${n}}}`
  })
  return `[${points.join(',')}]`
}

export const SMALL = { vectors: { size: 2, distance: 'Dot' } }

/** Makes a collection with points in it. */
export async function createCollection(
  { call }: Pick<TestEngine, 'call'>,
  name: string,
  points: object[] | string,
  body: object = SMALL,
): Promise<void> {
  await call('PUT', `/collections/${name}`, body)
  if (points.length === 0) return
  const list = typeof points === 'string' ? points : JSON.stringify(points)
  await call('PUT', `/collections/${name}/points?wait=true`, `{"points":${list}}`)
}

/** A call that writes points. */
export function isUpsert({ method, path }: EngineRequest): boolean {
  return method === 'PUT' && path[2] === 'points'
}

/** A call that reads a page of points. */
export function isScroll({ path }: EngineRequest): boolean {
  return path[3] === 'scroll'
}

/** The log of a migration that is completed. */
export async function runToDone(
  t: Test,
  world: EnginePair['world'],
  options?: Parameters<EnginePair['world']['run']>[0],
): Promise<string> {
  const { code, log } = await world.run(options)
  t.equal(code, EXIT.done, log)
  return log
}

/** The subject of the cases: our engine double, or the real engine that ENGINE_BIN names. Both are nodes with URLs. */
import { stringify } from 'yaml'
import { parseConfig, type EngineConfig } from '../../doubles/engine/config.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'

/** `alone` is one node outside of distributed mode; the others have consensus. */
export const SIZES = ['alone', 'one', 'three'] as const
export type Size = (typeof SIZES)[number]

export type Service = NonNullable<EngineConfig['service']>

export interface Setting {
  size: Size
  service: Service
  /** Environment variables of the engine. */
  env?: Readonly<Record<string, string>>
  /** cluster.resharding_enabled */
  resharding?: boolean
  /** Of the double: how much later writes are applied whose clients do not wait. */
  applyMs?: number
}

export interface Subject {
  /** Where each node answers, by ordinal. */
  urls: string[]
  /** Kills a node, and starts it again on what it has stored afterwards; resolves once it is ready. */
  whileDown(ordinal: number, meanwhile: () => Promise<void>): Promise<void>
  close(): Promise<void>
}

export function nodesOf(size: Size): number {
  return size === 'three' ? 3 : 1
}

/** As many nodes of the double as the size has, in this process. */
export async function doubleSubject({
  size,
  service,
  env = {},
  resharding = false,
  applyMs = 0,
}: Setting): Promise<Subject> {
  const enabled = size !== 'alone'
  const cluster = new EngineCluster({ name: 'vec-a', enabled })
  cluster.reshardingEnabled = resharding
  cluster.applyMs = applyMs
  const ordinals = Array.from({ length: nodesOf(size) }, (_, ordinal) => ordinal)
  for (const ordinal of ordinals) cluster.join(ordinal)
  const nodes = await Promise.all(
    ordinals.map((ordinal) =>
      startEngineNode({
        ...{ ordinal, cluster },
        config: parseConfig([stringify({ cluster: { enabled }, service })], env),
      }),
    ),
  )
  return {
    urls: nodes.map(({ port }) => `http://127.0.0.1:${port}`),
    whileDown: async (ordinal, meanwhile) => {
      cluster.away.add(ordinal)
      await meanwhile()
      cluster.away.delete(ordinal)
    },
    close: async () => {
      await Promise.all(nodes.map((node) => node.close()))
    },
  }
}

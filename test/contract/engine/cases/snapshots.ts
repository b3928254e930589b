/** Snapshots of a node: how they are begun, what telemetry counts of them and of writes, and what is in one. */
import { isDeepStrictEqual } from 'node:util'
import {
  BLOCK,
  parseHeader,
  isZeroBlock,
  continuesSparseMap,
  paddedSize,
} from '../../../../jobs/tar.ts'
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'
import { fill } from './recovery.ts'

const DOCS = { vectors: { size: 2, distance: 'Dot' } }
const METADATA =
  /^(\d+\/(replica_state|shard_config)|config|shard_key_mapping|payload_index)\.json$/

interface Queue {
  length: number
  op_num: number | null
}

interface Telemetry {
  app: { startup?: unknown }
  collections: {
    collections: {
      id: string
      config: { uuid?: unknown }
      shards: {
        id: number
        local: { update_queue?: Queue; vectors_size_bytes?: unknown } | null
      }[]
    }[]
    snapshots?: { id: string; running_snapshots: number; total_snapshot_creations: number }[]
  }
}

async function telemetry(stage: Stage, node = 0): Promise<Telemetry> {
  const { body } = await stage.ask('GET', '/telemetry?details_level=3', { node })
  return (body as { result: Telemetry }).result
}

/** The telemetry of a collection on a node. */
async function listedSnapshots(stage: Stage, name: string, node = 0) {
  const { collections, snapshots = [] } = (await telemetry(stage, node)).collections
  return {
    collection: collections.find(({ id }) => id === name),
    creations: snapshots.find(({ id }) => id === name),
  }
}

const isEnded = (name: string, total: number) => (body: unknown) =>
  (body as { result: Telemetry }).result.collections.snapshots?.some(
    (one) =>
      one.id === name && one.running_snapshots === 0 && one.total_snapshot_creations === total,
  ) === true

/** The numbers of the last writes of all replicas of all shards, as reported by their own nodes. */
async function lastWrites(stage: Stage, name: string): Promise<(number | null | undefined)[]> {
  const numbers: (number | null | undefined)[] = []
  for (let node = 0; node < stage.nodes; node += 1) {
    const { collection } = await listedSnapshots(stage, name, node)
    for (const { local } of collection?.shards ?? []) {
      if (local !== null) numbers.push(local.update_queue?.op_num)
    }
  }
  return numbers
}

async function uuids(stage: Stage, name: string): Promise<unknown[]> {
  const found: unknown[] = []
  for (let node = 0; node < stage.nodes; node += 1) {
    found.push((await listedSnapshots(stage, name, node)).collection?.config.uuid)
  }
  return found
}

/** The small files of a snapshot of a node, in the order of the tar. */
async function metadataOf(stage: Stage, name: string, node: number): Promise<[string, unknown][]> {
  const path = `/collections/${name}/snapshots`
  const { body } = await stage.ask('POST', `${path}?wait=true`, { node })
  const bytes = await stage.bytes(
    `${path}/${(body as { result: { name: string } }).result.name}`,
    node,
  )
  const files: [string, unknown][] = []
  for (let at = 0; !isZeroBlock(bytes.subarray(at, at + BLOCK));) {
    const header = parseHeader(bytes.subarray(at, at + BLOCK))
    if (header === undefined) throw new Error(`no header at byte ${at}`)
    at += BLOCK
    for (let isMap = header.hasMoreSparseMap; isMap; at += BLOCK) {
      isMap = continuesSparseMap(bytes.subarray(at, at + BLOCK))
    }
    if (METADATA.test(header.name)) {
      files.push([header.name, JSON.parse(bytes.toString('utf8', at, at + header.size))])
    }
    at += paddedSize(header.size)
  }
  return files
}

interface ReplicaState {
  is_local: boolean
  this_peer_id: number
  peers: Record<string, string>
}

/** Without the ids of peers. */
function stateOf({ is_local, this_peer_id, peers }: ReplicaState): object {
  return { is_local, own: peers[this_peer_id], all: Object.values(peers) }
}

/** Of every node; of the config, whether it is the one that is shown. */
async function noteArchives(stage: Stage, name: string): Promise<void> {
  const { body } = await stage.ask('GET', `/collections/${name}`)
  const { config: live } = (body as { result: { config: object } }).result
  for (let node = 0; node < stage.nodes; node += 1) {
    const files = (await metadataOf(stage, name, node)).map(([file, content]) => {
      if (file.endsWith('replica_state.json')) return [file, stateOf(content as ReplicaState)]
      if (file !== 'config.json') return [file, content]
      const { uuid, ...config } = content as { uuid?: unknown }
      return [file, { uuid: typeof uuid, isLive: isDeepStrictEqual(config, live) }]
    })
    stage.note(`files of node ${node}`, files)
  }
}

export const SNAPSHOTS: Case[] = [
  {
    title:
      'a snapshot may be started without waiting, and telemetry counts it until its file exists',
    async play(stage) {
      await created(stage, 'docs', DOCS)
      await fill(stage, 'docs', 3)
      const { app } = await telemetry(stage)
      stage.note('startup is', typeof app.startup)
      const path = '/collections/docs/snapshots'
      // The engine counts per name, and keeps the count when the collection is deleted.
      const before = (await listedSnapshots(stage, 'docs')).creations?.total_snapshot_creations ?? 0
      const counted = async () => {
        const { creations } = await listedSnapshots(stage, 'docs')
        const total = (creations?.total_snapshot_creations ?? 0) - before
        return creations && { ...creations, total_snapshot_creations: total }
      }
      await stage.call('POST', `${path}?wait=false`)
      await stage.awaited('/telemetry?details_level=3', isEnded('docs', before + 1))
      stage.note('counted', await counted())
      const { body } = await stage.ask('GET', path)
      const files = (body as { result: { name: string; size: number }[] }).result
      stage.note(
        'files',
        files.map(({ name, size }) => ({ name, isLarge: size > 1000 })),
      )
      await stage.ask('POST', `${path}?wait=true`)
      stage.note('counted with the next one', await counted())
      stage.note('started at the same time', (await telemetry(stage)).app.startup === app.startup)
    },
  },
  {
    title:
      'a collection has one uuid on all nodes, which a change keeps and another creation does not',
    async play(stage) {
      await created(stage, 'docs', DOCS)
      const first = await uuids(stage, 'docs')
      stage.note(
        'types',
        first.map((uuid) => typeof uuid),
      )
      stage.note('of all nodes', new Set(first).size)
      await stage.ask('PATCH', '/collections/docs', { body: { hnsw_config: { m: 20 } } })
      stage.note('kept', isDeepStrictEqual(await uuids(stage, 'docs'), first))
      await stage.ask('DELETE', '/collections/docs')
      await created(stage, 'docs', DOCS)
      const second = await uuids(stage, 'docs')
      stage.note('of all nodes again', new Set(second).size)
      stage.note('another', second[0] !== first[0])
    },
  },
  {
    title:
      'telemetry numbers the writes of a shard equally on each replica, and does not count reads',
    async play(stage) {
      const body = { ...DOCS, shard_number: 1, replication_factor: stage.nodes }
      await created(stage, 'docs', body)
      stage.note('before any write', await lastWrites(stage, 'docs'))
      await fill(stage, 'docs', 3)
      const filled = await lastWrites(stage, 'docs')
      stage.note(
        'types',
        filled.map((number) => typeof number),
      )
      stage.note('of all copies', new Set(filled).size)
      await stage.ask('POST', '/collections/docs/points/count', { body: { exact: true } })
      await stage.ask('POST', '/collections/docs/points/scroll', { body: { limit: 3 } })
      stage.note('after reads', isDeepStrictEqual(await lastWrites(stage, 'docs'), filled))
      await stage.ask('POST', '/collections/docs/points/delete?wait=true', {
        body: { points: [1] },
      })
      const changed = await lastWrites(stage, 'docs')
      stage.note('of all copies after another', new Set(changed).size)
      stage.note('higher', Number(changed[0]) > Number(filled[0]))
    },
  },
  {
    title: 'a snapshot of a node is a tar with the states of its replicas and the configuration',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      await created(stage, 'docs', { ...DOCS, shard_number: 2, replication_factor: stage.nodes })
      for (const [field_name, field_schema] of [
        ['plain', 'keyword'],
        ['params', { type: 'integer', lookup: true, range: false }],
      ]) {
        const body = { field_name, field_schema }
        await stage.ask('PUT', '/collections/docs/index?wait=true', { body })
      }
      await fill(stage, 'docs', 3)
      await noteArchives(stage, 'docs')
    },
  },
  {
    title: 'with custom sharding a snapshot of a node has the keys with the ids of their shards',
    sizes: ['one', 'three'],
    async play(stage) {
      const body = { ...DOCS, sharding_method: 'custom', replication_factor: stage.nodes }
      await created(stage, 'keyed', body)
      for (const shard_key of ['a', 7]) {
        await stage.ask('PUT', '/collections/keyed/shards', { body: { shard_key } })
      }
      const files: unknown[] = []
      for (let node = 0; node < stage.nodes; node += 1) {
        const found = new Map(await metadataOf(stage, 'keyed', node))
        const keys = found.get('shard_key_mapping.json') as { key: unknown }[]
        files.push(keys.toSorted((one, other) => (String(one.key) < String(other.key) ? -1 : 1)))
      }
      stage.note('keys', files)
    },
  },
]

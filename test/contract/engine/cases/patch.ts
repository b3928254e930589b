/** What PATCH changes, ignores and refuses: facts section 3.2. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { created } from './making.ts'

const NAMED = {
  vectors: {
    x: {
      size: 4,
      distance: 'Cosine',
      hnsw_config: { m: 8 },
      quantization_config: { scalar: { type: 'int8' } },
    },
    y: { size: 3, distance: 'Dot' },
  },
  sparse_vectors: { s: { modifier: 'idf', index: { on_disk: true } } },
}

type Read = { result?: { config: unknown } }

/** Patches, waits until the config shows it, and notes both. */
async function patched(
  stage: Stage,
  name: string,
  body: object,
  marks: readonly RegExp[],
): Promise<void> {
  await stage.call('PATCH', `/collections/${name}?timeout=15`, { body })
  const shows = (answer: unknown) => {
    const config = JSON.stringify((answer as Read).result?.config)
    // A node applies a change part by part.
    return marks.every((mark) => mark.test(config))
  }
  for (let node = 0; node < stage.nodes; node += 1) {
    const { body: answer } = await stage.awaited(`/collections/${name}`, shows, { node })
    stage.note(`config on node ${node}`, (answer as Read).result?.config)
  }
}

/** Notes a refusal, and that nothing changed. */
async function refused(stage: Stage, name: string, bodies: [string, unknown][]): Promise<void> {
  for (const [what, body] of bodies) {
    const { status, body: answer } = await stage.ask('PATCH', `/collections/${name}?timeout=15`, {
      body,
    })
    stage.note(what, { status, answer })
  }
  await stage.call('GET', `/collections/${name}`)
}

export const PATCHES: Case[] = [
  {
    title: 'PATCH merges known fields and ignores others',
    async play(stage) {
      await created(stage, 'docs', NAMED)
      const body = {
        vectors: {
          x: {
            hnsw_config: { ef_construct: 50 },
            on_disk: true,
            size: 9,
            distance: 'Dot',
            quantization_config: 'Disabled',
          },
        },
        sparse_vectors: { s: { index: { full_scan_threshold: 7 }, modifier: 'none' } },
        hnsw_config: { m: 20, typo: 1 },
        optimizers_config: { indexing_threshold: 77, max_optimization_threads: 2 },
        quantization_config: { product: { compression: 'x8' } },
        params: {
          replication_factor: 3,
          write_consistency_factor: 2,
          read_fan_out_factor: 1,
          read_fan_out_delay_ms: 5,
          on_disk_payload: false,
          shard_number: 9,
        },
        strict_mode_config: { max_timeout: 3, multivector_config: { x: { max_vectors: 2 } } },
        metadata: { a: { b: 1 }, c: null },
        shard_number: 7,
        wal_config: { wal_capacity_mb: 99 },
        sharding_method: 'custom',
      }
      const marks = [/"metadata"/, /"x8"/, /"max_timeout":3/, /"read_fan_out_delay_ms":5/]
      await patched(stage, 'docs', body, [...marks, /"m":20/, /"indexing_threshold":77/])
      const more = {
        quantization_config: 'Disabled',
        strict_mode_config: { enabled: true, multivector_config: { y: { max_vectors: 1 } } },
        metadata: { a: null, d: 1 },
        optimizers_config: { max_optimization_threads: 'auto', indexing_threshold: null },
        vectors: { x: { on_disk: false, quantization_config: null } },
        params: { read_fan_out_factor: 0 },
        hnsw_config: null,
      }
      const marksOfMore = [/"d":1/, /^(?!.*"x8")/, /"enabled":true/, /"read_fan_out_factor":0/]
      await patched(stage, 'docs', more, [...marksOfMore, /"max_optimization_threads":null/])
    },
  },
  {
    title: 'the unnamed vector is patched under the empty name',
    async play(stage) {
      await created(stage, 'docs')
      const hnsw = { m: 32, payload_m: 8 }
      const vectors = {
        '': { on_disk: true, hnsw_config: hnsw, quantization_config: { binary: {} } },
      }
      await patched(stage, 'docs', { vectors }, [/"m":32/, /"binary"/])
      const off = { vectors: { '': { quantization_config: 'Disabled', on_disk: false } } }
      await patched(stage, 'docs', off, [/^(?!.*binary)/, /"on_disk":false/])
    },
  },
  {
    title: 'PATCH reads the other names of fields, and knows no others',
    async play(stage) {
      await created(stage, 'docs')
      const body = {
        optimizer_config: { indexing_threshold_kb: 78 },
        quantization: { scalar: { type: 'int8' } },
        hnsw_config: { full_scan_threshold_kb: 55 },
      }
      await patched(stage, 'docs', body, [/"full_scan_threshold":55/, /"int8"/])
    },
  },
  {
    title: 'a misspelt field in hnsw, optimizers, strict mode or params is 200 and has no effect',
    async play(stage) {
      await created(stage, 'docs')
      await refused(stage, 'docs', [
        ['hnsw', { hnsw_config: { typo: 1 } }],
        ['optimizers', { optimizers_config: { typo: 1 } }],
        ['params', { params: { typo: 1 } }],
        ['sparse', { sparse_vectors: {} }],
        ['nothing', {}],
        ['empty objects', { optimizers_config: {}, hnsw_config: {}, params: {} }],
      ])
    },
  },
  {
    title: 'PATCH refuses unknown vectors and bad values',
    async play(stage) {
      await created(stage, 'docs', NAMED)
      await refused(stage, 'docs', [
        ['an unknown vector', { vectors: { nope: { on_disk: true } } }],
        ['the unnamed vector of named ones', { vectors: { '': { on_disk: true } } }],
        ['an unknown sparse vector', { sparse_vectors: { nope: { modifier: 'idf' } } }],
        ['a vector without its name', { vectors: { on_disk: false } }],
        ['an empty quantization', { quantization_config: {} }],
        ['another word for quantization', { quantization_config: 'Nope' }],
        ['a quantization in lower case', { quantization_config: 'disabled' }],
        ['an ef_construct of 1', { hnsw_config: { ef_construct: 1 } }],
        [
          'an ef_construct of 1 of a vector',
          { vectors: { x: { hnsw_config: { ef_construct: 1 } } } },
        ],
        ['few vectors to vacuum', { optimizers_config: { vacuum_min_vector_number: 5 } }],
        ['a replication factor of 0', { params: { replication_factor: 0 } }],
        ['an unknown modifier', { sparse_vectors: { s: { modifier: 'x' } } }],
        ['no JSON', '{'],
      ])
    },
  },
  {
    title: 'the parts of a PATCH before the failing one are applied',
    async play(stage) {
      await created(stage, 'docs', NAMED)
      const body = { hnsw_config: { m: 24 }, sparse_vectors: { nope: { modifier: 'idf' } } }
      const { status, body: answer } = await stage.ask('PATCH', '/collections/docs?timeout=15', {
        body,
      })
      stage.note('the answer', { status, answer })
      await stage.until('/collections/docs', (seen) => JSON.stringify(seen).includes('"m":24'))
    },
  },
  {
    title: 'PATCH of replication_factor changes the number, and creates or drops no replica',
    async play(stage) {
      await created(stage, 'docs', { vectors: { size: 2, distance: 'Dot' }, shard_number: 3 })
      await patched(stage, 'docs', { params: { replication_factor: 2 } }, [
        /"replication_factor":2/,
      ])
      const { body } = await stage.ask('GET', '/collections/docs/cluster')
      const { local_shards, remote_shards } = (body as { result: Record<string, unknown[]> }).result
      stage.note('copies', (local_shards?.length ?? 0) + (remote_shards?.length ?? 0))
    },
  },
]

/** The plain engine of these tests against the engine double: any calls of the port have the same outcomes. */
import fc from 'fast-check'
import t, { type Test } from 'tap'
import type { AliasAction } from '../../../crds/engine/collections.ts'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { CollectionEngine } from '../../../hooks/collection/ports.ts'
import { Engine } from '../../../jobs/clients/engine/client.ts'
import { EngineCollections } from '../../../jobs/clients/engine/collections.ts'
import { EngineConnections, urlTransport } from '../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../jobs/log.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode } from '../../doubles/engine/node.ts'
import { FakeEngine } from './engine.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 40)
const NAMES = ['a', 'b', 'x', 'y']
const never = new AbortController().signal

/** A name of a collection, of an alias or of both, and a field. */
const name = fc.constantFrom(...NAMES)
const field = fc.constantFrom('f', 'f.g', '"f"', 'arr[].g', 'a b', '__proto__')
const created = fc.constantFrom(
  { vectors: { size: 4, distance: 'Dot' } },
  { vectors: { v: { size: 2, distance: 'Cosine', on_disk: true } }, sparse_vectors: { s: {} } },
  { vectors: {}, shard_number: 2, optimizers_config: { indexing_threshold: 0 } },
  { vectors: { size: 4, distance: 'Dot' }, quantization_config: { scalar: { type: 'int8' } } },
  { vectors: { size: 0, distance: 'Dot' } },
  { vectors: { size: 4, distance: 'Dot' }, shard_number: 0 },
  { vectors: { size: 4, distance: 'Dot' }, hnsw_config: { m: 'many' } },
)
const patched = fc.constantFrom(
  { params: { read_fan_out_factor: 2 } },
  { hnsw_config: { m: 20 }, optimizers_config: { max_optimization_threads: 1 } },
  { vectors: { v: { on_disk: false } } },
  { vectors: { '': { on_disk: true } } },
  { quantization_config: 'Disabled' },
  { strict_mode_config: { enabled: true } },
  { optimizers_config: { deleted_threshold: 2 } },
  {},
)
const SCHEMAS: (string | Record<string, unknown>)[] = [
  ...['keyword', 'text', 'none of them', { type: 'keyword' }, { type: 'keyword', is_tenant: true }],
  ...[
    { type: 'text', tokenizer: 'word' },
    { type: 'text', lowercase: 'yes' },
  ],
]
const schema = fc.constantFrom(...SCHEMAS)
const action: fc.Arbitrary<AliasAction> = fc.oneof(
  fc.record({ create_alias: fc.record({ collection_name: name, alias_name: name }) }),
  fc.record({ delete_alias: fc.record({ alias_name: name }) }),
)

type Call = [what: string, run: (engine: CollectionEngine) => Promise<unknown>]

const call: fc.Arbitrary<Call> = fc.oneof(
  fc
    .tuple(name, created)
    .map<Call>((one) => ['create', (engine) => engine.createCollection(...one, never)]),
  fc
    .tuple(name, patched)
    .map<Call>((one) => ['patch', (engine) => engine.patchCollection(...one, never)]),
  name.map<Call>((one) => ['delete', (engine) => engine.deleteCollection(one, never)]),
  fc
    .tuple(name, field, schema)
    .map<Call>(([one, field_name, field_schema]) => [
      'put index',
      (engine) => engine.putIndex(one, { field_name, field_schema }, never),
    ]),
  fc
    .tuple(name, field)
    .map<Call>((one) => ['delete index', (engine) => engine.deleteIndex(...one, never)]),
  fc
    .array(action, { minLength: 1, maxLength: 3 })
    .map<Call>((actions) => ['aliases', (engine) => engine.updateAliases(actions, never)]),
)

async function double(t: Test) {
  const cluster = new EngineCluster({ staleMs: 0 })
  const node = await startEngineNode({ ordinal: 0, cluster })
  const connections = new EngineConnections()
  t.teardown(async () => {
    await connections.close()
    await node.close()
  })
  const engine = new Engine({
    transport: urlTransport(`http://127.0.0.1:${node.port}`, connections),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    credentials: async () => ({}),
  })
  return { cluster, engine: new EngineCollections(engine) }
}

/** What was answered, or the status of the refusal. */
async function outcomeOf(run: Promise<unknown>): Promise<unknown> {
  try {
    return await run
  } catch (error) {
    if (!(error instanceof EngineError)) throw error
    return `refused with ${error.status}`
  }
}

async function stateOf(engine: CollectionEngine) {
  const aliases = await engine.aliases(never)
  const infos = NAMES.map(async (one) => {
    const info = await engine.collectionInfo(one, never)
    return info && { config: info.config, payload_schema: info.payload_schema }
  })
  return [
    aliases.toSorted((one, other) => (one.alias_name < other.alias_name ? -1 : 1)),
    ...(await Promise.all(infos)),
  ]
}

t.test('any calls leave the same collections, indexes and aliases, and fail alike', async (t) => {
  const { cluster, engine: port } = await double(t)
  const seen = new Map<string, number>()
  const property = fc.asyncProperty(fc.array(call, { maxLength: 12 }), async (calls) => {
    cluster.collections.clear()
    cluster.aliases.clear()
    const plain = new FakeEngine()
    plain.staleReads = 0
    for (const [what, run] of calls) {
      const [one, other] = [await outcomeOf(run(plain)), await outcomeOf(run(port))]
      const outcome = `${what}: ${String(other)}`
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
      if (one !== other)
        throw new Error(`${what}: ${String(one)}, but the double: ${String(other)}`)
    }
    const [one, other] = [await stateOf(plain), await stateOf(port)].map((state) =>
      JSON.stringify(state, undefined, 1),
    )
    if (one !== other) throw new Error(`${one}\nbut the double has ${other}`)
  })
  await t.resolves(fc.assert(property, { numRuns: RUNS, seed: 1 }))
  t.comment(JSON.stringify(Object.fromEntries(seen)))
  for (const what of ['create', 'patch', 'put index', 'aliases']) {
    t.ok(seen.has(`${what}: undefined`), `${what} has succeeded`)
    t.ok(
      [...seen.keys()].some((one) => one.startsWith(`${what}: refused`)),
      `and has failed`,
    )
  }
})

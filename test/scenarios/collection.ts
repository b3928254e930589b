/** VecCollection: made, kept as declared, named where it cannot be, and left or deleted at the end. */
import { matchWhole } from '../match-whole.ts'
import { clusterReference, running, untilGone, type Scenario } from './scenario.ts'
import { engineIn, inside, readyOf, resource, untilPhase, untilReadyReason } from './inside.ts'

const VECTORS = [{ size: 4, distance: 'Cosine' }]
/** A collection is reconciled every minute. */
const A_MINUTE = 65

const made: Scenario = {
  title: 'a VecCollection is made with its indexes and aliases, and Ready says so',
  async run(world, t) {
    const namespace = await world.namespace('made')
    await running(world, namespace, 'a', { apiKey: { autoGenerate: true } })
    const { reference, of } = resource('VecCollection', namespace, 'books')
    await world.apply(
      of({
        vectors: [
          { name: 'title', size: 4, distance: 'Cosine', hnsw: { m: 24 }, onDisk: true },
          { name: 'text', size: 8, distance: 'Dot', quantization: { scalar: { type: 'int8' } } },
        ],
        sparseVectors: [{ name: 'words', modifier: 'idf' }],
        readFanOutFactor: 1,
        optimizers: { indexing_threshold: 5000 },
        payloadIndexes: [
          { field: 'author', type: 'keyword', params: { is_tenant: true } },
          { field: 'page', type: 'integer' },
        ],
        aliases: ['library', 'shelf one'],
      }),
    )
    const object = await untilPhase(world, reference, 'Ready')
    matchWhole(t, inside(object), {
      phase: 'Ready',
      collectionName: 'books',
      pointsCount: 0,
      payloadIndexes: ['author', 'page'],
      aliases: ['library', 'shelf one'],
      observedGeneration: 1,
    })
    t.match(readyOf(object), { status: 'True', reason: 'CollectionReady' })
    const engine = engineIn(world, namespace)
    t.match(await engine.collection('books'), {
      config: {
        params: {
          vectors: {
            title: { size: 4, hnsw_config: { m: 24 }, on_disk: true },
            text: { size: 8, quantization_config: { scalar: { type: 'int8' } } },
          },
          sparse_vectors: { words: { modifier: 'idf' } },
          read_fan_out_factor: 1,
        },
        optimizer_config: { indexing_threshold: 5000 },
      },
      payload_schema: { author: { data_type: 'keyword' }, page: { data_type: 'integer' } },
    })
    t.strictSame(await engine.aliases(), { library: 'books', 'shelf one': 'books' })
  },
}

const waits: Scenario = {
  title: 'a VecCollection without its cluster is Pending, and made once that is there',
  async run(world, t) {
    const namespace = await world.namespace('waits')
    const { reference, of } = resource('VecCollection', namespace, 'books')
    await world.apply(of({ vectors: VECTORS }))
    const object = await untilReadyReason(world, reference, 'ClusterNotFound')
    t.equal(inside(object).phase, 'Pending')
    await running(world, namespace, 'a')
    await untilPhase(world, reference, 'Ready')
    t.ok(await engineIn(world, namespace).exists('books'))
  },
}

const drift: Scenario = {
  title:
    'drift made by hand in the engine is corrected within a minute, what others created is left alone',
  async run(world, t) {
    const namespace = await world.namespace('drift')
    await running(world, namespace, 'a')
    const engine = engineIn(world, namespace)
    const { reference, of } = resource('VecCollection', namespace, 'books')
    await world.apply(
      of({
        vectors: VECTORS,
        hnsw: { m: 24 },
        payloadIndexes: [{ field: 'author', type: 'keyword' }],
        aliases: ['library'],
      }),
    )
    await untilPhase(world, reference, 'Ready')
    await engine.call('PATCH', '/collections/books', {
      hnsw_config: { m: 8, ef_construct: 64 },
      quantization_config: { scalar: { type: 'int8' } },
    })
    await engine.call('DELETE', '/collections/books/index/author?wait=true')
    await engine.call('PUT', '/collections/books/index?wait=true', {
      field_name: 'foreign',
      field_schema: 'integer',
    })
    await engine.call('POST', '/collections/aliases', {
      actions: [
        { delete_alias: { alias_name: 'library' } },
        { create_alias: { alias_name: 'theirs', collection_name: 'books' } },
      ],
    })
    await world.advance(A_MINUTE)
    t.match(await engine.collection('books'), {
      config: {
        hnsw_config: { m: 24, ef_construct: 64 },
        quantization_config: { scalar: { type: 'int8' } },
      },
      payload_schema: { author: { data_type: 'keyword' }, foreign: { data_type: 'integer' } },
    })
    t.strictSame(await engine.aliases(), { library: 'books', theirs: 'books' })
    const object = await world.get(reference)
    t.strictSame(inside(object).payloadIndexes, ['author'])
    t.strictSame(inside(object).aliases, ['library'])
  },
}

const changed: Scenario = {
  title: 'a changed spec is applied: values, an index of another type, aliases made and released',
  async run(world, t) {
    const namespace = await world.namespace('changed')
    await running(world, namespace, 'a')
    const engine = engineIn(world, namespace)
    const { reference, of } = resource('VecCollection', namespace, 'books')
    const indexes = (type: string) => [
      { field: 'kind', type },
      { field: 'author', type: 'keyword' },
    ]
    await world.apply(
      of({
        vectors: VECTORS,
        payloadIndexes: [...indexes('keyword'), { field: 'dropped', type: 'bool' }],
        aliases: ['old', 'both'],
      }),
    )
    await untilPhase(world, reference, 'Ready')
    await world.apply(
      of({
        vectors: [{ ...VECTORS[0], onDisk: true }],
        payloadIndexes: indexes('integer'),
        aliases: ['both', 'new'],
        quantization: { scalar: { type: 'int8', quantile: 0.9 } },
      }),
    )
    const object = await untilPhase(world, reference, 'Ready')
    t.strictSame(inside(object).payloadIndexes, ['author', 'kind'])
    const live = await engine.collection('books')
    t.match(live, {
      config: {
        params: { vectors: { on_disk: true } },
        quantization_config: { scalar: { type: 'int8' } },
      },
    })
    t.match(live.payload_schema, {
      kind: { data_type: 'integer' },
      author: { data_type: 'keyword' },
    })
    t.notOk('dropped' in live.payload_schema)
    t.strictSame(await engine.aliases(), { both: 'books', new: 'books' })
  },
}

const degraded: Scenario = {
  title: 'a collection that differs where nothing can be changed is Degraded, its data untouched',
  async run(world, t) {
    const namespace = await world.namespace('degraded')
    await running(world, namespace, 'a')
    const engine = engineIn(world, namespace)
    await engine.call('PUT', '/collections/books', { vectors: { size: 8, distance: 'Dot' } })
    const points = [{ id: 1, vector: [1, 2, 3, 4, 5, 6, 7, 8], payload: { a: 1 } }]
    await engine.call('PUT', '/collections/books/points?wait=true', { points })
    const { reference, of } = resource('VecCollection', namespace, 'books')
    await world.apply(of({ vectors: VECTORS, hnsw: { m: 24 }, deletionPolicy: 'Retain' }))
    const object = await untilPhase(world, reference, 'Degraded')
    t.match(inside(object).error, /vectors\[0\]\.size/)
    t.match(inside(object).error, /vectors\[0\]\.distance/)
    t.match(readyOf(object), { status: 'False', reason: 'ImmutableFieldMismatch' })
    t.equal(inside(object).pointsCount, 1)
    t.match(await engine.collection('books'), {
      config: { params: { vectors: { size: 8, distance: 'Dot' } }, hnsw_config: { m: 16 } },
      points_count: 1,
    })
  },
}

const refused: Scenario = {
  title: "what the engine refuses or ignores is Failed with the engine's words or the field's path",
  async run(world, t) {
    const namespace = await world.namespace('refused')
    await running(world, namespace, 'a')
    const bad = resource('VecCollection', namespace, 'bad')
    await world.apply(bad.of({ vectors: VECTORS, optimizers: { deleted_threshold: 2 } }))
    t.match(
      inside(await untilPhase(world, bad.reference, 'Failed')).error,
      /optimizers_config\.deleted_threshold: value 2\.0 invalid/,
    )
    const typo = resource('VecCollection', namespace, 'typo')
    await world.apply(typo.of({ vectors: VECTORS, hnsw: { m: 20, typo: 1 } }))
    const object = await untilPhase(world, typo.reference, 'Failed')
    t.match(inside(object).error, /ignores hnsw\.typo/)
    matchWhole(t, inside(object).ignored, { generation: 1, paths: ['hnsw.typo'] })
    t.match((await engineIn(world, namespace).collection('typo')).config.hnsw_config, { m: 20 })

    await world.apply(typo.of({ vectors: VECTORS, hnsw: { m: 20 } }))
    t.equal(inside(await untilPhase(world, typo.reference, 'Ready')).error, undefined)
  },
}

const claimed: Scenario = {
  title: 'an alias or a name that another VecCollection claims is not taken from it',
  async run(world, t) {
    const namespace = await world.namespace('claimed')
    await running(world, namespace, 'a')
    const first = resource('VecCollection', namespace, 'first')
    await world.apply(first.of({ vectors: VECTORS, aliases: ['current'] }))
    await untilPhase(world, first.reference, 'Ready')
    // The API's timestamps cannot order two that are created within one second.
    await world.advance(2)
    const second = resource('VecCollection', namespace, 'second')
    await world.apply(second.of({ vectors: VECTORS, aliases: ['current'] }))
    const object = await untilPhase(world, second.reference, 'Failed')
    t.equal(readyOf(object)?.reason, 'AliasClaimed')
    t.match(inside(object).error, new RegExp(`current.*${namespace}/first`))
    const twin = resource('VecCollection', namespace, 'twin')
    await world.apply(twin.of({ vectors: VECTORS, collectionName: 'first' }))
    t.match(
      inside(await untilPhase(world, twin.reference, 'Failed')).error,
      new RegExp(`first belongs to .*${namespace}/first`),
    )
    t.strictSame(await engineIn(world, namespace).aliases(), { current: 'first' })
    await world.advance(A_MINUTE)
    t.equal(inside(await world.get(first.reference)).phase, 'Ready')
  },
}

const ends: Scenario = {
  title: 'deleted with policy Retain the collection stays, with policy Delete it goes',
  async run(world, t) {
    const namespace = await world.namespace('ends')
    await running(world, namespace, 'a')
    const engine = engineIn(world, namespace)
    for (const deletionPolicy of ['Retain', 'Delete']) {
      const name = deletionPolicy.toLowerCase()
      const { reference, of } = resource('VecCollection', namespace, name)
      await world.apply(of({ vectors: VECTORS, deletionPolicy }))
      await untilPhase(world, reference, 'Ready')
      await world.delete(reference)
      await untilGone(world, reference)
      t.equal(await engine.exists(name), deletionPolicy === 'Retain', deletionPolicy)
    }
  },
}

const orphaned: Scenario = {
  title: 'deletion of a VecCollection is released once its VecCluster is gone',
  async run(world, t) {
    const namespace = await world.namespace('orphaned')
    await running(world, namespace, 'a')
    const { reference, of } = resource('VecCollection', namespace, 'books')
    await world.apply(of({ vectors: VECTORS, deletionPolicy: 'Delete' }))
    await untilPhase(world, reference, 'Ready')
    const cluster = clusterReference(namespace, 'a')
    await world.delete(cluster)
    await untilGone(world, cluster, 300)
    const object = await untilReadyReason(world, reference, 'ClusterNotFound')
    t.equal(inside(object).phase, 'Ready', 'the phase stays until the engine can be read again')
    await world.delete(reference)
    await untilGone(world, reference)
  },
}

const remade: Scenario = {
  title: 'a collection that was deleted by hand is recreated, and never one that differs',
  async run(world, t) {
    const namespace = await world.namespace('remade')
    await running(world, namespace, 'a')
    const engine = engineIn(world, namespace)
    const { reference, of } = resource('VecCollection', namespace, 'books')
    await world.apply(of({ vectors: VECTORS, aliases: ['library'] }))
    await untilPhase(world, reference, 'Ready')
    await engine.call('DELETE', '/collections/books')
    await world.advance(A_MINUTE)
    t.ok(await engine.exists('books'))
    t.strictSame(await engine.aliases(), { library: 'books' })
  },
}

export const collectionScenarios: Scenario[] = [
  made,
  waits,
  drift,
  changed,
  degraded,
  refused,
  claimed,
  ends,
  orphaned,
  remade,
]

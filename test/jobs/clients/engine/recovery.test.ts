/** What answers to a recovery mean, and what nodes report about recoveries and their disks. */
import { Readable } from 'node:stream'
import t from 'tap'
import { EngineError } from '../../../../crds/contract/errors.ts'
import type { Engine } from '../../../../jobs/clients/engine/client.ts'
import {
  EngineRecovery,
  hasRecoveryEnded,
  isFetchRefused,
} from '../../../../jobs/clients/engine/recovery.ts'
import { longCallTimeoutMs } from '../../../../jobs/clients/http/request.ts'
import { holdRecoveries } from '../../../doubles/engine/running.ts'
import { matchWhole } from '../../../match-whole.ts'
import { ask } from '../../restore/collection-state.ts'
import { engineNodes, recordedEngine } from './engine-stage.ts'

t.test('after no answer, or that of a proxy, a node may still be recovering', async (t) => {
  const ended = (status?: number) =>
    hasRecoveryEnded(new EngineError('x', status === undefined ? {} : { status }))
  t.strictSame([undefined, 408, 502, 503, 504].map(ended), [false, false, false, false, false])
  t.strictSame([400, 403, 404, 500].map(ended), [true, true, true, true])
})

t.test(
  'the size of the disks is in bytes, and unknown where a node does not report it',
  async (t) => {
    const reported = async (app: object) => {
      const engine = { call: async () => ({ app, collections: {} }) }
      return new EngineRecovery(engine as unknown as Engine).diskBytes()
    }
    t.equal(await reported({ system: { disk_size: 3 } }), 3 * 1024)
    t.equal(await reported({ system: { disk_size: null } }), undefined)
    t.equal(await reported({ system: null }), undefined)
    t.equal(await reported({}), undefined)
  },
)

const SECRET = '?X-Amz-Signature=0123&X-Amz-Credential=abcd'

t.test('a node that may not or cannot download has changed nothing', async (t) => {
  const refused = (message: string, status?: number) =>
    isFetchRefused(new EngineError(message, { status }))
  t.ok(refused('Forbidden', 403))
  t.ok(refused('Wrong input: Failed to download tar from http://s3/a: status - 404', 400))
  t.ok(refused('Service internal error: Http request error', 500))
  t.ok(refused('error sending request for url (http://s3/a)', 500))
  t.notOk(refused('Wrong input: Snapshot checksum mismatch', 400))
  t.notOk(refused('Service internal error: failed to unpack', 500))
})

t.test('a node whose download fails is an error without the query of the address', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs')
  const recovery = new EngineRecovery(first.engine)
  const url = `http://127.0.0.1:1/b/k${SECRET}`
  const error = await recovery
    .recover({ collection: 'docs' }, { url, priority: 'snapshot', size: 1, checksum: undefined })
    .catch((cause: unknown) => cause)
  t.match(error, { code: 'EngineError', status: 500, message: /http:\/\/127\.0\.0\.1:1\/b\/k\)$/ })
  t.notMatch(String(error), /X-Amz/)
})

t.test('a snapshot that is uploaded has the time that its bytes need', async (t) => {
  const { calls, engine } = recordedEngine()
  const size = 2 ** 40
  const upload = {
    file: 'x.snapshot',
    size,
    priority: 'snapshot',
    beforeEnd: async () => undefined,
  }
  for (const target of [{ collection: 'docs', shard: 1 }, { collection: 'docs' }]) {
    const source = Readable.from([Buffer.from('bytes')])
    await new EngineRecovery(engine).upload(target, { ...upload, source } as never)
  }
  const limitMs = longCallTimeoutMs(size)
  t.ok(limitMs > 250 * 3_600_000, `${limitMs} ms`)
  t.strictSame(
    calls.map(({ timeoutMs }) => timeoutMs),
    [limitMs, limitMs],
  )
})

t.test('whether a node can download is found out without a change', async (t) => {
  const { cluster, clients, first } = await engineNodes(t, 2)
  cluster.createCollection('docs')
  const points = [{ id: 1, vector: {} }]
  await ask(first.url, 'PUT', '/collections/docs/points?wait=true', { points })
  const [, store] = clients
  const recovery = new EngineRecovery(first.engine)
  t.equal(await recovery.unreachableReason('docs', `${store?.url}/${SECRET}`), undefined)
  t.match(
    await recovery.unreachableReason('docs', `http://127.0.0.1:1/b/k${SECRET}`),
    /answered 500: .*error sending request for url \(http:\/\/127\.0\.0\.1:1\/b\/k\)$/,
  )
  t.equal(cluster.collections.get('docs')?.points.length, 1)
})

t.test('a probe that gets no answer in time is a reason, any other one is an error', async (t) => {
  const probe = (error: Error, signal?: AbortSignal) => {
    const engine = { call: () => Promise.reject(error) } as unknown as Engine
    return new EngineRecovery(engine).unreachableReason('docs', 'http://s3/', signal)
  }
  const timeout = new EngineError('PUT x got no answer: The operation was aborted due to timeout')
  t.equal(await probe(timeout), 'no answer from the store in 20 s')
  t.match(await probe(new EngineError('answered 403: Forbidden', { status: 403 })), /Forbidden$/)
  t.equal(await probe(new EngineError('checksum mismatch', { status: 400 })), undefined)
  const lost = new EngineError('PUT x got no answer: other side closed')
  await t.rejects(probe(lost), { code: 'EngineError', message: lost.message })
  await t.rejects(probe(new TypeError('a bug')), new TypeError('a bug'))
  const over = new Error('SIGTERM')
  await t.rejects(probe(timeout, AbortSignal.abort(over)), over)
})

t.test('recoveries of a collection are counted on their node', async (t) => {
  const { cluster, clients, first } = await engineNodes(t, 2)
  cluster.createCollection('docs')
  const [begun, over] = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()]
  holdRecoveries(cluster, () => {
    begun.resolve(undefined)
    return over.promise
  })
  const running = (name: string) =>
    Promise.all(clients.map(({ engine }) => new EngineRecovery(engine).runningRecoveries(name)))
  t.strictSame(await running('docs'), [0, 0])
  const download = { url: 'http://127.0.0.1:1/', priority: 'snapshot', size: 1 } as const
  const recovery = new EngineRecovery(first.engine)
    .recover({ collection: 'docs' }, { ...download, checksum: undefined })
    .catch(() => undefined)
  await begun.promise
  t.strictSame(await running('docs'), [1, 0])
  t.strictSame(await running('none'), [0, 0])
  over.resolve(undefined)
  await recovery
  t.strictSame(await running('docs'), [0, 0])
  const old = await engineNodes(t, 1, '1.15.5')
  old.cluster.createCollection('docs')
  t.equal(await new EngineRecovery(old.first.engine).runningRecoveries('docs'), undefined)
})

t.test('a collection is read by its name or by an alias, and may be missing', async (t) => {
  const { cluster, first } = await engineNodes(t)
  cluster.createCollection('docs')
  cluster.aliases.set('alias', 'docs')
  const recovery = new EngineRecovery(first.engine)
  t.match(await recovery.collection('docs'), { status: 'green', points_count: 0 })
  t.match(await recovery.collection('alias'), { status: 'green', points_count: 0 })
  t.equal(await recovery.collection('none'), undefined)
  first.node.misbehave(() => ({ cut: 'before' }))
  await t.rejects(recovery.collection('docs'), { code: 'EngineError' })
})

t.test('a shard key gets its shards with as many replicas, and loses its points', async (t) => {
  const { cluster, first } = await engineNodes(t, 2)
  await ask(first.url, 'PUT', '/collections/docs', { sharding_method: 'custom', vectors: {} })
  const recovery = new EngineRecovery(first.engine)
  const replicas = () =>
    (cluster.collections.get('docs')?.shards ?? []).map(({ key, peers }) => [key, peers.length])
  await recovery.createShardKey('docs', { key: 'a', shards: 2, replicas: 1 })
  await recovery.createShardKey('docs', { key: 7, shards: 1, replicas: 2 })
  t.strictSame(replicas(), [
    ['a', 1],
    ['a', 1],
    [7, 2],
  ])
  matchWhole(t, await recovery.collectionCluster('docs'), { shard_count: 3, shard_transfers: [] })
  await recovery.deleteShardKey('docs', 'a')
  t.strictSame(replicas(), [[7, 2]])
})

t.test('nodes report how far they have applied the consensus log', async (t) => {
  const { cluster, clients, first } = await engineNodes(t, 2)
  cluster.lag.set(1, 1)
  const [one, other] = await Promise.all(
    clients.map(({ engine }) => new EngineRecovery(engine).cluster()),
  )
  if (one?.status !== 'enabled' || other?.status !== 'enabled') throw new Error('no cluster')
  t.equal(one.raft_info.commit - other.raft_info.commit, 1)
  t.equal(one.peer_id, first.peer)
  const { engine } = recordedEngine({ status: 'disabled' })
  t.strictSame(await new EngineRecovery(engine).cluster(), { status: 'disabled' })
})

t.test('an index is waited for, for as long as its data takes', async (t) => {
  const { engine, calls } = recordedEngine({})
  const body = { field_name: 'tag', field_schema: 'keyword' }
  await new EngineRecovery(engine).buildIndex('a b', { body, bytes: 2 ** 40 })
  const [call] = calls
  t.equal(call?.path, '/collections/a%20b/index?wait=true')
  t.equal(call?.timeoutMs, longCallTimeoutMs(2 ** 40))
  t.strictSame(JSON.parse(call?.sent ?? ''), body)
})

t.test('a node verifies the checksum of what it downloads, where there is one', async (t) => {
  const { engine, calls } = recordedEngine()
  const recovery = new EngineRecovery(engine)
  const download = { url: 'http://s3/k', priority: 'replica', size: 2 ** 40 } as const
  await recovery.recover({ collection: 'a b' }, { ...download, checksum: 'abc' })
  await recovery.recover({ collection: 'a b', shard: 0 }, { ...download, checksum: undefined })
  const body = { location: 'http://s3/k', priority: 'replica' }
  t.strictSame(
    calls.map(({ sent }) => JSON.parse(sent) as object),
    [{ ...body, checksum: 'abc' }, body],
  )
  t.strictSame(
    calls.map(({ path }) => path),
    ['', '/shards/0'].map((part) => `/collections/a%20b${part}/snapshots/recover?wait=true`),
  )
  t.equal(calls[0]?.timeoutMs, longCallTimeoutMs(2 ** 40))
})

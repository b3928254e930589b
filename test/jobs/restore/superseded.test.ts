/**
 * A pod that was presumed dead, as on an unreachable node, continues after the pod that replaced it has restored the
 * collection. It deletes nothing of it.
 */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { ResourceDeleted } from '../../../jobs/reporter.ts'
import { run as runRestore } from '../../../jobs/restore/run.ts'
import type { EngineRequest } from '../../doubles/engine/answers.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { instantClock, takeOver, TAKEN_OVER } from '../job-world.ts'
import {
  createKeyedCollection,
  restoreFixture,
  run,
  runToDone,
  type RestoreFixture,
  type RestoreFixtureOptions,
} from './restore-fixture.ts'
import type { Restore } from './restore-world.ts'

t.test('a pod that was replaced does not delete the collection of the next one', async (t) => {
  const { world, deleteCollections, nodes, assertRestored } = await restoreFixture(t)
  deleteCollections('docs')
  const restore = await world.restore()
  const controller = new AbortController()
  nodes[0]?.misbehave(({ method, path }) => {
    if (method !== 'PUT' || path.join('/') !== 'collections/docs') return undefined
    controller.abort(new Error('SIGTERM'))
    return { cut: 'after' }
  })
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  nodes[0]?.misbehave()

  const reached = Promise.withResolvers<undefined>()
  const released = Promise.withResolvers<undefined>()
  let readings = 0
  nodes[2]?.misbehave(({ path }) => {
    // The size of its disks, and whether it is idle: before it checks the collection, and before it deletes it.
    if (path[0] !== 'telemetry' || (readings += 1) !== 3) return undefined
    reached.resolve(undefined)
    return { until: released.promise }
  })
  const second = run(restore, { pod: 'pod-2' })
  await reached.promise
  await runToDone(t, restore, { pod: 'pod-3' })
  released.resolve(undefined)
  const { code, log } = await second
  t.equal(code, EXIT.crash, log.slice(-2000))
  await assertRestored('docs')
})

t.test(
  'a VecRestore that is deleted before its pod reads the spec is reported as gone',
  async (t) => {
    const asked: unknown[] = []
    const tools = {
      openBucket: async () => ({}),
      kubernetes: { get: async (...args: unknown[]) => void asked.push(args.slice(0, 2)) },
    } as never
    const plan = { resource: 'vecrestores', namespace: 'ns', name: 'r1' } as never
    await t.rejects(runRestore(plan, tools), new ResourceDeleted('vecrestores ns/r1 is gone'))
    t.strictSame(asked, [
      [{ apiVersion: API_VERSION, plural: 'vecrestores', namespace: 'ns' }, 'r1'],
    ])
  },
)

/**
 * Another pod takes the restore over while this request is in progress. Returns the requests of this kind that the
 * first pod has sent after that.
 */
async function overtaken(
  stood: RestoreFixture,
  restore: Restore,
  {
    isMeant,
    isAnswered = false,
  }: { isMeant: (request: EngineRequest) => boolean; isAnswered?: boolean },
): Promise<{ code: number; log: string; calls: number; later: string[] }> {
  const { name } = restore.plan
  let calls = 0
  let done: Promise<void> | undefined
  const later: string[] = []
  for (const node of stood.nodes) {
    node.misbehave((request) => {
      if (!isMeant(request)) return undefined
      calls += 1
      if (done !== undefined) later.push(`${request.method} ${request.path.join('/')}`)
      done ??= takeOver(stood.world.api, { kind: 'VecRestore', name })
      return isAnswered ? { until: done } : UNAVAILABLE
    })
  }
  const time = instantClock(async () => {
    await done
    await new Promise((resolve) => setTimeout(resolve, 2))
  })
  const result = await run(restore, { time })
  return { ...result, calls, later }
}

const keyed: RestoreFixtureOptions = { collections: [], prepare: createKeyedCollection }
const deleteKeyed = ({ deleteCollections }: RestoreFixture) => deleteCollections('keyed')

interface Change {
  options?: RestoreFixtureOptions
  before?: (stood: RestoreFixture) => unknown
  method: string
  path: string
  /** Part of the body. */
  body?: string
}

const CHANGES: Record<string, Change> = {
  'creates a collection': {
    before: ({ deleteCollections }) => deleteCollections('docs'),
    ...{ method: 'PUT', path: 'collections/docs' },
  },
  'creates a shard key': {
    ...{ options: keyed, before: deleteKeyed },
    ...{ method: 'PUT', path: 'collections/keyed/shards' },
  },
  'deletes a placeholder shard key': {
    ...{ options: keyed, before: deleteKeyed },
    ...{ method: 'POST', path: 'collections/keyed/shards/delete' },
  },
  'creates a payload index': {
    ...{ options: keyed, before: deleteKeyed },
    ...{ method: 'PUT', path: 'collections/keyed/index' },
  },
  'lowers the replication factor': {
    ...{ method: 'PATCH', path: 'collections/docs', body: '"replication_factor":1' },
  },
  'sets the final replication factor': {
    ...{ method: 'PATCH', path: 'collections/docs', body: '"replication_factor":2' },
  },
  'restores the replication factor after a failure': {
    before: ({ store, manifest }) => {
      const key = manifest().collections[0]?.snapshots.at(-1)?.key ?? ''
      const bytes = Buffer.from(store().objects.get(key)?.body ?? '')
      bytes[4] = 88
      store().put(key, bytes)
    },
    ...{ method: 'PATCH', path: 'collections/docs', body: '"replication_factor":2' },
  },
  'applies the configuration': {
    before: ({ engine }) => {
      Object.assign(engine.collections.get('docs')?.config.optimizer_config ?? {}, {
        indexing_threshold: 77,
      })
    },
    ...{ method: 'PATCH', path: 'collections/docs', body: 'indexing_threshold' },
  },
  'sets aliases': {
    options: { prepare: async ({ aliases }) => aliases.set('live', 'docs') },
    before: ({ engine }) => engine.aliases.clear(),
    ...{ method: 'POST', path: 'collections/aliases' },
  },
}

for (const [what, change] of Object.entries(CHANGES)) {
  t.test(`a pod that is replaced while it ${what} does not repeat the call`, async (t) => {
    const stood = await restoreFixture(t, change.options)
    change.before?.(stood)
    const { code, log, calls, later } = await overtaken(stood, await stood.world.restore(), {
      isMeant: ({ method, path, body }) =>
        method === change.method &&
        path.join('/') === change.path &&
        JSON.stringify(body ?? null).includes(change.body ?? ''),
    })
    t.equal(calls - later.length, 1, log.slice(-2000))
    t.strictSame(later, [])
    t.match(log, TAKEN_OVER)
    t.equal(code, EXIT.crash)
  })
}

t.test('a pod that is replaced while it deletes a collection does not repeat it', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  const restore = await stood.world.restore()
  const controller = new AbortController()
  stood.nodes[0]?.misbehave(({ method, path }) => {
    if (method !== 'PUT' || path.join('/') !== 'collections/docs') return undefined
    controller.abort(new Error('SIGTERM'))
    return { cut: 'after' }
  })
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  const { code, log, calls, later } = await overtaken(stood, restore, {
    isMeant: ({ method, path }) => method === 'DELETE' && path.join('/') === 'collections/docs',
  })
  t.equal(calls - later.length, 1, log.slice(-2000))
  t.strictSame(later, [])
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
  t.ok(stood.engine.collections.has('docs'))
})

t.test('a pod that is replaced drops and moves no further replica', async (t) => {
  const stood = await restoreFixture(t, { method: 'Shard' })
  const { code, log, calls, later } = await overtaken(stood, await stood.world.restore(), {
    isMeant: ({ method, path }) =>
      method === 'POST' && path.join('/') === 'collections/docs/cluster',
    isAnswered: true,
  })
  t.equal(calls - later.length, 1, log.slice(-2000))
  t.strictSame(later, [])
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
})

t.test(
  'a pod that is replaced during an upload does not delete the file of the next one',
  async (t) => {
    const stood = await restoreFixture(t)
    stood.s3.misbehave(({ query }) =>
      query.has('X-Amz-Signature') ? { status: 403, code: 'AccessDenied' } : undefined,
    )
    const deleted: string[] = []
    const { code, log, calls } = await overtaken(stood, await stood.world.restore(), {
      isAnswered: true,
      isMeant: ({ method, path }) => {
        if (method === 'DELETE' && path.includes('snapshots')) deleted.push(path.join('/'))
        return method === 'POST' && path.at(-1) === 'upload'
      },
    })
    t.equal(calls, 1, log.slice(-2000))
    t.strictSame(deleted, [])
    t.match(log, TAKEN_OVER)
    t.equal(code, EXIT.crash)
  },
)

t.test('an alias that another client sets between two attempts is not changed', async (t) => {
  const stood = await restoreFixture(t, {
    collections: ['docs', 'other'],
    prepare: async ({ aliases }) => aliases.set('live', 'docs'),
  })
  stood.engine.aliases.clear()
  for (const node of stood.nodes) {
    node.misbehave(({ method, path }) => {
      if (method !== 'POST' || path.join('/') !== 'collections/aliases') return undefined
      if (stood.engine.aliases.has('live')) return undefined
      stood.engine.aliases.set('live', 'other')
      return UNAVAILABLE
    })
  }
  const restore = await stood.world.restore()
  await runToDone(t, restore)
  t.strictSame([...stood.engine.aliases], [['live', 'other']])
  t.strictSame((await restore.result()).notes, ['alias live points to other and was not changed'])
})

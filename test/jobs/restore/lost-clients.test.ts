/**
 * Recoveries whose client has gone: a killed pod, a lost answer. The node continues them; none may change
 * the target once a restore has ended, none is doubled, and none is repeated that has succeeded.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { startEngineNode, type EngineNode } from '../../doubles/engine/node.ts'
import { holdRecoveries, recoveriesBegun, type Stage } from '../../doubles/engine/running.ts'
import { matchWhole } from '../../match-whole.ts'
import { ask } from './collection-state.ts'
import { restoreWorld, type Restore } from './restore-world.ts'
import { shardRestoreFixture } from './shard-restore-fixture.ts'
import { isRecovery, run, runToDone, restoreFixture } from './restore-fixture.ts'

const WAITING = /waiting for the recovery on that node/

/** A promise that a test ends. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  return { promise, open: () => resolve(undefined) }
}

/** Shards and nodes in a stage of a recovery. */
function begun(engine: EngineCluster, what: Stage): string[] {
  return recoveriesBegun(engine)
    .filter((one) => one.stage === what)
    .map(({ ordinal, shard }) => (shard === undefined ? `node ${ordinal}` : `shard ${shard}`))
}

/** Writes points that no backup has, and reads them at the end. */
async function acknowledged(urls: string[], collection: string) {
  const [url = ''] = urls
  const points = [7001, 7002, 7003].map((id) => ({ id, vector: {}, payload: { late: true } }))
  await ask(url, 'PUT', `/collections/${collection}/points?wait=true`, { points })
  return async (t: Test) => {
    for (const one of urls) {
      const filter = { must: [{ key: 'late', match: { value: true } }] }
      const count = await ask(one, 'POST', `/collections/${collection}/points/count`, { filter })
      t.strictSame(count, { count: 3 }, 'acknowledged points are there')
    }
  }
}

t.test('killed during the transfer of a shard: none of its points appear later', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2, snapshotBytes: 100_000 })
  const restore = await stood.restore()
  const controller = new AbortController()
  const slow = gate()
  let reads = 0
  stood.s3.misbehave(({ operation, key }) => {
    if (operation !== 'GetObject' || !key.includes('/shard-') || (reads += 1) > 1) return undefined
    controller.abort(new Error('SIGTERM'))
    return { after: slow.promise }
  })
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  await runToDone(t, restore, { pod: 'pod-2' })
  await stood.compare(t)
  const stillThere = await acknowledged(stood.urls, 'docs')
  slow.open()
  await idle(stood.engine)
  await stillThere(t)
  t.strictSame(begun(stood.engine, 'fetch'), [], 'no node downloads a shard')
  t.strictSame(
    begun(stood.engine, 'hash'),
    [],
    'none runs on a node without telemetry of recoveries',
  )
})

/** Waits for the background work of the double. */
async function idle(engine: EngineCluster): Promise<void> {
  for (let steps = recoveriesBegun(engine).length; ; steps = recoveriesBegun(engine).length) {
    await new Promise((resolve) => setTimeout(resolve, 100))
    if (recoveriesBegun(engine).length === steps) return
  }
}

t.test(
  'killed after the last byte of a shard: the next pod waits for the node first',
  async (t) => {
    const stood = await shardRestoreFixture(t, { into: 2 })
    const restore = await stood.restore()
    const controller = new AbortController()
    const apply = gate()
    holdRecoveries(stood.engine, ({ stage }) => {
      if (stage !== 'apply') return undefined
      controller.abort(new Error('SIGTERM'))
      return apply.promise
    })
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    const { current } = await restore.result()
    const running = current?.running?.map(({ shard }) => `shard ${shard}`) ?? []
    t.ok(running.length > 0, 'the report names what may be running')
    // One that was about to begin may be among them.
    const unnamed = begun(stood.engine, 'apply').filter((shard) => !running.includes(shard))
    t.strictSame(unnamed, [])
    const before = begun(stood.engine, 'apply').length
    let atWait = -1
    await runToDone(t, restore, {
      pod: 'pod-2',
      onLine: (line) => {
        if (!WAITING.test(line) || atWait !== -1) return
        atWait = begun(stood.engine, 'apply').length
        apply.open()
      },
    })
    t.equal(atWait, before, 'nothing is sent while a node recovers')
    await stood.compare(t)
  },
)

/**
 * Opens a gate once the Job has waited for longer than a request may be in transit: a Job that mistakes a recovering node for an idle one continues earlier.
 */
function opensLate(apply: { open: () => void }): (line: string) => void {
  let waits = 0
  return (line) => {
    if (WAITING.test(line) && (waits += 1) === 40) apply.open()
  }
}

t.test('a lost response: the shard is restored, and is not sent again', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 2, replicationFactor: 1 })
  const apply = gate()
  const sent = new Set<string | undefined>()
  stood.nodes[0]?.misbehave(({ path }) => {
    if (path[2] !== 'shards' || path.at(-1) !== 'upload') return undefined
    // A shard that is sent again would wait for the first recovery without end.
    if (sent.has(path[3])) apply.open()
    const isFirst = sent.size === 0
    sent.add(path[3])
    if (!isFirst) return undefined
    holdRecoveries(stood.engine, ({ ordinal }) => (ordinal === 0 ? apply.promise : undefined))
    return { cut: 'meanwhile' }
  })
  const log = await runToDone(t, await stood.restore(), { onLine: opensLate(apply) })
  t.match(log, /recovery completed, although its response was lost/)
  t.strictSame(begun(stood.engine, 'apply').toSorted(), [
    'shard 0',
    'shard 1',
    'shard 2',
    'shard 3',
  ])
  await stood.compare(t)
})

t.test('a lost request is sent again once the node was idle for long enough', async (t) => {
  const stood = await shardRestoreFixture(t, { into: 1, replicationFactor: 1 })
  let cuts = 1
  stood.nodes[0]?.misbehave(({ path }) =>
    path.at(-1) === 'upload' && cuts-- > 0 ? { cut: 'before' } : undefined,
  )
  const log = await runToDone(t, await stood.restore())
  t.ok(log.split('waiting for the recovery on that node').length > 20, 'it was watched for 2 min')
  await stood.compare(t)
})

t.test('a half-made collection is not deleted while a node recovers into it', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  const restore = await stood.world.restore()
  const controller = new AbortController()
  const apply = gate()
  holdRecoveries(stood.engine, ({ stage }) => {
    if (stage !== 'apply') return undefined
    controller.abort(new Error('SIGTERM'))
    return apply.promise
  })
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  matchWhole(t, await restore.result(), {
    current: { nodesDone: 0, isOurs: true, running: [{ node: 0 }] },
  })
  const log = await runToDone(t, restore, {
    pod: 'pod-2',
    onLine: (line) => WAITING.test(line) && apply.open(),
  })
  t.match(log, WAITING)
  t.notMatch(log, /Waiting for consensus operation commit failed/, 'no change waits for it')
  await stood.assertRestored('docs')
})

/** Cuts the first recover call of node 1, and its download continues until the Job waits for it or repeats it. */
function loseAnswer(node: EngineNode | undefined, fetch: { open: () => void }) {
  const calls = { count: 0 }
  node?.misbehave((request) => {
    if (!isRecovery(request)) return undefined
    calls.count += 1
    if (calls.count > 1) fetch.open()
    return calls.count === 1 ? { cut: 'meanwhile' } : undefined
  })
  return calls
}

t.test('a lost response: the snapshot of a node is not recovered again', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  const fetch = gate()
  holdRecoveries(stood.engine, ({ ordinal, stage }) =>
    ordinal === 1 && stage === 'fetch' && calls.count > 0 ? fetch.promise : undefined,
  )
  const calls = loseAnswer(stood.nodes[1], fetch)
  const log = await runToDone(t, await stood.world.restore(), { onLine: opensLate(fetch) })
  t.match(log, /recovery completed, although its response was lost/)
  t.equal(calls.count, 1)
  await stood.assertRestored('docs')
})

t.test('a lost response of a recovery that then fails: the recovery is repeated', async (t) => {
  const stood = await restoreFixture(t)
  stood.deleteCollections('docs')
  const fetch = gate()
  holdRecoveries(stood.engine, ({ ordinal, stage }) =>
    ordinal === 1 && stage === 'fetch' && calls.count > 0 ? fetch.promise : undefined,
  )
  const calls = loseAnswer(stood.nodes[1], fetch)
  stood.s3.misbehave(({ key, operation }) =>
    operation === 'GetObject' && key.includes('/node-1/') && calls.count === 1
      ? { status: 503, code: 'SlowDown' }
      : undefined,
  )
  await runToDone(t, await stood.world.restore(), {
    onLine: (line) => WAITING.test(line) && fetch.open(),
  })
  t.equal(calls.count, 2)
  await stood.assertRestored('docs')
})

t.test(
  'without telemetry of recoveries a lost response is final, and the error says what to do',
  async (t) => {
    const stood = await shardRestoreFixture(t, { into: 1, replicationFactor: 1 })
    const engine = new EngineCluster({ name: 'vec-a', staleMs: 0, version: '1.15.5' })
    const node = await startEngineNode({ ordinal: 0, cluster: engine })
    t.teardown(() => node.close())
    stood.rewrite((manifest) => {
      manifest.engineVersion = '1.15.5'
      for (const collection of manifest.collections) collection.engineVersion = '1.15.5'
    })
    const world = await restoreWorld(t, { ports: [node.port], endpoint: stood.s3.url })
    const { backup } = (await stood.restore()).plan
    const restore = await world.restore({}, { ...(backup !== undefined && { backup }) })
    let cuts = 1
    node.misbehave(({ path }) =>
      path.at(-1) === 'upload' && cuts-- > 0 ? { cut: 'meanwhile' } : undefined,
    )
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(await restore.result(), {
      error: /^node 0 did not respond .* engines before 1\.16 do not report .* restart the pod/,
    })
    node.misbehave()
    const again = await world.restore({}, { ...(backup !== undefined && { backup }) })
    await runToDone(t, again)
  },
)

/**
 * Rewrites the report as a release wrote it that recorded no recoveries. A write of the killed pod may still be
 * in transit: the report is written again until it stays.
 */
async function forget(world: Awaited<ReturnType<typeof restoreWorld>>, restore: Restore) {
  const { namespace, name } = restore.plan
  for (;;) {
    const report = await restore.progress()
    const current = report?.restore?.current
    if (current === undefined) throw new Error('the report is of no collection')
    if (current.running === undefined && current.step === FORMER_STEP) return
    delete current.running
    // The report may be from the moment before.
    current.step = FORMER_STEP
    await world.api.patch(
      { apiVersion: API_VERSION, kind: 'VecRestore', namespace, name },
      { metadata: { annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) } } },
    )
    await sleep(200)
  }
}

const FORMER_STEP = 'takes shards 1'

t.test(
  'a report of an earlier release that may have left downloads of shards is rejected',
  async (t) => {
    const stood = await shardRestoreFixture(t, { into: 2 })
    const restore = await stood.restore()
    const controller = new AbortController()
    stood.nodes[1]?.misbehave(({ path }) => {
      if (path.at(-1) === 'upload') controller.abort(new Error('SIGTERM'))
      return undefined
    })
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    await forget(stood.world, restore)
    const sent = begun(stood.engine, 'apply').length
    t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
    t.match(await restore.result(), {
      error: /^an earlier release of the operator started to restore docs, .* restart the pods/,
    })
    t.equal(begun(stood.engine, 'apply').length, sent, 'nothing is sent')
  },
)

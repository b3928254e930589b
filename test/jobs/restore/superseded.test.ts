/**
 * A pod that was presumed dead, as on an unreachable node, continues after the pod that replaced it has restored the
 * collection. It deletes nothing of it.
 */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { restoreFixture, run, runToDone } from './restore-fixture.ts'

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

/** The partition of the StatefulSet that a helm run sets: through the real CLI, an API server, and a helm on PATH. */
import t from 'tap'
import { EXIT, type UpgradePlan } from '../../../crds/contract/job.ts'
import { gatePartition } from '../../../jobs/cluster/partition.ts'
import type { LiveStatefulSet } from '../../../jobs/cluster/safety-checks.ts'
import { clusterSpec } from '../../builders.ts'
import { jobWorld, podOf, type JobWorld } from '../job-world.ts'

async function gateOf(world: JobWorld, log: string) {
  const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
  const spec = set?.spec as { updateStrategy: { rollingUpdate: { partition: number } } }
  return [spec.updateStrategy.rollingUpdate.partition, log.includes('--post-renderer')]
}

t.test('the pods of an existing cluster are held by the partition', async (t) => {
  const world = await jobWorld(t)
  const run = async (replicas: number, parts: Partial<UpgradePlan>) => {
    const plan = world.plan({ spec: clusterSpec({ replicas }), isGated: true, ...parts })
    const { code, log } = await world.run('upgrade', plan)
    t.equal(code, EXIT.done, log)
    return gateOf(world, log)
  }
  t.strictSame(await run(1, { run: 1 }), [0, false], 'the first run')
  t.strictSame(await run(3, { run: 2 }), [0, false], 'one node so far')
  t.strictSame(await run(3, { run: 3 }), [3, true])
  t.strictSame(await run(5, { run: 4 }), [5, true], 'with the nodes that are added')
  t.strictSame(await run(5, { run: 5, isGated: false }), [0, false], 'as the plan says')
})

t.test('the partition of a run depends on the update that is in progress', (t) => {
  const plan = { isGated: true, spec: clusterSpec({ replicas: 3 }) }
  const status = { currentRevision: 'a', updateRevision: 'b' }
  const set = (partition: number, parts: object, replicas = 3) => ({
    spec: { replicas, updateStrategy: { rollingUpdate: { partition } } } as LiveStatefulSet['spec'],
    status: { ...status, ...parts },
  })
  t.equal(gatePartition(plan, set(2, { updatedReplicas: 1 }), true), 3)
  t.equal(gatePartition(plan, set(0, { updateRevision: 'a' }), false), 3)
  t.equal(gatePartition(plan, set(0, { updatedReplicas: 2 }), true), 3, 'its last node')
  t.equal(gatePartition(plan, set(0, { updatedReplicas: 1 }), true), undefined, 'of Kubernetes')
  t.equal(gatePartition(plan, set(0, {}), true), undefined, 'that of Kubernetes has just begun')
  t.equal(gatePartition(plan, set(0, { updateRevision: 'a' }, 5), false), 5, 'more than planned')
  t.end()
})

for (const [title, label, partition] of [
  ['an update that Kubernetes has begun continues although it was taken back', 'rev-b', 0],
  ['pods that only terminate are no update', 'rev-a', 3],
] as const) {
  t.test(title, async (t) => {
    const world = await jobWorld(t)
    const plan = (run: number, podLabel: string) =>
      world.plan({
        ...{ run, isGated: run > 1, hash: `hash-${run}`, podsHash: podLabel },
        spec: clusterSpec({ replicas: 3 }),
      })
    t.equal((await world.run('upgrade', plan(1, 'p'))).code, EXIT.done)
    const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
    const revisions = { currentRevision: 'rev-a', updateRevision: 'rev-a' }
    const counts = { replicas: 3, readyReplicas: 1, updatedReplicas: 1 }
    await world.api.replaceStatus({ ...set, status: { ...revisions, ...counts } })
    for (const ordinal of [1, 2]) {
      const labels = {
        'app.kubernetes.io/instance': 'vec-a',
        'controller-revision-hash': label,
      }
      await world.api.create(podOf(`vec-a-${ordinal}`, labels))
    }
    const { code, log } = await world.run('upgrade', plan(2, 'q'))
    t.equal(code, EXIT.done, log)
    t.strictSame(await gateOf(world, log), [partition, partition > 0])
  })
}

for (const [title, revisions, status, partition] of [
  ['nodes that are updated stay above it', ['a', 'a', 'b'], {}, 2],
  ['below an outdated node, a node counts as outdated', ['b', 'a', 'b'], {}, 2],
  ['no node is updated', ['a', 'a', 'a'], {}, 3],
  ['the pod of the updated node does not exist', ['a', 'a'], {}, 3],
  ['helm has changed the template once more', ['a', 'a', 'b'], { updateRevision: 'c' }, 3],
  ['the controller has not seen the change', ['a', 'a', 'b'], { observedGeneration: 1 }, 3],
  ['the update is complete', ['b', 'b', 'b'], { currentRevision: 'b' }, 3],
] as const) {
  t.test(`a helm run in the middle of an update: ${title}`, async (t) => {
    const world = await jobWorld(t)
    const plan = (run: number) => {
      const spec = clusterSpec({ replicas: 3 })
      return world.plan({ spec, run, isGated: run > 1, hash: `hash-${run}` })
    }
    t.equal((await world.run('upgrade', plan(1))).code, EXIT.done)
    const set = await world.object('apps/v1', 'StatefulSet', 'vec-a')
    const known = { observedGeneration: 9, currentRevision: 'a', updateRevision: 'b' }
    const counts = { replicas: 3, readyReplicas: 3, updatedReplicas: 1 }
    await world.api.replaceStatus({ ...set, status: { ...known, ...counts, ...status } })
    for (const [ordinal, revision] of revisions.entries()) {
      const labels = {
        'app.kubernetes.io/instance': 'vec-a',
        'controller-revision-hash': revision,
      }
      await world.api.create(podOf(`vec-a-${ordinal}`, labels))
    }
    const test = { 'app.kubernetes.io/instance': 'vec-a' }
    await world.api.create(podOf('vec-a-test-db-interaction', test))
    const gated = { updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 2 } } }
    const name = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'vec-a' }
    await world.api.patch({ ...name, namespace: set?.metadata.namespace ?? '' }, { spec: gated })
    const { code, log } = await world.run('upgrade', plan(2))
    t.equal(code, EXIT.done, log)
    t.strictSame(await gateOf(world, log), [partition, true])
  })
}

/** A pod of `cluster upgrade` or `cluster uninstall` that another pod has replaced changes nothing after that. */
import { existsSync } from 'node:fs'
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { clusterSpec } from '../../builders.ts'
import { jobWorld, takeOver, TAKEN_OVER } from '../job-world.ts'

const CLUSTER = { kind: 'VecCluster', name: 'a' }

t.test('a pod that is replaced while helm removes the release deletes no volume', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const name = 'qdrant-storage-vec-a-0'
  const metadata = { name, namespace: 'ns' }
  await world.api.create({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata })
  world.hold.set()
  let done: Promise<unknown> | undefined
  const onLine = (line: string) => {
    if (!line.includes('running helm uninstall')) return
    done = takeOver(world.api, CLUSTER).finally(() => world.hold.release())
  }
  const { code, log } = await world.run(
    'uninstall',
    {
      ...{ resource: 'vecclusters', namespace: 'ns', name: 'a', uid: world.uid, run: 2 },
      ...{ hash: 'hash-u', release: 'vec-a' },
      deletedVolumes: { templates: ['qdrant-storage'], nodes: 1 },
    },
    { onLine },
  )
  t.ok(done)
  t.notOk(existsSync(world.hold.file))
  t.match(log, /helm completed/)
  t.ok(await world.object('v1', 'PersistentVolumeClaim', name))
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
})

t.test('a pod that is replaced while it asks the nodes does not run helm', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan({ spec: clusterSpec({ replicas: 3 }) }))
  const engine = await world.startEngine(3)
  engine.createCollection('docs', 1)
  let done: Promise<void> | undefined
  for (const node of world.nodes.values()) {
    node.misbehave(() => {
      done ??= takeOver(world.api, CLUSTER)
      return { until: done }
    })
  }
  const spec = clusterSpec({ replicas: 2 })
  const { code, log } = await world.run('upgrade', world.plan({ spec, run: 2, hash: 'hash-2' }))
  t.ok(done)
  t.match(await world.object('apps/v1', 'StatefulSet', 'vec-a'), { spec: { replicas: 3 } })
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
})

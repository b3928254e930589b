/** `cluster uninstall`, through the real CLI, an API server, and a helm on PATH. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { LABELS } from '../../../crds/contract/names.ts'
import { jobWorld, podOf, type JobWorld } from '../job-world.ts'

function uninstallPlan({ uid }: JobWorld, run: number) {
  const subject = { resource: 'vecclusters', namespace: 'ns', name: 'a', uid }
  return { ...subject, run, hash: 'hash-u', release: 'vec-a' }
}

async function revisions({ api }: JobWorld) {
  const { items } = await api.list('v1', 'Secret', { labelSelector: 'owner=helm' })
  return items.map(({ metadata }) => metadata.labels?.['status'])
}

t.test('the release is deleted with all its objects, and the volumes stay', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const claim = { name: 'qdrant-storage-vec-a-0', namespace: 'ns' }
  await world.api.create({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: claim })
  const { code, log } = await world.run('uninstall', uninstallPlan(world, 2))
  t.equal(code, EXIT.done, log)
  t.match(log, /command=helm uninstall vec-a --namespace ns --wait --timeout 600s\n/)
  t.match(log, /release "vec-a" uninstalled/)
  t.equal(await world.object('apps/v1', 'StatefulSet', 'vec-a'), undefined)
  t.equal(await world.object('v1', 'Service', 'vec-a-headless'), undefined)
  t.ok(await world.object('v1', 'PersistentVolumeClaim', claim.name))
  t.strictSame(await revisions(world), [])
  t.match(await world.progress(), { verb: 'uninstall', state: 'Done', run: 2 })
})

t.test('volumes that the plan names are deleted after the release, and no other', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const claim = (name: string, labels: Record<string, string> = {}) =>
    world.api.create({
      ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
      metadata: { name, namespace: 'ns', labels },
    })
  await claim('qdrant-storage-vec-a-0')
  await claim('qdrant-snapshots-vec-a-1')
  // Of a removed node, of a node beyond those of the plan, and of another cluster.
  await claim('qdrant-storage-vec-a-1', { [LABELS.removedPeer]: '1' })
  await claim('qdrant-storage-vec-a-2')
  await claim('qdrant-storage-vec-b-0')
  const deletedVolumes = { templates: ['qdrant-storage', 'qdrant-snapshots'], nodes: 2 }
  const plan = { ...uninstallPlan(world, 2), deletedVolumes }
  const { code, log } = await world.run('uninstall', plan)
  t.equal(code, EXIT.done, log)
  t.ok(log.indexOf('deleted a volume claim') > log.indexOf('helm completed'), log)
  const names = async () => {
    const { items } = await world.api.list('v1', 'PersistentVolumeClaim', {})
    return items.map(({ metadata }) => metadata.name).sort()
  }
  const left = ['qdrant-storage-vec-a-1', 'qdrant-storage-vec-a-2', 'qdrant-storage-vec-b-0']
  t.strictSame(await names(), left)
  t.equal((await world.run('uninstall', { ...plan, run: 3 })).code, EXIT.done, 'repeated')
  t.strictSame(await names(), left)
})

t.test('volumes of a StatefulSet that helm has not removed stay', async (t) => {
  const world = await jobWorld(t)
  const labels = { app: 'other' }
  const containers = [{ name: 'main', image: 'test' }]
  await world.api.create({
    ...{ apiVersion: 'apps/v1', kind: 'StatefulSet', metadata: { name: 'vec-a', namespace: 'ns' } },
    spec: {
      ...{ replicas: 1, serviceName: 'other', selector: { matchLabels: labels } },
      template: { metadata: { labels }, spec: { containers } },
    },
  })
  t.equal((await world.run('upgrade', world.plan())).code, EXIT.failed)
  t.match(await world.progress(), { message: /cannot be imported into the current release/ })
  const name = 'qdrant-storage-vec-a-0'
  const claim = { apiVersion: 'v1', kind: 'PersistentVolumeClaim' }
  await world.api.create({ ...claim, metadata: { name, namespace: 'ns' } })
  const deletedVolumes = { templates: ['qdrant-storage'], nodes: 1 }
  const { code, log } = await world.run('uninstall', { ...uninstallPlan(world, 2), deletedVolumes })
  t.equal(code, EXIT.done, log)
  t.match(log, /the StatefulSet has another owner: its volumes are retained/)
  t.ok(await world.object('v1', 'PersistentVolumeClaim', name))
})

t.test('a release of the name that was installed for something else stays', async (t) => {
  const world = await jobWorld(t)
  const labels = { owner: 'helm', name: 'vec-a', status: 'deployed', version: '1' }
  const name = 'sh.helm.release.v1.vec-a.v1'
  await world.api.create({
    ...{ apiVersion: 'v1', kind: 'Secret', type: 'helm.sh/release.v1' },
    metadata: { name, namespace: 'ns', labels },
  })
  const upgraded = await world.run('upgrade', world.plan())
  t.equal(upgraded.code, EXIT.failed, upgraded.log)
  t.match(await world.progress(), {
    ...{ state: 'Failed', reason: 'HelmFailed' },
    message:
      'release vec-a was not installed for this VecCluster: uninstall it, or use another name for the VecCluster',
  })
  t.notMatch(upgraded.log, /running helm/)
  const { code, log } = await world.run('uninstall', uninstallPlan(world, 2))
  t.equal(code, EXIT.done, log)
  t.notMatch(log, /running helm/)
  t.strictSame(await revisions(world), ['deployed'])
})

t.test('a release whose StatefulSet was deleted is removed', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const set = { apiVersion: 'apps/v1', kind: 'StatefulSet', namespace: 'ns', name: 'vec-a' }
  await world.api.delete(set)
  t.equal((await world.run('uninstall', uninstallPlan(world, 2))).code, EXIT.done)
  t.strictSame(await revisions(world), [])
})

t.test('volumes stay as long as helm fails', async (t) => {
  const world = await jobWorld(t)
  const name = 'qdrant-storage---nonsense-0'
  await world.api.create({
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
    metadata: { name, namespace: 'ns' },
  })
  const deletedVolumes = { templates: ['qdrant-storage'], nodes: 1 }
  const broken = { ...uninstallPlan(world, 1), release: '--nonsense', deletedVolumes }
  t.equal((await world.run('uninstall', broken)).code, EXIT.failed)
  t.ok(await world.object('v1', 'PersistentVolumeClaim', name))
})

t.test('a release that does not exist is a success', async (t) => {
  const world = await jobWorld(t)
  const { code, log } = await world.run('uninstall', uninstallPlan(world, 1))
  t.equal(code, EXIT.done)
  t.match(log, /release vec-a is not there/)
  t.match(await world.progress(), { state: 'Done' })
})

t.test('a release that is partly removed is removed', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  const end = new AbortController()
  world.hold.set()
  world.helm({ holdAt: 'uninstalling', hold: world.hold.file })
  const first = world.run('uninstall', uninstallPlan(world, 2), { signal: end.signal })
  while (!(await revisions(world)).includes('uninstalling')) await new Promise(setImmediate)
  end.abort(new Error('SIGTERM'))
  t.equal((await first).code, EXIT.crash)
  t.strictSame(await revisions(world), ['uninstalling'])

  world.hold.release()
  t.equal((await world.run('uninstall', uninstallPlan(world, 2))).code, EXIT.done)
  t.strictSame(await revisions(world), [])
})

t.test('it waits for another helm process on the release', async (t) => {
  const world = await jobWorld(t)
  await world.run('upgrade', world.plan())
  await world.api.create(podOf('other', { [LABELS.release]: 'vec-a' }))
  const { code, log } = await world.run('uninstall', uninstallPlan(world, 2))
  t.equal(code, EXIT.crash)
  t.match(log, /waiting for other pods of this release/)
  t.strictSame(await revisions(world), ['deployed'])
})

t.test('a Helm error is reported, and the Job is retried', async (t) => {
  const world = await jobWorld(t)
  const plan = uninstallPlan(world, 1)
  const broken = { ...plan, namespace: 'ns', release: '--nonsense' }
  t.equal((await world.run('uninstall', broken)).code, EXIT.failed)
  t.match(await world.progress(), { state: 'Failed', reason: 'HelmFailed', message: /--nonsense/ })
})

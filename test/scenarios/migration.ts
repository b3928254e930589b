/** VecMigration: copied and proved, waiting, killed and gone on, and never without its turn. */
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { matchWhole } from '../match-whole.ts'
import type { World } from '../world/world.ts'
import { eventually, fill, points, said, untilSaid } from './backup-parts.ts'
import { movingResource } from './moving-parts.ts'
import { eventsAbout, jobsIn, running, untilGone, type Scenario } from './scenario.ts'

const KEYED = { apiKey: { autoGenerate: true } }

/** Exact number of points, as the first node of a cluster counts them. */
async function countIn(world: World, namespace: string, cluster: string, collection: string) {
  const path = `/collections/${encodeURIComponent(collection)}/points/count`
  const pod = { namespace, name: `vec-${cluster}-0` }
  const answer = await world.engine(pod, 'POST', path, { exact: true })
  return (answer as { result: { count: number } }).result.count
}

const copied: Scenario = {
  title:
    'collections are copied from a cluster of another namespace under other names, counted on both sides, and no key stays behind',
  async run(world, t) {
    const source = await world.namespace('copied-from')
    const target = await world.namespace('copied-to')
    const owner = await running(world, source, 'a', KEYED)
    // The chart allows no other namespace by default.
    await world.patch(owner, {
      metadata: { annotations: { [ANNOTATIONS.allowedNamespaces]: target } },
    })
    await running(world, target, 'b', KEYED)
    for (const name of ['books', 'my cities']) {
      const { upsert } = await fill(world, source, name)
      await upsert({ points: points(name === 'books' ? 30 : 7) })
    }
    const { reference, of, untilCompleted } = movingResource('VecMigration', target, 'm')
    await world.apply(
      of({
        source: { clusterRef: { name: 'a', namespace: source } },
        targetClusterRef: { name: 'b' },
        collectionMapping: { books: 'library' },
        batchSize: 10,
      }),
    )
    const status = await untilCompleted(world)
    matchWhole(t, status, {
      source: `${source}/a`,
      startTime: String,
      completionTime: String,
      collections: [
        { name: 'books', targetName: 'library', status: 'Completed', pointsCopied: 30 },
        { name: 'my cities', targetName: 'my cities', status: 'Completed', pointsCopied: 7 },
      ],
      progress: { collectionsTotal: 2, collectionsCompleted: 2, pointsCopied: 37, percentage: 100 },
    })
    t.match(said(await world.get(reference)), {
      status: 'True',
      reason: 'MigrationCompleted',
      message: 'Copied 2/2',
    })
    t.equal(await countIn(world, target, 'b', 'library'), 30)
    t.equal(await countIn(world, target, 'b', 'my cities'), 7)
    t.equal(await countIn(world, source, 'a', 'books'), 30, 'the source is only read')
    t.match(await eventsAbout(world, reference), { MigrationCompleted: /Copied 2\/2/ })

    await eventually(world, 'the copy of the key went with the end of the Job', async () => {
      const secrets = await world.list('v1', 'Secret', target)
      return !secrets.some(({ metadata }) => /-migration-[0-9a-f]{5}-\d+-/.test(metadata.name))
    })
    await world.delete(reference)
    await untilGone(world, reference)
    t.equal(await countIn(world, target, 'b', 'library'), 30, 'what was copied stays')
  },
}

const waits: Scenario = {
  title: 'a migration waits for its clusters without failing, and starts once both are there',
  async run(world, t) {
    const namespace = await world.namespace('migration-waits')
    const { reference, of, statusOf, untilCompleted } = movingResource(
      'VecMigration',
      namespace,
      'm',
    )
    await world.apply(
      of({ source: { clusterRef: { name: 'a' } }, targetClusterRef: { name: 'b' } }),
    )
    const waiting = await untilSaid(world, reference, 'ClusterNotFound')
    t.equal(statusOf(waiting).phase, 'Pending')
    await running(world, namespace, 'a')
    const { upsert } = await fill(world, namespace, 'docs')
    await upsert({ points: points(5) })
    t.strictSame(
      (await jobsIn(world, namespace)).filter((name) => /-migration-[0-9a-f]{5}-\d+$/.test(name)),
      [],
    )
    await running(world, namespace, 'b')
    t.match(await untilCompleted(world), { progress: { pointsCopied: 5 } })
    t.equal(await countIn(world, namespace, 'b', 'docs'), 5)
  },
}

const killed: Scenario = {
  title: 'a migration whose pod is killed goes on, and every point arrives once',
  async run(world, t) {
    const namespace = await world.namespace('migration-killed')
    await Promise.all(['a', 'b'].map((name) => running(world, namespace, name)))
    const { upsert } = await fill(world, namespace, 'docs')
    await upsert({ points: points(2_000) })
    const { reference, of, statusOf, untilCompleted } = movingResource(
      'VecMigration',
      namespace,
      'm',
    )
    const source = { clusterRef: { name: 'a' } }
    await world.apply(of({ source, targetClusterRef: { name: 'b' }, batchSize: 1 }))
    await world.waitFor(
      reference,
      'in progress',
      (object) => (statusOf(object).progress?.pointsCopied ?? 0) > 0,
    )
    const [job = ''] = (await jobsIn(world, namespace)).filter((one) =>
      /-migration-[0-9a-f]{5}-\d+$/.test(one),
    )
    await world.faults.killJobPod(namespace, job)
    const { progress } = await untilCompleted(world)
    t.match(progress, { pointsTotal: 2_000, pointsCopied: 2_000, percentage: 100 })
    t.equal(await countIn(world, namespace, 'b', 'docs'), 2_000)
  },
}

const incompatible: Scenario = {
  title:
    'a collection that does not fit is reported before its first batch, and the others are copied',
  async run(world, t) {
    const namespace = await world.namespace('migration-incompatible')
    await Promise.all(['a', 'b'].map((name) => running(world, namespace, name)))
    for (const name of ['books', 'docs']) {
      const { upsert } = await fill(world, namespace, name)
      await upsert({ points: points(5) })
    }
    const pod = { namespace, name: 'vec-b-0' }
    await world.engine(pod, 'PUT', '/collections/books', {
      vectors: { size: 77, distance: 'Dot' },
    })
    const { reference, of, statusOf } = movingResource('VecMigration', namespace, 'm')
    await world.apply(
      of({ source: { clusterRef: { name: 'a' } }, targetClusterRef: { name: 'b' } }),
    )
    const ended = await untilSaid(world, reference, 'MigrationFailed')
    t.match(said(ended), { status: 'False', message: 'Copied 1/2' })
    matchWhole(t, statusOf(ended), {
      phase: 'Failed',
      error: /^books: the target collection books does not fit: dimension error: /,
      collections: [
        { name: 'books', status: 'Failed' },
        {
          name: 'docs',
          status: 'Completed',
          proof: /^5 points on both sides, each equal; compared whole from /,
        },
      ],
    })
    t.equal(await countIn(world, namespace, 'b', 'books'), 0)
  },
}

const deleted: Scenario = {
  title: 'deletion of a migration stops its Job first, and what was copied stays',
  async run(world, t) {
    const namespace = await world.namespace('migration-deleted')
    await Promise.all(['a', 'b'].map((name) => running(world, namespace, name)))
    const { upsert } = await fill(world, namespace, 'docs')
    await upsert({ points: points(2_000) })
    const { reference, of, statusOf } = movingResource('VecMigration', namespace, 'm')
    const source = { clusterRef: { name: 'a' } }
    await world.apply(of({ source, targetClusterRef: { name: 'b' }, batchSize: 1 }))
    await world.waitFor(
      reference,
      'in progress',
      (object) => (statusOf(object).progress?.pointsCopied ?? 0) > 0,
    )
    await world.delete(reference)
    await untilGone(world, reference)
    const jobs = (await jobsIn(world, namespace)).filter((one) =>
      /-migration-[0-9a-f]{5}-\d+$/.test(one),
    )
    t.strictSame(jobs, [])
    const left = await countIn(world, namespace, 'b', 'docs')
    t.ok(left > 0, `${left} points`)
    t.equal(await countIn(world, namespace, 'b', 'docs'), left, 'no process writes any more')
  },
}

export const migrationScenarios: Scenario[] = [copied, waits, killed, incompatible, deleted]

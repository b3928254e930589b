/** Failures of a VecRestore: its pod is killed while it runs, and its target is in use. */
import { matchWhole } from '../match-whole.ts'
import type { BucketCall, World, WorldBucket } from '../world/world.ts'
import { eventually, fill, points } from './backup-parts.ts'
import { movingResource } from './moving-parts.ts'
import { backedUp } from './restore-parts.ts'
import { jobsIn, type Scenario } from './scenario.ts'

function isRead({ method, key }: BucketCall): boolean {
  return method === 'GET' && key.endsWith('.snapshot')
}

/** Snapshots that were read so far, once for each time. */
function reads(bucket: WorldBucket): string[] {
  return bucket
    .calls()
    .filter(isRead)
    .map(({ key }) => key)
}

/** Holds every snapshot but the one that is read first. */
function heldAfterFirst(bucket: WorldBucket) {
  const { promise: hold, resolve: release } = Promise.withResolvers<undefined>()
  let first: string | undefined
  bucket.misbehave((call) => {
    if (!isRead(call)) return undefined
    first ??= call.key
    return call.key === first ? undefined : { hold }
  })
  return {
    begun: () => reads(bucket).some((key) => key !== first),
    release() {
      bucket.misbehave()
      release(undefined)
    },
  }
}

async function countOn(world: World, namespace: string, pod: string, collection: string) {
  const path = `/collections/${collection}/points/count`
  const answer = await world.engine({ namespace, name: pod }, 'POST', path, { exact: true })
  return (answer as { result: { count: number } }).result.count
}

const killed: Scenario = {
  title: 'a restore Job that is killed resumes with what is not done, and what is done stays',
  async run(world, t) {
    const namespace = await world.namespace('killed-restore')
    const { bucket } = await backedUp(world, namespace)
    const held = heldAfterFirst(bucket)
    const { reference, of, untilCompleted } = movingResource('VecRestore', namespace, 'r')
    await world.apply(of({ backupRef: { name: 'one' }, targetClusterRef: { name: 'b' } }))
    await eventually(world, 'the second snapshot is being read', held.begun)
    const jobs = async () =>
      (await jobsIn(world, namespace)).filter((name) => name.includes('restore'))
    const [job = ''] = await jobs()
    const [first] = reads(bucket)
    const before = reads(bucket).filter((key) => key === first).length
    await world.faults.killJobPod(namespace, job)
    held.release()
    matchWhole(t, await untilCompleted(world), {
      restoredCollections: [{ name: 'books', status: 'Completed', pointsCount: 30 }],
    })
    t.strictSame(await jobs(), [job], 'the same Job, another pod')
    t.equal(reads(bucket).filter((key) => key === first).length, before, 'nothing is read twice')
    for (const pod of ['vec-b-0', 'vec-b-1']) {
      t.equal(await countOn(world, namespace, pod, 'books'), 30, pod)
    }
    t.notMatch(await world.logs(namespace, job), /X-Amz-Signature/)
    t.notMatch(JSON.stringify(await world.get(reference)), /X-Amz-Signature/)
  },
}

const sameCluster: Scenario = {
  title:
    'into the cluster the backup came from while it serves: as it was again, and other collections answer all along',
  async run(world, t) {
    const namespace = await world.namespace('restored-in-place')
    await backedUp(world, namespace)
    const other = await fill(world, namespace, 'others')
    await other.upsert({ points: points(5) })
    const books = '/collections/books/points'
    const pod = { namespace, name: 'vec-a-0' }
    await world.engine(pod, 'PUT', `${books}?wait=true`, { points: points(10, 31) })
    await world.engine(pod, 'POST', `${books}/delete?wait=true`, { points: [1, 2, 3] })
    t.equal(await countOn(world, namespace, 'vec-a-0', 'books'), 37)
    const { of, reference, statusOf, untilCompleted } = movingResource('VecRestore', namespace, 'r')
    const spec = { backupRef: { name: 'one' }, targetClusterRef: { name: 'a' } }
    await world.apply(of({ ...spec, collections: ['books'] }))
    const answers: number[] = []
    await eventually(world, 'the end of the restore', async () => {
      answers.push(await countOn(world, namespace, 'vec-a-1', 'others'))
      return statusOf(await world.get(reference)).completionTime !== undefined
    })
    await untilCompleted(world)
    t.strictSame([...new Set(answers)], [5], `${answers.length} answers`)
    for (const name of ['vec-a-0', 'vec-a-1']) {
      t.equal(await countOn(world, namespace, name, 'books'), 30, name)
    }
    const left = await world.engine(pod, 'POST', books, { ids: [1, 2, 3, 31] })
    t.match(left, { result: { length: 3 } }, 'deleted ones are back, later ones are gone')
  },
}

export const restoreFaults: Scenario[] = [killed, sameCluster]

/** Which shard is streamed next, and from which pod. */
import fc from 'fast-check'
import t from 'tap'
import { ShardScheduler, type ActiveReplicas } from '../../../../jobs/backup/shards/scheduler.ts'

t.test('the least busy pod is next, and never one that streams already', async (t) => {
  const holders: ActiveReplicas = new Map([
    [0, [0, 1]],
    [1, [0, 1]],
    [2, [0, 1]],
  ])
  const scheduler = new ShardScheduler([0, 1, 2])
  const first = scheduler.next(holders)
  const second = scheduler.next(holders)
  t.strictSame(
    [first, second],
    [
      { shardId: 0, node: 0 },
      { shardId: 1, node: 1 },
    ],
  )
  t.equal(scheduler.next(holders), undefined, 'both stream')
  if (second !== undefined) scheduler.release(second)
  t.strictSame(scheduler.next(holders), { shardId: 2, node: 1 })
  t.strictSame(scheduler.pending(), [])
})

t.test('a shard that has one holder does not wait for those that have more', async (t) => {
  const holders: ActiveReplicas = new Map([
    [0, [0, 1]],
    [1, [0]],
  ])
  t.strictSame(new ShardScheduler([0, 1]).next(holders), { shardId: 1, node: 0 })
})

t.test('a shard whose stream broke off is streamed from another pod if there is one', async (t) => {
  const holders: ActiveReplicas = new Map([[0, [0, 1]]])
  const scheduler = new ShardScheduler([0])
  const first = scheduler.next(holders)
  if (first === undefined) throw new Error('nothing was taken')
  scheduler.release(first)
  scheduler.requeue(first)
  t.strictSame([first.node, scheduler.next(holders)?.node], [0, 1])
})

t.test('a worker that waits for a pod resumes when one becomes idle', async (t) => {
  const scheduler = new ShardScheduler([0])
  const next = scheduler.next(new Map([[0, [2]]]))
  if (next === undefined) throw new Error('nothing was taken')
  t.notOk(scheduler.isIdle())
  const released = scheduler.waitForRelease()
  scheduler.release(next)
  await released
  t.ok(scheduler.isIdle())
})

t.test(
  'wherever shards are: each is taken once, from a holder, and pods share the work',
  async (t) => {
    const cluster = fc.integer({ min: 1, max: 6 }).chain((nodes) =>
      fc.array(fc.uniqueArray(fc.integer({ min: 0, max: nodes - 1 }), { minLength: 1 }), {
        maxLength: 20,
      }),
    )
    fc.assert(
      fc.property(cluster, fc.integer({ min: 1, max: 8 }), (shards, parallelism) => {
        const holders: ActiveReplicas = new Map(shards.map((nodes, id) => [id, nodes]))
        const scheduler = new ShardScheduler(holders.keys())
        const running: { shardId: number; node: number }[] = []
        const taken: number[] = []
        while (scheduler.pending().length > 0 || running.length > 0) {
          const next = running.length < parallelism ? scheduler.next(holders) : undefined
          if (next === undefined) {
            const [done] = running.splice(0, 1)
            // Where nothing runs, every waiting shard has an idle holder.
            if (done === undefined) return false
            scheduler.release(done)
            continue
          }
          if (holders.get(next.shardId)?.includes(next.node) !== true) return false
          if (running.some(({ node }) => node === next.node)) return false
          running.push(next)
          taken.push(next.shardId)
        }
        return taken.length === shards.length && new Set(taken).size === taken.length
      }),
    )
    t.pass('no counter-example')
  },
)

/** A resharding that is aborted, on the real engine, where ENGINE_BIN names it. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { EngineResharding } from '../../../../jobs/clients/engine/resharding.ts'
import { EngineShards } from '../../../../jobs/clients/engine/shards.ts'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { jobLog } from '../../../../jobs/log.ts'
import type { RealSubject } from '../../../contract/engine/real.ts'
import {
  call,
  createDocs,
  NODES,
  openRealCluster,
  pointsOn,
  startWriter,
  type Point,
} from './real-cluster.ts'
import { numbers } from './resharding-contents.ts'
import { startedSteps } from './shards-world.ts'

const bin = process.env['ENGINE_BIN']
const SOURCE = { namespace: 'ns', name: 'docs' }

interface View {
  peer_id: number
  local_shards: { shard_id: number; state: string }[]
  shard_transfers: object[]
  resharding_operations?: object[]
}

const viewOf = (subject: RealSubject, node: number) =>
  call<View>(subject, node, 'GET', '/collections/docs/cluster')

const everyView = (subject: RealSubject) =>
  Promise.all(Array.from({ length: NODES }, (_, node) => viewOf(subject, node)))

/** Every point of the collection, once for each of its two replicas, from the nodes that hold them. */
async function replicasOf(subject: RealSubject): Promise<Point[]> {
  const views = await everyView(subject)
  const found = await Promise.all(
    views.map(({ local_shards }, node) =>
      pointsOn(
        subject,
        node,
        local_shards.map(({ shard_id }) => shard_id),
      ),
    ),
  )
  return found.flat().toSorted((a, b) => a.id - b.id)
}

/** Nothing of the resharding is left on any node, and each replica of each shard is Active. */
async function isAsBefore(subject: RealSubject, shards: number): Promise<boolean> {
  const views = await everyView(subject)
  const replicas = views.flatMap(({ local_shards }) => local_shards)
  return (
    views.every(
      ({ shard_transfers, resharding_operations = [] }) =>
        shard_transfers.length + resharding_operations.length === 0,
    ) &&
    replicas.length === shards * 2 &&
    replicas.every(({ shard_id, state }) => shard_id < shards && state === 'Active')
  )
}

async function awaited(what: string, isTrue: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 90_000
  while (!(await isTrue())) {
    if (Date.now() > end) throw new Error(`${what}: not within 90 s`)
    await delay(200)
  }
}

const twice = (points: Point[]) => points.flatMap((point) => [point, point])

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: no collection to reshard', { skip: true })
} else {
  t.setTimeout(600_000)

  for (const [from, to] of [
    [2, 3],
    [3, 2],
  ] as const) {
    t.test(
      `${from} -> ${to} is aborted by setting the number back, while a client writes`,
      async (t) => {
        let isSet = false
        const cluster = await openRealCluster(t, bin, {
          resharding: true,
          async onSleep() {
            const { resharding } = (await cluster.world.progress())?.shards ?? {}
            if (isSet || resharding?.stage !== 'migrate') return
            isSet = true
            await cluster.world.setShardNumber(from)
          },
        })
        const { subject, world, time } = cluster
        const writer = startWriter(subject, await createDocs(subject, from))
        await world.declareCollection(to)
        const { code, log } = await world.run(numbers(to, SOURCE), { time })
        const { expected, failures } = await writer.stop()
        t.equal(code, EXIT.done, log.slice(-2000))
        t.ok(isSet)
        t.equal(startedSteps(log).at(-1), 'docs: aborting the resharding')
        t.ok(writer.count() > 0)
        t.comment(`${writer.count()} writes, failed: ${JSON.stringify(failures)}`)
        t.strictSame(
          failures.filter((failure) => !failure.startsWith('attempt 1:')),
          [],
          'one repetition is enough',
        )
        const { reshardings = [] } = (await world.progress())?.shards ?? {}
        t.strictSame(
          reshardings.map(({ direction, shard, stage }) => `${direction} ${shard} ${stage}`),
          [`${from < to ? 'up' : 'down'} 2 aborted`],
        )
        t.ok(await isAsBefore(subject, from))
        t.strictSame(await replicasOf(subject), twice(expected))
      },
    )
  }

  t.test('a transfer whose target hangs is aborted, and the resharding with it', async (t) => {
    const { subject } = await openRealCluster(t, bin, { resharding: true })
    const points = await createDocs(subject, 2)
    const connections = new EngineConnections()
    t.teardown(() => connections.close())
    const engine = new Engine({
      transport: urlTransport(subject.urls[0] ?? '', connections),
      credentials: async () => ({}),
      log: jobLog({ LOG_LEVEL: 'ERROR' }),
    })
    const [first, , last] = await everyView(subject)
    const [from, to] = [first?.peer_id ?? 0, last?.peer_id ?? 0]
    const shard = first?.local_shards[0]?.shard_id ?? 0
    const resharding = new EngineResharding(engine)
    await resharding.start('docs', { uuid: randomUUID(), direction: 'up', peer: to })
    await awaited('the new shard is on its node', async () =>
      (await viewOf(subject, 2)).local_shards.some(({ shard_id }) => shard_id === 2),
    )
    const pid = subject.pids[2] ?? 0
    process.kill(pid, 'SIGSTOP')
    const transfer = { collection: 'docs', shard, toShard: 2, from, to }
    try {
      await resharding.stream(transfer)
      const isCopied = async () => (await viewOf(subject, 0)).shard_transfers.length > 0
      await awaited('the transfer is started', isCopied)
      await new EngineShards(engine).abort(transfer)
      await awaited('the transfer has ended', async () => !(await isCopied()))
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await awaited('nothing of the resharding is left', () => isAsBefore(subject, 2))
    t.strictSame(await replicasOf(subject), twice(points))
  })
}

/** `cluster shards` while what a Job waits for does not come: it ends, so that a helm run can repair the cluster. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { EngineRequest } from '../../../doubles/engine/answers.ts'
import { matchWhole } from '../../../match-whole.ts'
import { contents, fill, numbers, POINTS } from './resharding-contents.ts'
import { shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

/** After this long a Job that has not ended never does. */
const NEVER_SECONDS = 7200

/** Runs the Job, which has to end by itself, ten to thirteen minutes after its start. */
async function runToEnd(
  t: Test,
  world: ShardsWorld,
  plan: Parameters<ShardsWorld['run']>[0],
  { onSleep, speed }: { onSleep: (seconds: number) => unknown; speed?: number },
) {
  const never = new AbortController()
  let endedAt = 0
  const ended = await world.run(plan, {
    ...(speed !== undefined && { speed }),
    signal: never.signal,
    async onSleep(seconds) {
      endedAt = seconds
      await onSleep(seconds)
      if (seconds > NEVER_SECONDS) never.abort()
    },
  })
  t.notOk(never.signal.aborted, 'the Job ends')
  t.ok(endedAt >= 600 && endedAt < 800, `${endedAt} s`)
  return ended
}

t.test('without consensus, a transfer that was started does not hold the Job', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const onSleep = (seconds: number) => {
    if (seconds > 10) for (const ordinal of [0, 1, 2]) world.engine.stopConsensus(ordinal, 'full')
  }
  const first = await runToEnd(t, world, { balance: true }, { speed: 5, onSleep })
  t.equal(first.code, EXIT.failed, first.log.slice(-2000))
  matchWhole(t, await world.progress(), {
    state: 'Refused',
    reason: 'ConsensusStopped',
    message: 'consensus is stopped on nodes 0, 1, 2',
    shards: { moves: [{ collection: 'docs' }], transfers: [{ collection: 'docs' }] },
  })

  // The transfer is continued by the next Job, and is not started again.
  for (const ordinal of [0, 1, 2]) world.engine.resumeConsensus(ordinal)
  const second = await world.run({ balance: true, run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
  t.equal(second.code, EXIT.done, second.log.slice(-2000))
  t.equal([...startedSteps(first.log), ...startedSteps(second.log)].length, 4)
})

t.test('nodes that never agree do not hold the Job because of a transfer', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const onSleep = (seconds: number) => {
    if (seconds > 10) world.engine.stopConsensus(1, 'full')
  }
  const first = await runToEnd(t, world, { balance: true }, { speed: 5, onSleep })
  t.equal(first.code, EXIT.done, first.log.slice(-2000))
  matchWhole(t, await world.progress(), {
    state: 'Done',
    shards: { isYielded: true, transfers: [{ collection: 'docs' }] },
  })
})

const DISK_FULL = '{"status":{"error":"Service internal error: disk full"},"time":0}'

/** Calls that a node answers with 500 until then. */
function failUntil(world: ShardsWorld, isCall: (request: EngineRequest) => boolean) {
  let isFixed = false
  for (const node of world.nodes.values()) {
    node.misbehave((call) =>
      !isFixed && isCall(call) ? { status: 500, body: DISK_FULL } : undefined,
    )
  }
  return () => {
    isFixed = true
  }
}

const isCleanup = ({ method, path }: EngineRequest) =>
  method === 'POST' && path.at(-1) === 'cleanup'

t.test('a step of a resharding that fails for ten minutes ends the Job', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  const fix = failUntil(world, isCleanup)
  const cause = /^docs\/\d: deleting the points of shard 2 on node \d failed: .*disk full/
  const messages: string[] = []
  const onSleep = async () => {
    world.finishTransfers()
    messages.push((await world.progress())?.message ?? '')
  }
  const { code, log } = await runToEnd(t, world, numbers(3), { onSleep })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'ReshardingFailed',
    message: cause,
    shards: { resharding: { stage: 'commit' } },
  })
  t.ok(messages.filter((message) => cause.test(message)).length > 10, 'it is reported meanwhile')

  fix()
  const next = await world.run({ ...numbers(3), run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
  t.equal(next.code, EXIT.done, next.log.slice(-2000))
  t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
})

t.test('a step that fails for nine minutes is repeated and then completed', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  const fix = failUntil(world, isCleanup)
  const { code, log } = await world.run(numbers(3), {
    onSleep(seconds) {
      world.finishTransfers()
      if (seconds > 540) fix()
    },
  })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.strictSame(contents(world), { shards: 3, ids: POINTS, twice: 0, wrong: [] })
})

t.test('a Job whose drop fails until it yields ends as Failed, with the error', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const fix = failUntil(world, ({ body }) => JSON.stringify(body ?? '').includes('drop_replica'))
  const { code, log } = await world.run(
    { balance: true },
    {
      onSleep(seconds) {
        world.finishTransfers()
        if (seconds > NEVER_SECONDS) fix()
      },
    },
  )
  t.equal(code, EXIT.failed, log.slice(-2000))
  matchWhole(t, await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: /^docs\/\d: dropping the replica on node \d failed: .*disk full/,
    shards: { moves: [{ collection: 'docs' }] },
  })
})

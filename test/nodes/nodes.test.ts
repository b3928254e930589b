/**
 * 3 -> 5 -> 3 -> 1 -> 3 nodes against engine doubles, every volume lost once, and the Job ended at many of its
 * steps. The same on real engines, with points: `npm run test:nodes`.
 */
import t, { type Test } from 'tap'
import { Dice } from '../faults/machine/dice.ts'
import { shardsWorld, type ShardsWorld } from '../jobs/cluster/shards/shards-world.ts'

const SEEDS = [1, 2]
/** Ends a run that hangs: beside the suite on a cluster, two cores may need ten times as long as alone. */
const LIMIT_MS = 1_500_000
const SHARDS = 6
const FACTOR = 2
const STAGES = [
  { nodes: 5, lost: [0, 1, 2, 3, 4] },
  { nodes: 3, lost: [1, 0] },
  { nodes: 1, lost: [] },
  { nodes: 3, lost: [0, 2, 1] },
]
/** A Job is ended at one of so many steps. */
const END_EVERY = 4
const MOST_JOBS = 60

t.setTimeout(0)
for (const seed of SEEDS) {
  t.test(
    `nodes come, go and lose their volumes, and no shard is without an Active replica (seed ${seed})`,
    { timeout: LIMIT_MS },
    async (t) => {
      const dice = new Dice(seed)
      const world = await shardsWorld(t, { nodes: 3, shards: SHARDS, factor: FACTOR })
      for (const { nodes, lost } of STAGES) {
        await scaleOut(world, nodes)
        await work(t, world, dice, { nodes, lost: [] })
        await isWhole(t, world, nodes, `with ${nodes} nodes`)
        for (const ordinal of lost) {
          const peer = world.peer(ordinal)
          await world.loseVolume(ordinal)
          await work(t, world, dice, { nodes, lost: [peer] })
          t.not(world.peer(ordinal), peer, `node ${ordinal} is another peer`)
          await isWhole(t, world, nodes, `after the loss of volume ${ordinal} of ${nodes}`)
        }
      }
    },
  )
}

/** As helm: the operator adds nodes with the release, and removes them with the Job. */
async function scaleOut(world: ShardsWorld, nodes: number): Promise<void> {
  await world.setReplicas(nodes)
  const { replicas } = await world.state()
  if (nodes <= replicas) return
  await world.scale(nodes)
}

/** Jobs until one has done all; each pod of them may be ended at a step. */
async function work(
  t: Test,
  world: ShardsWorld,
  dice: Dice,
  { nodes, lost }: { nodes: number; lost: number[] },
): Promise<void> {
  const { replicas } = await world.state()
  const first = ((await world.progress())?.run ?? 0) + 1
  for (let job = first; job < first + MOST_JOBS; job += 1) {
    const controller = new AbortController()
    const { code, log } = await world.run(
      {
        ...{ nodes, lost, balance: true, maxTransfers: 2, allowsFewerReplicas: true, run: job },
        cluster: { namespace: 'ns', name: 'a', replicas, tls: false },
      },
      {
        pod: `pod-${job}`,
        signal: controller.signal,
        onLine(line) {
          const isEnd = line.includes('step started') && dice.between(1, END_EVERY) === 1
          if (isEnd) controller.abort(new Error('SIGTERM'))
        },
        async onSleep() {
          world.finishTransfers()
          await hasActiveReplicas(t, world)
        },
      },
    )
    const progress = await world.progress()
    if (code === 0 && progress?.shards?.isYielded !== true) return
    if (!controller.signal.aborted && code !== 0) t.comment(log)
  }
  t.fail(`no Job has done all: ${JSON.stringify(await world.state())}`)
}

/** Compared only where it is wrong: it is asked at every pause of the command. */
async function hasActiveReplicas(t: Test, world: ShardsWorld): Promise<void> {
  const { shards } = await world.state()
  const empty = Object.entries(shards).filter(([, replicas]) => !replicas.some(isActive))
  if (empty.length > 0) t.fail(`no Active replica of ${JSON.stringify(empty)}`)
}

async function isWhole(t: Test, world: ShardsWorld, nodes: number, when: string): Promise<void> {
  const { shards, peers, replicas, pods, claims } = await world.state()
  t.equal(replicas, nodes, `StatefulSet ${when}`)
  t.equal(pods.length, nodes, `pods ${when}`)
  t.equal(Object.keys(claims).length, nodes, `claims ${when}`)
  t.strictSame(
    peers.toSorted(),
    Array.from({ length: nodes }, (_, ordinal) => ordinal),
    `peers ${when}`,
  )
  const expected = Math.min(FACTOR, nodes)
  t.ok(
    Object.values(shards).every((all) => all.length === expected && all.every(isActive)),
    `${expected} Active replicas of each shard ${when}: ${JSON.stringify(shards)}`,
  )
  const held = new Set(
    Object.values(shards).flatMap((all) => all.map((text) => text.split(' ')[0])),
  )
  t.equal(held.size, nodes, `every node has a replica ${when}`)
  t.equal((await world.progress())?.shards?.balancedNodes, nodes, `balanced ${when}`)
}

function isActive(replica: string): boolean {
  return replica.endsWith(' Active')
}

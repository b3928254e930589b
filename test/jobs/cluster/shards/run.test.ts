/** `cluster shards`, through the real CLI, an API server and engine doubles. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { EVERY } from '../../../depth.ts'
import { transferDefect } from '../../../../jobs/cluster/shards/defects.ts'
import { startTransfer } from '../../../doubles/engine/transfers.ts'
import { counted } from '../../../doubles/engine/running.ts'
import { matchWhole } from '../../../match-whole.ts'
import { START } from '../../job-fixture.ts'
import { killAfter, shardsWorld, startedSteps, type ShardsWorld } from './shards-world.ts'

t.setTimeout(600_000)

t.test('a new node gets its part of the shards', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const { code, log } = await world.run({ balance: true })
  t.equal(code, EXIT.done, log)
  const { shards, ...rest } = await world.state()
  t.strictSame(Object.values(shards).flat().toSorted(), [
    ...['0 Active', '0 Active', '1 Active', '1 Active', '2 Active', '2 Active'],
  ])
  t.strictSame(rest, {
    peers: [0, 1, 2],
    replicas: 3,
    pods: ['vec-a-0', 'vec-a-1', 'vec-a-2'],
    claims: {
      'qdrant-storage-vec-a-0': 'in use',
      'qdrant-storage-vec-a-1': 'in use',
      'qdrant-storage-vec-a-2': 'in use',
    },
  })
  const progress = await world.progress()
  t.match(progress, { state: 'Done', verb: 'shards' })
  const { bytesPerSecond, ...result } = progress?.shards ?? {}
  t.ok((bytesPerSecond ?? 0) > 0)
  t.strictSame(result, {
    startedAt: START.toISOString(),
    // Two transfers, and a drop after each.
    stepsDone: 4,
    finished: [
      { step: 'replicate', count: 2 },
      {
        ...{ step: 'drop', count: 2 },
        last: startedSteps(log).findLast((step) => step.includes('dropping')),
      },
    ],
    stepsLeft: 0,
    bytesMoved: 2000,
    bytesLeft: 0,
    secondsLeft: 0,
    balancedNodes: 3,
    moves: [],
  })
})

t.test('a collection that nothing can repair is named, and the others are balanced', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  world.engine.createCollection('dead', 1, 2)
  const [shard] = world.engine.find('dead')?.shards ?? []
  const states = Object.fromEntries((shard?.peers ?? []).map((peer) => [peer, 'Dead' as const]))
  if (shard !== undefined) shard.states = states
  const defects = Object.fromEntries(Object.keys(states).map((peer) => [`dead/0/${peer}`, 600]))
  const { code, log } = await world.run({ balance: true, defects })
  t.equal(code, EXIT.failed, log)
  t.strictSame(
    Object.values((await world.state()).shards)
      .flat()
      .toSorted(),
    [...['0 Active', '0 Active', '1 Active', '1 Active', '2 Active', '2 Active']],
  )
  matchWhole(t, await world.progress(), {
    ...{ state: 'Refused', reason: 'NoActiveReplica' },
    message: /^dead\/0 has no Active replica to repair that on node \d from: restore/,
    shards: { stepsDone: 4, moves: [] },
  })
  t.strictSame(shard?.states, states, 'nothing was done with it')
})

t.test('clients may create and delete shard keys while shards move', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const collection = world.engine.find('docs')
  Object.assign(collection?.config.params ?? {}, { sharding_method: 'custom' })
  for (const shard of collection?.shards ?? []) shard.key = `key ${shard.id}`
  const url = `http://127.0.0.1:${world.nodes.get(0)?.port}/collections/docs/shards`
  const headers = { 'content-type': 'application/json' }
  const body = JSON.stringify({ shard_key: 'passing' })
  let changes = 0
  const { code, log } = await world.run(
    { balance: true },
    {
      async onSleep() {
        if (collection?.shards.some(({ arriving = [] }) => arriving.length > 0)) {
          await fetch(url, { method: 'PUT', headers, body })
          await fetch(`${url}/delete`, { method: 'POST', headers, body })
          changes += 1
        }
        world.finishTransfers()
      },
    },
  )
  t.equal(code, EXIT.done, log)
  t.ok(changes > 0)
  const { shards } = await world.state()
  t.strictSame(Object.values(shards).flat().toSorted(), [
    ...['0 Active', '0 Active', '1 Active', '1 Active', '2 Active', '2 Active'],
  ])
})

t.test('a balanced cluster is left as it is', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const before = await world.state()
  const { code, log } = await world.run({ balance: true })
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.state(), before)
  t.strictSame((await world.progress())?.shards, {
    startedAt: START.toISOString(),
    ...{ stepsDone: 0, stepsLeft: 0, bytesMoved: 0, bytesLeft: 0, balancedNodes: 3, moves: [] },
  })
})

t.test(
  'a node is drained, its peer and its pod are removed, and its volume is deleted',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 3 })
    await world.setReplicas(2)
    const { code, log } = await world.run({ nodes: 2 })
    t.equal(code, EXIT.done, log)
    t.strictSame(await world.state(), {
      shards: {
        0: ['0 Active', '1 Active'],
        1: ['0 Active', '1 Active'],
        2: ['0 Active', '1 Active'],
      },
      peers: [0, 1],
      replicas: 2,
      pods: ['vec-a-0', 'vec-a-1'],
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    })
    matchWhole(t, await world.progress(), { state: 'Done', shards: { moves: [] } })
    t.notOk('removedOrdinal' in ((await world.progress())?.shards ?? {}))
    const { finished = [], stepsDone } = (await world.progress())?.shards ?? {}
    const drops = finished.find(({ step }) => step === 'drop')?.count
    t.strictSame(
      finished.toSorted((a, b) => a.step.localeCompare(b.step)),
      [
        { step: 'deleteVolume', count: 1, last: 'deleting the volume of node 2' },
        {
          ...{ step: 'drop', count: drops },
          last: startedSteps(log).findLast((step) => step.includes('dropping')),
        },
        { step: 'removePeer', count: 1, last: 'removing node 2 from the cluster' },
        { step: 'replicate', count: drops },
        { step: 'scaleDown', count: 1, last: 'lowering the StatefulSet to 2 pods' },
      ],
    )
    t.equal(stepsDone, 2 * (drops ?? 0) + 2, 'all but the volume, which is no step of the plan')
  },
)

t.test('nodes are removed one by one, and their volumes are kept and marked', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3, factor: 1 })
  await world.setReplicas(1)
  const { code, log } = await world.run({ nodes: 1, onScaleIn: 'Keep' })
  t.equal(code, EXIT.done, log)
  t.strictSame(await world.state(), {
    shards: { 0: ['0 Active'], 1: ['0 Active'], 2: ['0 Active'] },
    peers: [0],
    replicas: 1,
    pods: ['vec-a-0'],
    claims: {
      'qdrant-storage-vec-a-0': 'in use',
      'qdrant-storage-vec-a-1': '1',
      'qdrant-storage-vec-a-2': '2',
    },
  })
  const scales = [...log.matchAll(/api call method=PATCH path=\S+\/scale status=200/g)]
  t.equal(scales.length, 2)
})

t.test('a drain that leaves too few nodes is refused, and nothing changes', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const before = await world.state()
  const { code, log } = await world.run({ nodes: 1 })
  t.equal(code, EXIT.failed, log)
  t.strictSame(await world.state(), before)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'NotEnoughNodes',
    message: /"docs" has replication factor 2/,
  })
})

t.test('missing, dead, incomplete and unreadable replicas are created again', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 4 })
  const [missing, dead, incomplete, unreadable] = [0, 1, 2, 3].map((id) => world.shard(id))
  if (!missing || !dead || !incomplete || !unreadable) throw new Error('there are four shards')
  missing.peers = missing.peers.slice(0, 1)
  dead.states = { [dead.peers[0] ?? 0]: 'Dead' }
  incomplete.states = { [incomplete.peers[1] ?? 0]: 'Partial' }
  const ordinals = new Map(world.engine.peers().map(({ id, ordinal }) => [id, ordinal]))
  unreadable.unreadableOn = [ordinals.get(unreadable.peers[0] ?? 0) ?? 0]
  const defects = { [`docs/1/${dead.peers[0]}`]: 600 }
  const { code, log } = await world.run({ defects })
  t.equal(code, EXIT.done, log)
  const { shards } = await world.state()
  for (const replicas of Object.values(shards)) {
    matchWhole(t, replicas, [/ Active$/, / Active$/])
    t.equal(replicas.length, 2)
  }
  for (const { unreadableOn = [] } of [missing, dead, incomplete, unreadable]) {
    t.strictSame(unreadableOn, [])
  }
})

t.test('a dead replica is left to the engine at first', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 1 })
  const shard = world.shard(0)
  const [peer = 0] = shard.peers
  shard.states = { [peer]: 'Dead' }
  let waits = 0
  const onSleep = () => {
    waits += 1
    if (waits === 3) delete shard.states
  }
  const { code, log } = await world.run({}, { onSleep })
  t.equal(code, EXIT.done, log)
  t.notMatch(log, /step started/)
  t.match(await world.progress(), { state: 'Done', shards: { stepsDone: 0 } })
})

t.test(
  'a replica that a user recovers from a snapshot is left alone until that ends',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 1 })
    const shard = world.shard(0)
    const [peer = 0] = shard.peers
    const ordinal = world.engine.peers().find(({ id }) => id === peer)?.ordinal ?? 0
    shard.states = { [peer]: 'ManualRecovery' }
    const recovery = Promise.withResolvers<undefined>()
    const at = { ordinal, collection: 'docs' }
    const running = counted(world.engine, at, () => recovery.promise)
    const defects = { [`docs/0/${peer}`]: 600 }
    const first = await world.run({ defects })
    t.equal(first.code, EXIT.done, first.log)
    t.strictSame(startedSteps(first.log), [])

    // It was given up, and has left the replica as it was.
    recovery.resolve(undefined)
    await running
    const second = await world.run({ defects, run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
    t.equal(second.code, EXIT.done, second.log)
    matchWhole(t, startedSteps(second.log), [
      /^docs\/0: repairing the replica on node \d from node /,
    ])
    matchWhole(t, (await world.state()).shards[0], [/ Active$/, / Active$/])
  },
)

t.test('a Job does not wait for a shard that nothing repairs, and is not balanced', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  // Each shard has an Active replica, and a Dead one that stays.
  for (const id of [0, 1, 2, 3, 4, 5]) {
    const shard = world.shard(id)
    const dead = [0, 1]
      .map((ordinal) => world.peer(ordinal))
      .find((peer) => !shard.peers.includes(peer))
    shard.peers = [...shard.peers, dead ?? 0]
    shard.states = { [dead ?? 0]: 'Dead' }
  }
  let slept = 0
  const onSleep = () => {
    slept += 1
  }
  const { code, log } = await world.run({ balance: true, repair: false }, { onSleep })
  t.equal(code, EXIT.done, log)
  t.ok(slept < 10, `slept ${slept} times`)
  const progress = await world.progress()
  t.equal(progress?.shards?.isYielded, true)
  t.equal(progress?.shards?.balancedNodes, undefined)
})

t.test('a system clock that is set takes no time from the engine, nor a transfer', async (t) => {
  for (const jump of [3_600_000, -3_600_000]) {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    const [dead, missing] = [world.shard(0), world.shard(1)]
    const [deadPeer = 0] = dead.peers
    dead.states = { [deadPeer]: 'Dead' }
    missing.peers = missing.peers.slice(0, 1)
    let [error, isRepaired] = [0, false]
    const onSleep = (seconds: number) => {
      error = seconds > 5 ? jump : 0
      if (seconds > 40) world.finishTransfers()
      isRepaired ||= seconds > 60
      if (isRepaired) delete dead.states
    }
    const { code, log } = await world.run({}, { onSleep, clockErrorMs: () => error })
    t.equal(code, EXIT.done, log)
    t.notMatch(log, /aborting a transfer/, String(jump))
    matchWhole(t, startedSteps(log), [/^docs\/1: replicating from node \d to node \d$/])
  }
})

t.test(
  'a replica that dies while another one is repaired is left to the engine, too',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    const [old, recent] = [world.shard(0), world.shard(1)]
    const [oldPeer = 0] = old.peers
    const [recentPeer = 0] = recent.peers
    old.states = { [oldPeer]: 'Dead' }
    recent.states = { [recentPeer]: 'Dead' }
    let waits = 0
    const onSleep = () => {
      world.finishTransfers()
      waits += 1
      if (waits === 5) delete recent.states
    }
    const defects = { [`docs/0/${oldPeer}`]: 3600 }
    const { code, log } = await world.run({ defects }, { onSleep })
    t.equal(code, EXIT.done, log)
    matchWhole(t, startedSteps(log), [/^docs\/0: repairing the replica on node \d from node \d$/])
  },
)

t.test('a lost node is replaced, and its pod is restarted once', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const former = world.peer(2)
  await world.loseVolume(2)
  const { code, log } = await world.run({ lost: [former] })
  t.equal(code, EXIT.done, log)
  const { shards, ...rest } = await world.state()
  t.not(world.peer(2), former)
  for (const replicas of Object.values(shards)) {
    t.equal(replicas.length, 2)
    matchWhole(t, replicas, [/ Active$/, / Active$/])
  }
  t.strictSame(rest, {
    peers: [0, 1, 2],
    replicas: 3,
    pods: ['vec-a-0', 'vec-a-1', 'vec-a-2'],
    claims: {
      'qdrant-storage-vec-a-0': 'in use',
      'qdrant-storage-vec-a-1': 'in use',
      'qdrant-storage-vec-a-2': 'in use',
    },
  })
  t.equal([...log.matchAll(/deleting a pod that can join the cluster now/g)].length, 1)
})

t.test('a node that returns is not given up: its pod is looked at before each step', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 4 })
  const lost = world.peer(2)
  const claim = 'qdrant-storage-vec-a-2'
  const volume = await world.claimUid(claim)
  await world.loseVolume(2)
  const losses = [{ peer: lost, ordinal: 2, claim, volume }]
  const held = () => [0, 1, 2, 3].filter((id) => world.shard(id).peers.includes(lost))
  const before = held()
  t.ok(before.length > 1)

  world.setScheduled(2, 'node-c')
  const plan = { lost: [lost], losses }
  const scheduled = await world.run(plan)
  t.equal(scheduled.code, EXIT.failed, scheduled.log)
  const message =
    'node 2 is not replaced, because it may have its data: its volume exists, and pod vec-a-2'
  t.match(await world.progress(), {
    ...{
      state: 'Refused',
      reason: 'NodeReturned',
      message: `${message} is on Kubernetes node node-c`,
    },
  })
  t.strictSame(startedSteps(scheduled.log), [])
  t.strictSame(held(), before)

  world.setScheduled(2, undefined)
  let drops = 0
  const onLine = (line: string) => {
    if (!/step started .*dropping the replica on node 2/.test(line)) return
    drops += 1
    // All but the peer itself.
    if (drops === before.length) world.failPod(2)
  }
  const during = await world.run({ ...plan, run: 2, hash: 'h2' }, { onLine, pod: 'pod-2' })
  t.equal(during.code, EXIT.failed, during.log)
  t.match(await world.progress(), {
    ...{ reason: 'NodeReturned', message: `${message} is not known to be unschedulable` },
  })
  t.strictSame(held(), [])
  t.notMatch(during.log, /cluster\/peer/, 'its peer stays')

  world.setScheduled(2, undefined)
  const last = await world.run({ ...plan, run: 3, hash: 'h3' }, { pod: 'pod-3' })
  t.equal(last.code, EXIT.done, last.log)
  t.not(world.peer(2), lost)
})

t.test('a node whose claim is another one is lost, wherever its pod is', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const lost = world.peer(2)
  await world.loseVolume(2)
  world.setScheduled(2, 'node-c')
  const losses = [{ peer: lost, ordinal: 2, claim: 'qdrant-storage-vec-a-2', volume: 'former' }]
  const { code, log } = await world.run({ lost: [lost], losses })
  t.equal(code, EXIT.done, log)
  t.not(world.peer(2), lost)
})

/** As helm does it with shard-loss accepted. */
async function removeNode(world: ShardsWorld) {
  await world.setReplicas(2)
  await world.scale(2)
}

t.test('the volume of a node that went without its peer is marked before the peer', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  await removeNode(world)
  const { code, log } = await world.run({ nodes: 2 })
  t.equal(code, EXIT.done, log)
  const { shards, ...rest } = await world.state()
  t.strictSame(Object.values(shards), Array(3).fill(['0 Active', '1 Active']))
  t.strictSame(rest, {
    peers: [0, 1],
    replicas: 2,
    pods: ['vec-a-0', 'vec-a-1'],
    claims: {
      'qdrant-storage-vec-a-0': 'in use',
      'qdrant-storage-vec-a-1': 'in use',
      'qdrant-storage-vec-a-2': '2',
    },
  })
  const calls = [
    ...log.matchAll(/api call method=(PATCH|DELETE) path=\S+?(claims|cluster\/peer)\//g),
  ]
  t.strictSame(
    calls.map(([, method]) => method),
    ['PATCH', 'DELETE'],
  )
})

t.test('a peer whose pod is desired again in that moment is not removed', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const peer = world.peer(2)
  await removeNode(world)
  let raised: Promise<unknown> | undefined
  for (const node of world.nodes.values()) {
    node.misbehave(() => {
      const isEmpty = [0, 1, 2].every((id) => !world.shard(id).peers.includes(peer))
      if (!isEmpty) return undefined
      raised ??= world.setPods(3)
      return { until: raised }
    })
  }
  const onLine = (line: string) => {
    if (/step started .*removing node 2/.test(line)) void world.setReplicas(3)
  }
  const { code, log } = await world.run({ nodes: 2 }, { onLine })
  t.equal(code, EXIT.done, log)
  t.ok(raised)
  t.equal(startedSteps(log).at(-1), 'removing node 2 from the cluster')
  t.notMatch(log, /cluster\/peer/)
  const { peers, claims } = await world.state()
  t.ok(peers.includes(2))
  t.equal(claims['qdrant-storage-vec-a-2'], 'in use')
})

t.test('a lost node with the last replica of a shard is refused', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3, factor: 1 })
  await world.loseVolume(2)
  const before = await world.state()
  const { code, log } = await world.run({ lost: [world.peer(2)] })
  t.equal(code, EXIT.failed, log)
  t.strictSame(await world.state(), before)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'LastReplicaLost',
    message: /docs\/\d on node 2/,
  })
})

t.test(
  'after ten minutes the Job ends with its transfer, and the next one continues',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
    const onSleep = (seconds: number) => {
      if (seconds > 900) world.finishTransfers()
    }
    const first = await world.run({ balance: true }, { speed: 100, onSleep })
    t.equal(first.code, EXIT.done, first.log)
    matchWhole(t, await world.progress(), {
      state: 'Done',
      shards: { isYielded: true, bytesMoved: 1000, moves: [{ collection: 'docs' }] },
    })
    t.notOk('balancedNodes' in ((await world.progress())?.shards ?? {}))
    t.equal(first.log.match(/step started/g)?.length, 1)

    const second = await world.run({ balance: true, run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
    t.equal(second.code, EXIT.done, second.log)
    const { shards } = await world.state()
    const held = Object.values(Object.groupBy(Object.values(shards).flat(), String))
    t.strictSame(
      held.map((replicas) => replicas?.length),
      [2, 2, 2],
    )
    const progress = await world.progress()
    matchWhole(t, progress, { state: 'Done', shards: { balancedNodes: 3, moves: [] } })
    t.notOk('isYielded' in (progress?.shards ?? {}))
  },
)

t.test('the Job ends with the step in which its maintenance window ends', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const endsAt = new Date(START.getTime() + 60_000).toISOString()
  const onSleep = (seconds: number) => {
    if (seconds > 90) world.finishTransfers()
  }
  const first = await world.run({ balance: true, endsAt }, { speed: 100, onSleep })
  t.equal(first.code, EXIT.done, first.log)
  t.match(await world.progress(), { state: 'Done', shards: { isYielded: true } })
  t.equal(first.log.match(/step started/g)?.length, 1)
  const later = new Date(START.getTime() + 86_400_000).toISOString()
  const second = await world.run(
    { balance: true, endsAt: later, run: 2, hash: 'hash-2' },
    { pod: 'pod-2' },
  )
  t.equal(second.code, EXIT.done, second.log)
  t.match(await world.progress(), { state: 'Done', shards: { balancedNodes: 3 } })
})

t.test('a drain stops after the current step when the node is to stay', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 6 })
  let sleeps = 0
  const onSleep = async () => {
    sleeps += 1
    if (sleeps === 1) await world.setReplicas(3)
    else world.finishTransfers()
  }
  await world.setReplicas(2)
  const { code, log } = await world.run({ nodes: 2 }, { onSleep })
  t.equal(code, EXIT.done, log)
  const { shards, ...rest } = await world.state()
  t.strictSame([rest.peers, rest.replicas, rest.pods.length], [[0, 1, 2], 3, 3])
  // One replica more, and none less.
  t.equal(Object.values(shards).flat().length, 13)
  const reported = { isYielded: true, balancedNodes: 0 }
  t.match(
    await world.progress(),
    { state: 'Done', shards: reported },
    'the shards are to be balanced',
  )
  t.equal(log.match(/step started/g)?.length, 1)

  const next = await world.run({ run: 2, hash: 'hash-2' }, { pod: 'pod-2' })
  t.equal(next.code, EXIT.done, next.log)
  const after = Object.values((await world.state()).shards)
  matchWhole(t, after, Array(6).fill([/ Active$/, / Active$/]))
  matchWhole(t, await world.progress(), { state: 'Done', shards: { moves: [] } })
})

t.test('a removal that has begun is completed although the node is to stay', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const onLine = (line: string) => {
    if (/step started .*removing node 2/.test(line)) void world.setReplicas(5)
  }
  await world.setReplicas(2)
  const { code, log } = await world.run({ nodes: 2 }, { onLine })
  t.equal(code, EXIT.done, log)
  const { peers, replicas, pods, claims } = await world.state()
  t.strictSame(
    { peers, replicas, pods, claims },
    {
      peers: [0, 1],
      replicas: 2,
      pods: ['vec-a-0', 'vec-a-1'],
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    },
  )
})

t.test('a transfer that makes no progress is aborted after half an hour', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const before = await world.state()
  world.engine.transferOutcome = () => 'stall'
  let seconds = 0
  const abortedAt: number[] = []
  const { code, log } = await world.run(
    { balance: true },
    {
      speed: 10,
      onSleep: (passed) => {
        seconds = passed
      },
      onLine: (line) => {
        if (line.includes('aborting a transfer')) abortedAt.push(seconds)
      },
    },
  )
  t.equal(code, EXIT.failed, log)
  t.equal(abortedAt.length, 1)
  t.ok((abortedAt[0] ?? 0) >= 1800 && (abortedAt[0] ?? 0) < 2000, String(abortedAt))
  t.match(log, /aborting a transfer without progress collection=docs shard=\d from=\d+ to=\d+/)
  t.match(log, /replicating from node \d to node 2 failed failures=1/)
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: /^docs\/\d: replicating from node \d to node 2 failed once: /,
    shards: { bytesMoved: 0 },
  })
  t.strictSame(await world.state(), before, 'the move is undone')
})

t.test(
  'a transfer that a Job has left is aborted by the next one after half an hour',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
    const before = await world.state()
    world.engine.transferOutcome = () => 'stall'
    const killed = new AbortController()
    const onSleep = (seconds: number) => {
      if (seconds > 60) killed.abort()
    }
    await world.run({ balance: true }, { speed: 10, signal: killed.signal, onSleep })
    matchWhole(t, await world.progress(), { shards: { transfers: [{ collection: 'docs' }] } })
    let [passed, abortedAt] = [0, 0]
    const { code, log } = await world.run(
      { run: 2, hash: 'hash-2' },
      {
        ...{ pod: 'pod-2', speed: 10 },
        onSleep: (seconds) => {
          passed = seconds
        },
        onLine: (line) => {
          if (line.includes('aborting a transfer')) abortedAt = passed
        },
      },
    )
    t.equal(code, EXIT.done, log)
    t.ok(abortedAt >= 1800 && abortedAt < 2000, String(abortedAt))
    t.strictSame(await world.state(), before, 'the move is undone')
    t.notOk((await world.progress())?.shards?.transfers)
  },
)

t.test(
  'a transfer that no Job has started is named after half an hour, and not aborted',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
    world.engine.transferOutcome = () => 'stall'
    const shard = world.shard(0)
    const [from = 0] = shard.peers
    const to = world.peer(2)
    startTransfer(world.engine, shard, { from, to, state: 'Recovery', sync: true })
    const transfer = { collection: 'docs', shard: 0, from, to, comment: 'downloading (0.00s)' }
    // As the service has counted.
    const defects = { [transferDefect(transfer)]: 1700 }
    let endedAt = 0
    const onSleep = (seconds: number) => {
      endedAt = seconds
    }
    const { code, log } = await world.run({ balance: true, defects }, { onSleep })
    t.equal(code, EXIT.failed, log)
    t.ok(endedAt >= 100 && endedAt < 120, String(endedAt))
    t.match(await world.progress(), {
      ...{ state: 'Refused', reason: 'TransferStalled' },
      message: new RegExp(
        `^docs/0 is copied from node 0 to node 2 without progress since 2029-12-31T23:31:(39|40)Z, and no .*"from_peer_id":${from},"to_peer_id":${to}}}$`,
      ),
    })
    t.notMatch(log, /aborting/)
    t.equal(shard.arriving?.length, 1, 'it continues')
  },
)

const KILLS = { timeout: 300_000 }
t.test('a pod that is killed after any call is continued by the next pod', KILLS, async (t) => {
  const expected = {
    shards: { 0: ['0 Active', '1 Active'], 1: ['0 Active', '1 Active'] },
    peers: [0, 1],
    replicas: 2,
    pods: ['vec-a-0', 'vec-a-1'],
    claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
  }
  let isComplete = false
  for (let last = 1; !isComplete; last += EVERY) {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    await world.setReplicas(2)
    const { isKilled, onLine } = killAfter(last, /api call method=(POST|PATCH|DELETE) /)
    await world.run({ nodes: 2 }, { onLine }).catch(() => undefined)
    isComplete = !isKilled()
    const { code, log } = await world.run({ nodes: 2 }, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log)
    t.strictSame(await world.state(), expected, `after ${last} calls`)
    t.match(await world.progress(), { state: 'Done' })
    if (isComplete) t.ok(last > 10, `${last} calls`)
  }
})

t.test(
  'the pod of a removed node is removed by the next Job, although more are desired',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    await world.setReplicas(2)
    const removed = { ordinal: 2, peer: world.peer(2) }
    const onLine = () => {
      if (world.engine.peers().length === 2) throw new Error('killed')
    }
    await world.run({ nodes: 2 }, { onLine }).catch(() => undefined)
    matchWhole(t, await world.state(), { peers: [0, 1], replicas: 3 })
    t.strictSame((await world.progress())?.shards?.removedPeer, removed)

    await world.setReplicas(4)
    // With three replicas of each shard: no node may be removed any more that has one.
    const { params } = world.engine.find('docs')?.config ?? {}
    if (params !== undefined) params['replication_factor'] = 3
    const { code, log } = await world.run({ run: 2, nodes: 2 }, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log)
    matchWhole(t, await world.state(), {
      ...{ peers: [0, 1], replicas: 2, pods: ['vec-a-0', 'vec-a-1'] },
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    })
    t.notOk('removedPeer' in ((await world.progress())?.shards ?? {}))
  },
)

t.test('a Job that ends just before it removes the pod leaves that to the next one', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2 })
  await world.setReplicas(2)
  let isRemoved = false
  let isKilled = false
  const onLine = (line: string) => {
    // The report that follows the last step is written before the StatefulSet is changed.
    isRemoved ||= line.includes('step started') && world.engine.peers().length === 2
    isKilled ||= isRemoved && line.includes('api call method=PATCH')
    if (isKilled) throw new Error('killed')
  }
  await world.run({ nodes: 2 }, { onLine }).catch(() => undefined)
  matchWhole(t, await world.state(), { peers: [0, 1], replicas: 3 })
  t.match((await world.progress())?.shards, { removedPeer: { ordinal: 2 }, removedOrdinal: 2 })
  await world.setReplicas(4)
  const { code, log } = await world.run({ run: 2, nodes: 2 }, { pod: 'pod-2' })
  t.equal(code, EXIT.done, log)
  matchWhole(t, await world.state(), { peers: [0, 1], replicas: 2 })
  t.notOk('removedPeer' in ((await world.progress())?.shards ?? {}))
})

t.test(
  'the next Job waits for the pod of a removed node if the first ended while it waited',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    await world.setReplicas(2)
    world.unreachable.add(2)
    const controller = new AbortController()
    const onSleep = async () => {
      world.finishTransfers()
      const { replicas } = await world.state()
      if (replicas === 2) controller.abort(new Error('SIGTERM'))
    }
    const first = await world.run({ nodes: 2 }, { signal: controller.signal, onSleep })
    t.not(first.code, EXIT.done, first.log)
    t.match(await world.progress(), { state: 'Started', shards: { removedOrdinal: 2 } })
    matchWhole(t, await world.state(), { replicas: 2, pods: ['vec-a-0', 'vec-a-1', 'vec-a-2'] })

    let waited = 0
    const { code, log } = await world.run(
      { run: 2, nodes: 2 },
      {
        pod: 'pod-2',
        async onSleep(seconds) {
          waited = seconds
          if (seconds < 60) return
          world.unreachable.clear()
          await world.settle()
        },
      },
    )
    t.equal(code, EXIT.done, log)
    t.ok(waited >= 60, `${waited} s`)
    t.notOk('removedOrdinal' in ((await world.progress())?.shards ?? {}))
    matchWhole(t, await world.state(), {
      pods: ['vec-a-0', 'vec-a-1'],
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    })
  },
)

t.test(
  'a pod that does not end holds one Job for ten minutes, and its volume is left to another',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 3, shards: 2 })
    await world.setReplicas(2)
    world.unreachable.add(2)
    // Far less than the Job would wait.
    const isLate = (seconds: number) => {
      if (seconds > 7200) throw new Error('still waiting')
      world.finishTransfers()
    }
    const first = await world.run({ nodes: 2 }, { speed: 10, onSleep: isLate })
    t.equal(first.code, EXIT.done, first.log)
    t.match(await world.progress(), {
      state: 'Done',
      shards: { isYielded: true, removedOrdinal: 2 },
    })
    t.match(await world.state(), { replicas: 2, claims: { 'qdrant-storage-vec-a-2': '2' } })

    // Repairs do not wait for it.
    const dead = world.peer(1)
    world.shard(0).states = { [dead]: 'Dead' }
    let waited = 0
    const repair = await world.run(
      { run: 2, nodes: 2, defects: { [`docs/0/${dead}`]: 600 } },
      {
        pod: 'pod-2',
        onSleep(seconds) {
          waited = seconds
          isLate(seconds)
        },
      },
    )
    t.equal(repair.code, EXIT.done, repair.log)
    matchWhole(t, startedSteps(repair.log), [/^docs\/0: repairing the replica on node 1/])
    t.ok(waited < 60, `${waited} s`)
    t.match(await world.progress(), { state: 'Done', shards: { removedOrdinal: 2 } })
    matchWhole(t, await world.state(), {
      shards: { 0: ['0 Active', '1 Active'] },
      claims: { 'qdrant-storage-vec-a-2': '2' },
    })

    world.unreachable.clear()
    await world.settle()
    const second = await world.run({ run: 3, nodes: 2 }, { pod: 'pod-3' })
    t.equal(second.code, EXIT.done, second.log)
    t.notOk('removedOrdinal' in ((await world.progress())?.shards ?? {}))
    matchWhole(t, await world.state(), {
      pods: ['vec-a-0', 'vec-a-1'],
      claims: { 'qdrant-storage-vec-a-0': 'in use', 'qdrant-storage-vec-a-1': 'in use' },
    })
  },
)

t.test('no further node is removed before the pod of the last one has ended', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  await world.setReplicas(1)
  world.unreachable.add(2)
  const isLate = (seconds: number) => {
    if (seconds > 7200) throw new Error('still waiting')
    world.finishTransfers()
  }
  for (const run of [1, 2]) {
    const { code, log } = await world.run(
      { run, nodes: 1 },
      { pod: `pod-${run}`, speed: 10, onSleep: isLate },
    )
    t.equal(code, EXIT.done, log)
    t.match(await world.progress(), {
      state: 'Done',
      shards: { isYielded: true, removedOrdinal: 2 },
    })
    t.match(await world.state(), { replicas: 2, claims: { 'qdrant-storage-vec-a-1': 'in use' } })
  }

  world.unreachable.clear()
  const { code, log } = await world.run({ run: 3, nodes: 1 }, { pod: 'pod-3', onSleep: isLate })
  t.equal(code, EXIT.done, log)
  matchWhole(t, await world.state(), {
    pods: ['vec-a-0'],
    claims: { 'qdrant-storage-vec-a-0': 'in use' },
  })
})

t.test('a node whose peer was not removed stays when more nodes are desired', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2 })
  await world.setReplicas(2)
  const onLine = (line: string) => {
    if (line.includes('"removedPeer"') || /step started.*removing node 2/.test(line)) {
      throw new Error('killed')
    }
  }
  await world.run({ nodes: 2 }, { onLine }).catch(() => undefined)
  await world.setReplicas(3)
  const { code, log } = await world.run({ run: 2, nodes: 3 }, { pod: 'pod-2' })
  t.equal(code, EXIT.done, log)
  matchWhole(t, await world.state(), { peers: [0, 1, 2], replicas: 3 })
  t.notOk('removedPeer' in ((await world.progress())?.shards ?? {}))
})

/** A shard of a key with three replicas in a collection with two, one of them on the node to remove. */
async function keyedWorld(t: Test) {
  const world = await shardsWorld(t, { nodes: 4, shards: 1, factor: 2 })
  const shard = world.shard(0)
  shard.key = 'berlin'
  shard.peers = [0, 1, 3].map(world.peer)
  await world.setReplicas(3)
  return world
}

t.test('the shard of a key keeps its replicas, wherever the Job is killed', KILLS, async (t) => {
  let isComplete = false
  for (let last = 1; !isComplete; last += EVERY) {
    const world = await keyedWorld(t)
    const { isKilled, onLine } = killAfter(last, /api call method=(POST|PATCH|DELETE) /)
    await world.run({ nodes: 3 }, { onLine }).catch(() => undefined)
    isComplete = !isKilled()
    const { code, log } = await world.run({ nodes: 3 }, { pod: 'pod-2' })
    t.equal(code, EXIT.done, log)
    const { shards, peers } = await world.state()
    t.strictSame(shards, { 0: ['0 Active', '1 Active', '2 Active'] }, `after ${last} calls`)
    t.strictSame(peers, [0, 1, 2])
    if (isComplete) t.ok(last > 5, `${last} calls`)
  }
})

t.test('a shard key that is deleted while it is copied is no failure', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const docs = world.engine.find('docs')
  for (const shard of docs?.shards ?? []) shard.key = `key ${shard.id}`
  const deleted: number[] = []
  const { code, log } = await world.run(
    { balance: true },
    {
      onSleep() {
        const copied = docs?.shards.find(({ arriving = [] }) => arriving.length > 0)
        if (docs === undefined || copied === undefined || deleted.length > 0) {
          world.finishTransfers()
          return
        }
        deleted.push(copied.id)
        docs.shards = docs.shards.filter((shard) => shard !== copied)
        world.engine.changes += 1
      },
    },
  )
  t.equal(code, EXIT.done, log)
  t.equal(deleted.length, 1)
  t.notMatch(log, /failed/)
  const { shards } = await world.state()
  t.equal(Object.keys(shards).length, 5)
  matchWhole(t, await world.progress(), { state: 'Done', shards: { moves: [], balancedNodes: 3 } })
})

/** Replicas of two shards are Dead, and no copy of the first one succeeds. */
async function failingShard(t: Test) {
  const world = await shardsWorld(t, { nodes: 3, shards: 4 })
  const defects: Record<string, number> = {}
  for (const id of [0, 2]) {
    const [peer = 0] = world.shard(id).peers
    world.shard(id).states = { [peer]: 'Dead' }
    defects[`docs/${id}/${peer}`] = 600
  }
  world.engine.transferOutcome = ({ shard }) => (shard === 0 ? 'fail' : 'complete')
  return { world, defects }
}

t.test('a shard whose copies fail delays the repair of no other one', async (t) => {
  const { world, defects } = await failingShard(t)
  const { code, log } = await world.run({ defects })
  t.equal(code, EXIT.failed, log.slice(-2000))
  const of = (id: number) => startedSteps(log).map((step) => step.startsWith(`docs/${id}: rep`))
  // Then another node is tried.
  t.strictSame(of(0), [true, false, true, true, true])
  t.strictSame(of(2), [false, true, false, false, false])
  matchWhole(t, (await world.state()).shards[2], [/ Active$/, / Active$/])
  matchWhole(t, await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: /^docs\/0: replicating from node \d to node 2 failed once: it ended without an /,
    shards: {
      ...{ stepsDone: 1, failed: [{ collection: 'docs', shard: 0, createdOn: [world.peer(2)] }] },
    },
  })
})

t.test('the next Job begins with the shards whose copies have not failed', async (t) => {
  const { world, defects } = await failingShard(t)
  // A copy takes longer than a Job runs.
  const first = await world.run({ defects }, { speed: 10_000 })
  t.equal(first.code, EXIT.failed, first.log.slice(-2000))
  t.equal(startedSteps(first.log).length, 1)
  matchWhole(t, await world.progress(), {
    reason: 'TransferFailed',
    shards: { failed: [{ collection: 'docs', shard: 0 }] },
  })
  const next = { defects, run: 2, hash: 'hash-2' }
  const second = await world.run(next, { pod: 'pod-2', speed: 10_000 })
  t.equal(second.code, EXIT.done, second.log.slice(-2000))
  matchWhole(t, startedSteps(second.log), [/^docs\/2: repairing /])
  world.engine.transferOutcome = () => 'complete'
  const third = await world.run({ defects, run: 3, hash: 'hash-3' }, { pod: 'pod-3' })
  t.equal(third.code, EXIT.done, third.log.slice(-2000))
  t.notOk('failed' in ((await world.progress())?.shards ?? {}))
})

t.test('a shard whose copies are rejected delays the repair of no other one', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 4 })
  for (const id of [0, 2]) world.shard(id).peers = world.shard(id).peers.slice(0, 1)
  for (const node of world.nodes.values()) {
    node.misbehave(({ body }) =>
      JSON.stringify(body ?? '').includes('"replicate_shard":{"shard_id":0')
        ? { status: 400, body: '{"status":{"error":"Bad request: not today"},"time":0}' }
        : undefined,
    )
  }
  const { code, log } = await world.run()
  t.equal(code, EXIT.failed, log.slice(-2000))
  const steps = startedSteps(log)
  t.equal(steps.filter((step) => step.startsWith('docs/0: ')).length, 6, 'on two nodes')
  matchWhole(t, (await world.state()).shards[2], [/ Active$/, / Active$/])
  matchWhole(t, await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: /^docs\/0: replicating from node \d to node \d failed 3 times: .*not today/,
    shards: { failed: [{ collection: 'docs', shard: 0 }] },
  })
})

t.test('a Job ends when the copies of ten shards have failed', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 12 })
  const defects: Record<string, number> = {}
  for (const { id, peers } of world.engine.find('docs')?.shards ?? []) {
    const [peer = 0] = peers
    world.shard(id).states = { [peer]: 'Dead' }
    defects[`docs/${id}/${peer}`] = 600
  }
  world.engine.transferOutcome = () => 'fail'
  const { code, log } = await world.run({ defects })
  t.equal(code, EXIT.failed, log.slice(-2000))
  t.match(await world.progress(), { state: 'Failed', reason: 'TransferFailed' })
  t.ok(startedSteps(log).length < 12 * 4, `${startedSteps(log).length} copies`)
})

t.test('a short transfer is followed by the next step within a second', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  let last = 0
  const onSleep = async (seconds: number) => {
    last = seconds
    world.finishTransfers()
  }
  const { code, log } = await world.run({ balance: true }, { onSleep })
  t.equal(code, EXIT.done, log)
  t.equal(startedSteps(log).length, 4, 'two transfers, and a drop after each')
  t.ok(last > 0 && last <= 1, `${last} s`)
})

t.test('a transfer that is rejected three times ends the Job', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const before = await world.state()
  for (const node of world.nodes.values()) {
    node.misbehave(({ method, path }) =>
      method === 'POST' && path[2] === 'cluster'
        ? { status: 400, body: '{"status":{"error":"Bad request: not today"},"time":0}' }
        : undefined,
    )
  }
  const waits: number[] = []
  const onSleep = async (seconds: number) => {
    waits.push(seconds)
  }
  const { code, log } = await world.run({ balance: true }, { onSleep })
  t.equal(code, EXIT.failed, log)
  t.equal(waits.length, 2)
  t.ok((waits[0] ?? 0) >= 2, 'a rejected step is not tried again at once')
  t.strictSame(await world.state(), before)
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: /^docs\/\d: replicating from node \d to node 2 failed 3 times: .*not today/,
  })
})

t.test('a peer that cannot be removed three times ends the Job', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  for (const node of world.nodes.values()) {
    node.misbehave(({ method, path }) =>
      method === 'DELETE' && path[0] === 'cluster'
        ? {
            status: 400,
            body: '{"status":{"error":"Bad request: there are shards on it"},"time":0}',
          }
        : undefined,
    )
  }
  await world.setReplicas(2)
  const { code, log } = await world.run({ nodes: 2 })
  t.equal(code, EXIT.failed, log)
  const { peers, replicas, claims } = await world.state()
  t.strictSame([peers, replicas, Object.values(claims)], [[0, 1, 2], 3, Array(3).fill('in use')])
  t.match(await world.progress(), {
    state: 'Failed',
    reason: 'TransferFailed',
    message: /^removing node 2 from the cluster failed 3 times: .*there are shards on it$/,
  })
  t.equal(log.match(/api call method=DELETE path=\S+cluster\/peer/g)?.length, 3)
})

t.test('a cluster without consensus is waited for, and refused after a minute', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
  const stop = () => {
    for (const ordinal of [0, 1, 2]) world.engine.stopConsensus(ordinal, 'disk full')
  }
  const onSleep = (seconds: number) => {
    world.finishTransfers()
    if (seconds > 30) for (const ordinal of [0, 1, 2]) world.engine.resumeConsensus(ordinal)
  }
  stop()
  const first = await world.run({ balance: true }, { onSleep })
  t.equal(first.code, EXIT.done, first.log)
  t.match(await world.progress(), { state: 'Done', shards: { balancedNodes: 3, stepsDone: 4 } })

  stop()
  let waited = 0
  const second = await world.run(
    { balance: true, run: 2, hash: 'hash-2' },
    {
      pod: 'pod-2',
      onSleep: (seconds) => {
        waited = seconds
      },
    },
  )
  t.equal(second.code, EXIT.failed, second.log)
  t.ok(waited >= 60 && waited < 80, `${waited} s`)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'ConsensusStopped',
    message: 'consensus is stopped on nodes 0, 1, 2',
  })
})

t.test('a missing StatefulSet is refused', async (t) => {
  const world = await shardsWorld(t, { nodes: 1, shards: 1, factor: 1 })
  const { code } = await world.run({ release: 'vec-b' })
  t.equal(code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Refused',
    reason: 'ShardsUnknown',
    message: 'querying the shards failed: StatefulSet vec-b not found',
  })
})

t.test(
  'the last replica but one is kept until the node of the other one is ready again',
  async (t) => {
    const world = await shardsWorld(t, { nodes: 2, shards: 1 })
    await world.setReplicas(1)
    await world.setReady(0, false)
    const before = await world.state()
    let sleeps = 0
    const onSleep = async () => {
      world.finishTransfers()
      sleeps += 1
      if (sleeps !== 12) return
      t.strictSame(await world.state(), before)
      t.match((await world.progress())?.message, /^docs\/0 on node 1 is kept until node 0, /)
      await world.setReady(0, true)
    }
    const { code, log } = await world.run({ nodes: 1, allowsFewerReplicas: true }, { onSleep })
    t.equal(code, EXIT.done, log)
    t.ok(sleeps >= 12)
    const { shards, peers, replicas } = await world.state()
    t.strictSame(
      { shards, peers, replicas },
      { shards: { 0: ['0 Active'] }, peers: [0], replicas: 1 },
    )
  },
)

import t from 'tap'
import { API_VERSION } from '../../crds/contract/names.ts'
import { openMachine } from './computer.ts'
import { REPEATED } from './repeated.ts'
import { snapshotFiles } from '../doubles/engine/snapshots.ts'
import { simulate } from './simulate.ts'
import type { Strike } from './faults.ts'
import { find } from './load.ts'
import { BUCKET, COLLECTION, NAMESPACE, reference } from './resources.ts'
import type { Call } from './doors.ts'
import type { FaultWorld } from './world.ts'

const machine = await openMachine()
// The first run loads modules that are imported on demand, which takes real time.
await simulate(machine, { seed: 1, strikes: [] })
const calm = await simulate(machine, { seed: 1, strikes: [] })

t.test('without faults the oracle finds no violation', async (t) => {
  t.strictSame(calm.broken, [])
})

t.test('the same seed gives the same run, call by call', async (t) => {
  const [one, other] = [
    await simulate(machine, { seed: 7, calls: calm.calls }),
    await simulate(machine, { seed: 7, calls: calm.calls }),
  ]
  t.strictSame(one.strikes, other.strikes)
  t.strictSame(one.world.doors.lines, other.world.doors.lines)
  t.equal(one.trace, other.trace)
  t.not(one.trace, calm.trace, 'and a different run than without its faults')
})

t.test('a real machine that pauses during calls gives the same run', async (t) => {
  const memory = new Int32Array(new SharedArrayBuffer(4))
  let stops = 0
  // Longer than the 1 s after which an engine counts as slow, and than the heartbeat of a Job.
  const observe = ({ door, number }: Call) => {
    const ms = door === 'service>engine' && number % 40 === 0 ? 1100 : number % 10 === 0 ? 20 : 0
    if (ms === 0) return
    stops += 1
    Atomics.wait(memory, 0, 0, ms)
  }
  const slow = await simulate(machine, { seed: 1, strikes: [], observe })
  t.ok(stops > 50, String(stops))
  t.strictSame(slow.world.doors.lines, calm.world.doors.lines)
  t.equal(slow.trace, calm.trace)
})

const SPOILS: [string, RegExp, (world: FaultWorld) => void][] = [
  [
    'a missing object of a completed backup',
    /VecBackup one has lost one\//,
    ({ bucket }) => {
      const objects = bucket.buckets.get(BUCKET)?.objects
      for (const key of objects?.keys() ?? [])
        if (/^one\/.*\.snapshot$/.test(key)) objects?.delete(key)
    },
  ],
  [
    'a missing acknowledged point',
    /points lost in a: /,
    ({ controllers }) => {
      controllers.engines.cluster(NAMESPACE, 'vec-a')?.find(COLLECTION)?.points.pop()
    },
  ],
  [
    'a point whose payload changed',
    /points changed: 7/,
    ({ controllers }) => {
      const points = controllers.engines.cluster(NAMESPACE, 'vec-b')?.find('again')?.points ?? []
      for (const point of points) if (Number(point.id) === 7) point.payload = { author: 'another' }
    },
  ],
  [
    'a point that was never written',
    /unknown points: 99/,
    ({ controllers }) => {
      const points = controllers.engines.cluster(NAMESPACE, 'vec-b')?.find(COLLECTION)?.points
      points?.push({ id: 99, vector: [99, 1, 2, 3], payload: {} })
    },
  ],
  [
    'a replica that is missing a point on one node',
    /on node \d: points lost: /,
    ({ controllers }) => {
      const collection = controllers.engines.cluster(NAMESPACE, 'vec-a')?.find(COLLECTION)
      for (const shard of collection?.shards ?? []) shard.lost = { 1: 1 }
    },
  ],
  [
    'an upload that was never completed',
    /upload left: one\/x/,
    ({ bucket }) => void bucket.buckets.get(BUCKET)?.begin('one/x'),
  ],
]

t.test('what the oracle finds after each damage, in one run', async (t) => {
  const detected = new Map<string, string[]>()
  await simulate(machine, {
    seed: 1,
    strikes: [],
    spoil(world, findings) {
      let before = findings()
      for (const [what, , spoil] of SPOILS) {
        spoil(world)
        const now = findings()
        detected.set(
          what,
          now.filter((line) => !before.includes(line)),
        )
        before = now
      }
    },
  })
  for (const [what, words] of SPOILS) {
    t.match(detected.get(what)?.join('\n'), words, `the oracle detects ${what}`)
  }
})

t.test(
  'the oracle accepts a snapshot on a node only if a backup named it, also one that was pruned since',
  async (t) => {
    const { broken } = await simulate(machine, {
      seed: 1,
      strikes: [],
      spoil: ({ api: { resources }, controllers }) => {
        const engine = controllers.engines.cluster(NAMESPACE, 'vec-a')
        for (const name of ['named', 'unnamed']) {
          const file = {
            name,
            creation_time: '',
            size: 0,
            checksum: null,
            content: Buffer.alloc(0),
          }
          if (engine) snapshotFiles(engine).set(`0/${COLLECTION}/${name}`, file)
        }
        const kind = resources.kinds.of(API_VERSION, 'VecBackup')
        const backups = resources.store.list(kind, NAMESPACE)
        const pruned = backups.find(({ metadata }) => metadata.name.startsWith('often-'))
        if (pruned === undefined) throw new Error('the schedule has made no backup')
        // Removed at once; its objects, which no Job purges then, are not what this test looks at.
        const message = 'Backed up; still on nodes, to be deleted there: named on node 0'
        resources.store.remove(kind, { ...pruned, status: { message } })
      },
    })
    const left = broken.filter((line) => line.startsWith('snapshot left'))
    t.strictSame(left, [`snapshot left: 0/${COLLECTION}/unnamed`])
  },
)

t.test('the oracle does not require the objects of a backup that is being deleted', async (t) => {
  const { broken } = await simulate(machine, {
    seed: 1,
    strikes: [],
    spoil: ({ api: { resources }, bucket }) => {
      const kind = resources.kinds.of(API_VERSION, 'VecBackup')
      const all = resources.store.list(kind, NAMESPACE).map(({ metadata }) => metadata.name)
      const [name = ''] = all.filter((one) => one.startsWith('often-'))
      resources.delete(kind, { namespace: NAMESPACE, name })
      bucket.buckets.get(BUCKET)?.objects.delete(`often/${name}/manifest.json`)
    },
  })
  t.strictSame(broken, [])
})

t.test('H11: a full disk is detected, cleaned up and reported', async (t) => {
  const strikes = [{ fault: 'engine disk full', door: 'job>engine', nth: 1, seconds: 1 }]
  let status: unknown
  const { struck, broken } = await simulate(machine, {
    seed: 1,
    strikes,
    spoil: (world) => (status = find(world, reference('VecBackup', 'one'))?.status),
  })
  t.equal(struck.length, 1)
  t.match(status, { phase: 'Failed', error: /does not fit: enable snapshotPersistence or grow/ })
  t.strictSame(broken, [], 'nothing is left behind, and the rest of the load succeeds')
})

/** At the first such call. */
function namespaceDeletedAt(door: Strike['door'], like: string): Strike {
  return { fault: 'namespace deleted', door, like, nth: 1, seconds: 1 }
}

t.test('a deleted namespace leaves nothing but its complete backups in the bucket', async (t) => {
  // The restore begins, so the backup by node is complete.
  const strikes = [namespaceDeletedAt('job>engine', 'snapshots/recover')]
  const run = await simulate(machine, { seed: 1, strikes })
  t.equal(run.struck.length, 1)
  t.strictSame(run.broken, [])
  const keys = [...(run.world.bucket.buckets.get(BUCKET)?.objects.keys() ?? [])]
  t.ok(keys.includes('one/manifest.json'), keys.join(' '))
  const spoiled = await simulate(machine, {
    ...{ seed: 1, strikes },
    spoil: ({ bucket }) => {
      const objects = bucket.buckets.get(BUCKET)?.objects
      for (const key of objects?.keys() ?? [])
        if (/^one\/.*snapshot$/.test(key)) objects?.delete(key)
    },
  })
  t.match(spoiled.broken.join('\n'), /VecBackup one has lost one\//)
})

t.test('what is lost before the namespace is deleted during the farewell is found', async (t) => {
  const strikes = [namespaceDeletedAt('loop>service', '^POST /vecmigrations/finalize')]
  let looks = 0
  const { struck, broken } = await simulate(machine, {
    ...{ seed: 1, strikes },
    spoil({ controllers }) {
      looks += 1
      if (looks > 1) return
      controllers.engines.cluster(NAMESPACE, 'vec-a')?.find(COLLECTION)?.points.pop()
    },
  })
  t.equal(struck.length, 1)
  t.equal(looks, 2, 'after the load, and at the end of the namespace')
  t.match(broken.join('\n'), /points lost in a: /)
})

for (const { title, seed, strikes } of REPEATED) {
  t.test(title, async (t) => {
    const { struck, broken } = await simulate(machine, { seed, strikes })
    t.strictSame(broken, [])
    t.equal(struck.length, strikes.length, 'every fault has struck')
  })
}

/** Which unanswered reads are findings: those that a node could have answered. */
import t from 'tap'
import { isExcused, type Seen } from './serving.ts'

const [HOLDER, OTHER] = [1, 2]
const REPLICA = { collection: 'keyed', shard: 1, key: 'beta', peer: HOLDER }
const up = (peer: number) => ({ peer, commit: 9, isBehind: false })
const blocked = (peer: number) => ({ peer, commit: 5, isBehind: true })
const read = { collection: 'keyed', key: 'beta', from: 10_000, to: 40_000 }

/** A look each second from the beginning until after the read. */
function looks(at: (second: number) => Partial<Seen>): Seen[] {
  return Array.from({ length: 50 }, (_, second) => ({
    at: second * 1000,
    nodes: [blocked(HOLDER), up(OTHER)],
    replicas: [REPLICA],
    ...at(second),
  }))
}

t.test(
  'a read is excused while its only replica is on a node that is blocked or away',
  async (t) => {
    t.ok(
      isExcused(
        read,
        looks(() => ({})),
      ),
    )
    t.ok(
      isExcused(
        read,
        looks(() => ({ nodes: [up(OTHER)] })),
      ),
    )
    const both = looks((second) => (second > 25 ? { nodes: [up(OTHER)] } : {}))
    t.ok(isExcused(read, both), 'it was blocked, then killed')
    const recovered = looks((second) => (second > 40 ? { nodes: [up(HOLDER), up(OTHER)] } : {}))
    t.ok(isExcused(read, recovered), 'what is after the read does not count')
  },
)

t.test('a read that was unanswered although a replica was up is a finding', async (t) => {
  const all = looks(() => ({ nodes: [up(HOLDER), up(OTHER)] }))
  t.notOk(isExcused(read, all))
  const once = looks((second) => (second === 25 ? { nodes: [up(HOLDER), up(OTHER)] } : {}))
  t.notOk(isExcused(read, once), 'up at one look')
  const second = looks(() => ({ replicas: [REPLICA, { ...REPLICA, peer: OTHER }] }))
  t.notOk(isExcused(read, second), 'another replica was up')
  const moved = looks((at) => (at > 35 ? { replicas: [{ ...REPLICA, peer: OTHER }] } : {}))
  t.notOk(isExcused(read, moved), 'the replica was moved to a node that was up')
})

t.test('a node that is behind and applies what it has is up', async (t) => {
  const busy = looks((second) => ({
    nodes: [{ peer: HOLDER, commit: second, isBehind: true }, up(OTHER)],
  }))
  t.notOk(isExcused(read, busy))
})

t.test('an unobserved state excuses no failed request', async (t) => {
  const seen = looks(() => ({}))
  t.notOk(isExcused(read, []))
  t.notOk(
    isExcused(
      read,
      seen.filter(({ at }) => at < 20_000 || at > 30_000),
    ),
    'a gap',
  )
  t.notOk(
    isExcused(
      read,
      seen.filter(({ at }) => at < 30_000),
    ),
    'nothing of the end',
  )
  t.notOk(
    isExcused(
      read,
      looks(() => ({ replicas: [] })),
    ),
    'no replica is listed',
  )
  t.notOk(isExcused({ ...read, key: 'alpha' }, seen), 'the replica of another shard key')
})

t.test('of a point whose shard is known, the replicas of other shards do not count', async (t) => {
  const { key: _, ...plain } = { ...read, collection: 'plain' }
  const replicas = [
    { collection: 'plain', shard: 0, peer: OTHER },
    { collection: 'plain', shard: 1, peer: HOLDER },
  ]
  const seen = looks(() => ({ replicas }))
  t.ok(isExcused({ ...plain, shard: 1 }, seen))
  t.notOk(isExcused({ ...plain, shard: 0 }, seen), 'its own replica was up')
  t.notOk(isExcused({ ...plain, shard: 2 }, seen), 'no replica of it is listed')
})

t.test('without a shard key no replica of the collection may have been up', async (t) => {
  const plain = { ...read, collection: 'plain' }
  const { key: _, ...keyless } = plain
  const replicas = [0, 1].map((shard) => ({ collection: 'plain', shard, peer: HOLDER }))
  t.ok(
    isExcused(
      keyless,
      looks(() => ({ replicas })),
    ),
  )
  const spread = [...replicas, { collection: 'plain', shard: 2, peer: OTHER }]
  t.notOk(
    isExcused(
      keyless,
      looks(() => ({ replicas: spread })),
    ),
  )
})

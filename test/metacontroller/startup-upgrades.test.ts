import t, { type Test } from 'tap'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { markClustersOnStartup, clustersToMark } from '../../metacontroller/startup-upgrades.ts'
import { ManualClock } from '../world/clock.ts'

const START = new Date('2026-03-01T12:00:00.000Z')
const RUN = { startedAt: START, version: '0.2.0' }
const MARK = `${START.toISOString()}/0.2.0`
const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined }

function cluster(name: string, metadata: Partial<AnyObject['metadata']> = {}): AnyObject {
  return {
    apiVersion: 'vec-operator.dev/v1alpha1',
    kind: 'VecCluster',
    metadata: {
      name,
      namespace: 'ns',
      uid: `uid-${name}`,
      creationTimestamp: '2026-03-01T11:00:00Z',
      ...metadata,
    },
  }
}

/** A runner over clusters that a test scripts, and what it patched, by second after the start. */
function runner(
  t: Test,
  list: () => Promise<AnyObject[]>,
  patch: (name: string) => Promise<boolean> = async () => true,
) {
  const clock = new ManualClock(START)
  const patched: [number, string, object][] = []
  const marked = new Map<string, AnyObject['metadata']['annotations']>()
  const withMark = (found: AnyObject) => {
    const annotations = marked.get(found.metadata.name)
    return annotations ? { ...found, metadata: { ...found.metadata, annotations } } : found
  }
  const stop = markClustersOnStartup({
    ...RUN,
    list: async () => (await list()).map(withMark),
    patch: async (found, body) => {
      patched.push([(clock.now().getTime() - START.getTime()) / 1000, found.metadata.name, body])
      const done = await patch(found.metadata.name)
      if (done) marked.set(found.metadata.name, { [ANNOTATIONS.restartedAt]: MARK })
      return done
    },
    now: () => clock.now(),
    timers: clock,
    log: silent,
  })
  t.teardown(stop)
  const pass = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) {
      clock.advance(1000)
      await allTicks()
    }
  }
  return { clock, patched, pass, stop }
}

/** Lets what the last timer started come to its end; nothing in here waits for the outside. */
async function allTicks(): Promise<void> {
  for (let tick = 0; tick < 20; tick += 1) await Promise.resolve()
}

t.test('after 60 s of health each VecCluster is marked, one a second', async (t) => {
  const { patched, pass } = runner(t, async () => [cluster('a'), cluster('b'), cluster('c')])
  await pass(59)
  t.strictSame(patched, [], 'not before')
  await pass(10)
  const mark = (name: string) => ({
    metadata: { uid: `uid-${name}`, annotations: { [ANNOTATIONS.restartedAt]: MARK } },
  })
  t.strictSame(patched, [
    [60, 'a', mark('a')],
    [61, 'b', mark('b')],
    [62, 'c', mark('c')],
  ])
})

t.test(
  'only clusters that existed before the start, are not being deleted and have no mark are due',
  async (t) => {
    const due = clustersToMark(
      [
        cluster('old'),
        cluster('marked', { annotations: { [ANNOTATIONS.restartedAt]: MARK } }),
        cluster('marked-by-an-earlier-start', {
          annotations: { [ANNOTATIONS.restartedAt]: '2026-02-01T00:00:00.000Z' },
        }),
        cluster('new', { creationTimestamp: '2026-03-01T12:00:01Z' }),
        cluster('going', { deletionTimestamp: '2026-03-01T11:59:00Z' }),
      ],
      RUN,
      START,
    )
    t.strictSame(
      due.map(({ metadata }) => metadata.name),
      ['old', 'marked-by-an-earlier-start'],
    )
  },
)

t.test('a cluster made in the second of the start was made for this release', async (t) => {
  const startedAt = new Date('2026-03-01T12:00:07.900Z')
  const made = (at: string) => cluster(at, { creationTimestamp: `2026-03-01T12:00:${at}Z` })
  const start = { startedAt, version: '0.2.0' }
  const due = clustersToMark([made('06'), made('07'), made('08')], start, startedAt)
  t.strictSame(
    due.map(({ metadata }) => metadata.name),
    ['06'],
  )
})

t.test('marking waits while the API fails, and continues where it stopped', async (t) => {
  let listings = 0
  const marked = new Set<string>()
  let failing = true
  const { patched, pass } = runner(
    t,
    async () => {
      listings += 1
      if (listings === 1) throw new Error('no route to the API')
      return ['a', 'b'].filter((name) => !marked.has(name)).map((name) => cluster(name))
    },
    async () => {
      if (patched.length === 2 && failing) {
        failing = false
        throw new Error('no route to the API')
      }
      marked.add(patched.at(-1)?.[1] ?? '')
      return true
    },
  )
  await pass(300)
  t.strictSame(
    patched.map(([second, name]) => [second, name]),
    [
      [90, 'a'],
      [91, 'b'],
      [121, 'b'],
    ],
  )
})

t.test('a cluster that is gone by then is passed over', async (t) => {
  const { patched, pass } = runner(
    t,
    async () => [cluster('a'), cluster('b')],
    async () => false,
  )
  await pass(120)
  t.strictSame(
    patched.map(([, name]) => name),
    ['a', 'b'],
  )
})

t.test('a service that stops marks no more', async (t) => {
  const { clock, patched, pass, stop } = runner(t, async () => [cluster('a'), cluster('b')])
  await pass(60)
  stop()
  await pass(60)
  t.strictSame(
    patched.map(([, name]) => name),
    ['a'],
  )
  t.equal(clock.nextTimerAt(), undefined)
})

t.test('a service that ends again and again marks a cluster once an hour', async (t) => {
  const marked = (mark: string) =>
    cluster(mark, { annotations: { [ANNOTATIONS.restartedAt]: mark } })
  const marks = [
    '2026-03-01T11:00:00.001Z/0.2.0',
    '2026-03-01T11:00:00.000Z/0.2.0',
    '2026-03-01T11:59:00.000Z/0.1.0',
    '2026-03-01T11:59:00.000Z',
    'anything',
  ]
  const due = clustersToMark(marks.map(marked), RUN, START)
  t.strictSame(
    due.map(({ metadata }) => metadata.name),
    marks.slice(1),
    'earlier, of another release, or not ours',
  )
})

t.test('a cluster that was applied since the start needs no mark', async (t) => {
  const applied = (appliedAt: string) => ({ ...cluster(appliedAt), appliedAt })
  const due = clustersToMark(
    ['2026-03-01T11:59:59Z', '2026-03-01T12:00:00Z'].map(applied),
    RUN,
    START,
  )
  t.strictSame(
    due.map(({ metadata }) => metadata.name),
    ['2026-03-01T11:59:59Z'],
  )
  const many = Array.from({ length: 30 }, (_, number) =>
    applied(`2026-03-01T11:00:${number + 10}Z`),
  )
  const { patched, pass } = runner(t, async () =>
    patched.length < 5 ? many : many.map((one) => ({ ...one, appliedAt: '2026-03-01T12:01:00Z' })),
  )
  await pass(200)
  t.equal(patched.length, 20, 'the list is read again now and then')
})

t.test('a time that a fast clock recorded keeps no cluster from its helm run', async (t) => {
  const marked = (mark: string) =>
    cluster(mark, { annotations: { [ANNOTATIONS.restartedAt]: mark } })
  const marks = ['2026-03-01T12:00:30.000Z/0.2.0', '2036-03-01T12:00:00.000Z/0.2.0']
  const applied = ['2026-03-01T12:01:30Z', '2036-03-01T12:00:00Z'].map((appliedAt) => ({
    ...cluster(appliedAt),
    appliedAt,
  }))
  const now = new Date('2026-03-01T12:01:00Z')
  const due = clustersToMark([...marks.map(marked), ...applied], RUN, now)
  t.strictSame(
    due.map(({ metadata }) => metadata.name),
    ['2036-03-01T12:00:00.000Z/0.2.0', '2036-03-01T12:00:00Z'],
    'seconds are a difference between clocks',
  )
  const own = marked('2036-03-01T12:00:00.000Z/0.2.0')
  const start = { ...RUN, startedAt: new Date('2036-03-01T12:00:00Z') }
  t.strictSame(clustersToMark([own], start, now), [], 'the mark of this start')
})

t.test('a cluster that refuses its mark stops no other', async (t) => {
  const { patched, pass } = runner(
    t,
    async () => ['a', 'b', 'c'].map((name) => cluster(name)),
    async (name) => {
      if (name === 'a') throw new KubernetesError('PATCH answered 403', { status: 403 })
      if (name === 'b' && patched.length === 2) throw new KubernetesError('502', { status: 502 })
      return true
    },
  )
  await pass(300)
  t.strictSame(
    patched.map(([second, name]) => [second, name]),
    [
      [60, 'a'],
      [61, 'b'],
      [91, 'b'],
      [92, 'c'],
    ],
  )
})

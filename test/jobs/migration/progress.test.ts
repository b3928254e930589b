/** What a migration reports about its progress, and what the next pod takes from that report. */
import { pino } from 'pino'
import t from 'tap'
import { PROGRESS_EVERY_BATCHES } from '../../../crds/contract/limits.ts'
import type { MigratedCollection, MigrationResult } from '../../../crds/contract/migration-job.ts'
import { Progress } from '../../../jobs/migration/progress.ts'

type Position = Parameters<Progress['setPosition']>[0]

const STARTED = '2026-01-01T00:00:00.000Z'

function pending(name: string, pointsTotal: number): MigratedCollection {
  return { name, targetName: name, status: 'Pending', pointsTotal, pointsCopied: 0 }
}

function at(collection: string, copied: number, fields: Partial<Position> = {}): Position {
  return { collection, copied, ...fields } as Position
}

/** A pod that copies `docs` and `notes`, with a clock that stands still. */
function startPod(
  collections = [pending('docs', 100), pending('notes', 300)],
  previous?: { migration: Partial<MigrationResult> },
) {
  let now = 0
  const reports: { message: string; fields: object | undefined }[] = []
  const lines: string[] = []
  const reporter = {
    previous,
    progress: async (message: string, fields?: object) => void reports.push({ message, fields }),
    checkpoint: async () => undefined,
  }
  const log = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(line) })
  const time = { now: () => new Date(now), monotonicMs: () => now }
  const progress = new Progress({ reporter, log, time } as never, STARTED, collections)
  const logged = () => lines.map((line) => (JSON.parse(line) as { msg: string }).msg)
  return { progress, reports, logged, pass: (ms: number) => (now += ms) }
}

t.test('the line about a copy has its points and speed, and the time that is left', async (t) => {
  const { progress, pass } = startPod()
  t.equal(progress.statusLine(), 'Copied 0/2')
  progress.setPosition(at('docs', 0))
  t.equal(progress.statusLine(), 'collection 1 of 2 (docs): 0 of 100 points')
  pass(4_000)
  progress.addWritten({ points: 40, bytes: 2_400_000 })
  progress.addWritten({ points: 20, bytes: 600_000 })
  progress.setPosition(at('docs', 60))
  t.equal(
    progress.statusLine(),
    // 60 points and 3 MB in 4 s; 340 of all points are left.
    'collection 1 of 2 (docs): 60 of 100 points, 15 points/s, 0.8 MB/s, 23 s left',
  )
  progress.completed('docs', 'counts')
  t.equal(progress.statusLine(), 'Copied 1/2')
  progress.setPosition(at('notes', 0))
  t.match(progress.statusLine(), /^collection 2 of 2 \(notes\): 0 of 300 points, /)
})

t.test(
  'the line about a comparison has the points that are compared, and its own speed',
  async (t) => {
    const { progress, pass } = startPod()
    progress.setPosition(at('notes', 0))
    progress.addWritten({ points: 300, bytes: 1_000 })
    progress.setCopied('notes', 300)
    pass(60_000)
    progress.setCompared({ points: 0, bytes: 0 })
    pass(2_000)
    progress.setCompared({ points: 90, bytes: 5_000_000 })
    t.equal(
      progress.statusLine(),
      'collection 2 of 2 (notes): 90 of 300 points compared with the target, 45 points/s, 2.5 MB/s',
    )
    progress.setPosition(at('docs', 0))
    t.match(progress.statusLine(), /^collection 1 of 2 \(docs\): 0 of 100 points, /)
  },
)

t.test(
  'the log has a line every five seconds, and a report comes with every 20 batches',
  async (t) => {
    const { progress, reports, logged, pass } = startPod()
    pass(60_000)
    const batch = async (copied: number) => {
      progress.addWritten({ points: 1, bytes: 1 })
      progress.advance(at('docs', copied))
      await progress.flush()
    }
    await batch(1)
    await batch(2)
    t.equal(logged().length, 1)
    pass(4_999)
    await batch(3)
    t.equal(logged().length, 1)
    pass(1)
    await batch(4)
    t.equal(logged().length, 2)
    t.match(logged()[1], /^collection 1 of 2 \(docs\): 4 of 100 points$/)
    for (let copied = 5; copied < PROGRESS_EVERY_BATCHES; copied += 1) await batch(copied)
    t.equal(reports.length, 0)
    await batch(PROGRESS_EVERY_BATCHES)
    t.equal(reports.length, 1)
    t.match(reports[0], {
      message: /^collection 1 of 2 \(docs\): 20 of 100 points$/,
      fields: {
        migration: {
          pointsTotal: 400,
          pointsCopied: 20,
          position: { collection: 'docs', copied: 20 },
        },
      },
    })
    for (let more = 1; more < PROGRESS_EVERY_BATCHES; more += 1) await batch(20 + more)
    t.equal(reports.length, 1)
    await batch(40)
    t.equal(reports.length, 2)
  },
)

t.test(
  'a target collection is known by its uuid to the pod that completed it and to the next',
  async (t) => {
    const uuid = '0123456789abcdef'
    const other = '9'.repeat(16)
    const first = startPod()
    t.equal(first.progress.toResult().uuids, undefined)
    first.progress.setPosition(at('docs', 100, { targetUuid: uuid }))
    t.equal(first.progress.isTarget('docs', other), true, 'it is not completed')
    first.progress.completed('docs', 'counts')
    first.progress.setPosition(at('notes', 300, { targetUuid: other }))
    first.progress.failed('notes', 'differs')
    const result = first.progress.toResult()
    t.notOk('position' in result, 'no collection is being copied')
    t.strictSame(
      result.collections.map(({ name, status, proof, error }) => ({ name, status, proof, error })),
      [
        { name: 'docs', status: 'Completed', proof: 'counts', error: undefined },
        { name: 'notes', status: 'Failed', proof: undefined, error: 'differs' },
      ],
    )
    t.equal(result.error, 'differs')
    const next = startPod(result.collections, { migration: result })
    for (const { progress } of [first, next]) {
      t.equal(progress.isTarget('docs', uuid), true)
      t.equal(progress.isTarget('docs', other), false)
      t.equal(progress.isTarget('notes', uuid), true, 'that of a failed one is not known')
      t.strictSame(
        progress.completedCollections().map(({ name }) => name),
        ['docs'],
      )
    }
    t.equal(next.progress.toResult().error, 'differs', 'the first error of all pods')
    const mixed = startPod()
    mixed.progress.setPosition(at('docs', 100, { targetUuid: uuid }))
    mixed.progress.completed('notes', 'counts')
    t.equal(mixed.progress.isTarget('notes', other), true, 'the uuid of another collection')
  },
)

t.test(
  'a source that is not reached is reported by its name, and only while it is asked for its list',
  async (t) => {
    const { progress, reports } = startPod()
    progress.reportUnreachable('no connection')
    await progress.flush()
    t.strictSame(reports, [])
    progress.setUnreachedSource('cluster ns/b')
    progress.reportUnreachable('no connection')
    await progress.flush()
    t.strictSame(reports, [
      { message: 'waiting for the source cluster ns/b: no connection', fields: undefined },
    ])
    progress.setUnreachedSource(undefined)
    progress.reportUnreachable('no connection')
    await progress.flush()
    t.equal(reports.length, 1)
    progress.reportWaiting('waiting for the indexes')
    await progress.flush()
    t.match(reports[1], { message: 'waiting for the indexes', fields: { migration: { total: 2 } } })
  },
)

t.test(
  'completed collections that a report does not list are known by their fingerprints',
  async (t) => {
    const names = Array.from({ length: 400 }, (_, n) => `${'x'.repeat(180)}-${n}`)
    const { progress } = startPod(names.map((name) => pending(name, 1)))
    t.notOk('finished' in progress.toResult(), 'none is completed')
    for (const name of names.slice(0, 300)) progress.completed(name, 'counts')
    const { collections, unlisted, finished = '' } = progress.toResult()
    const listed = collections.filter(({ status }) => status === 'Completed').length
    t.strictSame(unlisted, {
      completed: 300 - listed,
      failed: 0,
      pending: 100 - (collections.length - listed),
    })
    t.equal(finished.length, 8 * (300 - listed))
    const bytes = Buffer.byteLength(JSON.stringify(collections)) + 8 * 300
    t.ok(bytes <= 48 * 1024, `${bytes} bytes`)
  },
)

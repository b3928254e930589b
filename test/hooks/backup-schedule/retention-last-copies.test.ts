/** Retention never deletes the last backup that has a collection. */
import fc from 'fast-check'
import t from 'tap'
import type { VecBackup } from '../../../crds/backup.ts'
import { hashNames, nameHash } from '../../../crds/contract/names.ts'
import {
  backupContents,
  findLastCopies,
  lastCopiesMessage,
  retainedNames,
} from '../../../hooks/backup-schedule/retention.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, prunedNames, schedule, tick, type ScheduleFixture } from './stage.ts'

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 1000)

interface Content {
  has: string[]
  failed?: string[]
  /** Those of `has` without points. */
  empty?: string[]
  clusterUid?: string
  /** The most names that the list can have. */
  listed?: number
  phase?: 'Completed' | 'Failed'
}

/** The backup of a day in March. */
function backupOf(
  day: number,
  { has, failed = [], empty = [], clusterUid, listed, phase }: Content,
): VecBackup {
  const slot = `2026-03-${String(day).padStart(2, '0')}T03:00:00Z`
  const one = backup(slot, { phase: phase ?? 'Completed' })
  const listedShards = has.slice(0, listed ?? has.length)
  const collections = [
    ...listedShards.map((name) => ({ name, status: 'Completed' as const })),
    ...failed.map((name) => ({ name, status: 'Failed' as const })),
  ]
  const hashes = hashNames(has)
  return {
    ...one,
    status: {
      ...one.status,
      collections,
      ...(clusterUid !== undefined && { clusterUid }),
      ...(listed !== undefined && hashes !== undefined && { collectionHashes: hashes }),
      ...(empty.length > 0 && { emptyCollectionHashes: hashNames(empty) ?? '' }),
    },
  }
}

function stageOf(contents: Content[], keepLast = 1): ScheduleFixture {
  const children = contents.map((content, index) => backupOf(index + 1, content))
  const last = `2026-03-${String(contents.length).padStart(2, '0')}T03:00:00Z`
  const spec = { retentionPolicy: { keepLast } }
  return { schedule: schedule({ spec, status: { lastScheduleTime: last } }), children }
}

const DAYS = ['01', '02', '03', '04', '05'].map((day) => `nightly-202603${day}-030000`)

const cases: [title: string, contents: Content[], dropped: string[]][] = [
  ['all have the same', [{ has: ['a'] }, { has: ['a'] }, { has: ['a'] }], ['01', '02']],
  ['the newest has more', [{ has: ['a'] }, { has: ['a', 'b'] }], ['01']],
  [
    'the newest are empty',
    [{ has: ['a'] }, { has: ['a'] }, { has: [] }, { has: [] }],
    ['01', '03'],
  ],
  [
    'one collection is missing since',
    [{ has: ['a', 'b'] }, { has: ['a'] }, { has: ['a'] }],
    ['02'],
  ],
  [
    'the collection was lost and created again, empty',
    [{ has: ['a'] }, { has: ['a'] }, { has: ['a'], empty: ['a'] }, { has: ['a'], empty: ['a'] }],
    ['01', '03'],
  ],
  [
    'one of two is empty since, and its name does not fit in the list',
    [
      { has: ['a', 'b'], listed: 0 },
      { has: ['a', 'b'], listed: 0 },
      { has: ['a', 'b'], listed: 0, empty: ['b'] },
    ],
    ['01'],
  ],
  [
    'it never had a point',
    [
      { has: ['a'], empty: ['a'] },
      { has: ['a'], empty: ['a'] },
    ],
    ['01'],
  ],
  [
    'it had none at first',
    [{ has: ['a'], empty: ['a'] }, { has: ['a'] }, { has: ['a'] }],
    ['01', '02'],
  ],
  [
    'it was emptied, and is gone since',
    [{ has: ['a'] }, { has: ['a'], empty: ['a'] }, { has: [] }],
    [],
  ],
  ['each loses one', [{ has: ['a', 'b', 'c'] }, { has: ['a', 'b'] }, { has: ['a'] }], []],
  [
    'a failed backup is no last copy',
    [{ has: ['a'] }, { has: ['a'], phase: 'Failed' }, { has: [] }],
    ['02'],
  ],
  [
    'what failed in it is not in it',
    [{ has: ['a'] }, { has: [], failed: ['a'] }, { has: [] }],
    ['02'],
  ],
  [
    'a cluster that was recreated has other collections of the same names',
    [
      { has: ['a'], clusterUid: 'old' },
      { has: ['a'], clusterUid: 'old' },
      { has: ['a'], clusterUid: 'new' },
    ],
    ['01'],
  ],
  [
    'a backup of an older release is of the cluster that was backed up next',
    [{ has: ['a'] }, { has: ['a'], clusterUid: 'one' }],
    ['01'],
  ],
  [
    'names that do not fit in the list are compared by their hashes',
    [
      { has: ['a', 'b', 'c'], listed: 1 },
      { has: ['a', 'b', 'c'], listed: 0 },
      { has: ['a', 'b'], listed: 1 },
    ],
    ['01'],
  ],
]

for (const [title, contents, dropped] of cases) {
  t.test(`retention, where ${title}`, async (t) => {
    const desired = await tick(stageOf(contents), '2026-03-10T02:00:00Z')
    const due = dropped.map((day) => `nightly-202603${day}-030000`)
    t.strictSame(prunedNames(desired), due)
  })
}

t.test('the condition and an Event say which is kept, why, and how to release it', async (t) => {
  const stage = stageOf([{ has: ['docs', 'logs'] }, { has: ['logs'] }])
  const desired = await tick(stage, '2026-03-10T02:00:00Z')
  const held = {
    ...{ type: 'RetentionApplied', status: 'False', reason: 'LastCopyKept' },
    message: `no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: ${DAYS[0]} (docs); to delete one: kubectl delete qb/${DAYS[0]}`,
  }
  t.match(desired.status.conditions?.[1], held)
  const events = desired.events?.filter(({ reason }) => reason === 'LastCopyKept')
  matchWhole(t, events, [{ type: 'Warning', message: held.message }])
  const again: ScheduleFixture = {
    ...stage,
    schedule: { ...stage.schedule, status: desired.status },
  }
  const second = await tick(again, '2026-03-10T02:01:00Z')
  t.match(second.status.conditions?.[1], held)
  t.notOk(
    second.events?.some(({ reason }) => reason === 'LastCopyKept'),
    'once',
  )
  const released: ScheduleFixture = { ...again, children: again.children.slice(1) }
  const third = await tick(released, '2026-03-10T02:02:00Z')
  t.equal(third.status.conditions?.length, 1, 'nothing is held back any more')
})

t.test('the message says that newer backups have the collections without points', async (t) => {
  const stage = stageOf([{ has: ['docs', 'logs'] }, { has: ['docs', 'logs'], empty: ['docs'] }])
  const desired = await tick(stage, '2026-03-10T02:00:00Z')
  t.match(desired.status.conditions?.[1], {
    reason: 'LastCopyKept',
    message: `no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: ${DAYS[0]} (docs; newer backups have no points of docs); to delete one: kubectl delete qb/${DAYS[0]}`,
  })
})

t.test('the message also names backups that restores need', async (t) => {
  const stage = stageOf([{ has: ['docs', 'logs'] }, { has: ['logs'] }, { has: ['logs'] }])
  const toRestore = new Map([[DAYS[1] ?? '', [{ namespace: 'ns', name: 'r' }]]])
  const desired = await tick({ ...stage, live: { toRestore } }, '2026-03-10T02:00:00Z')
  t.strictSame(prunedNames(desired), [])
  const message = `no rule of spec.retentionPolicy keeps these backups, but they hold the only copy of collections and are not deleted: ${DAYS[0]} (docs); to delete one: kubectl delete qb/${DAYS[0]}; others are deleted after the restores that name them: ${DAYS[1]} (VecRestore ns/r)`
  t.match(desired.status.conditions?.[1], { reason: 'LastCopyKept', message })
})

t.test('an Event whose message is longer than that of a condition is written once', async (t) => {
  const long = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(255))
  const stage = stageOf([{ has: long }, { has: long.slice(1) }, { has: ['logs'] }])
  const desired = await tick(stage, '2026-03-10T02:00:00Z')
  const warningsOf = ({ events = [] }: typeof desired) =>
    events.filter(({ type }) => type === 'Warning')
  t.equal(warningsOf(desired).length, 1)
  t.equal(desired.status.conditions?.[1]?.message.length, 1024)
  const again = { ...stage, schedule: { ...stage.schedule, status: desired.status } }
  t.strictSame(warningsOf(await tick(again, '2026-03-10T02:01:00Z')), [])
})

t.test('a message names three of many', async (t) => {
  const collections = ['a', 'b', 'c', 'd']
  const one = { collections, count: 9, emptied: [], emptiedCount: 0, isFormerCluster: false }
  const held = ['1', '2', '3', '4', '5'].map((name) => ({ ...one, name }))
  t.match(
    lastCopiesMessage(held),
    /: 1 \(a, b, c, 6 more\); 2 .*; 3 .*; and 2 more backups; to delete one/,
  )
  const former = {
    name: 'x',
    collections: [],
    count: 2,
    emptied: [],
    emptiedCount: 1,
    isFormerCluster: true,
  }
  t.match(
    lastCopiesMessage([former]),
    /: x \(2 collections of a former cluster; newer backups have no points of 1 collections\); to delete one/,
  )
})

t.test('hashes distinguish names, and are omitted for more than a thousand', async (t) => {
  const names = Array.from({ length: 1000 }, (_, index) => `collection ${index}`)
  t.equal(hashNames(names)?.length, 8000)
  t.equal(new Set(names.map(nameHash)).size, 1000)
  t.equal(hashNames([...names, 'one more']), undefined)
  const none = backupContents({ ...backup('2026-03-01T03:00:00Z'), status: {} })
  t.equal(none.collections.size, 0)
  const status = { collectionHashes: 'cut' }
  t.equal(backupContents({ ...backup('2026-03-01T03:00:00Z'), status }).collections.size, 0)
})

const histories = fc.array(
  fc.record({
    has: fc.subarray(['a', 'b', 'c', 'd']),
    empty: fc.subarray(['a', 'b', 'c', 'd']),
    clusterUid: fc.constantFrom('one', 'two'),
    phase: fc.constantFrom('Completed' as const, 'Completed' as const, 'Failed' as const),
  }),
  { minLength: 1, maxLength: 12 },
)

t.test(
  'whatever comes and goes, every collection once backed up is in a backup that stays',
  async () => {
    fc.assert(
      fc.property(histories, fc.integer({ min: 1, max: 4 }), (history, keepLast) => {
        const all = history.map((content, index) => backupOf(index + 1, content))
        const finished = all.map((one, index) => ({
          name: one.metadata.name,
          slot: new Date(one.metadata.creationTimestamp),
          phase: history[index]?.phase ?? ('Failed' as const),
        }))
        const completed = all.filter(({ status }) => status?.phase === 'Completed').toReversed()
        const retained = retainedNames(finished, { keepLast })
        const held = findLastCopies(completed.map(backupContents), retained)
        const stay = new Set([...retained, ...held.map(({ name }) => name)])
        const keys = (backups: VecBackup[]) =>
          new Set(
            backups.flatMap(({ status }) =>
              (status?.collections ?? []).map(({ name }) => `${status?.clusterUid}/${name}`),
            ),
          )
        const left = keys(completed.filter(({ metadata }) => stay.has(metadata.name)))
        for (const key of keys(completed)) {
          if (!left.has(key)) throw new Error(`no backup of ${key} is left`)
        }
        const withPoints = (backups: VecBackup[]) =>
          new Set(
            backups.flatMap((one) => {
              const content = history[all.indexOf(one)]
              const full = content?.has.filter((name) => !content.empty.includes(name)) ?? []
              return full.map((name) => `${content?.clusterUid}/${name}`)
            }),
          )
        const leftWithPoints = withPoints(
          completed.filter(({ metadata }) => stay.has(metadata.name)),
        )
        for (const key of withPoints(completed)) {
          if (!leftWithPoints.has(key)) throw new Error(`no backup of the points of ${key} is left`)
        }
        if (held.length > left.size + leftWithPoints.size)
          throw new Error('more are held back than there are collections, with and without points')
      }),
      { numRuns: RUNS },
    )
  },
)

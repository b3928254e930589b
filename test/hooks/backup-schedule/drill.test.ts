/** Restore drills of a VecBackupSchedule: when one starts, what it creates, how it ends, and that it ends once. */
import t from 'tap'
import type { BackupStatus, VecBackup } from '../../../crds/backup.ts'
import type { BackupScheduleSpec, VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import type { VecCluster } from '../../../crds/cluster.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import type { RestoreStatus, VecRestore } from '../../../crds/restore.ts'
import { drillName } from '../../../hooks/backup-schedule/drill-objects.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import { backupScheduleHooks } from '../../../hooks/backup-schedule/index.ts'
import { cluster, context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { backup, fakePorts, hookRequest, schedule, tick, type ScheduleFixture } from './stage.ts'

type Status = NonNullable<VecBackupSchedule['status']>

/** The backup of this night, and the slot of the drill an hour later. */
const NIGHT = '2026-03-01T03:00:00Z'
const SLOT = '2026-03-01T04:00:00Z'
const NOW = '2026-03-01T04:00:30Z'
const BACKUP = 'nightly-20260301-030000'
const NAME = 'nightly-drill'
const MARK = `${BACKUP} ${SLOT}`
const DRILL = { schedule: '0 4 * * *', timeout: '6h' }
const RUN = { backupName: BACKUP, slot: SLOT, startTime: SLOT }
const REPORTED: Status = { lastScheduleTime: NIGHT }

function drilled(spec: Partial<BackupScheduleSpec> = {}, status: Status = REPORTED) {
  return schedule({ spec: { drill: DRILL, ...spec }, status })
}

function stored(status: BackupStatus = {}, method: 'Node' | 'Shard' = 'Node'): VecBackup {
  const made = backup(NIGHT)
  return { ...made, spec: { ...made.spec, method }, status: { ...made.status, ...status } }
}

const COLLECTIONS: BackupStatus = {
  collections: [
    { name: 'docs', status: 'Completed' },
    { name: 'users', status: 'Completed' },
  ],
}

/** What the backups are made of. */
const source = cluster({ spec: { replicas: 3 }, status: { version: '1.18.2', phase: 'Running' } })

const owned = (uid = 'uid-nightly') => [
  { apiVersion: API_VERSION, kind: 'VecBackupSchedule', name: 'nightly', uid, controller: true },
]

function drillCluster(status: VecCluster['status'] = {}, mark = MARK): VecCluster {
  const made = cluster({
    name: NAME,
    spec: { replicas: 3 },
    annotations: { [ANNOTATIONS.drill]: mark },
  })
  const metadata = { ...made.metadata, creationTimestamp: SLOT, ownerReferences: owned() }
  return { ...made, metadata, status }
}

const READY: VecCluster['status'] = {
  phase: 'Running',
  conditions: [
    {
      ...{ type: 'Ready', status: 'True', reason: 'AllReplicasReady', message: '3/3' },
      ...{ lastTransitionTime: SLOT, observedGeneration: 1 },
    },
  ],
}

function drillRestore(status: RestoreStatus = {}, mark = MARK): VecRestore {
  const { metadata } = drillCluster({}, mark)
  return {
    ...{ apiVersion: API_VERSION, kind: 'VecRestore' },
    metadata: { ...metadata, uid: 'uid-restore' },
    spec: {
      backupRef: { name: BACKUP },
      targetClusterRef: { name: NAME },
      ...{ priority: 'snapshot', waitForIndexing: true, collectionMapping: {} },
    },
    status,
  }
}

const RESTORED: RestoreStatus = {
  phase: 'Completed',
  startTime: '2026-03-01T04:01:00Z',
  completionTime: '2026-03-01T04:02:34Z',
  restoredCollections: [
    { name: 'docs', status: 'Completed', pointsCount: 20 },
    { name: 'users', status: 'Completed', pointsCount: 5 },
  ],
}

function fixture(parts: Partial<ScheduleFixture> = {}): ScheduleFixture {
  return { schedule: drilled(), children: [stored()], related: [source], ...parts }
}

/** What a pass does about drills. */
async function pass(parts: Partial<ScheduleFixture> = {}, now = NOW) {
  const stage = fixture(parts)
  const { children, pruned = [], status, events = [], resyncAfterSeconds } = await tick(stage, now)
  const { conditions = [], drill, lastDrill } = status
  const condition = conditions.find(({ type }) => type === 'RestoreTested')
  return {
    created: children
      .filter(({ kind, ...rest }) => kind !== 'VecBackup' && 'spec' in rest)
      .map(({ kind }) => kind),
    retained: children
      .filter(({ kind, ...rest }) => kind !== 'VecBackup' && !('spec' in rest))
      .map(({ kind }) => kind),
    pruned: pruned.map(({ kind }) => kind),
    prunedNames: pruned.map(({ name }) => name),
    drill,
    lastDrill,
    condition: condition && [condition.status, condition.reason, condition.message],
    reasons: events.map(({ reason }) => reason).filter((reason) => reason.includes('Drill')),
    children,
    resyncAfterSeconds,
  }
}

t.test('a due drill creates a cluster like that of the backups, and says so', async (t) => {
  const config = {
    log_level: 'INFO',
    service: { enable_tls: true, max_request_size_mb: 64 },
    cluster: { p2p: { enable_tls: true }, consensus: { tick_period_ms: 100 } },
    tls: { cert: '/own/tls.crt' },
  }
  const related = cluster({
    spec: {
      ...{ replicas: 3, config, maintenanceWindows: [], hibernate: false },
      resources: { requests: { memory: '4Gi' } },
      persistence: {
        ...{ size: '20Gi', accessModes: ['ReadWriteOnce'], onScaleIn: 'Keep' },
        storageClassName: 'fast',
        autoGrow: { above: 70, by: '25%', max: '1Ti' },
      },
      tls: { enabled: true, secretRef: { name: 'tls' } },
      cluster: { enabled: true, p2p: { port: 6335, enableTls: true } },
      service: { type: 'LoadBalancer', annotations: {} },
      nodeSelector: { disk: 'ssd' },
      imagePullSecrets: [{ name: 'registry' }],
      securityContext: { fsGroup: 5003 },
      podLabels: { team: 'search' },
      podAnnotations: { a: 'b' },
    },
    status: { version: 'v1.18.2', volumeSize: '40Gi' },
  })
  const found = await pass({ related: [related] })
  t.strictSame(found.children.at(-1), {
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    metadata: {
      name: NAME,
      labels: { [LABELS.schedule]: 'nightly' },
      annotations: { [ANNOTATIONS.drill]: MARK },
    },
    spec: {
      version: 'v1.18.2',
      replicas: 3,
      image: related.spec.image,
      snapshotPersistence: related.spec.snapshotPersistence,
      nodeSelector: { disk: 'ssd' },
      imagePullSecrets: [{ name: 'registry' }],
      securityContext: { fsGroup: 5003 },
      podLabels: { team: 'search' },
      podAnnotations: { a: 'b' },
      resources: { requests: { memory: '4Gi' } },
      persistence: {
        ...{ size: '40Gi', accessModes: ['ReadWriteOnce'], storageClassName: 'fast' },
        onDelete: 'Delete',
      },
      cluster: { enabled: true, p2p: { port: 6335 } },
      apiKey: { autoGenerate: true },
      podDisruptionBudget: { enabled: false },
      config: {
        log_level: 'INFO',
        service: { max_request_size_mb: 64 },
        cluster: { p2p: {}, consensus: { tick_period_ms: 100 } },
      },
    },
  })
  t.strictSame(found.drill, { ...RUN, startTime: NOW, step: 'CreatingCluster' })
  t.strictSame(found.reasons, ['DrillStarted'])
  t.strictSame(found.condition?.slice(0, 2), ['Unknown', 'DrillRunning'])
  t.equal(found.resyncAfterSeconds, 2)
})

t.test('a drill uses the digest of the image of its version only', async (t) => {
  const digest = `sha256:${'a'.repeat(64)}`
  const image = { ...cluster().spec.image, digest }
  const imageAt = async (version: string) => {
    const related = cluster({ spec: { version: '1.18.3', image }, status: { version } })
    const made = (await pass({ related: [related] })).children.at(-1)?.['spec']
    return made as { version: string; image: object }
  }
  t.match(await imageAt('v1.18.3'), { version: 'v1.18.3', image })
  const { version, image: former } = await imageAt('1.17.1')
  t.equal(version, '1.17.1', 'the update to the version of the spec is not applied yet')
  t.strictSame(former, cluster().spec.image)
})

t.test('spec.drill may ask for fewer nodes and smaller ones', async (t) => {
  const drill = {
    ...{ ...DRILL, replicas: 1, resources: { requests: { memory: '1Gi' } } },
    persistence: { size: '5Gi', storageClassName: 'slow' },
  }
  const parts = { schedule: drilled({ drill, method: 'Shard' }), children: [stored({}, 'Shard')] }
  const { children } = await pass(parts)
  const spec = children.at(-1)?.['spec'] as VecCluster['spec']
  t.strictSame(
    [spec.replicas, spec.resources, spec.persistence.size, spec.persistence.storageClassName],
    [1, drill.resources, '5Gi', 'slow'],
  )
})

t.test('a backup by node gets as many nodes as it was made of', async (t) => {
  const snapshots = [0, 1].map((node) => ({ node, snapshotName: 's', key: 'k' }))
  const collections = [{ name: 'docs', status: 'Completed' as const, snapshots }]
  const { children } = await pass({ children: [stored({ collections })] })
  t.equal((children.at(-1)?.['spec'] as VecCluster['spec']).replicas, 2)
  const listed = [{ name: 'docs', status: 'Completed' as const }]
  const old = await pass({ children: [stored({ collections: listed, nodes: 4 })] })
  t.equal(
    (old.children.at(-1)?.['spec'] as VecCluster['spec']).replicas,
    4,
    'also when its snapshots are no longer listed',
  )
  const refused = await pass({ schedule: drilled({ drill: { ...DRILL, replicas: 1 } }) })
  t.strictSame(refused.created, [])
  t.strictSame(refused.condition, [
    'False',
    'InvalidDrill',
    `spec.drill.replicas is 1, but backup ${BACKUP} is by node and fits only as many nodes as it was made of: remove the field, or wait for a backup with spec.method Shard`,
  ])
  t.strictSame(refused.reasons, ['InvalidDrill'])
})

t.test(
  'no drill starts before its time, twice for a slot, or while something is missing',
  async (t) => {
    const windows = { maintenanceWindows: [{ schedule: '0 2 * * 6', duration: '3h' }] }
    const last = { ...RUN, completionTime: NOW, result: 'Passed' as const }
    const foreign = cluster({
      namespace: 'other',
      annotations: { [ANNOTATIONS.allowedNamespaces]: 'third' },
    })
    for (const [why, parts, message] of [
      [
        'suspended',
        { schedule: drilled({ suspend: true }) },
        /^no drill starts while spec.suspend/,
      ],
      ['not due', { schedule: drilled({ drill: { ...DRILL, schedule: '0 4 1 4 *' } }, { ...REPORTED, lastDrill: { ...last, slot: '2026-02-28T04:00:00Z' } }) }, /^backup .* was restored/], // prettier-ignore
      [
        'done',
        { schedule: drilled({}, { ...REPORTED, lastDrill: last }) },
        /^backup .* was restored/,
      ],
      [
        'no cluster',
        { related: [] },
        /^the drill of 2026-03-01T04:00:00Z waits: cluster ns\/a not found$/,
      ],
      ['not permitted', { related: [foreign] }, /does not allow namespace ns/],
      ['closed window', { related: [cluster({ spec: windows })] }, /waits for the maintenance window that begins at 2026-03-07T02:00:00Z$/], // prettier-ignore
      ['no backup', { children: [] }, /waits for a completed backup of this schedule$/],
      ['a failed one', { children: [backup(NIGHT, { phase: 'Failed' })] }, /waits for a completed/],
      ['one that goes', { children: [backup(NIGHT, { phase: 'Completed', deletionTimestamp: NOW })] }, /waits for a completed/], // prettier-ignore
    ] as const) {
      const found = await pass(parts as Partial<ScheduleFixture>)
      t.strictSame([found.created, found.drill, found.reasons], [[], undefined, []], why)
      t.match(found.condition?.[2], message, why)
    }
    t.strictSame((await pass({}, '2026-02-28T03:59:59Z')).created.length, 1, 'the slot before')
    const young = schedule({
      spec: { drill: DRILL },
      status: REPORTED,
      createdAt: '2026-03-01T04:00:01Z',
    })
    t.strictSame((await pass({ schedule: young })).created, [], 'a slot before its creation')
  },
)

t.test('a wait does not hide the last failure', async (t) => {
  const lastDrill = {
    ...{ ...RUN, slot: '2026-02-28T04:00:00Z', completionTime: NOW },
    ...{ result: 'Failed' as const, error: 'no store' },
  }
  const parts = { schedule: drilled({}, { ...REPORTED, lastDrill }), related: [] }
  const { condition, lastDrill: reported } = await pass(parts)
  t.strictSame(condition?.slice(0, 2), ['False', 'DrillFailed'])
  t.match(
    condition?.[2],
    /^the restore drill of backup .* failed: no store; the drill of .* waits: /,
  )
  t.strictSame(reported, lastDrill)
})

t.test('an invalid schedule of drills is a condition; backups continue', async (t) => {
  const drill = { ...DRILL, schedule: '0 0 30 2 *' }
  const found = await pass({
    schedule: drilled({ drill }, { lastScheduleTime: '2026-02-28T03:00:00Z' }),
    children: [],
  })
  t.strictSame(found.condition?.slice(0, 2), ['False', 'InvalidDrill'])
  t.match(found.condition?.[2], /^spec\.drill\.schedule: /)
  t.ok(found.children.some(({ kind }) => kind === 'VecBackup'))
})

t.test('an object of that name that is not of this schedule is named and left alone', async (t) => {
  const mine = drillCluster(READY)
  const { ownerReferences: _, ...metadata } = mine.metadata
  const unowned = { ...mine, metadata }
  const other = { ...mine, metadata: { ...metadata, ownerReferences: owned('uid-other') } }
  const restore = {
    ...drillRestore(),
    metadata: { ...metadata, ownerReferences: owned('uid-other') },
  }
  for (const object of [unowned, other, restore]) {
    const found = await pass({ live: { drill: [object] } })
    t.strictSame([found.created, found.pruned, found.drill], [[], [], undefined])
    t.strictSame(found.condition, [
      'False',
      'DrillNameConflict',
      `${object.kind} ${NAME} already exists and does not belong to this schedule`,
    ])
  }
  const running = { ...REPORTED, drill: { ...RUN, step: 'CreatingCluster' as const } }
  const late = await pass({ schedule: drilled({}, running), live: { drill: [other] } })
  t.strictSame([late.created, late.condition?.[1]], [[], 'DrillNameConflict'])
})

t.test('the restore starts once the cluster is Running and Ready for its spec', async (t) => {
  const conditions = READY.conditions ?? []
  for (const status of [
    {},
    { ...READY, phase: 'Pending' as const },
    { ...READY, conditions: conditions.map((one) => ({ ...one, status: 'False' as const })) },
    { ...READY, conditions: conditions.map((one) => ({ ...one, observedGeneration: 0 })) },
  ]) {
    const found = await pass({ drill: [drillCluster(status)] })
    t.strictSame([found.created, found.retained], [[], ['VecCluster']])
    t.strictSame(found.drill, { ...RUN, step: 'CreatingCluster' })
  }
  const found = await pass({ drill: [drillCluster(READY)] })
  t.strictSame([found.created, found.retained], [['VecRestore'], ['VecCluster']])
  t.strictSame(found.children.at(-1), {
    apiVersion: API_VERSION,
    kind: 'VecRestore',
    metadata: {
      name: NAME,
      labels: { [LABELS.schedule]: 'nightly' },
      annotations: { [ANNOTATIONS.drill]: MARK },
    },
    spec: { backupRef: { name: BACKUP }, targetClusterRef: { name: NAME } },
  })
  t.equal(found.drill?.step, 'Restoring')
})

t.test('a lagging cache, a lost status and a second hook create nothing twice', async (t) => {
  const live = { drill: [drillCluster()] }
  const lost = await pass({ live })
  t.strictSame([lost.created, lost.retained, lost.reasons], [[], [], []])
  t.strictSame(lost.drill, { ...RUN, step: 'CreatingCluster' }, 'started when it was created')
  const both = [drillCluster(READY), drillRestore()]
  const restoring = await pass({ drill: [drillCluster(READY)], live: { drill: both } })
  t.strictSame([restoring.created, restoring.drill?.step], [[], 'Restoring'])

  // The cached status is older than the live one, which has the result.
  const lastDrill = { ...RUN, completionTime: NOW, result: 'Passed' as const }
  const current = drilled({}, { ...REPORTED, lastDrill })
  const over = await pass({ live: { schedule: current } })
  t.strictSame([over.created, over.lastDrill, over.drill], [[], lastDrill, undefined])
  // Objects that the cache still shows.
  const gone = await pass({ drill: [drillCluster()], live: { schedule: current, drill: [] } })
  t.strictSame([gone.created, gone.pruned], [[], ['VecCluster']])

  const changed = { ...drilled(), metadata: { ...drilled().metadata, generation: 2 } }
  const stale = await pass({ drill: both, live: { schedule: changed } })
  t.strictSame([stale.created, stale.pruned, stale.retained.length], [[], [], 2])
  t.equal(stale.resyncAfterSeconds, 2)
})

t.test(
  'a cluster that was deleted meanwhile is created again, also after a lost creation',
  async (t) => {
    const running = { ...REPORTED, drill: { ...RUN, step: 'CreatingCluster' as const } }
    const found = await pass({ schedule: drilled({}, running) })
    t.strictSame(
      [found.created, found.drill],
      [['VecCluster'], { ...RUN, step: 'CreatingCluster' }],
    )
    const without = await pass({ schedule: drilled({}, running), related: [] })
    t.strictSame([without.created, without.drill?.step], [[], 'CreatingCluster'])
  },
)

/** The objects at the end of a restore. */
const ended = (status: RestoreStatus) => [drillCluster(READY), drillRestore(status)]

t.test(
  'a drill passes with what was counted; the objects stay until the result is recorded',
  async (t) => {
    const children = [stored(COLLECTIONS)]
    const drill = ended(RESTORED)
    const found = await pass({ children, drill })
    const lastDrill = {
      ...{ ...RUN, nodes: 3, completionTime: '2026-03-01T04:02:34Z', result: 'Passed' as const },
      ...{ restoreSeconds: 94, collections: 2, points: 25 },
    }
    t.strictSame(found.lastDrill, lastDrill)
    t.strictSame([found.retained, found.pruned], [['VecCluster', 'VecRestore'], []])
    t.strictSame(found.condition, [
      'True',
      'DrillPassed',
      `backup ${BACKUP} was restored into a new cluster in 94 s, and its VecRestore was Completed (nodes: 3, collections: 2, points: 25)`,
    ])
    t.strictSame(found.reasons, ['DrillPassed'])
    t.equal(found.resyncAfterSeconds, 2)

    // The write was lost: the same result once more.
    t.strictSame((await pass({ children, drill })).lastDrill, lastDrill)
    const status: Status = { ...REPORTED, lastDrill, drill: { ...RUN, step: 'Deleting' } }
    const recorded = await pass({ children, drill, live: { schedule: drilled({}, status) } })
    t.strictSame([recorded.retained, recorded.pruned], [['VecCluster'], ['VecRestore']])
    t.strictSame(recorded.drill, { ...RUN, step: 'Deleting' })
    t.strictSame(recorded.reasons, [])
    const next = { children, drill: [drillCluster(READY)], schedule: drilled({}, status) }
    t.strictSame((await pass(next)).pruned, ['VecCluster'])
    const last = await pass({ children, schedule: drilled({}, status) })
    t.strictSame([last.drill, last.lastDrill, last.created], [undefined, lastDrill, []])
  },
)

t.test('a drill of a backup without collections proves nothing, and says so', async (t) => {
  const children = [stored({ collections: [] })]
  const drill = ended({ ...RESTORED, restoredCollections: [] })
  const found = await pass({ children, drill })
  const message = `backup ${BACKUP} has no collections: its restore drill has proved nothing`
  t.match(found.lastDrill, { result: 'Empty', collections: 0, points: 0 })
  t.strictSame(found.condition, ['Unknown', 'DrillEmpty', message])
  t.strictSame(found.reasons, ['DrillEmpty'])
  // As earlier releases recorded it.
  const lastDrill = { ...RUN, completionTime: NOW, result: 'Passed' as const, collections: 0 }
  const recorded = await pass({ schedule: drilled({}, { ...REPORTED, lastDrill }), related: [] })
  t.strictSame(recorded.condition?.slice(0, 2), ['Unknown', 'DrillEmpty'])
})

t.test(
  'without all points in the list, or with other collections, the message says less',
  async (t) => {
    const unlistedCollections = { completed: 3 }
    const many = { ...COLLECTIONS, unlistedCollections }
    const found = await pass({
      children: [stored(many)],
      drill: ended({ ...RESTORED, unlistedCollections }),
    })
    t.strictSame([found.lastDrill?.collections, found.lastDrill?.points], [5, undefined])
    t.equal(
      found.condition?.[2],
      `backup ${BACKUP} was restored into a new cluster in 94 s, and its VecRestore was Completed (nodes: 3, collections: 5)`,
    )
    const fewer = await pass({ children: [stored(many)], drill: ended(RESTORED) })
    t.strictSame(fewer.condition, [
      'False',
      'DrillFailed',
      `the restore drill of backup ${BACKUP} failed: the backup has 5 collections, but 2 were restored`,
    ])
    t.strictSame(fewer.reasons, ['DrillFailed'])
    const deleted = await pass({ children: [], drill: ended(RESTORED) })
    t.equal(deleted.lastDrill?.result, 'Passed', 'a backup that was deleted meanwhile')
  },
)

t.test('a failed restore is the cause of a failed drill', async (t) => {
  const error = 's3://b/p/x is missing'
  const completionTime = '2026-03-01T04:02:34Z'
  const found = await pass({ drill: ended({ phase: 'Failed', completionTime, error }) })
  t.strictSame(found.lastDrill, { ...RUN, nodes: 3, completionTime, result: 'Failed', error })
  t.strictSame([found.retained.length, found.pruned], [2, []])
})

t.test('after the timeout the drill has failed, with what it waited for', async (t) => {
  const condition = (type: string, message: string) => ({
    ...{ type, status: 'False' as const, reason: 'R', message, lastTransitionTime: SLOT },
    observedGeneration: 1,
  })
  const pending = {
    phase: 'Pending' as const,
    conditions: [condition('Ready', '0/3 replicas ready')],
  }
  const restoring = {
    phase: 'Restoring' as const,
    conditions: [condition('Complete', 'docs 10 %')],
  }
  const running = { ...REPORTED, drill: { ...RUN, step: 'CreatingCluster' as const } }
  const cases: [Partial<ScheduleFixture>, string][] = [
    [{ drill: [drillCluster(pending)] }, `VecCluster ${NAME} is not Ready: 0/3 replicas ready`],
    [{ drill: [drillCluster()] }, `VecCluster ${NAME} is not Ready: it has not been installed`],
    [{ drill: ended(restoring) }, `VecRestore ${NAME} is Restoring: docs 10 %`],
    [{ drill: ended({}) }, `VecRestore ${NAME} is Pending: it has not started`],
    [{ schedule: drilled({}, running) }, `VecCluster ${NAME} does not exist`],
  ]
  for (const [parts, cause] of cases) {
    t.equal((await pass(parts, '2026-03-01T09:59:59Z')).lastDrill, undefined)
    const found = await pass(parts, '2026-03-01T10:00:00Z')
    t.equal(found.lastDrill?.error, `not ended within 6h: ${cause}`)
    t.strictSame(found.pruned, [])
  }
})

t.test('suspended or removed in the middle, a drill is ended without a result', async (t) => {
  const drill = [drillCluster(READY), drillRestore()]
  const status: Status = { ...REPORTED, drill: { ...RUN, step: 'Restoring' } }
  const removed = schedule({ status })
  for (const [parent, why] of [
    [drilled({ suspend: true }, status), 'spec.suspend is true'],
    [removed, 'spec.drill was removed'],
  ] as const) {
    const first = await pass({ schedule: parent, drill })
    t.strictSame([first.pruned, first.retained], [['VecRestore'], ['VecCluster']], why)
    t.strictSame([first.lastDrill, first.drill?.step], [undefined, 'Deleting'])
    t.strictSame(first.reasons, ['DrillCanceled'])
    t.strictSame((await pass({ schedule: parent, drill: [drillCluster()] })).pruned, ['VecCluster'])
    const over = await pass({ schedule: parent })
    t.strictSame([over.created, over.drill], [[], undefined])
  }
  t.equal((await pass({ schedule: removed })).condition, undefined)
})

t.test('objects whose annotation was changed are removed, and others are left alone', async (t) => {
  const found = await pass({ drill: [drillCluster(READY, 'nonsense')] })
  t.strictSame([found.pruned, found.drill, found.created], [['VecCluster'], undefined, []])
  const other = cluster({ name: 'adopted' })
  t.strictSame((await pass({ drill: [other], live: { drill: [] } })).retained, ['VecCluster'])
})

t.test('a drill of a clock that was years ahead does not keep drills from starting', async (t) => {
  const slot = '2036-03-01T04:00:00Z'
  const lastDrill = { ...RUN, slot, completionTime: slot, result: 'Passed' as const }
  const parts = { schedule: drilled({}, { ...REPORTED, lastDrill }) }
  t.strictSame((await pass(parts)).created, ['VecCluster'])
  const running = await pass({ ...parts, drill: [drillCluster()] })
  t.strictSame([running.pruned, running.retained], [[], ['VecCluster']])
  const ended = [drillCluster(READY, `${BACKUP} ${slot}`)]
  t.strictSame((await pass({ ...parts, drill: ended })).pruned, ['VecCluster'])
  const soon = { ...lastDrill, slot: '2026-03-01T23:00:00Z' }
  const waits = await pass({ schedule: drilled({}, { ...REPORTED, lastDrill: soon }) })
  t.strictSame(waits.created, [], 'hours ahead')
})

t.test('a backup with a name that no schedule gives is not drilled', async (t) => {
  const byHand = stored(COLLECTIONS)
  byHand.metadata = { ...byHand.metadata, name: 'nightly-copy', uid: 'uid-copy' }
  const { created, drill } = await pass({ children: [stored(), byHand] })
  t.strictSame([created, drill?.backupName], [['VecCluster'], BACKUP])
  t.strictSame((await pass({ children: [byHand] })).created, [])
})

t.test('the backup under drill is not pruned by retention', async (t) => {
  const newer = backup('2026-03-02T03:00:00Z')
  const status = { lastScheduleTime: '2026-03-02T03:00:00Z' }
  const spec = { retentionPolicy: { keepLast: 1 } }
  const now = '2026-03-02T03:30:00Z'
  const drill = { ...DRILL, timeout: '48h' }
  const children = [stored(), newer]
  const parts = { children, schedule: drilled({ ...spec, drill }, status) }
  t.strictSame((await pass({ ...parts, drill: [drillCluster()] }, now)).prunedNames, [])
  t.strictSame((await pass({ ...parts, live: { drill: [drillCluster()] } }, now)).prunedNames, [])
  const lastDrill = { ...RUN, completionTime: NOW, result: 'Passed' as const }
  const over = { children, schedule: drilled({ ...spec, drill }, { ...status, lastDrill }) }
  t.strictSame((await pass(over, now)).prunedNames, [BACKUP])
})

t.test('a schedule without drills reads nothing for them', async (t) => {
  const stage = fixture({ schedule: schedule({ status: REPORTED }) })
  const ports = fakePorts(stage)
  const read = async () => {
    t.fail('an object of a drill was read')
    return undefined
  }
  const hooks = backupScheduleHooks({
    ...ports,
    cluster: read,
    restore: read,
  })
  const { status } = await tick(stage, NOW, hooks)
  t.equal(status.drill, undefined)
  t.equal(status.conditions?.length, 1)
})

t.test(
  'the deletion of the schedule ends the drill first: the restore, then the cluster',
  async (t) => {
    const deletionTimestamp = NOW
    const parent = schedule({ spec: { drill: DRILL }, deletionTimestamp })
    const finalized = async (drill: (VecCluster | VecRestore)[]) => {
      const stage = fixture({ schedule: parent, drill })
      const hooks = backupScheduleHooks(fakePorts(stage))
      const request = hookRequest(stage)
      const desired = await hooks.finalize?.(request, context)
      if (desired === undefined) throw new Error('the hooks have no finalize')
      answerValidator(hooks)(request, desired, 'finalize')
      return desired
    }
    const both = await finalized([drillCluster(), drillRestore()])
    t.strictSame(
      both.pruned?.map(({ kind }) => kind),
      ['VecRestore'],
    )
    t.equal(both.finalized, undefined)
    matchWhole(t, (both.status as Status).conditions, [
      {
        reason: 'Deleting',
        message: `waiting until the objects of restore drill ${NAME} are deleted`,
      },
    ])
    const one = await finalized([drillCluster()])
    t.strictSame([one.pruned?.map(({ kind }) => kind), one.finalized], [['VecCluster'], undefined])
    t.equal((await finalized([])).finalized, true)
  },
)

t.test(
  'names of drills are names of clusters, and different for different schedules',
  async (t) => {
    t.equal(drillName('nightly'), NAME)
    t.equal(drillName('a'.repeat(42)), `${'a'.repeat(42)}-drill`)
    const long = ['a'.repeat(43), 'a'.repeat(47), `${'a'.repeat(46)}b`, 'a.b', 'a-b'].map(drillName)
    t.equal(new Set(long).size, long.length)
    for (const name of long) t.match(name, /^[a-z0-9][-a-z0-9]{0,41}-drill$/)
  },
)

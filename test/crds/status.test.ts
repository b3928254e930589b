import t from 'tap'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { admit } from '../world/admission/admit.ts'
import type { Fields, KindName } from './corpus/case.ts'
import { SAMPLES } from './corpus/samples.ts'

/** What is stored of a status. */
function stored(kind: KindName, status: Fields): unknown {
  const resource = RESOURCES.find((candidate) => candidate.kind === kind)
  const sample = SAMPLES.find((candidate) => candidate.kind === kind)
  const object = { ...sample, status } as unknown as AnyObject
  const crd = resource === undefined ? {} : customResourceDefinition(resource, '1.0.0')
  return (admit(crd, object) as unknown as { status: unknown }).status
}

const time = '2025-01-31T12:00:00Z'
const condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Because',
  message: 'n/m',
  lastTransitionTime: time,
  observedGeneration: 3,
}
const commonFields = { conditions: [condition], observedGeneration: 3 }
const finishedFields = {
  startTime: time,
  completionTime: time,
  error: 'first failure',
  ...commonFields,
}

const PHASES: [KindName, phases: string[], status: Fields][] = [
  [
    'VecCluster',
    ['Pending', 'Upgrading', 'Running'],
    {
      replicas: 3,
      readyReplicas: 2,
      version: 'v1.16.0',
      helmRelease: 'vec-main',
      endpoint: 'http://vec-main.search.svc.cluster.local:6333',
      appliedGeneration: 2,
      ...commonFields,
    },
  ],
  [
    'VecCollection',
    ['Pending', 'Ready', 'Degraded', 'Failed'],
    {
      collectionName: 'docs',
      health: 'grey',
      pointsCount: 5_000_000_000,
      indexedVectorsCount: 0,
      segmentsCount: 6,
      payloadIndexes: ['title'],
      aliases: ['current'],
      ignored: { generation: 3, engineVersion: '1.16.0', paths: ['hnsw.mm'] },
      error: 'spec.shardNumber is 3, the collection has 6',
      ...commonFields,
    },
  ],
  [
    'VecAccessKey',
    ['Pending', 'Ready', 'Failed'],
    {
      secretRef: { name: 'token', key: 'token' },
      issuedAt: time,
      expiresAt: time,
      renewAt: time,
      keyFingerprint: '0123456789abcdef',
      error: 'a Secret of that name is not ours',
      ...commonFields,
    },
  ],
  [
    'VecBackup',
    ['Pending', 'InProgress', 'Completed', 'Failed'],
    {
      expiresAt: time,
      s3Path: 's3://backups/a/nightly',
      totalSize: '1.2 GiB',
      collections: [
        {
          name: 'docs',
          status: 'Completed',
          size: '1.2 GiB',
          snapshots: [{ node: 0, snapshotName: 's', key: 'a/nightly/docs/node-0/s' }],
          error: 'none',
        },
      ],
      ...finishedFields,
    },
  ],
  [
    'VecBackupSchedule',
    ['Active', 'Suspended'],
    {
      lastScheduleTime: time,
      lastBackupName: 'nightly-20250131-120000',
      lastBackupTime: time,
      lastBackupStatus: 'Completed',
      nextBackupTime: time,
      activeBackup: 'nightly-20250201-120000',
      recentBackups: Array.from({ length: 10 }, (_, index) => ({
        name: `nightly-${index}`,
        creationTime: time,
        completionTime: time,
        status: 'Failed',
        size: '1.2 GiB',
      })),
      ...commonFields,
    },
  ],
  [
    'VecRestore',
    ['Pending', 'Downloading', 'Restoring', 'Completed', 'Failed'],
    {
      sourceBackup: 's3://backups/a/nightly',
      restoredCollections: [
        {
          name: 'docs',
          originalName: 'old',
          status: 'Restoring',
          size: '1.2 GiB',
          pointsCount: 7,
          error: 'none',
        },
      ],
      progress: {
        collectionsTotal: 2,
        collectionsCompleted: 1,
        currentCollection: 'docs',
        percentage: 50,
      },
      ...finishedFields,
    },
  ],
  [
    'VecMigration',
    ['Pending', 'Running', 'Completed', 'Failed'],
    {
      source: 'search/main',
      collections: [
        {
          name: 'docs',
          targetName: 'documents',
          status: 'Running',
          pointsTotal: 10,
          pointsCopied: 5,
          error: 'none',
        },
      ],
      progress: {
        collectionsTotal: 2,
        collectionsCompleted: 1,
        pointsTotal: 10,
        pointsCopied: 5,
        percentage: 100,
      },
      ...finishedFields,
    },
  ],
]

for (const [kind, phases, fields] of PHASES) {
  t.test(`the status of ${kind} holds every field of the specification`, async (t) => {
    for (const phase of phases) {
      const status = { phase, ...fields }
      t.strictSame(stored(kind, status), status, phase)
    }
  })

  t.test(`${kind} has no other phases`, async (t) => {
    t.throws(() => stored(kind, { phase: 'Unknown' }), { message: /status\.phase: Unsupported/ })
  })

  t.test(`a condition type occurs once in ${kind}`, async (t) => {
    const conditions = [condition, condition]
    t.throws(() => stored(kind, { conditions }), { message: /Duplicate value: {"type":"Ready"}/ })
  })
}

t.test('recentBackups holds up to ten', async (t) => {
  const recentBackups = Array(11).fill({ name: 'a', creationTime: time })
  t.throws(() => stored('VecBackupSchedule', { recentBackups }), { message: /at most 10 items/ })
})

t.test('health is a word of the engine', async (t) => {
  t.throws(() => stored('VecCollection', { health: 'blue' }), { message: /"green", "yellow"/ })
})

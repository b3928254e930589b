/** Resources that an older schema admitted: they can be deleted, whatever of their spec ours refuses. */
import t from 'tap'
import { pino } from 'pino'
import { backupHooks } from '../../hooks/backup/index.ts'
import { backupScheduleHooks } from '../../hooks/backup-schedule/index.ts'
import { BACKUP_CHILD_KIND } from '../../hooks/backup-schedule/backups.ts'
import { clusterHooks } from '../../hooks/cluster/index.ts'
import { collectionHooks } from '../../hooks/collection/index.ts'
import { migrationHooks } from '../../hooks/migration/index.ts'
import { restoreHooks } from '../../hooks/restore/index.ts'
import type { KindHooks } from '../../hooks/protocol.ts'
import { buildServer } from '../../hooks/server.ts'
import { NOW, cluster, settings } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'
import { backup } from './backup/objects.ts'
import { fakePorts as backupPorts } from './backup/ports.ts'
import * as schedules from './backup-schedule/stage.ts'
import { fakePorts as clusterPorts } from './cluster/ports.ts'
import { CollectionHarness, collection } from './collection/stage.ts'
import { migration } from './migration/objects.ts'
import { fakePorts as migrationPorts } from './migration/ports.ts'
import { restore } from './restore/objects.ts'
import { fakePorts as restorePorts } from './restore/ports.ts'

const schedule = schedules.schedule()

/** Each kind whose deletion cleans up, one of it, and what its spec may become under another schema. */
const CASES: [hooks: KindHooks, parent: { metadata: object; spec: object }, bad: object][] = [
  [clusterHooks(clusterPorts().ports), cluster(), { version: 'newest', resources: 7, tls: {} }],
  [
    collectionHooks(new CollectionHarness().ports),
    collection(),
    { vectors: 'none', wal: 1, shardNumber: -4 },
  ],
  [
    backupHooks(backupPorts().ports),
    backup(),
    { method: 'Slow', parallelism: 99, collections: { all: true }, retentionDays: 'ten' },
  ],
  [
    backupScheduleHooks(schedules.fakePorts({ schedule, children: [] })),
    schedule,
    { concurrencyPolicy: 'Never', storage: 'here', retentionPolicy: 3 },
  ],
  [restoreHooks(restorePorts().ports), restore(), { priority: 'first', backupRef: 'b', source: 1 }],
  [
    migrationHooks(migrationPorts().ports),
    migration(),
    { source: 1, targetClusterRef: [], target: '' },
  ],
]

function serving(hooks: KindHooks) {
  return buildServer({
    hooks: [hooks],
    tokens: () => [],
    log: pino({ level: 'silent' }),
    now: () => NOW,
    settings,
    metrics: { observe: () => undefined, text: async () => '', contentType: 'text/plain' },
  })
}

for (const [hooks, { metadata, ...rest }, bad] of CASES) {
  t.test(`a ${hooks.kind} whose spec is not valid can be deleted`, async (t) => {
    const server = serving(hooks)
    const post = async (hook: string, parent: object, finalizing = false) => {
      const payload = { parent, children: {}, related: {}, finalizing }
      const url = `/${hooks.plural}/${hook}`
      const { statusCode, body } = await server.inject({ method: 'POST', url, payload })
      return { statusCode, body: JSON.parse(body) as { finalized?: boolean; error?: string } }
    }
    const invalid = { ...rest, metadata, spec: { ...rest.spec, ...bad } }
    t.match(await post('sync', invalid), {
      statusCode: 400,
      body: { error: /^body\/parent\/spec/ },
    })
    t.match(await post('customize', invalid), { statusCode: 400, body: { error: /^body\/parent\/spec/ } }) // prettier-ignore

    const deleted = { ...metadata, deletionTimestamp: '2026-03-01T11:59:00Z' }
    const going = { ...invalid, metadata: deleted, status: { phase: 'Elsewhere', conditions: [] } }
    matchWhole(t, await post('customize', going), {
      statusCode: 200,
      body: { relatedResources: [] },
    })
    t.match(await post('finalize', going, true), { statusCode: 200, body: { finalized: true } })
  })
}

t.test('a long address with a space that is not ASCII is rejected with its name', async (t) => {
  const [endpoint, url] = ['https://s3.example.com\u00a0', '/vecbackups/sync']
  const made = backup()
  const s3 = { ...made.spec.storage.s3, endpoint }
  const parent = { ...made, spec: { ...made.spec, storage: { s3 } } }
  const server = serving(backupHooks(backupPorts({ cluster: async () => cluster() }).ports))
  const payload = { parent, children: {}, related: {}, finalizing: false }
  const { statusCode, body } = await server.inject({ method: 'POST', url, payload })
  t.equal(statusCode, 200)
  const error = 'spec.storage.s3.endpoint is not a valid address: "https://s3.example.com\\u00a0"'
  t.match(JSON.parse(body), { status: { phase: 'Failed', error } })
})

t.test('a backup that another schema admitted does not stop its schedule', async (t) => {
  const server = serving(backupScheduleHooks(schedules.fakePorts({ schedule, children: [] })))
  const child = schedules.backup('2026-02-28T03:00:00Z')
  const older = { ...child, spec: { ...child.spec, method: 'Slow', parallelism: 99 } }
  const children = { [BACKUP_CHILD_KIND]: { [`ns/${child.metadata.name}`]: older } }
  const payload = { parent: schedule, children, related: {}, finalizing: false }
  const url = '/vecbackupschedules/sync'
  const { statusCode, body } = await server.inject({ method: 'POST', url, payload })
  t.equal(statusCode, 200, body)
})

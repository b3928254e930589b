/** How the hooks of all kinds are put together. */
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { BackupStatus } from '../../crds/backup.ts'
import type { Desired } from '../../hooks/protocol.ts'
import { EngineConnections } from '../../jobs/clients/engine/transport.ts'
import { createKindHooks } from '../../metacontroller/hooks.ts'
import { serviceMetrics } from '../../metacontroller/metrics/index.ts'
import { systemTimers } from '../../metacontroller/runtime.ts'
import { startBucketServer } from '../doubles/bucket/server.ts'
import { ago, context } from '../builders.ts'
import { backup } from '../hooks/backup/objects.ts'
import { embeddedApi, installCrds, VERSION } from './embedded.ts'

/** Deletes a backup whose bucket is on the loopback interface, and returns what its status says of the purge. */
async function purgeOnLoopback(t: Test, isLimited: boolean) {
  const { api, kubernetes } = await embeddedApi(t)
  await installCrds(api)
  const s3 = await startBucketServer()
  t.teardown(() => s3.close())
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const now = () => context.now
  const kindHooks = createKindHooks({
    ...{ kubernetes, connections, engineRoute: 'direct', namespaces: [] },
    ...{ jobKeys: () => [], now, inlineMs: 5_000, log: pino({ level: 'silent' }) },
    timers: systemTimers,
    metrics: serviceMetrics(VERSION, now),
    ...(isLimited && { purgeRules: { allowHttp: true, denied: [] } }),
  })
  const parent = backup({
    deletionTimestamp: ago(5),
    status: { phase: 'Completed', startTime: ago(900) },
  })
  const storage = { ...parent.spec.storage.s3, endpoint: s3.url, forcePathStyle: true }
  const deleted = { ...parent, spec: { ...parent.spec, storage: { s3: storage } } }
  const { name } = storage.credentialsSecretRef ?? { name: '' }
  await api.create({
    ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: 'ns' } },
    stringData: { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'secretsecret' },
  })
  const request = { parent: deleted, children: {}, related: {}, finalizing: true }
  const hooks = kindHooks.find(({ kind }) => kind === 'VecBackup')
  const desired = (await hooks?.finalize?.(request, context)) as Desired<BackupStatus>
  const conditions = desired.status.conditions ?? []
  return { calls: s3.calls, purged: conditions.find(({ type }) => type === 'Purged'), desired }
}

t.test('a purge of the service calls no address that its rules deny', async (t) => {
  const { calls, purged, desired } = await purgeOnLoopback(t, true)
  t.match(purged, { status: 'False', message: /127\.0\.0\.1.* is not called from here/ })
  t.strictSame(calls, [])
  t.not(desired.finalized, true)
})

t.test('outside of a cluster there are no rules, and the store is called', async (t) => {
  t.not((await purgeOnLoopback(t, false)).calls.length, 0)
})

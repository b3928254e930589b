/** The replication factor of a collection that is restored over, however the restore ends. */
import t from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import type { RestoreResult } from '../../../crds/contract/restore-job.ts'
import { matchWhole } from '../../match-whole.ts'
import {
  run,
  runToDone,
  isRecovery,
  restoreFixture,
  type RestoreFixture,
} from './restore-fixture.ts'

function factorOf({ engine }: RestoreFixture): unknown {
  return engine.collections.get('docs')?.config.params['replication_factor']
}

/** Alters the last object, which is rejected once the others have been taken. */
function damage({ store, manifest }: RestoreFixture): void {
  const key = manifest().collections[0]?.snapshots.at(-1)?.key ?? ''
  const bytes = Buffer.from(store().objects.get(key)?.body ?? '')
  bytes[4] = 88
  store().put(key, bytes)
}

for (const method of ['Node', 'Shard'] as const) {
  t.test(`by ${method}: a restore that fails restores the factor`, async (t) => {
    const stood = await restoreFixture(t, { method, replicationFactor: 3 })
    damage(stood)
    const seen: unknown[] = []
    for (const node of stood.nodes) {
      node.misbehave((request) => {
        if (isRecovery(request) || request.path.at(-1) === 'upload') seen.push(factorOf(stood))
        return undefined
      })
    }
    const restore = await stood.world.restore()
    t.equal((await run(restore)).code, EXIT.failed)
    t.match(await restore.result(), { failed: 1 })
    t.ok(seen.length > 0)
    t.ok(
      seen.every((factor) => factor === 1),
      'while snapshots are taken it is 1',
    )
    t.equal(factorOf(stood), 3)
  })

  t.test(
    `by ${method}: a pod that is stopped restores the factor, and the next one resumes`,
    async (t) => {
      const stood = await restoreFixture(t, { method, replicationFactor: 3 })
      const restore = await stood.world.restore()
      const controller = new AbortController()
      const strike = (isKilled: boolean) => {
        let recoveries = 0
        for (const node of stood.nodes) {
          node.misbehave((request) => {
            const isRecovering = isRecovery(request) || request.path.at(-1) === 'upload'
            if (isRecovering && (recoveries += 1) === 2) controller.abort(new Error('SIGTERM'))
            return isKilled && controller.signal.aborted ? { cut: 'before' } : undefined
          })
        }
      }
      strike(false)
      t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
      t.equal(factorOf(stood), 3)
      t.match(await restore.result(), { current: { factor: 3, collection: 'docs' } })
      for (const node of stood.nodes) node.misbehave()
      await runToDone(t, restore, { pod: 'pod-2' })
      await stood.assertRestored('docs')
    },
  )
}

t.test('the next pod restores the factor of a killed one, also if it fails itself', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 3 })
  const restore = await stood.world.restore()
  const controller = new AbortController()
  for (const node of stood.nodes) {
    node.misbehave((request) => {
      if (isRecovery(request)) controller.abort(new Error('SIGKILL'))
      return controller.signal.aborted ? { cut: 'before' } : undefined
    })
  }
  t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
  for (const node of stood.nodes) node.misbehave()
  t.equal(factorOf(stood), 1, 'no pod could restore it')
  stood.store().objects.delete('nightly/b/manifest.json')
  t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
  t.equal(factorOf(stood), 3)
  const result: Partial<RestoreResult> = await restore.result()
  t.match(result, { error: /^s3:.* not found: the backup did not finish/ })
})

t.test('if the factor cannot be restored, a note says so', async (t) => {
  const stood = await restoreFixture(t, { replicationFactor: 3 })
  damage(stood)
  const body = JSON.stringify({ status: { error: 'Wrong input: no' } })
  const headers = { 'content-type': 'application/json' }
  let patches = 0
  stood.nodes[0]?.misbehave(({ method, path }) =>
    method === 'PATCH' && path.length === 2 && (patches += 1) > 1
      ? { status: 400, body, headers }
      : undefined,
  )
  const restore = await stood.world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  matchWhole(t, await restore.result(), {
    notes: [/^docs was left at replication factor 1, not 3: .*Wrong input: no$/],
  })
})

t.test(
  'replicas are copied by stream_records, also on nodes that would choose another method',
  async (t) => {
    for (const version of ['1.17.1', '1.18.3']) {
      const fixture = await restoreFixture(t)
      fixture.rewrite((manifest) => {
        for (const one of [manifest, ...manifest.collections]) one.engineVersion = version
      })
      fixture.deleteCollections('docs')
      const methods: unknown[] = []
      for (const node of fixture.nodes) {
        node.misbehave(({ path, body }) => {
          if (path.join('') === '') {
            return { status: 200, body: JSON.stringify({ title: 'qdrant', version }) }
          }
          const copy = (body as { replicate_shard?: { method?: string } } | null)?.replicate_shard
          if (copy !== undefined) methods.push(copy.method)
          return undefined
        })
      }
      await runToDone(t, await fixture.world.restore())
      await fixture.assertRestored('docs')
      t.strictSame(methods, Array(3).fill('stream_records'), version)
    }
  },
)

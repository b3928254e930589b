/** A backup that a user creates from a schedule, from `backup now` to `restore plan`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { backupResource, fill } from '../../scenarios/backup-parts.ts'
import { running } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { cliFor, runCommand } from './cli-user.ts'

t.test(
  'a backup made by hand runs, outlives retention, can be verified and planned to be restored',
  async (t) => {
    const world = await startEmbeddedWorld()
    t.teardown(() => world.close())
    const namespace = await world.namespace('hand')
    const bucket = await world.bucket(namespace)
    const type = cliFor(t, world.api, namespace)
    await running(world, namespace, 'a')
    await fill(world, namespace, 'docs')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    await world.apply(of({ schedule: '* * * * *', retentionPolicy: { keepLast: 1 } }))

    t.equal((await type('backup', 'now', 's', '--name', 'by-hand')).code, EXIT_CODES.success)
    const backup = { apiVersion: API_VERSION, kind: 'VecBackup', namespace, name: 'by-hand' }
    await world.waitFor(backup, 'Completed', (object) => phaseOf(object) === 'Completed', 300)
    // Two slots: retention has looked at the backups, and kept one of its own.
    await world.advance(130)
    t.equal(phaseOf(await world.get(backup)), 'Completed')

    const { out } = await type('status', 'qb/by-hand')
    t.match(out, new RegExp(`^VecBackup ${namespace}/by-hand  Completed `))
    t.match(out, /\n {2}Complete=True +BackupCompleted +Backed up 1\/1 collections\n/)
    t.match(out, /\n {2}s3Path +s3:\/\/\S+\/by-hand\/?\n/)
    t.match(out, /\nPART +STATUS\ndocs +Completed +size /)
    t.match(out, /\nby-hand-backup-[0-9a-f]{5}-1 +run +Complete +\S+ +Done/)
    const schedule = await type('status', `qbs/${reference.name}`)
    t.match(schedule.out, /\nPART +STATUS\n(.*\n)?s-\d{8}-\d{6} +Completed/)

    const file = join(t.testdirName, 'restore.yaml')
    const plan = async (changes: object, spec: object = { backupRef: { name: 'by-hand' } }) => {
      writeFileSync(file, stringify({ ...RESTORE, spec: { ...RESTORE.spec, ...spec, ...changes } }))
      return type('restore', 'plan', '--file', file)
    }
    const planned = await plan({ collectionMapping: { docs: 'docs-again' } })
    t.equal(planned.code, EXIT_CODES.success, planned.err)
    t.match(planned.out, /^backup by-hand of \S+, engine 1\.18\.3, 1 nodes\ninto cluster \S+\/a\n/)
    t.match(planned.out, /\nok +docs +docs-again +\S+ \S+ +is created\n/)
    t.match(planned.out, /1 of 1 collections can be restored, .* nothing was changed\n$/)
    t.match((await plan({})).out, /\nok +docs +docs +\S+ \S+ +replaces existing collection\n/)
    t.match(await plan({ collections: ['nope'] }), {
      code: EXIT_CODES.failure,
      err: 'vec-operator: Collections not present in backup: nope\n',
    })
    t.match(await plan({ targetClusterRef: { name: 'none' } }), {
      code: EXIT_CODES.failure,
      err: /cluster \S+\/none not found/,
    })
    t.match(await plan({ backupRef: { name: 'none' } }), { err: /backup \S+\/none not found/ })
    t.match(await plan({ priority: 'best' }), {
      code: EXIT_CODES.failure,
      err: /restore\.yaml: \.spec\.priority/,
    })
    t.match(await type('restore', 'plan'), {
      code: EXIT_CODES.usage,
      err: /either the name .* or --file/,
    })
    t.match(await type('restore', 'plan', 'none'), { err: /VecRestore \S+\/none not found/ })
    const [, path = ''] = /s3Path +(\S+)\n/.exec(out) ?? []
    const { endpoint, accessKeyId, secretAccessKey } = bucket.access
    const verified = await runCommand(
      ['backup', 'verify', path, '--endpoint', endpoint, '--path-style'],
      { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
    )
    t.equal(verified.code, EXIT_CODES.success, verified.out + verified.err)
    t.match(verified.out, /all \d+ objects are complete/)

    // What does not fit is named, and nothing is changed.
    const [key = ''] = (await bucket.keys()).filter((one) => /by-hand.*snapshot$/.test(one))
    await bucket.put(key, 'short')
    const spoilt = await plan({})
    t.equal(spoilt.code, EXIT_CODES.failure)
    t.match(spoilt.out, /\nx +docs .* has 5 bytes, not the \d+ of the manifest\n/)
    t.match(spoilt.out, /0 of 1 collections can be restored/)
    for (const heard of [out, schedule.out, verified.out, planned.out])
      t.notMatch(heard, secretAccessKey)
  },
)

const RESTORE = {
  apiVersion: API_VERSION,
  kind: 'VecRestore',
  metadata: { name: 'back' },
  spec: { targetClusterRef: { name: 'a' } },
}

function phaseOf(object: unknown): string | undefined {
  return (object as { status?: { phase?: string } } | undefined)?.status?.phase
}

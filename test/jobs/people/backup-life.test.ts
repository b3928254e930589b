/** A backup that a person has made from a schedule, from `backup now` to `backup verify`. */
import t from 'tap'
import { API_VERSION } from '../../../crds/names.ts'
import { ENDS } from '../../../jobs/people/command.ts'
import { backupResource, fill } from '../../scenarios/backup-parts.ts'
import { running } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { personAt, typed } from './person.ts'

t.test(
  'a backup made by hand runs, can be looked at and verified, and outlives retention',
  async (t) => {
    const world = await startEmbeddedWorld()
    t.teardown(() => world.close())
    const namespace = await world.namespace('hand')
    const bucket = await world.bucket(namespace)
    const type = personAt(t, world.api, namespace)
    await running(world, namespace, 'a')
    await fill(world, namespace, 'docs')
    const { reference, of } = backupResource('VecBackupSchedule', { namespace, name: 's' }, bucket)
    await world.apply(of({ schedule: '* * * * *', retentionPolicy: { keepLast: 1 } }))

    t.equal((await type('backup', 'now', 's', '--name', 'by-hand')).code, ENDS.fine)
    const backup = { apiVersion: API_VERSION, kind: 'VecBackup', namespace, name: 'by-hand' }
    await world.until(backup, 'Completed', (object) => phaseOf(object) === 'Completed', 300)
    // Two slots: retention has looked at the backups, and kept one of its own.
    await world.pass(130)
    t.equal(phaseOf(await world.get(backup)), 'Completed')

    const { out } = await type('status', 'qb/by-hand')
    t.match(out, new RegExp(`^VecBackup ${namespace}/by-hand  Completed `))
    t.match(out, /\n {2}Complete=True +BackupCompleted +Backed up 1\/1 collections\n/)
    t.match(out, /\n {2}s3Path +s3:\/\/\S+\/by-hand\/?\n/)
    t.match(out, /\nPART +STATUS\ndocs +Completed +size /)
    t.match(out, /\nbackup-run-\S+ +run +Complete +\S+ +Done/)
    const schedule = await type('status', `qbs/${reference.name}`)
    t.match(schedule.out, /\nPART +STATUS\ns-\d{8}-\d{6} +Completed/)

    const [, path = ''] = /s3Path +(\S+)\n/.exec(out) ?? []
    const { endpoint, accessKeyId, secretAccessKey } = bucket.access
    const verified = await typed(
      ['backup', 'verify', path, '--endpoint', endpoint, '--path-style'],
      { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey },
    )
    t.equal(verified.code, ENDS.fine, verified.out + verified.err)
    t.match(verified.out, /all \d+ objects are whole/)
    for (const heard of [out, schedule.out, verified.out]) t.notMatch(heard, secretAccessKey)
  },
)

function phaseOf(object: unknown): string | undefined {
  return (object as { status?: { phase?: string } } | undefined)?.status?.phase
}

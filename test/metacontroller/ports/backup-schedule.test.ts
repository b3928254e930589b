/** Ports of the VecBackupSchedule hooks: the live backups of the schedule, and no others. */
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { backupSchedulePorts } from '../../../metacontroller/ports/backup-schedule.ts'
import { matchWhole } from '../../match-whole.ts'
import { embeddedApi, installCrds } from '../embedded.ts'

const SCHEDULE = { namespace: 'ns', name: 'daily' }
const s3 = { bucket: 'backups', credentialsSecretRef: { name: 'bucket' } }
const spec = { clusterRef: { name: 'a' }, storage: { s3 } }

interface Made {
  name: string
  namespace?: string
  label?: string
  owner?: string
  controller?: boolean
}

async function stage(t: Test) {
  const embedded = await embeddedApi(t)
  const { kubernetes, api } = embedded
  const make = async ({ name, namespace = 'ns', label = 'daily', owner, controller }: Made) => {
    const reference = { apiVersion: API_VERSION, kind: 'VecBackupSchedule', name: 'daily' }
    const owners = owner === undefined ? [] : [{ ...reference, uid: owner, controller }]
    const labels = { [LABELS.schedule]: label }
    const metadata = { name, namespace, labels, ownerReferences: owners }
    await api.create({ apiVersion: API_VERSION, kind: 'VecBackup', metadata, spec })
  }
  const ports = backupSchedulePorts({ kubernetes, namespaces: [], log: pino({ level: 'silent' }) })
  return { ...embedded, ports, make }
}

t.test(
  'a schedule and a backup are read live; what is gone, kind or object, is not there',
  async (t) => {
    const { api, ports } = await stage(t)
    const none = async () =>
      t.strictSame(
        [
          await ports.schedule('ns', 'daily'),
          await ports.backup('ns', 'b'),
          await ports.backupsOf({ ...SCHEDULE, uid: 'uid' }),
        ],
        [undefined, undefined, []],
      )
    await none()
    await installCrds(api)
    await none()
    await api.create({
      apiVersion: API_VERSION,
      kind: 'VecBackupSchedule',
      metadata: SCHEDULE,
      spec: { ...spec, schedule: '0 3 * * *' },
    })
    t.match(await ports.schedule('ns', 'daily'), {
      spec: { schedule: '0 3 * * *', suspend: false },
    })
  },
)

t.test('the backups of a schedule carry its label and have it as their controller', async (t) => {
  const { api, ports, make } = await stage(t)
  await installCrds(api)
  const mine = { owner: 'uid-mine', controller: true }
  await make({ ...mine, name: 'daily-1' })
  await make({ ...mine, name: 'daily-2' })
  await make({ ...mine, name: 'unlabelled', label: 'weekly' })
  await make({ ...mine, name: 'elsewhere', namespace: 'other' })
  await make({ name: 'by-hand' })
  await make({ name: 'former', owner: 'uid-former', controller: true })
  await make({ name: 'not-controlled', owner: 'uid-mine', controller: false })
  const found = await ports.backupsOf({ ...SCHEDULE, uid: 'uid-mine' })
  t.strictSame(found.map(({ metadata }) => metadata.name).sort(), ['daily-1', 'daily-2'])
})

t.test('backups that cannot be listed are not none', async (t) => {
  const { ports, server } = await stage(t)
  await server.close()
  await t.rejects(ports.backupsOf({ ...SCHEDULE, uid: 'uid' }), { code: 'KubernetesError' })
})

t.test('an Event about a schedule is written', async (t) => {
  const { api, ports } = await stage(t)
  await ports.writeEvent({
    metadata: { name: 'daily.1', namespace: 'ns' },
    involvedObject: { apiVersion: API_VERSION, kind: 'VecBackupSchedule', ...SCHEDULE, uid: 'u' },
    type: 'Normal',
    reason: 'BackupCreated',
    message: 'backup daily-1 is made',
    at: '2026-03-01T12:00:00Z',
  })
  matchWhole(t, (await api.list('v1', 'Event', { namespace: 'ns' })).items, [
    { reason: 'BackupCreated' },
  ])
})

/** `backup now`: a VecBackup from the template of a schedule, made by hand. */
import fc from 'fast-check'
import t from 'tap'
import type { Test } from 'tap'
import { parse } from 'yaml'
import type { VecBackup } from '../../../crds/backup.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../../crds/crd.ts'
import { slotOf } from '../../../hooks/backup-schedule/backups.ts'
import { manualBackupName } from '../../../jobs/kubectl/backup-now.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { matchWhole } from '../../match-whole.ts'
import { openApi } from '../job-fixture.ts'
import { cliFor } from './cli-user.ts'

const SPEC = {
  schedule: '0 3 * * *',
  clusterRef: { name: 'docs' },
  storage: { s3: { bucket: 'b', prefix: 'nightly', credentialsSecretRef: { name: 'bucket' } } },
  collections: ['books'],
  retentionPolicy: { keepLast: 1 },
}

async function scene(t: Test, annotations: Record<string, string> = {}) {
  const { server, api } = await openApi(t)
  for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, '0.1.0'))
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns' } })
  await api.create({
    apiVersion: API_VERSION,
    kind: 'VecBackupSchedule',
    metadata: { name: 'nightly', namespace: 'ns', annotations },
    spec: SPEC,
  })
  const backups = async () => (await api.list(API_VERSION, 'VecBackup', { namespace: 'ns' })).items
  return { type: cliFor(t, server, 'ns'), backups }
}

t.test(
  'backup now creates the backup of the schedule, with its label and without an owner',
  async (t) => {
    const { type, backups } = await scene(t)
    const { code, out, err } = await type('backup', 'now', 'nightly')
    t.equal(code, EXIT_CODES.success, err)
    t.match(out, /^vecbackup.vec-operator.dev\/nightly-20300101-000000-manual created\n/)
    t.match(out, /kubectl wait --for=condition=Complete qb\/nightly-20300101-000000-manual -n ns/)
    const [backup, ...more] = await backups()
    t.strictSame(more, [])
    matchWhole(t, backup, {
      metadata: {
        name: 'nightly-20300101-000000-manual',
        labels: { [LABELS.schedule]: 'nightly' },
        annotations: { [ANNOTATIONS.instantiate]: 'manual' },
        ownerReferences: undefined,
      },
      spec: {
        clusterRef: SPEC.clusterRef,
        collections: ['books'],
        storage: { s3: { bucket: 'b', prefix: 'nightly' } },
      },
    })
  },
)

t.test('the backup keeps its objects where the schedule says so', async (t) => {
  const { type, backups } = await scene(t, { [ANNOTATIONS.retainObjects]: 'true' })
  t.equal(
    (await type('backup', 'now', 'nightly', '--name', 'before-upgrade')).code,
    EXIT_CODES.success,
  )
  matchWhole(t, await backups(), [
    { metadata: { name: 'before-upgrade', annotations: { [ANNOTATIONS.retainObjects]: 'true' } } },
  ])
})

t.test('a second one of the same name is rejected, naming it', async (t) => {
  const { type } = await scene(t)
  await type('backup', 'now', 'nightly', '--name', 'one')
  const { code, err } = await type('backup', 'now', 'nightly', '--name', 'one')
  t.equal(code, EXIT_CODES.failure)
  t.equal(err, 'vec-operator: VecBackup ns/one already exists\n')
})

t.test('--dry-run prints what kubectl could apply, and makes nothing', async (t) => {
  const { type, backups } = await scene(t)
  const { out } = await type('backup', 'now', 'nightly', '--dry-run')
  t.match(parse(out), { apiVersion: API_VERSION, kind: 'VecBackup', metadata: { namespace: 'ns' } })
  t.strictSame(await backups(), [])
})

t.test('a missing schedule is named, with its namespace', async (t) => {
  const { type } = await scene(t)
  for (const [args, name] of [
    [['weekly'], 'ns/weekly'],
    [['nightly', '-n', 'other'], 'other/nightly'],
    [['nightly', '--context', 'elsewhere'], 'elsewhere/nightly'],
  ] as const) {
    const { code, err } = await type('backup', 'now', ...args)
    t.equal(code, EXIT_CODES.failure)
    t.match(err, `VecBackupSchedule ${name} not found`)
  }
  t.match(await type('backup', 'now', 'nightly', '--context', 'nowhere'), {
    code: EXIT_CODES.failure,
    err: /the kubeconfig has no context nowhere/,
  })
})

t.test('a name that the API rejects is reported with its message', async (t) => {
  const { type } = await scene(t)
  const { code, err } = await type('backup', 'now', 'nightly', '--name', 'Not_A_Name')
  t.equal(code, EXIT_CODES.failure)
  t.match(err, /POST .*vecbackups answered 422/)
})

t.test('the name of a manual backup is never that of a slot of any schedule', async (t) => {
  const names = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,45}[a-z0-9])?$/)
  const instants = fc.date({ min: new Date(0), max: new Date('2100-01-01'), noInvalidDate: true })
  fc.assert(
    fc.property(names, instants, (schedule, at) => {
      const name = manualBackupName(schedule, at)
      t.ok(name.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name), name)
      // A slot is what follows the name of any schedule and a hyphen.
      for (let end = 1; end < name.length; end += 1) {
        const backup = { metadata: { name } } as VecBackup
        t.equal(slotOf(name.slice(0, end), backup), undefined)
      }
    }),
    { numRuns: 50 },
  )
})

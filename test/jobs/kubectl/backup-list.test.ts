/** `backup list`: VecBackups in all states, filtered and in every format. */
import t from 'tap'
import { parse } from 'yaml'
import { API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../../crds/crd.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { openApi } from '../job-fixture.ts'
import { cliFor } from './cli-user.ts'

const { server, api } = await openApi(t)
for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, '0.1.0'))
for (const name of ['ns', 'other']) {
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
}
const type = cliFor(t, server, 'ns')

interface Backup {
  name: string
  namespace?: string
  clusterRef?: object
  schedule?: string
  status?: object
}

async function put(backup: Backup): Promise<void> {
  const { name, namespace = 'ns', clusterRef = { name: 'docs' }, schedule, status } = backup
  const storage = { s3: { bucket: 'b', prefix: 'p', credentialsSecretRef: { name: 'bucket' } } }
  const labels = schedule === undefined ? {} : { [LABELS.schedule]: schedule }
  const object = await api.create({
    apiVersion: API_VERSION,
    kind: 'VecBackup',
    metadata: { name, namespace, labels },
    spec: { clusterRef, storage },
  })
  if (status !== undefined) await api.replaceStatus({ ...object, status })
}

t.test('no backups', async (t) => {
  t.match(await type('backup', 'list'), { code: EXIT_CODES.success, out: 'No backups.\n' })
  t.strictSame(JSON.parse((await type('backup', 'list', '--json')).out), [])
})

t.test('backups in all states', async (t) => {
  await put({
    name: 'nightly-1',
    schedule: 'nightly',
    status: {
      phase: 'Completed',
      startTime: '2029-12-31T23:00:00Z',
      completionTime: '2029-12-31T23:05:00Z',
      expiresAt: '2030-01-31T23:05:00Z',
      s3Path: 's3://b/p/nightly-1',
      totalSize: '1.2 GiB',
      collections: ['a', 'b'].map((name) => ({ name, status: 'Completed' })),
    },
  })
  await put({ name: 'waiting' })
  await put({
    name: 'broken',
    clusterRef: { name: 'main', namespace: 'other' },
    status: {
      phase: 'Failed',
      error: `the bucket ${'x'.repeat(100)} does not exist`,
      collections: [
        { name: 'a', status: 'Completed' },
        { name: 'b', status: 'Failed' },
      ],
    },
  })
  await put({
    name: 'large',
    namespace: 'other',
    status: {
      phase: 'Completed',
      collections: [{ name: 'a', status: 'Completed' }],
      unlistedCollections: { completed: 1000 },
    },
  })
  await put({
    name: 'growing',
    namespace: 'other',
    status: {
      phase: 'InProgress',
      collections: [{ name: 'a', status: 'Completed' }],
      unlistedCollections: { completed: 500, failed: 1, pending: 499 },
    },
  })

  const { out } = await type('backup', 'list')
  t.match(out, /^NAME +CLUSTER +PHASE +AGE +SIZE +COLLECTIONS +ERROR\n/)
  t.match(out, /^nightly-1 +ns\/docs +Completed +\S+ +1\.2 GiB +2\/2$/m)
  t.match(out, /^waiting +ns\/docs +Pending +\S+ +- +-$/m)
  t.match(out, /^broken +other\/main +Failed +\S+ +- +1\/2 +the bucket x+…$/m)
  t.notMatch(out, 'large')

  const { out: all } = await type('backup', 'list', '-A', '-o', 'wide')
  t.match(
    all,
    /^NAMESPACE +NAME +CLUSTER +PHASE +AGE +SIZE +COLLECTIONS +SCHEDULE +DURATION +EXPIRES +LOCATION +ERROR\n/,
  )
  t.match(
    all,
    /^ns +nightly-1 .* 2\/2 +nightly +5m +2030-01-31T23:05:00Z +s3:\/\/b\/p\/nightly-1$/m,
  )
  t.match(all, /^other +large +other\/docs +Completed +\S+ +- +1001\/1001 /m)
  t.match(all, /^other +growing +other\/docs +InProgress +\S+ +- +501\/1001 /m)
  t.match(all, /does not exist$/m, 'the whole error')
})

t.test('only those of a schedule, or of a cluster', async (t) => {
  const names = async (...args: string[]) =>
    (await type('backup', 'list', ...args, '-o', 'name')).out
  t.equal(await names('nightly'), 'vecbackup.vec-operator.dev/nightly-1\n')
  t.equal(await names('weekly'), '')
  t.equal(await names('--cluster', 'main'), 'vecbackup.vec-operator.dev/broken\n')
})

t.test('scripts read JSON or YAML', async (t) => {
  const { out } = await type('backup', 'list', 'nightly', '-o', 'json')
  const [line, ...more] = JSON.parse(out) as { createdAt?: string }[]
  t.strictSame(more, [])
  t.match(line?.createdAt, /^2\d{3}-/)
  t.strictSame(line, {
    kind: 'VecBackup',
    namespace: 'ns',
    name: 'nightly-1',
    cluster: 'ns/docs',
    schedule: 'nightly',
    phase: 'Completed',
    createdAt: line?.createdAt,
    seconds: 300,
    size: '1.2 GiB',
    collections: '2/2',
    expiresAt: '2030-01-31T23:05:00Z',
    location: 's3://b/p/nightly-1',
  })
  t.strictSame(parse((await type('backup', 'list', 'nightly', '-o', 'yaml')).out), [line])
})

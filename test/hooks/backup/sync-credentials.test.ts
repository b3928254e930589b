/** The credentials of the Job of a VecBackup, and which of them are copies. */
import t from 'tap'
import { desiredPlan } from '../../../hooks/backup/job.ts'
import { sync } from '../../../hooks/backup/sync.ts'
import { context, secret } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import {
  backup,
  bucketKeys,
  keySecret,
  ready,
  report,
  result,
  runningCluster,
  dataJob,
} from './objects.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { jobPod } from '../decisions.ts'

const secured = {
  apiKey: { autoGenerate: true, jwtRbac: false },
  tls: { enabled: true, secretRef: { name: 'cert' } },
}

const credentials = {
  bucket: bucketKeys,
  engine: keySecret(),
  tls: secret({ 'tls.crt': 'c', 'tls.key': 'k', 'ca.crt': 'authority' }),
}

t.test('the key and the authority of the cluster are mounted from their Secrets', async (t) => {
  const decision = sync(
    ready({ cluster: runningCluster({ spec: secured }), secrets: credentials }),
    context,
  )
  t.strictSame(jobPod(decision).volumes.slice(1), [
    { name: 'bucket', secret: { secretName: 's3', optional: true } },
    { name: 'engine', secret: { secretName: 'vec-a-apikey', optional: true } },
    { name: 'tls', secret: { secretName: 'cert', optional: true } },
  ])
})

const far = backup({ namespace: 'far', spec: { clusterRef: { name: 'a', namespace: 'ns' } } })

t.test('in the namespace of its cluster a Job needs no copies', async (t) => {
  const observed = ready({
    cluster: runningCluster({ spec: secured }),
    secrets: credentials,
    jobs: [dataJob()],
    progress: report(),
    secretCopies: {},
  })
  t.equal(sync(observed, context).writeCopies, undefined)
  t.equal(sync({ ...observed, backup: far }, context).writeCopies?.length, 2, 'in another one')
})

t.test(
  'a Secret of another namespace reaches a Job only as a copy, which its pods wait for',
  async (t) => {
    const lease = leaseOf('backup', 'VecBackup/far/b/uid-b')
    const decision = sync(
      ready({
        backup: far,
        cluster: runningCluster({ spec: secured }),
        secrets: credentials,
        leases: { write: { kind: 'write' }, backup: { kind: 'backup', lease, jobs: [] } },
      }),
      context,
    )
    const job = dataJob().metadata.name
    t.strictSame(jobPod(decision).volumes.slice(1), [
      { name: 'bucket', secret: { secretName: 's3', optional: true } },
      { name: 'engine', secret: { secretName: `${job}-engine` } },
      { name: 'tls', secret: { secretName: `${job}-tls` } },
    ])
    t.equal(decision.writeCopies, undefined, 'once the Job exists')
  },
)

t.test(
  'the copies are created once the Job exists, owned by it, and hold the one key that is needed',
  async (t) => {
    const plan = desiredPlan(far, runningCluster({ spec: secured }), undefined).hash
    const job = dataJob({ namespace: 'far', plan })
    const { name } = job.metadata
    const running = ready({
      backup: far,
      cluster: runningCluster({ spec: secured }),
      secrets: credentials,
      jobs: [job],
      secretCopies: {},
      progress: report(),
    })
    const copy = (credential: string, data: Record<string, string>) => ({
      apiVersion: 'v1' as const,
      kind: 'Secret' as const,
      metadata: {
        name: `${name}-${credential}`,
        namespace: 'far',
        labels: { 'app.kubernetes.io/managed-by': 'vec-operator' },
        ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid: 'job-1' }],
      },
      type: 'Opaque',
      data,
    })
    const engine = copy('engine', { 'api-key': 'aw==' })
    const tls = copy('tls', { 'ca.crt': 'YXV0aG9yaXR5' })
    t.strictSame(sync(running, context).writeCopies, [engine, tls])
    t.equal(sync({ ...running, secretCopies: { engine, tls } }, context).writeCopies, undefined)
    const starting = { ...running }
    delete starting.progress
    delete starting.leases
    t.equal(sync(starting, context).writeCopies?.length, 2)
    t.equal(sync(starting, context).resyncAfterSeconds, 2, 'its pods wait for them')
    delete starting.cluster
    t.equal(sync(starting, context).writeCopies, undefined)
    const rotated = { ...credentials, engine: keySecret('new') }
    const later = sync({ ...running, secretCopies: { engine, tls }, secrets: rotated }, context)
    matchWhole(t, later.writeCopies, [{ data: { 'api-key': 'bmV3' } }], 'kept equal while it runs')
    const done = report({ state: 'Done', backup: result() })
    t.strictSame(
      sync({ ...running, progress: done }, context).deleteCopies,
      ['engine', 'tls'].map((one) => ({
        namespace: 'far',
        name: `${name}-${one}`,
        ownerUid: 'job-1',
      })),
      'deleted when it has ended',
    )
  },
)

/** Credentials of a running backup of a cluster in another namespace. */
function running(parts: { annotations?: Record<string, string>; isForged?: boolean }) {
  const owner = runningCluster({
    spec: secured,
    ...(parts.annotations && { annotations: parts.annotations }),
  })
  const job = dataJob({ namespace: 'far' })
  if (parts.isForged === true) job.metadata.annotations = {}
  return ready({
    ...{ backup: far, cluster: owner, secrets: credentials, jobs: [job], secretCopies: {} },
    progress: report(),
  })
}

t.test('a Job that this operator did not create gets no key, whatever it reports', async (t) => {
  t.equal(sync(running({}), context).writeCopies?.length, 2)
  t.equal(sync(running({ isForged: true }), context).writeCopies, undefined)
})

t.test('a withdrawn permission stops the Job and deletes its credentials', async (t) => {
  const observed = running({ annotations: { 'vec-operator.dev/allowed-namespaces': 'others' } })
  const decision = sync(observed, context)
  const { name } = dataJob().metadata
  t.equal(decision.writeCopies, undefined)
  matchWhole(t, decision.deleteJobs, [{ namespace: 'far', name }])
  t.strictSame(
    decision.deleteCopies?.map((copy) => copy.name),
    [`${name}-engine`, `${name}-tls`],
  )
  matchWhole(t, decision.status.conditions, [{ status: 'False', reason: 'RefNotPermitted' }])
  t.equal(decision.children.length, observed.children.length, 'no child is lost')
})

t.test('an image that admission rewrote does not replace the Job', async (t) => {
  const plan = desiredPlan(far, runningCluster({ spec: secured }), undefined).hash
  const image = 'mirror.example/vec-operator@sha256:0'
  const job = dataJob({ namespace: 'far', plan, image })
  const { settings } = context
  Object.assign(job.metadata.annotations ?? {}, { 'vec-operator.dev/image': settings.image })
  const { progress: _, ...observed } = running({})
  t.equal(sync({ ...observed, jobs: [job] }, context).deleteJobs, undefined)
  const upgraded = { ...context, settings: { ...settings, image: 'vec-operator:next' } }
  t.equal(
    sync({ ...observed, jobs: [job] }, upgraded).deleteJobs?.length,
    1,
    'another release does',
  )
})

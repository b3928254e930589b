/** `doctor`: what it finds in a cluster where everything is there, and in one where something is not. */
import t from 'tap'
import { DANGERS } from '../../../crds/critical-conditions.ts'
import { API_VERSION, LABELS, MANAGED_BY, leaseName } from '../../../crds/contract/names.ts'
import { EXIT_CODES, cliVersion } from '../../../jobs/kubectl/command.ts'
import { PLURALS } from '../../../metacontroller/controllers.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { matchWhole } from '../../match-whole.ts'
import { CREATE_REVIEW } from '../../world/api/reviews.ts'
import { referenceOf, type ApiObject } from '../../world/client.ts'
import { compositeControllerCrd } from '../../world/composite-controllers.ts'
import { START } from '../job-fixture.ts'
import { COMPLETE, WORKLOAD, installOperator, type Installation } from './installation.ts'

t.test('doctor prints a complete installation on one page, and exits with 0', async (t) => {
  const { type } = await installOperator(t)
  const { code, out, err } = await type('doctor')
  t.equal(code, EXIT_CODES.success, out + err)
  t.equal(
    out,
    `
ok  Kubernetes            v1.34.4
ok  CRDs                  all 7 are from release ${cliVersion()} or newer
ok  Metacontroller        metacontroller/metacontroller: 4.17.2
ok                        --client-go-qps 100, required: 1
ok  CompositeControllers  served: ${PLURALS.toSorted().join(', ')}
ok  hook service          vec-system/vec-operator responds
ok  your permissions      sufficient for every command
ok  cluster ns/docs       Running, its engine is ready
ok  conditions            none means danger
ok  metrics               none means danger
ok  Leases                0 Leases, all with an existing holder

0 failed, 0 warnings, 11 ok
`.trimStart(),
  )
})

const ALLOWED = { 'vec-operator.dev/data-jobs': 'allow' }

const TROUBLES: [string, Installation, RegExp, number][] = [
  [
    'a Metacontroller that is too old',
    { metacontroller: { version: 'v4.11.0', args: ['--client-go-qps=100'] } },
    /^x .*4\.11\.0 is older than 4\.17\.2$/m,
    EXIT_CODES.failure,
  ],
  [
    'too few API calls, by a flag of two words',
    { metacontroller: { version: 'v4.17.2', args: ['--client-go-qps', '0'] } },
    /^x .*--client-go-qps is 0; the resources in this cluster need 1: syncs are late$/m,
    EXIT_CODES.failure,
  ],
  [
    'a Metacontroller without the flag, which has 5',
    { metacontroller: { version: 'v4.17.2', args: [] } },
    /^ok .*--client-go-qps 5, required: 1$/m,
    EXIT_CODES.success,
  ],
  [
    'a Metacontroller whose pod is not ready',
    { metacontroller: { version: 'v4.17.2', args: [], ready: false } },
    /^x .*metacontroller\/metacontroller: no pod is ready$/m,
    EXIT_CODES.failure,
  ],
  [
    'an image that names no version',
    { metacontroller: { version: 'latest', args: [] } },
    /^! .*has no version tag$/m,
    EXIT_CODES.success,
  ],
  ['no CompositeControllers', { kinds: [] }, /none: nothing is reconciled$/m, EXIT_CODES.failure],
  [
    'kinds that are not served',
    { kinds: PLURALS.slice(0, 3) },
    /^! .*not served: vecbackups, vecbackupschedules, vecrestores, vecmigrations$/m,
    EXIT_CODES.success,
  ],
  [
    'CRDs and hooks of another release',
    { release: '0.0.1' },
    /^x .*vecclusters\.vec-operator\.dev is of release 0\.0\.1.*\n(.*\n)*!.*calls hooks of release 0\.0\.1/m,
    EXIT_CODES.failure,
  ],
  [
    'an engine that is not ready',
    { readyz: 503 },
    /^x .*Running; its engine \/readyz answered 503/m,
    EXIT_CODES.failure,
  ],
]
for (const [what, parts, words, code] of TROUBLES) {
  t.test(`doctor finds ${what}`, async (t) => {
    const { type } = await installOperator(t, { ...COMPLETE, ...parts })
    const found = await type('doctor')
    t.match(found.out, words)
    t.equal(found.code, code)
  })
}

t.test('doctor says which of several replicas is the leader, and finds that none is', async (t) => {
  const { api, type } = await installOperator(t, {
    ...COMPLETE,
    hookService: 'vec-operator-leader',
  })
  const lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace: 'vec-system', name: 'vec-operator-leader' },
  }
  const renewed = (seconds: number) =>
    new Date(START.getTime() - seconds * 1000).toISOString().replace('Z', '000Z')
  const holderIdentity = 'vec-operator-0_uid_1'
  const CASES: [spec: object, lines: string, code: number][] = [
    [
      { holderIdentity, renewTime: renewed(2) },
      'ok  hook service          vec-system/vec-operator-0 responds\n' +
        'ok                        vec-operator-0 is the leader\n',
      EXIT_CODES.success,
    ],
    [
      { holderIdentity, renewTime: renewed(61) },
      `x   hook service          the leader vec-operator-0 has not renewed its Lease since ${renewed(61)}\n`,
      EXIT_CODES.failure,
    ],
    [
      { holderIdentity: '' },
      'x   hook service          no replica is the leader: Lease vec-system/vec-operator-leader\n',
      EXIT_CODES.failure,
    ],
  ]
  for (const [spec, lines, expected] of CASES) {
    const reference = { ...lease, ...lease.metadata }
    if ((await api.get(reference)) !== undefined) await api.delete(reference)
    await api.create({ ...lease, spec })
    const { code, out } = await type('doctor')
    t.ok(out.includes(lines), out)
    t.equal(code, expected)
  }
})

t.test('doctor finds a hook service and an engine behind which there is no pod', async (t) => {
  const { metacontroller = { version: '', args: [] }, kinds = [] } = COMPLETE
  const { type } = await installOperator(t, { metacontroller, kinds })
  const { code, out } = await type('doctor')
  t.equal(code, EXIT_CODES.failure)
  t.match(out, /^x +hook service +vec-system\/vec-operator \/healthz answered 503$/m)
  t.match(out, /^x +cluster ns\/docs +Running; its engine \/readyz answered 503$/m)
})

t.test('doctor says why a cluster is not installed, and asks no engine', async (t) => {
  const { type, api, cluster } = await installOperator(t, { ...COMPLETE, readyz: 503 })
  const message = 'spec.apiKey.secretRef: Secret none does not exist'
  const applied = { type: 'Applied', status: 'False', reason: 'InvalidSecret', message }
  const conditions = [{ ...applied, lastTransitionTime: START.toISOString() }]
  await api.patch(cluster, { status: { phase: null, conditions } }, { subresource: 'status' })
  const { code, out } = await type('doctor')
  t.equal(code, EXIT_CODES.success)
  t.match(out, `!   cluster ns/docs       not installed: ${message}\n`)
})

t.test('doctor asks no engine of a hibernated cluster', async (t) => {
  const { type, api, cluster } = await installOperator(t, { ...COMPLETE, readyz: 503 })
  await api.patch(cluster, { status: { phase: 'Hibernated' } }, { subresource: 'status' })
  const { code, out } = await type('doctor')
  t.equal(code, EXIT_CODES.success)
  t.match(out, /cluster ns\/docs +Hibernated \(spec\.hibernate\)$/m)
})

t.test('doctor without Metacontroller says so', async (t) => {
  const { type, api } = await installOperator(t)
  await api.delete(referenceOf(compositeControllerCrd()))
  await api.delete({ ...WORKLOAD, namespace: 'metacontroller', name: 'metacontroller' })
  const { code, out } = await type('doctor')
  t.equal(code, EXIT_CODES.failure)
  t.match(out, /^! +Metacontroller +no StatefulSet or Deployment is labelled/m)
  t.match(out, /^x +CompositeControllers +no such kind: Metacontroller is not installed$/m)
  t.match(out, /^! +hook service +no CompositeController calls it/m)
})

t.test('doctor names what the caller may not do, and what needs it', async (t) => {
  const { type, server } = await installOperator(t)
  server.refused.add('get pods/proxy').add('get pods/log').add('get statefulsets')
  const { code, out } = await type('doctor', '-n', 'ns')
  t.equal(code, EXIT_CODES.success)
  t.match(
    out,
    /^! +your permissions +no permission to get pods\/log: needed for logs and support-bundle$/m,
  )
  t.match(out, /^! +no permission to get statefulsets: needed for plan and advise$/m)
  t.match(out, /^! +no permission to get pods\/proxy: needed for the shards of status$/m)
})

t.test('doctor calls no permission missing that the API server did not examine', async (t) => {
  const { type, server } = await installOperator(t)
  server.refused.add(CREATE_REVIEW)
  const { code, out } = await type('doctor')
  t.equal(code, EXIT_CODES.success)
  t.match(out, /^! +your permissions +not checked: selfsubjectaccessreviews\S* is forbidden$/m)
  t.notMatch(out, /no permission to/)
})

t.test('doctor finds Leases whose holder is gone, with and without a Job', async (t) => {
  const { type, api } = await installOperator(t)
  await api.create(lease('backup', 'VecBackup/ns/missing/uid-1'))
  await api.create(lease('write', 'VecRestore/ns/gone/uid-2'))
  const labels = { [LABELS.parent]: 'uid-2' }
  const metadata = { name: 'restore-run-x-1', namespace: 'ns', labels }
  const pod = { restartPolicy: 'Never', containers: [{ name: 'restore', image: 'x' }] }
  await api.create({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata,
    spec: { template: { spec: pod } },
  })
  const { code, out } = await type('doctor')
  t.equal(code, EXIT_CODES.success)
  t.match(
    out,
    /ns\/vec-docs-backup: its holder VecBackup ns\/missing is gone; the next waiting resource takes it over/,
  )
  t.match(
    out,
    /ns\/vec-docs-write: its holder VecRestore ns\/gone is gone, and its Job restore-run-x-1 still runs/,
  )
})

t.test('doctor finds a Lease whose holder is in a namespace that is not watched', async (t) => {
  const service = ['metacontroller/serve.js', '--namespace', 'one', '--namespace=two']
  const { type, api, cluster } = await installOperator(t, { ...COMPLETE, service })
  const { metadata } = (await api.get(cluster)) ?? {}
  await api.create(lease('backup', `VecCluster/ns/docs/${metadata?.uid ?? ''}`))
  await api.create(lease('write', 'another-holder'))
  const { out } = await type('doctor')
  t.match(out, /its holder VecCluster ns\/docs is in a namespace that the operator does not watch/)
  t.match(
    out,
    /ns\/vec-docs-write is held by another-holder, which does not belong to this operator/,
  )
})

t.test('doctor reports each condition that an alert is for', async (t) => {
  const { type, api, cluster } = await installOperator(t)
  const transition = '2026-03-01T12:00:00Z'
  for (const { type: name, status, reason = 'Tested' } of DANGERS) {
    const condition = {
      ...{ type: name, status, reason, lastTransitionTime: transition, observedGeneration: 1 },
      message: `${name} tested`,
    }
    const report = async (present: object) => {
      await api.patch(cluster, { status: { conditions: [present] } }, { subresource: 'status' })
      return type('doctor')
    }
    const healthy = await report({ ...condition, status: 'Unknown' })
    t.match(healthy.out, /^ok +conditions +none means danger$/m)
    const { out, code } = await report(condition)
    t.ok(out.includes(`VecCluster ns/docs: ${name} is ${status}: ${name} tested`), out)
    t.equal(code, EXIT_CODES.success)
  }
})

t.test('a released Lease that exists because of its queue is no finding', async (t) => {
  const { type, api } = await installOperator(t)
  const { spec: _, ...vacated } = lease('backup', '')
  await api.create({ ...vacated, spec: {} })
  const { out } = await type('doctor')
  t.match(out, /^ok +Leases +1 Lease, all with an existing holder$/m)
})

const BUCKETS: [string, object, RegExp, number][] = [
  ['answers', {}, /^ok +bucket backups +read with Secret ns\/keys$/m, EXIT_CODES.success],
  [
    'is missing',
    { bucket: 'nowhere' },
    /^x +bucket nowhere +LIST s3:\/\/nowhere\S* answered 404 NoSuchBucket/m,
    EXIT_CODES.failure,
  ],
  [
    'has no Secret',
    { credentialsSecretRef: { name: 'none' } },
    /^x +bucket backups +Secret ns\/none not found$/m,
    EXIT_CODES.failure,
  ],
  [
    'names a Secret of Helm',
    { credentialsSecretRef: { name: 'release' } },
    /^x +bucket backups +Secret ns\/release is of type helm\.sh\/release\.v1, which cannot hold credentials$/m,
    EXIT_CODES.failure,
  ],
  [
    'takes other keys',
    { credentialsSecretRef: { name: 'wrong' } },
    /^x +bucket backups +LIST .* answered 403/m,
    EXIT_CODES.failure,
  ],
  [
    'has a private authority, which it names',
    { isPrivate: true, caConfigMapRef: { name: 'root' } },
    /^ok +bucket backups +read with Secret ns\/keys$/m,
    EXIT_CODES.success,
  ],
  [
    'names an authority that is missing',
    { caSecretRef: { name: 'gone' } },
    /^x +bucket backups +spec\.storage\.s3\.caSecretRef: Secret ns\/gone not found$/m,
    EXIT_CODES.failure,
  ],
  [
    'has no address here',
    { endpoint: 'http://127.0.0.1:9' },
    /^! +bucket backups +.*\(from this machine\)$/m,
    EXIT_CODES.success,
  ],
]
for (const [what, changes, words, code] of BUCKETS) {
  t.test(`doctor reports a bucket that ${what}, and prints no key`, async (t) => {
    const { type, api } = await installOperator(t)
    const { isPrivate = false, ...fields } = changes as { isPrivate?: boolean }
    const store = await startBucketServer({ now: () => START, ...(isPrivate && { tls: ONE }) })
    await api.create({
      ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'root', namespace: 'ns' } },
      data: { 'ca.crt': ONE.cert },
    })
    t.teardown(() => store.close())
    for (const [name, secret, secretType] of [
      ['keys', 'secretsecret', 'Opaque'],
      ['wrong', 'anothersecret', 'Opaque'],
      ['release', 'secretsecret', 'helm.sh/release.v1'],
    ] as const) {
      const stringData = { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: secret }
      const metadata = { name, namespace: 'ns' }
      await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, type: secretType, stringData })
    }
    const s3 = {
      ...{ bucket: 'backups', endpoint: store.url, forcePathStyle: true },
      ...{ credentialsSecretRef: { name: 'keys' }, ...fields },
    }
    for (const name of ['one', 'two']) {
      await api.create({
        apiVersion: API_VERSION,
        kind: 'VecBackup',
        metadata: { name, namespace: 'ns' },
        spec: { clusterRef: { name: 'docs' }, storage: { s3 } },
      })
    }
    const quiet = await type('doctor')
    t.equal(store.calls.length, 0, 'nothing is sent unless it is asked for')
    const found = await type('doctor', '--buckets')
    t.match(found.out, words)
    t.equal(found.code, code, found.out)
    t.equal(found.out.match(/^\S+ +bucket /gm)?.length, 1, 'each bucket once')
    const named = `not checked: --buckets reads it at ${s3.endpoint} with Secret ns/`
    const isNeverSent = /Secret ns\/\S+ (not found|is of type)/.test(found.out)
    if (isNeverSent) t.match(quiet.out, words)
    else t.ok(quiet.out.includes(named), quiet.out)
    t.notMatch(found.out + found.err, /secretsecret|anothersecret/)
  })
}

const ACCOUNTS: [string, object | undefined, RegExp, number][] = [
  ['does not exist', undefined, /^x +bucket backups +ServiceAccount ns\/backups not found$/m, 1],
  [
    'is being deleted',
    { annotations: ALLOWED, finalizers: ['test/holds'], isDeleted: true },
    /^x +bucket backups +ServiceAccount ns\/backups not found$/m,
    1,
  ],
  [
    'does not allow data Jobs',
    {},
    /^x +bucket backups +ServiceAccount ns\/backups does not allow data Jobs: set its annotation vec-operator\.dev\/data-jobs to allow$/m,
    1,
  ],
  [
    'allows them',
    { annotations: ALLOWED },
    /^ok +bucket backups +not checked: only Jobs of ServiceAccount ns\/backups can read it$/m,
    0,
  ],
]
for (const [what, account, words, code] of ACCOUNTS) {
  t.test(`doctor reports a bucket whose ServiceAccount ${what}`, async (t) => {
    const { type, api } = await installOperator(t)
    if (account !== undefined) {
      const { isDeleted, ...fields } = account as { isDeleted?: boolean }
      const created = await api.create({
        ...{ apiVersion: 'v1', kind: 'ServiceAccount' },
        metadata: { name: 'backups', namespace: 'ns', ...fields },
      })
      if (isDeleted === true) await api.delete(referenceOf(created))
    }
    const s3 = { bucket: 'backups', region: 'eu-west-1', serviceAccountName: 'backups' }
    await api.create({
      ...{ apiVersion: API_VERSION, kind: 'VecBackup', metadata: { name: 'one', namespace: 'ns' } },
      spec: { clusterRef: { name: 'docs' }, storage: { s3 } },
    })
    const found = await type('doctor', '--buckets')
    t.match(found.out, words)
    t.equal(found.code, code === 0 ? EXIT_CODES.success : EXIT_CODES.failure, found.out)
  })
}

t.test('doctor --json has the same findings for programs', async (t) => {
  const { type } = await installOperator(t, { ...COMPLETE, readyz: 503 })
  const { code, out } = await type('doctor', '--json')
  t.equal(code, EXIT_CODES.failure)
  const findings = JSON.parse(out) as { about: string; level: string }[]
  t.match(findings[0], { about: 'Kubernetes', level: 'fine', says: /^v1/ })
  matchWhole(
    t,
    findings.filter(({ level }) => level === 'wrong'),
    [{ about: 'cluster ns/docs' }],
  )
})

t.test('doctor says what is wrong when the API does not take the caller', async (t) => {
  const { type, server } = await installOperator(t)
  await server.close()
  t.match(await type('doctor'), {
    code: EXIT_CODES.failure,
    out: '',
    err: /GET \/version got no answer/,
  })
})

function lease(kind: 'backup' | 'write', holderIdentity: string): ApiObject {
  const labels = { [LABELS.managedBy]: MANAGED_BY }
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: leaseName('docs', kind), namespace: 'ns', labels },
    spec: { holderIdentity },
  }
}

/** `doctor`: what it finds in a cluster where everything is there, and in one where something is not. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { definitionOf } from '../../../crds/definition.ts'
import { API_VERSION, LABELS, MANAGED_BY, leaseName } from '../../../crds/names.ts'
import { RESOURCES } from '../../../crds/resources.ts'
import { ENDS } from '../../../jobs/people/command.ts'
import { ownRelease } from '../../../jobs/people/release.ts'
import { PLURALS, controllers } from '../../../metacontroller/controllers.ts'
import { startBucketServer } from '../../doubles/bucket/server.ts'
import { applyObject } from '../../world/apply.ts'
import type { ApiClient, ApiObject } from '../../world/client.ts'
import { START, openApi } from '../job-ground.ts'
import { podOf } from '../job-world.ts'
import { personAt } from './person.ts'

interface Parts {
  /** Release of the operator that is installed. */
  release?: string
  metacontroller?: { version: string; args: string[]; ready?: boolean }
  kinds?: readonly string[]
  /** Arguments of the hook service; absent where there is no such pod. */
  service?: string[]
  /** What the engine answers to /readyz; absent where it does not listen. */
  readyz?: number
}

const WHOLE: Parts = {
  metacontroller: { version: 'v4.17.2', args: ['--client-go-qps=100'] },
  kinds: PLURALS,
  service: ['metacontroller/serve.js'],
  readyz: 200,
}

/** A cluster in which all of it is installed as the parts say, with one VecCluster that is Running. */
async function scene(t: Test, parts: Parts = WHOLE) {
  const ports = new Map<string, number>()
  const { server, api } = await openApi(t, (pod) => ports.get(pod))
  const { release = ownRelease(), kinds = [], service, readyz, metacontroller } = parts
  for (const resource of RESOURCES) await api.create(definitionOf(resource, release))
  for (const name of ['ns', 'vec-system', 'metacontroller']) {
    await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    const account = { name: 'default', namespace: name }
    await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  }
  await api.create(COMPOSITE_CONTROLLERS)
  const url = 'http://vec-operator.vec-system.svc.cluster.local:8080'
  const installation = { url, version: release, tokenFingerprint: 'f', namespacesHash: 'h', kinds }
  for (const controller of controllers(installation)) await api.create({ ...controller })
  await install(api, 'metacontroller', 'metacontroller', metacontroller)
  await behind(t, { api, ports }, 'vec-system', 'vec-operator', 8080, service && 200)
  await install(api, 'vec-operator', 'vec-system', { version: release, args: service ?? [] })
  const cluster = { apiVersion: API_VERSION, kind: 'VecCluster', namespace: 'ns', name: 'docs' }
  await api.create({ ...cluster, metadata: cluster, spec: { version: '1.18.3' } })
  await api.patch(cluster, { status: { phase: 'Running' } }, { subresource: 'status' })
  await behind(t, { api, ports }, 'ns', 'vec-docs', 6333, readyz)
  return { api, server, cluster, type: personAt(t, server, 'ns') }
}

t.test('doctor with everything there says so on one page, and ends with 0', async (t) => {
  const { type } = await scene(t)
  const { code, out, err } = await type('doctor')
  t.equal(code, ENDS.fine, out + err)
  t.equal(
    out,
    `
ok  Kubernetes            v1.34.4
ok  CRDs                  all 7 are of ${ownRelease()} or newer
ok  Metacontroller        metacontroller/metacontroller: 4.17.2
ok                        --client-go-qps 100, needed here: 1
ok  CompositeControllers  served: ${PLURALS.toSorted().join(', ')}
ok  hook service          vec-system/vec-operator answers
ok  your rights           enough for every command
ok  cluster ns/docs       Running, its engine is ready
ok  Leases                0 Leases, none without a holder

0 wrong, 0 to look at, 9 fine
`.trimStart(),
  )
})

const TROUBLES: [string, Parts, RegExp, number][] = [
  [
    'a Metacontroller that is too old',
    { metacontroller: { version: 'v4.11.0', args: ['--client-go-qps=100'] } },
    /^x .*4\.11\.0 is older than 4\.17\.2$/m,
    ENDS.wrong,
  ],
  [
    'too few API calls, by a flag of two words',
    { metacontroller: { version: 'v4.17.2', args: ['--client-go-qps', '0'] } },
    /^x .*--client-go-qps is 0; the resources here need 1: syncs come late$/m,
    ENDS.wrong,
  ],
  [
    'a Metacontroller without the flag, which has 5',
    { metacontroller: { version: 'v4.17.2', args: [] } },
    /^ok .*--client-go-qps 5, needed here: 1$/m,
    ENDS.fine,
  ],
  [
    'a Metacontroller whose pod is not ready',
    { metacontroller: { version: 'v4.17.2', args: [], ready: false } },
    /^x .*metacontroller\/metacontroller: no pod is ready$/m,
    ENDS.wrong,
  ],
  [
    'an image that names no version',
    { metacontroller: { version: 'latest', args: [] } },
    /^! .*names no version$/m,
    ENDS.fine,
  ],
  ['no CompositeControllers', { kinds: [] }, /there are none: nothing is reconciled$/m, ENDS.wrong],
  [
    'kinds that are not served',
    { kinds: PLURALS.slice(0, 3) },
    /^! .*not served: vecbackups, vecbackupschedules, vecrestores, vecmigrations$/m,
    ENDS.fine,
  ],
  [
    'CRDs and hooks of another release',
    { release: '0.0.1' },
    /^x .*vecclusters\.vec-operator\.dev is of release 0\.0\.1.*\n(.*\n)*!.*calls hooks of 0\.0\.1/m,
    ENDS.wrong,
  ],
  [
    'an engine that is not ready',
    { readyz: 503 },
    /^x .*Running; its engine \/readyz answered 503/m,
    ENDS.wrong,
  ],
]
for (const [what, parts, words, code] of TROUBLES) {
  t.test(`doctor finds ${what}`, async (t) => {
    const { type } = await scene(t, { ...WHOLE, ...parts })
    const found = await type('doctor')
    t.match(found.out, words)
    t.equal(found.code, code)
  })
}

t.test('doctor finds a hook service and an engine behind which there is no pod', async (t) => {
  const { metacontroller = { version: '', args: [] }, kinds = [] } = WHOLE
  const { type } = await scene(t, { metacontroller, kinds })
  const { code, out } = await type('doctor')
  t.equal(code, ENDS.wrong)
  t.match(out, /^x +hook service +vec-system\/vec-operator \/healthz answered 503$/m)
  t.match(out, /^x +cluster ns\/docs +Running; its engine \/readyz answered 503$/m)
})

t.test('doctor says why a cluster is not installed, and asks no engine', async (t) => {
  const { type, api, cluster } = await scene(t, { ...WHOLE, readyz: 503 })
  const message = 'spec.apiKey.secretRef: Secret none does not exist'
  const applied = { type: 'Applied', status: 'False', reason: 'SecretNotUsable', message }
  const conditions = [{ ...applied, lastTransitionTime: START.toISOString() }]
  await api.patch(cluster, { status: { phase: null, conditions } }, { subresource: 'status' })
  const { code, out } = await type('doctor')
  t.equal(code, ENDS.fine)
  t.match(out, `!   cluster ns/docs       not installed: ${message}\n`)
})

t.test('doctor without Metacontroller says so', async (t) => {
  const { type, api } = await scene(t)
  const definition = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
  await api.delete({ ...definition, namespace: '', name: COMPOSITE_CONTROLLERS.metadata.name })
  await api.delete({ ...WORKLOAD, namespace: 'metacontroller', name: 'metacontroller' })
  const { code, out } = await type('doctor')
  t.equal(code, ENDS.wrong)
  t.match(out, /^! +Metacontroller +no StatefulSet or Deployment is labelled/m)
  t.match(out, /^x +CompositeControllers +no such kind: Metacontroller is not installed$/m)
  t.match(out, /^! +hook service +no CompositeController calls it/m)
})

t.test('doctor names what the caller may not do, and what needs it', async (t) => {
  const { type, server } = await scene(t)
  server.refused.add('get pods/proxy')
  const { code, out } = await type('doctor', '-n', 'ns')
  t.equal(code, ENDS.fine)
  t.match(out, /^! +your rights +you may not get pods\/proxy: needed for the shards of status$/m)
})

t.test('doctor finds Leases whose holder is gone, with and without a Job', async (t) => {
  const { type, api } = await scene(t)
  await api.create(lease('backup', 'VecBackup/ns/nobody/uid-1'))
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
  t.equal(code, ENDS.fine)
  t.match(
    out,
    /ns\/vec-docs-backup: its holder VecBackup ns\/nobody is gone; the next one takes it/,
  )
  t.match(
    out,
    /ns\/vec-docs-write: its holder VecRestore ns\/gone is gone, and its Job restore-run-x-1 still runs/,
  )
})

t.test('doctor finds a Lease whose holder is in a namespace that is not served', async (t) => {
  const service = ['metacontroller/serve.js', '--namespace', 'one', '--namespace=two']
  const { type, api, cluster } = await scene(t, { ...WHOLE, service })
  const { metadata } = (await api.get(cluster)) ?? {}
  await api.create(lease('backup', `VecCluster/ns/docs/${metadata?.uid ?? ''}`))
  await api.create(lease('write', 'somebody-else'))
  const { out } = await type('doctor')
  t.match(out, /its holder VecCluster ns\/docs is in a namespace that is not served/)
  t.match(out, /ns\/vec-docs-write is held by somebody-else, which is not of this operator/)
})

const BUCKETS: [string, object, RegExp, number][] = [
  ['answers', {}, /^ok +bucket backups +read with Secret ns\/keys$/m, ENDS.fine],
  [
    'is missing',
    { bucket: 'nowhere' },
    /^x +bucket nowhere +LIST s3:\/\/nowhere\S* answered 404 NoSuchBucket/m,
    ENDS.wrong,
  ],
  [
    'has no Secret',
    { credentialsSecretRef: { name: 'none' } },
    /^x +bucket backups +Secret ns\/none not found$/m,
    ENDS.wrong,
  ],
  [
    'takes other keys',
    { credentialsSecretRef: { name: 'wrong' } },
    /^x +bucket backups +LIST .* answered 403/m,
    ENDS.wrong,
  ],
  [
    'has no address here',
    { endpoint: 'http://127.0.0.1:9' },
    /^! +bucket backups +.*\(from here\)$/m,
    ENDS.fine,
  ],
]
for (const [what, changes, words, code] of BUCKETS) {
  t.test(`doctor tells of a bucket that ${what}, and prints no key`, async (t) => {
    const { type, api } = await scene(t)
    const store = await startBucketServer({ now: () => START })
    t.teardown(() => store.close())
    for (const [name, secret] of [
      ['keys', 'secretsecret'],
      ['wrong', 'anothersecret'],
    ] as const) {
      const stringData = { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: secret }
      const metadata = { name, namespace: 'ns' }
      await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData })
    }
    const s3 = {
      ...{ bucket: 'backups', endpoint: store.url, forcePathStyle: true },
      ...{ credentialsSecretRef: { name: 'keys' }, ...changes },
    }
    for (const name of ['one', 'two']) {
      await api.create({
        apiVersion: API_VERSION,
        kind: 'VecBackup',
        metadata: { name, namespace: 'ns' },
        spec: { clusterRef: { name: 'docs' }, storage: { s3 } },
      })
    }
    const found = await type('doctor')
    t.match(found.out, words)
    t.equal(found.code, code, found.out)
    t.equal(found.out.match(/^\S+ +bucket /gm)?.length, 1, 'each bucket once')
    t.notMatch(found.out + found.err, /secretsecret|anothersecret/)
  })
}

t.test('doctor --json tells the same to programs', async (t) => {
  const { type } = await scene(t, { ...WHOLE, readyz: 503 })
  const { code, out } = await type('doctor', '--json')
  t.equal(code, ENDS.wrong)
  const findings = JSON.parse(out) as { about: string; level: string }[]
  t.match(findings[0], { about: 'Kubernetes', level: 'fine', says: /^v1/ })
  t.match(
    findings.filter(({ level }) => level === 'wrong'),
    [{ about: 'cluster ns/docs' }],
  )
})

t.test('doctor says what is wrong when the API does not take the caller', async (t) => {
  const { type, server } = await scene(t)
  await server.close()
  t.match(await type('doctor'), { code: ENDS.wrong, out: '', err: /GET \/version got no answer/ })
})

const WORKLOAD = { apiVersion: 'apps/v1', kind: 'Deployment' }

async function install(
  api: ApiClient,
  name: string,
  namespace: string,
  parts: Parts['metacontroller'],
): Promise<void> {
  const { version = '', args = [], ready = true } = parts ?? {}
  const labels = { 'app.kubernetes.io/name': name }
  const containers = [{ name, image: `example.dev/${name}:${version}`, args }]
  const template = { metadata: { labels }, spec: { containers } }
  const spec = { selector: { matchLabels: labels }, template }
  await api.create({ ...WORKLOAD, metadata: { name, namespace, labels }, spec })
  const status = { readyReplicas: ready ? 1 : 0 }
  await api.patch({ ...WORKLOAD, namespace, name }, { status }, { subresource: 'status' })
}

/** A Service and a pod behind it that gives one answer; no pod where there is none to give. */
async function behind(
  t: Test,
  { api, ports }: { api: ApiClient; ports: Map<string, number> },
  namespace: string,
  name: string,
  port: number,
  answer: number | undefined,
): Promise<void> {
  const labels = { app: name }
  const spec = { selector: labels, ports: [{ port, targetPort: port }] }
  await api.create({ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec })
  if (answer === undefined) return
  const server = createServer((_, response) => response.writeHead(answer).end('said'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const pod = `${name}-0`
  ports.set(pod, (server.address() as AddressInfo).port)
  const object = podOf(pod, labels)
  await applyObject(api, { ...object, metadata: { ...object.metadata, namespace } })
  const status = { conditions: [{ type: 'Ready', status: 'True' }] }
  const reference = { apiVersion: 'v1', kind: 'Pod', namespace, name: pod }
  await api.patch(reference, { status }, { subresource: 'status' })
}

function lease(kind: 'backup' | 'write', holderIdentity: string): ApiObject {
  const labels = { [LABELS.managedBy]: MANAGED_BY }
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: leaseName('docs', kind), namespace: 'ns', labels },
    spec: { holderIdentity },
  }
}

/** Metacontroller's own kind, as far as it is looked at. */
const COMPOSITE_CONTROLLERS = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'compositecontrollers.metacontroller.k8s.io' },
  spec: {
    group: 'metacontroller.k8s.io',
    scope: 'Cluster',
    names: { kind: 'CompositeController', plural: 'compositecontrollers' },
    versions: [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          },
        },
      },
    ],
  },
}

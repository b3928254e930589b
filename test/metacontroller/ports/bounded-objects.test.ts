/** What stays in memory of objects of users: a few kilobytes, whatever they contain. */
import { Type } from '@sinclair/typebox'
import t from 'tap'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../../crds/contract/names.ts'
import type { VecBackup } from '../../../crds/backup.ts'
import { AnyObject, type Job, type Pod } from '../../../crds/kubernetes.ts'
import { listPicked, leasePorts } from '../../../metacontroller/ports/common.ts'
import {
  boundedBackup,
  boundedJob,
  boundedPod,
} from '../../../metacontroller/ports/bounded-objects.ts'
import { jobs, secrets } from '../../../jobs/clients/kubernetes/api-resources.ts'
import { matchWhole } from '../../match-whole.ts'
import { embeddedApi } from '../embedded.ts'

const LONG = 'x'.repeat(100_000)
const NAMES = Array.from({ length: 3000 }, (_, at) => `name-${at}-${'x'.repeat(50)}`)
const TEXTS = Object.fromEntries(NAMES.map((name) => [name, name]))
const MAX_BYTES = 2000

const owner = { apiVersion: API_VERSION, kind: 'VecCluster', name: 'a', uid: 'uid-a' }
/** Everything that a user may write into metadata, and what is read of it. */
const metadata = {
  ...{ name: 'a', namespace: 'ns', uid: 'uid', resourceVersion: '1', generation: 2 },
  creationTimestamp: '2026-03-01T12:00:00Z',
  labels: { ...TEXTS, [LABELS.parent]: 'uid-a' },
  annotations: { ...TEXTS, note: LONG, [ANNOTATIONS.signature]: 'ab', [ANNOTATIONS.plan]: LONG },
  ownerReferences: [...NAMES.map((name) => ({ ...owner, name })), { ...owner, controller: true }],
  finalizers: NAMES,
}
const READ_METADATA = {
  ...{ name: 'a', namespace: 'ns', uid: 'uid', resourceVersion: '1', generation: 2 },
  creationTimestamp: '2026-03-01T12:00:00Z',
  labels: { [LABELS.parent]: 'uid-a' },
  ownerReferences: [{ ...owner, controller: true }],
}

const env = NAMES.map((name) => ({ name, value: LONG }))
const containers = NAMES.map((name) => ({ name, image: name, env }))
const job = {
  ...{ apiVersion: 'batch/v1' as const, kind: 'Job' as const, metadata },
  spec: { suspend: true, template: { metadata: { labels: TEXTS }, spec: { containers } } },
  status: { active: 1, ready: 0, failed: 2, startTime: '2026-03-01T12:00:00Z', succeeded: 0 },
}

t.test('of a Job stay the fields that are read, and no long texts', async (t) => {
  t.strictSame(boundedJob(job), {
    ...{ apiVersion: 'batch/v1', kind: 'Job' },
    metadata: { ...READ_METADATA, annotations: { [ANNOTATIONS.signature]: 'ab' } },
    spec: { suspend: true, template: { spec: { containers: [{ image: NAMES[0] }] } } },
    status: { active: 1, ready: 0, failed: 2, startTime: '2026-03-01T12:00:00Z' },
  })
  const image = { image: LONG }
  const withLongImage: Job = { ...job, spec: { template: { spec: { containers: [image] } } } }
  t.strictSame(boundedJob(withLongImage).spec, { template: { spec: { containers: [] } } })
  const bare = { ...{ apiVersion: job.apiVersion, kind: job.kind }, metadata: { name: 'a' } }
  t.strictSame(boundedJob(bare), bare)
})

t.test('of a pod stay its node, the image of its first container and its status', async (t) => {
  const status = { conditions: [{ type: 'Ready', status: 'True' }] }
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: { containers, nodeName: 'n' },
    status,
  }
  t.strictSame(boundedPod(pod), {
    ...{ apiVersion: 'v1', kind: 'Pod', status },
    spec: { nodeName: 'n', containers: [{ image: containers[0]?.image }] },
    metadata: { ...READ_METADATA, annotations: {} },
  })
  const long = { containers: [{ image: LONG }] }
  t.strictSame(boundedPod({ ...pod, spec: long }).spec, { containers: [] })
  const bare: Pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } }
  t.strictSame(boundedPod(bare), bare)
})

t.test(
  'of a backup of a schedule stays its policy, but not the names of its collections',
  async (t) => {
    const annotations = {
      [ANNOTATIONS.retainObjects]: 'true',
      [ANNOTATIONS.pruned]: 'no rule',
      [ANNOTATIONS.allowedNamespaces]: 'b,c',
    }
    const spec = { clusterRef: { name: 'a' }, deletionPolicy: 'Retain', method: 'Shard' }
    const backup = {
      ...{ apiVersion: API_VERSION, kind: 'VecBackup', status: { phase: 'Completed' } },
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
      spec: { ...spec, collections: NAMES },
    } as unknown as VecBackup
    t.strictSame(boundedBackup(backup), {
      ...{ apiVersion: API_VERSION, kind: 'VecBackup', status: { phase: 'Completed' }, spec },
      metadata: { ...READ_METADATA, annotations },
    })
  },
)

t.test('the Jobs of a parent are listed without what users add to them', async (t) => {
  const { api, kubernetes } = await embeddedApi(t)
  const { name, namespace, labels } = metadata
  const some = { name, namespace, labels, annotations: { note: LONG } }
  const [first] = containers
  const template = {
    spec: { restartPolicy: 'Never', containers: [{ ...first, env: env.slice(0, 9) }] },
  }
  await api.create({ ...job, metadata: some, spec: { suspend: true, template } })
  const whole = await listPicked(kubernetes, jobs('ns'), { schema: AnyObject, pick: (one) => one })
  t.ok(JSON.stringify(whole).length > 1_000_000, 'as users made it')
  const found = await leasePorts(kubernetes).jobsOf('ns', 'uid-a')
  matchWhole(t, found, [{ metadata: { name: 'a' }, spec: { suspend: true } }])
  t.ok(JSON.stringify(found).length < MAX_BYTES, `${JSON.stringify(found).length} bytes`)
})

t.test('an object that is not valid fails the list', async (t) => {
  const { api, kubernetes } = await embeddedApi(t)
  await api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a', namespace: 'ns' } })
  const schema = Type.Object({ missing: Type.String() })
  await t.rejects(listPicked(kubernetes, secrets('ns'), { schema, pick: () => 1 }), {
    code: 'KubernetesError',
    message: /^GET \/api\/v1\/namespaces\/ns\/secrets answered without a valid/,
  })
})

/** Image pull Secrets: each Job that runs has copies, one that has ended has none. */
import t from 'tap'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { Job, Secret } from '../../crds/kubernetes.ts'
import {
  ANNOTATIONS,
  LABELS,
  secretCopyName,
  pullSecretCredential,
} from '../../crds/contract/names.ts'
import { withImagePullSecrets, type ImagePullSecretPorts } from '../../hooks/image-pull-secrets.ts'
import { kindHooks } from '../../hooks/protocol.ts'
import { signJob } from '../../hooks/request.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { cluster, context, settings } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'

const JOB = 'cluster-upgrade-1'
const COPY = secretCopyName(JOB, pullSecretCredential('registry'))
const REGISTRY: Secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'registry', namespace: 'vec-system' },
  type: 'kubernetes.io/dockerconfigjson',
  data: { '.dockerconfigjson': 'e30=' },
}

function job(end?: 'Complete' | 'Failed', deletionTimestamp?: string): Job {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      ...{ name: JOB, namespace: 'ns', uid: 'uid-job' },
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      labels: { [LABELS.parent]: 'uid-a' },
      annotations: {
        [ANNOTATIONS.signature]: signJob(
          { namespace: 'ns', name: JOB, parentUid: 'uid-a' },
          settings.jobKeys,
        ),
      },
    },
    ...(end !== undefined && { status: { conditions: [{ type: end, status: 'True' }] } }),
  }
}

/** Hooks without decisions, and the Secrets around them. */
function stage({
  childKinds = ['Job.batch/v1'],
  finalized = false,
  chartSecret,
  chartCredentials,
}: {
  childKinds?: string[]
  finalized?: boolean
  chartSecret?: string
  chartCredentials?: string
} = {}) {
  const originals = new Map([['registry', REGISTRY]])
  const copies = new Map<string, Secret>()
  const calls: string[] = []
  const warnings: string[] = []
  const ports: ImagePullSecretPorts = {
    pullSecret: async (name) => originals.get(name),
    secretCopy: async (namespace, name) => copies.get(`${namespace}/${name}`),
    writeSecretCopy: async (copy) => {
      calls.push(`write ${copy.metadata.name}`)
      copies.set(`${copy.metadata.namespace}/${copy.metadata.name}`, copy)
    },
    deleteSecretCopy: async ({ namespace, name, ownerUid }) => {
      calls.push(`delete ${name} of ${ownerUid}`)
      copies.delete(`${namespace}/${name}`)
    },
    warn: (error, message) => warnings.push(`${message}: ${error.message}`),
  }
  const decide = async () => ({ status: {}, children: [], ...(finalized && { finalized }) })
  const plain = kindHooks({
    resource: VecCluster,
    childKinds,
    finalizeReads: [],
    customize: () => [],
    sync: decide,
    finalize: decide,
  })
  const wrapped = withImagePullSecrets(plain, ports)
  const chart = {
    ...settings.chart,
    ...(chartSecret !== undefined && { pullSecret: chartSecret }),
    ...(chartCredentials !== undefined && { credentialsSecret: chartCredentials }),
  }
  const given = { ...context, settings: { ...settings, chart, imagePullSecrets: ['registry'] } }
  const show = (job: Job, hook: 'sync' | 'finalize' = 'sync') =>
    wrapped[hook]?.(
      {
        parent: cluster(),
        children: { 'Job.batch/v1': { [`ns/${JOB}`]: job } },
        related: {},
        finalizing: hook === 'finalize',
      },
      given,
    )
  return { plain, wrapped, ports, originals, copies, calls, warnings, show }
}

t.test('a Job that runs has a separate copy, of the same type and content', async (t) => {
  const { show, copies, calls } = stage()
  await show(job())
  matchWhole(t, copies.get(`ns/${COPY}`), {
    type: 'kubernetes.io/dockerconfigjson',
    data: REGISTRY.data,
    metadata: { ownerReferences: [{ kind: 'Job', name: JOB, uid: 'uid-job' }] },
  })
  await show(job())
  t.strictSame(calls, [`write ${COPY}`], 'and it is not written again')
})

t.test('a Job that runs helm also has a copy of the pull Secret of the chart', async (t) => {
  const { show, originals, copies, calls } = stage({ chartSecret: 'charts' })
  originals.set('charts', { ...REGISTRY, metadata: { name: 'charts', namespace: 'vec-system' } })
  await show(job())
  t.strictSame([...copies.keys()], [`ns/${COPY}`], 'no other Job')
  const upgrade = job()
  upgrade.metadata.labels = { ...upgrade.metadata.labels, [LABELS.release]: 'vec-a' }
  await show(upgrade)
  const copy = secretCopyName(JOB, pullSecretCredential('charts'))
  matchWhole(t, copies.get(`ns/${copy}`), { type: REGISTRY.type, data: REGISTRY.data })
  await show({ ...upgrade, status: { conditions: [{ type: 'Complete', status: 'True' }] } })
  t.equal(copies.size, 0)
  t.equal(calls.length, 4)
})

t.test(
  'a Job that runs helm also has a copy of the credentials of the chart repository',
  async (t) => {
    const { show, originals, copies } = stage({ chartCredentials: 'charts' })
    const data = { username: 'cm9ib3Q=', password: 'c2VjcmV0' }
    const metadata = { name: 'charts', namespace: 'vec-system' }
    const type = 'kubernetes.io/basic-auth'
    originals.set('charts', { ...REGISTRY, metadata, type, data: { ...data, other: 'bw==' } })
    const upgrade = job()
    upgrade.metadata.labels = { ...upgrade.metadata.labels, [LABELS.release]: 'vec-a' }
    await show(upgrade)
    const copy = secretCopyName(JOB, pullSecretCredential('charts'))
    t.strictSame([...copies.keys()], [`ns/${COPY}`, `ns/${copy}`])
    matchWhole(t, copies.get(`ns/${copy}`), { type: 'Opaque', data })
    t.strictSame(copies.get(`ns/${copy}`)?.data, data, 'and no other key')
    await show({ ...upgrade, status: { conditions: [{ type: 'Complete', status: 'True' }] } })
    t.equal(copies.size, 0)
  },
)

t.test('a Secret for images and the chart is copied once', async (t) => {
  const { show, calls } = stage({ chartSecret: 'registry' })
  const upgrade = job()
  upgrade.metadata.labels = { ...upgrade.metadata.labels, [LABELS.release]: 'vec-a' }
  await show(upgrade)
  t.strictSame(calls, [`write ${COPY}`])
})

t.test('the copy follows its source while the Job runs', async (t) => {
  const { show, originals, copies } = stage()
  await show(job())
  originals.set('registry', { ...REGISTRY, data: { '.dockerconfigjson': 'eyJ9' } })
  await show(job(), 'finalize')
  t.match(copies.get(`ns/${COPY}`)?.data, { '.dockerconfigjson': 'eyJ9' })
})

for (const end of ['Complete', 'Failed'] as const) {
  t.test(`a Job that is ${end} leaves no copy, and is not checked again`, async (t) => {
    const { show, copies, calls } = stage()
    await show(job())
    await show(job(end))
    t.equal(copies.size, 0, 'at once')
    await show(job(end))
    t.strictSame(calls, [`write ${COPY}`, `delete ${COPY} of uid-job`])
  })
}

t.test('the cache entry of a resource is removed with it', async (t) => {
  const { show, calls } = stage({ finalized: true })
  await show(job('Complete'), 'finalize')
  await show(job('Complete'))
  t.equal(calls.length, 2)
})

t.test('a Job that this operator did not create is given nothing', async (t) => {
  const { show, calls } = stage()
  const forged = job()
  forged.metadata.annotations = {}
  await show(forged)
  t.strictSame(calls, [])
  await show(job())
  t.strictSame(calls, [`write ${COPY}`], 'one of this operator')
})

t.test('a terminating Job gets no more Secrets', async (t) => {
  const { show, calls } = stage()
  await show(job(undefined, '2026-03-01T12:00:00Z'))
  t.strictSame(calls, [])
  await show(job())
  t.strictSame(calls, [`write ${COPY}`], 'one that does not terminate')
})

t.test('a missing source Secret does not block the hooks', async (t) => {
  const { show, originals, calls } = stage()
  originals.clear()
  matchWhole(t, await show(job()), { status: {}, children: [] })
  t.strictSame(calls, [])
})

t.test('a copy that cannot be created is a warning; the hooks decide anyway', async (t) => {
  const { show, ports, warnings } = stage()
  ports.writeSecretCopy = async () => {
    throw new KubernetesError('POST answered 403: the namespace is being terminated')
  }
  matchWhole(t, await show(job()), { status: {} })
  matchWhole(t, warnings, [/could not be copied: POST answered 403/])
})

t.test('a defect is none of that', async (t) => {
  const { show, ports } = stage()
  ports.pullSecret = async () => {
    throw new TypeError('a defect')
  }
  await t.rejects(Promise.resolve(show(job())), { message: 'a defect' })
})

t.test('hooks without Jobs are unchanged', async (t) => {
  const { plain, wrapped } = stage({ childKinds: ['Secret.v1'] })
  t.equal(wrapped, plain)
})

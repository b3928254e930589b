/**
 * The rights that our chart gives Metacontroller and the service, on a real API server: each has an
 * account of its own and nothing else. No node is there, so Jobs are made and never run.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import type { Progress } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../../crds/crd.ts'
import { jobLog } from '../../../jobs/log.ts'
import { parseOptions } from '../../../metacontroller/options.ts'
import { startService, type Service } from '../../../metacontroller/serve.ts'
import { readAudit } from '../../audit/calls.ts'
import { holders } from '../../audit/holders.ts'
import { compareRules, type Rule } from '../../audit/compare.ts'
import { CHART, runHelm } from '../../chart/helm.ts'
import { realMetacontroller, type RealMetacontroller } from '../../cluster/metacontroller.ts'
import { freePort } from '../../cluster/process.ts'
import { prepareHelm } from '../../cluster/tools.ts'
import { applyObject } from '../../world/apply.ts'
import type { ApiObject } from '../../world/client.ts'
import { PULL_SECRET, pullSecret } from '../../world/pull-secret.ts'
import { startRealApi, type RealApi } from './real.ts'

const SYSTEM = 'vec-system'
const RELEASE = 'vec-operator'
const VERSION = '0.1.0'
const HOST = '127.0.0.1'
/** Kinds of the chart that need a node, or helm. */
const NOT_HERE = new Set(['Deployment', 'Service'])
const WITHIN_MS = 60_000

const real = realMetacontroller(process.env)
const NO_METACONTROLLER = 'METACONTROLLER_BIN names no Metacontroller: nothing to examine'
const skip = real === undefined && NO_METACONTROLLER
/** Where the service may act; empty: everywhere. */
const NAMESPACES: Record<string, string[]> = {
  'the chart gives Metacontroller and the service every right they need': [],
  'a service of one namespace does with rights in that namespace': ['shop'],
}

t.setTimeout(600_000)
for (const [title, namespaces] of Object.entries(NAMESPACES)) {
  t.test(title, { skip }, async (t) => {
    if (real === undefined) return
    const ground = await startRealApi((line) => t.comment(line))
    t.teardown(() => ground.close())
    const service = await install(ground, real, namespaces)
    t.teardown(() => service.close())
    await showWork(ground)

    const rules = async (name: string) => {
      const role = { apiVersion: RBAC, kind: 'ClusterRole', namespace: '', name }
      return ((await ground.api.get(role))?.['rules'] ?? []) as Rule[]
    }
    const known = await holders({ rules }, { release: RELEASE, namespace: SYSTEM })
    const calls = await readAudit(ground.auditLog)
    t.ok(calls.length > 20)
    // Too little happens here to find an unused permission: the cluster suite does.
    const refused = compareRules(calls, known).problems.filter((line) =>
      line.includes('was refused'),
    )
    t.strictSame(refused, [])
  })
}

/** Makes one of each kind that gets somewhere without a node, and sees it get there. */
async function showWork(ground: RealApi): Promise<void> {
  const { api } = ground
  for (const object of WISHES) await applyObject(api, object)
  await until('a helm Job', async () => (await api.list('batch/v1', 'Job')).items.length > 0)
  await until('a copy of the pull Secret', async () => {
    const { items } = await api.list('v1', 'Secret', { namespace: 'shop' })
    return items.some(({ metadata }) => metadata.name.includes('-pull-'))
  })
  await reportHelmRun(ground)
  await until('a token', () => exists(ground, 'v1', 'Secret', 'readers'))
  const backup = { apiVersion: API_VERSION, kind: 'VecBackup', namespace: 'shop', name: 'first' }
  await until('a backup that waits', async () => {
    const found = await api.get(backup)
    return (found?.status as { phase?: string } | undefined)?.phase === 'Pending'
  })
  await api.delete(backup)
  await until('the end of the backup', async () => (await api.get(backup)) === undefined)
}

/** Writes what the first helm run would write: no pod runs here. */
async function reportHelmRun({ api }: RealApi): Promise<void> {
  await applyObject(api, {
    ...{ apiVersion: 'v1', kind: 'Secret' },
    metadata: { name: 'vec-products-apikey', namespace: 'shop' },
    data: { 'api-key': Buffer.from('k'.repeat(32)).toString('base64') },
  })
  const { metadata } = await applyObject(api, CLUSTER)
  const at = new Date().toISOString()
  const report: Progress = {
    ...{ uid: metadata.uid ?? '', verb: 'upgrade', run: 1, job: 'job', runner: 'pod', plan: '' },
    ...{ state: 'Started', at, startedAt: at },
    applied: {
      ...{ planHash: '', generation: 1, secretFingerprints: {}, version: CLUSTER.spec.version },
      ...{ run: 1, at, jwtRbac: true },
    },
  }
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
  await applyObject(api, { ...CLUSTER, metadata: { ...CLUSTER.metadata, annotations } })
}

const RBAC = 'rbac.authorization.k8s.io/v1'
const clusterRef = { name: 'products' }
const CLUSTER = wish('VecCluster', 'products', {
  version: '1.18.3',
  apiKey: { autoGenerate: true, jwtRbac: true },
})
const WISHES = [
  CLUSTER,
  wish('VecAccessKey', 'readers', { clusterRef, access: 'r', secretName: 'readers' }),
  wish('VecCollection', 'things', { clusterRef, vectors: [{ size: 4, distance: 'Dot' }] }),
  wish('VecBackup', 'first', {
    clusterRef,
    storage: { s3: { bucket: 'b', region: 'r', credentialsSecretRef: { name: 'missing' } } },
  }),
]

function wish<Spec extends object>(kind: string, name: string, spec: Spec) {
  return { apiVersion: API_VERSION, kind, metadata: { name, namespace: 'shop' }, spec }
}

/** What the chart makes, without a node: the service and Metacontroller are processes of this machine. */
async function install(
  ground: RealApi,
  { bin, crds }: RealMetacontroller,
  namespaces: string[],
): Promise<Service> {
  const { api } = ground
  for (const resource of RESOURCES)
    await applyObject(api, customResourceDefinition(resource, VERSION))
  for (const object of documents(readFileSync(crds, 'utf8'))) await applyObject(api, object)
  for (const name of [SYSTEM, 'metacontroller', 'shop']) {
    await applyObject(api, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
  const metadata = { name: 'metacontroller', namespace: 'metacontroller' }
  await applyObject(api, { apiVersion: 'v1', kind: 'ServiceAccount', metadata })
  await applyObject(api, pullSecret(SYSTEM))
  const port = await freePort()
  const objects = await rendered(namespaces, `https://${HOST}:${port}`)
  const controllers = objects.filter(({ kind }) => kind === 'CompositeController')
  for (const object of objects) if (!controllers.includes(object)) await applyObject(api, object)

  const service = await serve(ground, { namespaces, port })
  await until('CompositeControllers', () => known(ground, 'CompositeController'))
  for (const controller of controllers) await applyObject(api, controller)
  ground.start('metacontroller', bin, [
    `--kubeconfig=${await ground.kubeconfigOf('metacontroller', 'metacontroller')}`,
    ...['--discovery-interval=500ms', '--client-go-qps=100', '--client-go-burst=200'],
    ...['--metrics-address=0', '--health-probe-bind-address=0'],
  ])
  return service
}

async function rendered(namespaces: string[], url: string): Promise<ApiObject[]> {
  const helm = await prepareHelm(() => undefined)
  const where = ['--namespace', SYSTEM, '--kube-version', 'v1.34.0']
  const served = `operator.namespaces=${JSON.stringify(namespaces)}`
  const set = `imagePullSecrets[0].name=${PULL_SECRET},hooks.url=${url}`
  const values = ['--set', `metacontroller.rbac.create=true,${set}`, '--set-json', served]
  const text = await runHelm(helm, ['template', RELEASE, CHART, ...where, ...values, '--no-hooks'])
  return documents(text).filter(({ kind }) => !NOT_HERE.has(kind))
}

/**
 * The service under the account of the chart. It creates its token and certificate and writes them into the
 * CompositeControllers, as in a pod.
 */
async function serve(
  ground: RealApi,
  { namespaces, port }: { namespaces: string[]; port: number },
): Promise<Service> {
  const kubeconfig = await ground.kubeconfigOf(SYSTEM, RELEASE)
  const options = parseOptions(
    [
      ...['--kubeconfig', kubeconfig, '--port', String(port), '--host', HOST],
      ...namespaces.flatMap((name) => ['--namespace', name]),
    ],
    // No engine answers there; through the API server it would need a permission that a pod has no use for.
    {
      ...{ HOOK_SECRET: `${SYSTEM}/${RELEASE}-hooks`, HOOK_HOSTS: HOST, ENGINE_ROUTE: 'direct' },
      ...{ IMAGE_PULL_SECRETS: PULL_SECRET, POD_NAMESPACE: SYSTEM },
    },
    VERSION,
  )
  if (options === undefined) throw new Error('the service asked for its usage')
  return startService({ ...options, log: jobLog({ LOG_LEVEL: 'ERROR' }) })
}

function documents(text: string): ApiObject[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object) => object !== null)
}

async function exists({ api }: RealApi, apiVersion: string, kind: string, name: string) {
  return (await api.get({ apiVersion, kind, namespace: 'shop', name })) !== undefined
}

async function known({ api }: RealApi, kind: string): Promise<boolean> {
  try {
    await api.list('metacontroller.k8s.io/v1alpha1', kind)
    return true
  } catch {
    return false
  }
}

async function until(what: string, done: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + WITHIN_MS
  while (!(await done())) {
    if (Date.now() > end) throw new Error(`${what} did not come within ${WITHIN_MS / 1000} s`)
    await delay(200)
  }
}

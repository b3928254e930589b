import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { RESOURCES } from '../../crds/crd.ts'
import type { ApiObject } from '../world/client.ts'
import { goldenDifferences } from './golden.ts'
import { CHART, findHelm, NO_HELM, runHelm, said } from './helm.ts'
import { chartProblems } from './installed.ts'
import { requirementProblems } from './requirements.ts'
import { findKubeScore, scoreProblems } from './score.ts'
import { QUICK, startTarget, withWebhook, type Target } from './target.ts'

const helm = findHelm() ?? ''
const skip = helm === '' && NO_HELM

/** A cluster with Metacontroller's CRD, for as long as the test runs. */
async function cluster(t: { teardown(end: () => Promise<void>): void }): Promise<Target> {
  const target = await startTarget(helm)
  t.teardown(() => target.close())
  await target.client.create(withWebhook())
  return target
}

interface ServicePod {
  volumes: object[]
  containers: { volumeMounts: object[]; env: { name: string }[] }[]
}

/** What helm would install or upgrade here, with what it finds on the cluster. */
async function rendered({ helm: run }: Target, values: string[] = []): Promise<ApiObject[]> {
  const how = ['--kube-version', 'v1.26.0', '--dry-run=server', ...QUICK]
  return parseAllDocuments(await run(['template', 'vec-operator', CHART, ...how, ...values]))
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object) => object !== null)
}

t.test('the chart renders as declared, whatever is set', { skip }, async (t) => {
  t.strictSame(await chartProblems(helm), [])
  t.ok((await chartProblems('echo')).length > 0, 'a program that renders something else')
})

t.test('the chart renders what is recorded in golden/', { skip }, async (t) => {
  t.strictSame(await goldenDifferences(helm), [])
  t.ok((await goldenDifferences('echo')).length > 0, 'a program that renders something else')
})

const kubeScore = findKubeScore() ?? ''
const noScore = skip || (kubeScore === '' && 'no kube-score: node test/cluster/tools.ts builds one')
t.test('kube-score finds only what .ci/kube-score.yaml explains', { skip: noScore }, async (t) => {
  t.strictSame(await scoreProblems(helm, kubeScore), [])
})

t.test(
  'the service has the volumes and mounts of the values, after its own',
  { skip },
  async (t) => {
    const podOf = async (values: string[]) => {
      const text = await runHelm(helm, [
        ...['template', 'v', CHART, '--kube-version', 'v1.26.0', ...QUICK, ...values],
      ])
      const objects = parseAllDocuments(text).map((document) => document.toJS() as ApiObject | null)
      const deployment = objects.find((object) => object?.kind === 'Deployment')
      const spec = deployment?.['spec'] as { template: { spec: ServicePod } } | undefined
      return spec?.template.spec
    }
    const plain = await podOf([])
    const pod = await podOf([
      ...['--set', 'extraVolumes[0].name=ca,extraVolumes[0].configMap.name=our-ca'],
      ...['--set', 'extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/etc/ca'],
    ])
    t.strictSame(pod?.volumes, [
      ...(plain?.volumes ?? []),
      { name: 'ca', configMap: { name: 'our-ca' } },
    ])
    t.strictSame(pod?.containers[0]?.volumeMounts, [
      ...(plain?.containers[0]?.volumeMounts ?? []),
      { name: 'ca', mountPath: '/etc/ca' },
    ])
    t.ok((plain?.volumes.length ?? 0) > 0)
  },
)

/** Paths of the texts in a value. */
function* texts(value: unknown, path: string): Generator<string> {
  if (typeof value === 'string') yield path
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) yield* texts(inner, `${path}/${key}`)
}

t.test('a name that YAML reads as another type stays a text', { skip }, async (t) => {
  const textsWith = async (name: string) => {
    const named = JSON.stringify(name)
    const values = [
      ...[`nameOverride=${named}`, `fullnameOverride=${named}`, `serviceAccount={"name":${named}}`],
      ...[`operator={"namespaces":[${named},"other"]}`, `imagePullSecrets=[{"name":${named}}]`],
      ...[`hooks.token={"existingSecret":${named}}`, `hooks.tls={"secretName":${named}}`],
      ...[`metacontroller={"namespace":${named},"rbac":{"create":true,"serviceAccount":${named}}}`],
      ...['networkPolicy.enabled=true', 'podDisruptionBudget.enabled=true', 'replicaCount=3'],
      ...['metrics.serviceMonitor.enabled=true', 'metrics.dashboard.enabled=true'],
    ].flatMap((value) => ['--set-json', value])
    const where = ['--namespace', name, '--kube-version', 'v1.34.0', ...QUICK]
    const documents = parseAllDocuments(
      await runHelm(helm, ['template', name, CHART, ...where, ...values]),
      // As Kubernetes does.
      { version: '1.1' },
    )
    return documents.flatMap((document, index) => [...texts(document.toJS(), `${index}`)])
  }
  const expected = await textsWith('vec')
  t.ok(expected.length > 100)
  for (const name of ['no', '123', '1e3', 'null']) t.strictSame(await textsWith(name), expected)
})

t.test('with the longest name, Jobs have a name that is a label', { skip }, async (t) => {
  for (const name of ['a'.repeat(50), `${'a'.repeat(46)}-bcd`]) {
    const values = ['--set', `fullnameOverride=${name}`, '--set-json', 'kinds=["vecclusters"]']
    const where = ['--kube-version', 'v1.34.0', ...QUICK]
    const text = await runHelm(helm, ['template', 'v', CHART, ...where, ...values])
    const objects = parseAllDocuments(text).map((document) => document.toJS() as ApiObject | null)
    const jobs = objects.filter((object) => object?.kind === 'Job')
    t.equal(jobs.length, 2)
    for (const job of jobs) t.match(job?.metadata.name, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/)
  }
})

t.test('the service may read the Secrets of which Jobs get copies', { skip }, async (t) => {
  // Where a ClusterRole does not cover the operator's namespace already.
  const limited = ['--set', 'operator.namespaces={a}']
  const found = async (values: string[]) => {
    const text = await runHelm(helm, [
      ...['template', 'v', CHART, '--kube-version', 'v1.26.0', ...QUICK, ...limited, ...values],
    ])
    const objects = parseAllDocuments(text).map((document) => document.toJS() as ApiObject | null)
    const role = objects.find(
      (object) => object?.kind === 'Role' && object.metadata.name.endsWith('-pull-secrets'),
    )
    const rules = (role?.['rules'] ?? []) as { resourceNames: string[] }[]
    const deployment = objects.find((object) => object?.kind === 'Deployment')
    const pod = deployment?.['spec'] as { template: { spec: ServicePod } }
    const env = pod.template.spec.containers[0]?.env.map(({ name }) => name) ?? []
    return [rules.flatMap(({ resourceNames }) => resourceNames), env.includes('POD_NAMESPACE')]
  }
  t.strictSame(await found([]), [[], false])
  const image = ['--set', 'imagePullSecrets[0].name=registry']
  t.strictSame(await found(image), [['registry'], true])
  const credentials = ['--set', 'engineChart.credentialsSecret=basic-auth']
  t.strictSame(await found(credentials), [['basic-auth'], true])
  const oci = ['--set', 'engineChart.repository=oci://registry/charts']
  const charts = [...oci, '--set', 'engineChart.pullSecret=charts']
  t.strictSame(await found([...image, ...charts]), [['registry', 'charts'], true])
})

t.test('an upgrade that removes kinds checks for their resources first', { skip }, async (t) => {
  const checks = async (kinds: string[]) => {
    const values = ['--set-json', `kinds=${JSON.stringify(kinds)}`]
    const text = await runHelm(helm, [
      ...['template', 'vec-operator', CHART, '--kube-version', 'v1.26.0', ...QUICK, ...values],
    ])
    return parseAllDocuments(text)
      .map((document) => document.toJS() as ApiObject | null)
      .filter((object) => object?.kind === 'Job')
      .map((job) => {
        const { annotations = {} } = job?.metadata as { annotations?: Record<string, string> }
        const { template } = job?.['spec'] as {
          template: { spec: { containers: { args: string[] }[] } }
        }
        return [annotations['helm.sh/hook'], template.spec.containers[0]?.args.slice(1)]
      })
  }
  const all = RESOURCES.map(({ plural }) => plural)
  t.strictSame(await checks(all), [['pre-delete', []]])
  t.strictSame(await checks(all.filter((plural) => plural !== 'vecbackupschedules')), [
    ['pre-delete', []],
    ['pre-upgrade', ['vecbackupschedules']],
  ])
})

t.test(
  'an image is pinned by its digest, for the service and its Jobs alike',
  { skip },
  async (t) => {
    const digest = `sha256:${'0123456789abcdef'.repeat(4)}`
    const images = async (...values: string[]) => {
      const how = ['--kube-version', 'v1.26.0', ...QUICK, ...values]
      const text = await runHelm(helm, ['template', 'vec-operator', CHART, ...how])
      return new Set(text.match(/ghcr\.io\/vec-operator\/vec-operator[^"\s]*/g))
    }
    const [tagged = ''] = await images()
    t.match(tagged, /:\d+\.\d+\.\d+$/)
    t.strictSame(await images(), new Set([tagged]))
    t.strictSame(await images('--set', `image.digest=${digest}`), new Set([`${tagged}@${digest}`]))
    await t.rejects(images('--set', 'image.digest=sha256:1'), { message: /image.digest/ })
  },
)

t.test('the hooks are called in the DNS domain of the cluster', { skip }, async (t) => {
  const domains = async (...values: string[]) => {
    const how = ['--kube-version', 'v1.26.0', ...QUICK, ...values]
    const text = await runHelm(helm, ['template', 'vec-operator', CHART, ...how])
    const container = parseAllDocuments(text)
      .map((document) => document.toJS() as ApiObject | null)
      .find((object) => object?.kind === 'Deployment') as unknown as Container
    const { env } = container.spec.template.spec.containers[0] ?? { env: [] }
    const value = (variable: string) => env.find(({ name }) => name === variable)?.value ?? ''
    const hosts: string[] = text.match(/vec-operator\.[a-z-]+\.svc[a-z0-9.]*/g) ?? []
    t.ok(hosts.includes(value('HOOK_HOSTS')))
    const ends = hosts.map((host) => host.replace(/^.*\.svc\.?/, ''))
    return [value('CLUSTER_DOMAIN'), new Set(ends)] as const
  }
  const scraped = ['--set', 'metrics.serviceMonitor.enabled=true']
  t.strictSame(await domains(...scraped), ['cluster.local', new Set(['cluster.local'])])
  t.strictSame(await domains(...scraped, '--set', 'clusterDomain=k8s.example'), [
    'k8s.example',
    new Set(['k8s.example']),
  ])
  // Values that --reuse-values kept from a release without this value.
  t.strictSame(await domains('--set', 'clusterDomain=null'), [
    'cluster.local',
    new Set(['cluster.local']),
  ])
})

interface Container {
  spec: { template: { spec: { containers: { env: { name: string; value?: string }[] }[] } } }
}

t.test(
  'Jobs may only patch their reports where Kubernetes supports such policies',
  { skip },
  async (t) => {
    const kinds = async (version: string, ...values: string[]) => {
      const how = ['--kube-version', version, ...QUICK, ...values]
      const text = await runHelm(helm, ['template', 'vec-operator', CHART, ...how])
      return parseAllDocuments(text)
        .map((document) => (document.toJS() as ApiObject | null)?.kind ?? '')
        .filter((kind) => kind.startsWith('ValidatingAdmission'))
    }
    const both = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding']
    t.strictSame(await kinds('v1.30.0'), both)
    t.strictSame(await kinds('v1.34.4'), both)
    t.strictSame(await kinds('v1.29.9'), [])
    t.strictSame(await kinds('v1.34.4', '--set', 'jobs.policy=false'), [])
  },
)

t.test(
  'an installation that cannot work is rejected, such as one without a suitable Metacontroller',
  { skip },
  async (t) => {
    t.strictSame(await requirementProblems(helm), [])
  },
)

t.test(
  'two renderings are the same to the byte: nothing in them is random',
  { skip },
  async (t) => {
    const how = ['template', 'vec-operator', CHART, '--kube-version', 'v1.26.0']
    for (const values of [
      [],
      ['--set', 'hooks.token.rotation=2'],
      ['--set', 'hooks.tls.enabled=false'],
    ]) {
      const [one, other] = [
        await runHelm(helm, [...how, ...values]),
        await runHelm(helm, [...how, ...values]),
      ]
      t.equal(one, other)
    }
  },
)

t.test(
  'the Secret of the hooks is rendered without data, so that an upgrade removes none',
  { skip },
  async (t) => {
    const target = await cluster(t)
    const [secret] = (await rendered(target)).filter(({ kind }) => kind === 'Secret')
    t.match(secret, { metadata: { name: 'vec-operator-hooks' }, type: 'Opaque' })
    t.notOk('data' in (secret ?? {}) || 'stringData' in (secret ?? {}))
  },
)

t.test('values of an earlier release keep working', { skip }, async (t) => {
  const target = await cluster(t)
  const old = {
    token: { existingSecret: 'mine', rotation: '' },
    tls: { secretName: 'cert', caBundle: 'PEM' },
  }
  const objects = await rendered(target, [
    '--set-json',
    `hooks=${JSON.stringify({ url: '', ...old })}`,
  ])
  const controller = objects.find(({ kind }) => kind === 'CompositeController') as unknown as Hooked
  const { url, authorization, caBundle } = controller.spec.hooks.sync.webhook
  t.match(url, /^https:/)
  t.match(authorization, { type: 'Bearer', secretRef: { name: 'mine', key: 'token' } })
  t.strictSame(caBundle, { inline: 'PEM' })
  const text = JSON.stringify(objects.find(({ kind }) => kind === 'Deployment'))
  for (const said of [
    '"secretName":"mine"',
    '"secretName":"cert"',
    'HOOK_TOKEN_FILE',
    'TLS_CERT_FILE',
  ]) {
    t.ok(text.includes(said), said)
  }
})

interface Hooked {
  spec: {
    hooks: { sync: { webhook: { url: string; authorization?: object; caBundle?: object } } }
  }
}

/** Next to a release `vec-operator` in `vec-system`. */
const SECOND: [what: string, release: string, namespace: string][] = [
  ['of another name', 'other', 'vec-system'],
  ['of the same name in another namespace', 'vec-operator', 'elsewhere'],
]
for (const [what, release, namespace] of SECOND) {
  t.test(`a second installation in one cluster, ${what}, is rejected`, { skip }, async (t) => {
    const target = await cluster(t)
    const annotations = {
      'meta.helm.sh/release-name': 'vec-operator',
      'meta.helm.sh/release-namespace': 'vec-system',
    }
    const [role] = (await rendered(target)).filter(
      ({ metadata: { name } }) => name === 'vec-operator-helm',
    )
    if (role === undefined) throw new Error('no ClusterRole is rendered')
    await target.client.create({ ...role, metadata: { ...role.metadata, annotations } })
    const install = ['install', release, CHART, '--namespace', namespace, '--dry-run=server']
    const words = await target.helm([...install, ...QUICK]).then(() => 'accepted', said)
    t.match(words, 'ClusterRole "vec-operator-helm"')
    t.match(words, 'meta.helm.sh/release-name')
  })
}

t.test('Prometheus and Grafana get the tested files', { skip }, async (t) => {
  const target = await cluster(t)
  const [rules, dashboard] = [
    'metrics.prometheusRule.enabled=true',
    'metrics.dashboard.enabled=true',
  ]
  const objects = await rendered(target, ['--set', `${rules},${dashboard}`])
  const file = (name: string) => readFileSync(join(CHART, 'files', name), 'utf8')
  const rule = objects.find(({ kind }) => kind === 'PrometheusRule')
  t.strictSame(rule?.['spec'], parse(file('alerts.yaml')))
  const map = objects.find(({ kind }) => kind === 'ConfigMap')
  const data = map?.['data'] as Record<string, string>
  const dashboards = { 'vec-operator': 'dashboard', 'vec-operator-engine': 'engine-dashboard' }
  for (const [key, name] of Object.entries(dashboards)) {
    t.strictSame(JSON.parse(data[`${key}.json`] ?? ''), JSON.parse(file(`${name}.json`)))
  }
})

t.test('the notes warn of what prevents the operator from working', { skip }, async (t) => {
  const target = await startTarget(helm)
  t.teardown(() => target.close())
  const install = ['install', 'v', CHART, '--dry-run=server', ...QUICK, '--set-json', 'kinds=[]']
  const unchecked = ['--set', 'metacontroller.check=false', '--set', 'replicaCount=0']
  const pulled = ['--set', 'imagePullSecrets[0].name=registry']
  const notes = (await target.helm([...install, ...unchecked, ...pulled])).split('NOTES:')[1] ?? ''
  t.match(notes, 'WARNING: Metacontroller is not installed')
  t.match(notes, 'WARNING: replicaCount is 0')
  t.match(notes, 'WARNING: the Secret registry, of which Jobs get copies, is not in default')
  t.match(notes, 'helm uninstall fails while such resources exist')
  t.notMatch(notes, 'helm test', 'no hook is installed')
  await target.client.create(withWebhook())
  const fine = (await target.helm(install)).split('NOTES:')[1] ?? ''
  t.notMatch(fine, 'WARNING')
  const usual = install.slice(0, -2)
  t.match((await target.helm(usual)).split('NOTES:')[1], '  helm test v --namespace default\n')
})

t.test(
  'the notes name networkPolicy.enabled while the chart creates no policy',
  { skip },
  async (t) => {
    const target = await startTarget(helm)
    t.teardown(() => target.close())
    await target.client.create(withWebhook())
    const notes = async (enabled: boolean) => {
      const values = ['--set', `networkPolicy.enabled=${enabled}`]
      const install = ['install', 'v', CHART, '--dry-run=server', ...QUICK, ...values]
      return (await target.helm(install)).split('NOTES:')[1] ?? ''
    }
    t.match(await notes(false), 'Set networkPolicy.enabled to true')
    const restricted = await notes(true)
    t.match(restricted, 'kubectl apply')
    t.notMatch(restricted, 'networkPolicy')
  },
)

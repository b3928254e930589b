/**
 * What our own chart renders, checked with the real helm: lint, the values that users set, and that the
 * CompositeControllers are those of the table. Runs in the cluster suite, where helm is.
 */
import { isDeepStrictEqual } from 'node:util'
import { parseAllDocuments } from 'yaml'
import { controllers, PLURALS, type CompositeController } from '../../metacontroller/controllers.ts'
import { CHART, runHelm, said } from './helm.ts'

const RELEASE = 'vec-operator'
const NAMESPACE = 'vec-system'
/** Helm without a cluster believes what it was built with. */
const KUBE_VERSION = 'v1.26.0'

/** Arguments of helm for each way of installing that differs in what is rendered. */
const VARIANTS: Record<string, string[]> = {
  defaults: [],
  'every kind': ['--set', `kinds={${PLURALS.join(',')}}`],
  'two namespaces': ['--set', 'operator.namespaces={b,a}'],
  'hooks without TLS': ['--set', 'hooks.tls.enabled=false'],
  'hooks with TLS of a user': [
    '--set',
    'hooks.tls.secretName=cert',
    '--set',
    'hooks.tls.caBundle=PEM\nLINE\n',
  ],
  'service elsewhere': ['--set', 'hooks.url=http://172.18.0.1:8080'],
  'token of a user': ['--set', 'hooks.token.existingSecret=mine'],
  'rights of Metacontroller': ['--set', 'metacontroller.rbac.create=true'],
  'account of a user': ['--set', 'serviceAccount.create=false,serviceAccount.name=mine'],
  'pull secrets, one namespace': [
    ...['--set', 'imagePullSecrets[0].name=registry'],
    ...['--set', 'operator.namespaces={a}'],
  ],
  'the engine chart from a registry': [
    ...['--set', 'engineChart.repository=oci://registry/charts,engineChart.pullSecret=charts'],
    ...['--set', 'engineChart.caBundle=-----BEGIN CERTIFICATE-----\nLINE\n'],
  ],
  'the engine chart from a server with credentials': [
    ...['--set', 'engineChart.repository=https://charts/engine'],
    ...['--set', 'engineChart.credentialsSecret=basic-auth'],
  ],
  'more volumes': [
    ...['--set', 'extraVolumes[0].name=ca,extraVolumes[0].configMap.name=ca'],
    ...['--set', 'extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/etc/ca'],
  ],
  'more volumes of Jobs': ['helm', 'data'].flatMap((component) => [
    ...['--set', `jobs.pods.${component}.volumes[0].name=ca`],
    ...['--set', `jobs.pods.${component}.volumes[0].configMap.name=ca`],
    ...['--set', `jobs.pods.${component}.volumeMounts[0].name=ca`],
    ...['--set', `jobs.pods.${component}.volumeMounts[0].mountPath=/etc/ca`],
  ]),
  'a network policy': ['--set', 'networkPolicy.enabled=true'],
  'a disruption budget': ['--set', 'podDisruptionBudget.enabled=true'],
  'what Prometheus and Grafana read': [
    ...['--set', 'metrics.serviceMonitor.enabled=true'],
    ...['--set', 'metrics.prometheusRule.enabled=true'],
    ...['--set', 'metrics.dashboard.enabled=true'],
  ],
  'three replicas': ['--set', 'replicaCount=3'],
  'no roles for users': ['--set', 'userRoles.create=false'],
  'no check before it goes': ['--set', 'uninstallCheck=false'],
}

/** Values that are rejected, and the part of the message that names the field. */
const REFUSED: Record<string, string> = {
  'replicaCount=4': '/replicaCount',
  'replicaCount=two': '/replicaCount',
  'resources=none': '/resources',
  'kinds=vecclusters': '/kinds',
  'hooks.url=somewhere': '/hooks/url',
  'clusterDomain=cluster.local.': '/clusterDomain',
  'operator.logLevel=debug': '/operator/logLevel',
  'operator.namespaces={A_b}': '/operator/namespaces/0',
  'kinds={vecpods}': '/kinds/0',
  'engineChart.repository=ftp://x': '/engineChart/repository',
  'engineChart.repository=oci://': '/engineChart/repository',
  'engineChart.repository=oci://user:password@x': '/engineChart/repository',
  'extraVolumes[0].name=tmp': '/extraVolumes/0/name',
  'extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=b': '/extraVolumeMounts/0/mountPath',
  'jobs.pods.helm.volumes[0].name=chart-registry': '/jobs/pods/helm/volumes/0/name',
  'jobs.pods.data.volumes[0].name=A': '/jobs/pods/data/volumes/0/name',
  'jobs.pods.data.volumeMounts[0].name=a,jobs.pods.data.volumeMounts[0].mountPath=b':
    '/jobs/pods/data/volumeMounts/0/mountPath',
  'jobs.pods.data.volumeMounts[0].name=a,jobs.pods.data.volumeMounts[0].mountPath=/var/run/vec':
    '/jobs/pods/data/volumeMounts/0/mountPath',
  'jobs.pods.helm.volumeMounts[0].name=a,jobs.pods.helm.volumeMounts[0].mountPath=/b':
    'jobs.pods.helm.volumeMounts[0].name: no volume of jobs.pods.helm.volumes has the name "a"',
  'engineChart.pullSecret=registry': '/engineChart/repository',
  'engineChart.repository=oci://x/y,engineChart.credentialsSecret=basic-auth':
    '/engineChart/repository',
  'engineChart.credentialsSecret=A_b': '/engineChart/credentialsSecret',
  'engineChart.caBundle=x': '/engineChart/caBundle',
  'engineChart.stepVersions={v1.17}': '/engineChart/stepVersions/0',
  'jobs.maxHelm=0': '/jobs/maxHelm',
  'image.pullPolicy=Sometimes': '/image/pullPolicy',
  'podDisruptionBudget.maxUnavailable=2': '/podDisruptionBudget/maxUnavailable',
  'metrics.serviceMonitor.interval=soon': '/metrics/serviceMonitor/interval',
  'nonsense=1': 'nonsense',
  'operator.nonsense=1': 'nonsense',
}

interface Rendered {
  kind: string
  metadata: { name: string; namespace?: string }
  [field: string]: unknown
}

/** A line for everything that is not as it should be. */
export async function chartProblems(helm: string): Promise<string[]> {
  const problems: string[] = []
  await runHelm(helm, ['lint', '--strict', CHART]).catch((error: unknown) =>
    problems.push(`lint: ${said(error)}`),
  )
  for (const [name, args] of Object.entries(VARIANTS)) {
    const found = await variantProblems(helm, args).catch((error: unknown) => [said(error)])
    problems.push(...found.map((problem) => `${name}: ${problem}`))
  }
  for (const [value, field] of Object.entries(REFUSED)) {
    const message = await template(helm, ['--set', value]).then(() => 'accepted', said)
    if (!message.includes(field)) problems.push(`${value}: ${message}`)
  }
  return problems
}

async function variantProblems(helm: string, args: string[]): Promise<string[]> {
  const objects = parseAllDocuments(await template(helm, args))
    .map((document) => document.toJS() as Rendered | null)
    .filter((object) => object !== null)
  const identities = objects.map(({ kind, metadata }) =>
    [kind, metadata.namespace ?? '', metadata.name].join('/'),
  )
  const twice = identities.filter((identity, index) => identities.indexOf(identity) !== index)
  const deployment = objects.find(({ kind }) => kind === 'Deployment')
  return [
    ...twice.map((identity) => `${identity} is rendered twice`),
    ...(deployment === undefined ? ['no Deployment'] : deploymentProblems(deployment)),
    ...leaderProblems(objects),
    ...(args.length === 0 ? openProblems(objects) : []),
    ...controllerProblems(objects.filter(({ kind }) => kind === 'CompositeController')),
  ]
}

/** The rendered controllers must be the table with the values the chart put in. */
function controllerProblems(rendered: Rendered[]): string[] {
  const found = rendered as unknown as CompositeController[]
  const webhook = found[0]?.spec.hooks.sync.webhook
  if (webhook === undefined) return ['no CompositeController']
  const url = new URL(webhook.url)
  const parameter = (name: string) => url.searchParams.get(name) ?? ''
  const desired = controllers({
    url: url.origin,
    version: parameter('release'),
    tokenFingerprint: parameter('token'),
    namespacesHash: parameter('namespaces'),
    ...(webhook.authorization && { token: webhook.authorization.secretRef }),
    ...(webhook.caBundle && { caBundle: webhook.caBundle.inline }),
    kinds: found.map(({ spec }) => spec.parentResource.resource),
  })
  const byName = (list: CompositeController[]) =>
    list.toSorted((left, right) => (left.metadata.name < right.metadata.name ? -1 : 1))
  // Labels are those of the chart, which helm.test.ts checks.
  const unlabelled = (list: CompositeController[]) =>
    byName(list).map(({ metadata: { name }, ...rest }) => ({ ...rest, metadata: { name } }))
  if (!isDeepStrictEqual(unlabelled(found), unlabelled(desired)))
    return ['controllers are not the table']
  return []
}

/** With several replicas, hooks lead to the Service of the leader, and to no pod that waits. */
function leaderProblems(objects: Rendered[]): string[] {
  const deployment = objects.find(({ kind }) => kind === 'Deployment')
  const { replicas, template: pod } = deployment?.['spec'] as Deployment
  const services = objects.filter(({ kind }) => kind === 'Service')
  const controller = objects.find(({ kind }) => kind === 'CompositeController')
  const { hostname } = new URL(
    (controller as unknown as CompositeController).spec.hooks.sync.webhook.url,
  )
  const env = pod.spec.containers[0]?.env ?? []
  const valueOf = (name: string) => env.find((variable) => variable.name === name)?.value
  const found = {
    leader: valueOf('LEADER_SERVICE'),
    withoutSelector: services
      .filter(({ spec }) => (spec as { selector?: object }).selector === undefined)
      .map(({ metadata }) => metadata.name),
    objects: objects
      .filter(({ metadata }) => metadata.name === `${RELEASE}-leader`)
      .map(({ kind }) => kind)
      .toSorted(),
  }
  const isElected = replicas > 1
  const desired = {
    leader: isElected ? `${NAMESPACE}/${RELEASE}-leader` : undefined,
    withoutSelector: isElected ? [`${RELEASE}-leader`] : [],
    objects: isElected ? ['Role', 'RoleBinding', 'Service'] : [],
  }
  const leaderRole = objects.find(
    ({ kind, metadata }) => kind === 'Role' && metadata.name === `${RELEASE}-leader`,
  )
  // OpenShift asks for it where an address is that of a pod.
  const mayDirect = JSON.stringify(leaderRole ?? {}).includes('"endpointslices/restricted"')
  const isNamed = (valueOf('HOOK_HOSTS') ?? '').split(',').includes(hostname)
  return [
    ...(isDeepStrictEqual(found, desired) ? [] : [`leader: ${JSON.stringify(found)}`]),
    ...(mayDirect === isElected ? [] : ['the addresses of pods in EndpointSlices']),
    ...(isNamed ? [] : [`the certificate of the service does not name ${hostname}`]),
  ]
}

/** Without values, hooks need TLS and clusters are closed to other namespaces. */
function openProblems(objects: Rendered[]): string[] {
  const deployment = objects.find(({ kind }) => kind === 'Deployment')
  const env = (deployment?.['spec'] as Deployment).template.spec.containers[0]?.env ?? []
  const valueOf = (name: string) => env.find((variable) => variable.name === name)?.value
  const controller = objects.find(({ kind }) => kind === 'CompositeController')
  const { url } = (controller as unknown as CompositeController).spec.hooks.sync.webhook
  return [
    ...(url.startsWith('https:') ? [] : [`the hooks are ${url}`]),
    ...(valueOf('HOOK_TLS') === 'on' ? [] : ['the service has no TLS']),
    ...(valueOf('CROSS_NAMESPACE') === 'closed' ? [] : ['clusters are open to all namespaces']),
  ]
}

/** What the specification and the Pod Security Standard "restricted" ask of the pod. */
function deploymentProblems({ spec }: Rendered): string[] {
  const { replicas, strategy, template: pod } = spec as Deployment
  const [container] = pod.spec.containers
  const checks: Record<string, [unknown, unknown]> = {
    // Two pods at once only where they elect a leader.
    strategy: [strategy.type, replicas === 1 ? 'Recreate' : 'RollingUpdate'],
    label: [pod.metadata.labels['app.kubernetes.io/name'], 'vec-operator'],
    pod: [
      pod.spec.securityContext,
      {
        ...{ runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000 },
        seccompProfile: { type: 'RuntimeDefault' },
      },
    ],
    container: [
      container?.securityContext,
      {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      },
    ],
    liveness: [container?.livenessProbe.httpGet.path, '/healthz'],
    tmp: [pod.spec.volumes.find(({ name }) => name === 'tmp'), { name: 'tmp', emptyDir: {} }],
  }
  return Object.entries(checks)
    .filter(([, [found, desired]]) => !isDeepStrictEqual(found, desired))
    .map(([name, [found]]) => `Deployment, ${name}: ${JSON.stringify(found)}`)
}

interface Deployment {
  replicas: number
  strategy: { type: string }
  template: {
    metadata: { labels: Record<string, string> }
    spec: {
      securityContext: object
      containers: {
        env?: { name: string; value?: string }[]
        securityContext: object
        livenessProbe: { httpGet: { path: string } }
      }[]
      volumes: { name: string }[]
    }
  }
}

async function template(helm: string, args: string[]): Promise<string> {
  const where = ['template', RELEASE, CHART, '--namespace', NAMESPACE]
  return runHelm(helm, [...where, '--kube-version', KUBE_VERSION, ...args])
}

if (import.meta.main) {
  const problems = await chartProblems(process.env['HELM'] ?? 'helm')
  process.stdout.write(`${problems.concat(`${problems.length} problems`).join('\n')}\n`)
  process.exitCode = problems.length === 0 ? 0 : 1
}

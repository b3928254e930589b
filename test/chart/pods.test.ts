/** Labels, placement and security contexts of the objects and pods of the chart. */
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import type { JobPod } from '../../hooks/protocol.ts'
import type { ApiObject } from '../world/client.ts'
import { CHART, findHelm, NO_HELM, runHelm } from './helm.ts'
import { QUICK } from './target.ts'

const helm = findHelm() ?? ''
const skip = helm === '' && NO_HELM

t.test('every object and every pod of the chart has commonLabels', { skip }, async (t) => {
  const values = ['--set', 'commonLabels.team=platform,replicaCount=3,kinds={vecbackups}']
  const objects = await everything(values)
  const pods = objects.filter(({ kind }) => ['Deployment', 'Job', 'Pod'].includes(kind))
  t.ok(pods.length > 2)
  const unlabelled = objects.flatMap((object) => {
    const { template } = (object['spec'] ?? {}) as { template?: Pod }
    const all = template === undefined ? [object] : [object, template]
    return all
      .filter(({ metadata }) => metadata.labels?.['team'] !== 'platform')
      .map(() => `${object.kind}/${object.metadata.name}`)
  })
  t.strictSame(unlabelled, [])
  const kinds = new Set(objects.map(({ kind }) => kind))
  for (const kind of ['CompositeController', 'Secret', 'NetworkPolicy', 'ServiceMonitor'])
    t.ok(kinds.has(kind), kind)
})

t.test('labels of the pods take precedence over commonLabels', { skip }, async (t) => {
  const values = [
    ...['--set', 'commonLabels.team=platform,podLabels.team=search,kinds={vecbackups}'],
    ...['--set-json', 'jobs.pods.helm.labels={"team":"jobs","app.kubernetes.io/name":"other"}'],
  ]
  const labels = (await everything(values)).flatMap((object) => {
    const pod = podOf(object)
    const { team, 'app.kubernetes.io/name': name } = pod?.metadata.labels ?? {}
    return pod === undefined ? [] : [[object.kind, team, name]]
  })
  t.strictSame(labels, [
    ['Deployment', 'search', 'vec-operator'],
    ['Pod', 'jobs', 'vec-operator-install-check'],
    ['Job', 'jobs', 'vec-operator-uninstall-check'],
    ['Job', 'jobs', 'vec-operator-kinds-check'],
  ])
})

t.test(
  'null removes a field of a security context, so that OpenShift sets it',
  { skip },
  async (t) => {
    const contexts = async (...values: string[]) =>
      (await everything(['--set', 'kinds={vecbackups}', ...values])).flatMap((object) => {
        const { securityContext, containers = [] } = podOf(object)?.spec ?? {}
        const pods = containers[0]?.env?.find(({ name }) => name === 'JOB_PODS')?.value
        const own = [securityContext, containers[0]?.securityContext]
        const ofJobs = Object.values(JSON.parse(pods ?? '{}') as Record<string, JobPod>)
        return containers.length === 0
          ? []
          : [own, ...ofJobs.map((pod) => [pod.podSecurityContext, pod.securityContext])]
      })
    const account = { runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000 }
    const pod = { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } }
    const container = {
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
      capabilities: { drop: ['ALL'] },
    }
    // The service, what it sets for the two kinds of Jobs, and the two Jobs and the pod of helm.
    const six = (context: object) => Array.from({ length: 6 }, () => [context, container])
    t.strictSame(await contexts(), six({ ...pod, ...account }))
    const removed = { podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null } }
    const json = [
      ...['--set-json', `podSecurityContext=${JSON.stringify(removed.podSecurityContext)}`],
      ...['--set-json', `jobs.pods=${JSON.stringify({ helm: removed, data: removed })}`],
    ]
    t.strictSame(await contexts(...json), six(pod))
  },
)

/** The pod of an object, or its template. */
function podOf({ kind, metadata, spec }: ApiObject): Pod | undefined {
  if (kind === 'Pod') return { metadata, spec: spec as Pod['spec'] }
  return ((spec ?? {}) as { template?: Pod }).template
}

interface Labelled {
  labels?: Record<string, string>
}

interface Pod {
  metadata: Labelled
  spec: {
    securityContext?: object
    containers: { env?: { name: string; value?: string }[]; securityContext?: object }[]
  }
}

/** What is rendered with every optional object. */
async function everything(values: string[]): Promise<ApiObject[]> {
  const how = ['--kube-version', 'v1.30.0', '--set', 'metacontroller.rbac.create=true']
  const optional = ['networkPolicy', 'podDisruptionBudget', 'metrics.serviceMonitor']
    .concat('metrics.prometheusRule', 'metrics.dashboard')
    .flatMap((name) => ['--set', `${name}.enabled=true`])
  const text = await runHelm(helm, [
    ...['template', 'vec-operator', CHART, ...how, ...QUICK, ...optional, ...values],
  ])
  return parseAllDocuments(text)
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object) => object !== null)
}

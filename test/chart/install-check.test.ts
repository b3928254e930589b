/** What the chart renders for `helm test`, with the real helm; what the check does is tested in test/metacontroller. */
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { PLURALS } from '../../metacontroller/controllers.ts'
import type { ApiObject } from '../world/client.ts'
import { CHART, findHelm, NO_HELM, runHelm } from './helm.ts'
import { QUICK } from './target.ts'

const helm = findHelm() ?? ''
const skip = helm === '' && NO_HELM
const NAME = 'vec-operator-install-check'

async function rendered(...values: string[]): Promise<ApiObject[]> {
  const how = ['--namespace', 'vec-system', '--kube-version', 'v1.26.0', ...QUICK]
  const set = values.flatMap((value) => [value.endsWith('[]') ? '--set-json' : '--set', value])
  const text = await runHelm(helm, ['template', 'vec-operator', CHART, ...how, ...set])
  return parseAllDocuments(text)
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object) => object !== null)
}

/** The objects of the check: what they are, and where. */
const ofCheck = (objects: ApiObject[]) => objects.filter(({ metadata }) => metadata.name === NAME)

function argsOf(objects: ApiObject[]): string[] {
  const pod = ofCheck(objects).find(({ kind }) => kind === 'Pod')
  const { containers } = (pod?.['spec'] ?? { containers: [] }) as {
    containers: { args: string[] }[]
  }
  return containers[0]?.args ?? []
}

/** Namespaced Roles with the resources that they permit. */
function roles(objects: ApiObject[]): unknown[] {
  return ofCheck(objects)
    .filter(({ kind }) => kind === 'Role')
    .map(({ metadata, ...role }) => [
      metadata.namespace,
      ...(role['rules'] as { resources: string[] }[]).map(({ resources }) => resources[0]),
    ])
}

t.test('the pod of helm test and its permissions exist only for it', { skip }, async (t) => {
  const objects = ofCheck(await rendered())
  const policies = objects.map(({ kind, metadata: { annotations = {} } }) => {
    t.equal(annotations['helm.sh/hook'], 'test', kind)
    return [kind, annotations['helm.sh/hook-delete-policy']]
  })
  const meanwhile = 'before-hook-creation,hook-succeeded'
  t.strictSame(policies, [
    ['ServiceAccount', meanwhile],
    ['ClusterRole', meanwhile],
    ['ClusterRoleBinding', meanwhile],
    ['Role', meanwhile],
    ['RoleBinding', meanwhile],
    ['Pod', 'before-hook-creation'],
  ])
})

t.test('its resource is created where the operator watches', { skip }, async (t) => {
  const secret = ['vec-system', 'secrets']
  const cases: [values: string[], argument: string | undefined, roles: unknown[]][] = [
    [[], 'vec-system', [[...secret, 'veccollections']]],
    [['operator.namespaces={shop,vec-system}'], 'vec-system', [[...secret, 'veccollections']]],
    [['operator.namespaces={shop,books}'], 'shop', [secret, ['shop', 'veccollections']]],
    [['kinds={vecbackups}'], undefined, [secret]],
    [['kinds={vecbackups}', 'operator.namespaces={shop}'], undefined, [secret]],
  ]
  for (const [values, namespace, expected] of cases) {
    const objects = await rendered(...values)
    const arguments_ = argsOf(objects).filter((argument) => argument.startsWith('--namespace'))
    t.strictSame(arguments_, namespace === undefined ? [] : [`--namespace=${namespace}`])
    t.strictSame(roles(objects), expected, values.join())
  }
})

t.test('it checks the installed kinds, at the address of the hooks', { skip }, async (t) => {
  for (const value of ['replicaCount=1', 'replicaCount=3', 'hooks.url=http://172.18.0.1:8080']) {
    const objects = await rendered(value)
    const controller = objects.find(({ kind }) => kind === 'CompositeController')
    const { hooks } = controller?.['spec'] as { hooks: { sync: { webhook: { url: string } } } }
    const { origin } = new URL(hooks.sync.webhook.url)
    t.strictSame(argsOf(objects), [
      ...['metacontroller/install-check.js', `--url=${origin}`, '--namespace=vec-system'],
      ...PLURALS,
    ])
  }
  // Rules without names would permit every CompositeController.
  t.strictSame(ofCheck(await rendered('kinds=[]')), [])
  const role = ofCheck(await rendered('kinds={vecbackups}')).find(
    ({ kind }) => kind === 'ClusterRole',
  )
  t.strictSame(role?.['rules'], [
    {
      apiGroups: ['metacontroller.k8s.io'],
      resources: ['compositecontrollers'],
      resourceNames: ['vecbackups.vec-operator.dev'],
      verbs: ['get'],
    },
  ])
})

t.test('the NetworkPolicy of the service admits the pod', { skip }, async (t) => {
  const objects = await rendered('networkPolicy.enabled=true', 'commonLabels.team=platform')
  const policy = objects.find(({ kind }) => kind === 'NetworkPolicy')
  const { ingress, podSelector } = policy?.['spec'] as {
    ingress: { from: { podSelector?: { matchLabels: Record<string, string> } }[] }[]
    podSelector: { matchLabels: Record<string, string> }
  }
  const peers = (ingress[0]?.from ?? [])
    .map((peer) => peer.podSelector?.matchLabels)
    .filter((selector) => selector !== undefined)
  const labels = ofCheck(objects).find(({ kind }) => kind === 'Pod')?.metadata.labels ?? {}
  const selects = (selector: Record<string, string>) =>
    Object.entries(selector).every(([key, value]) => labels[key] === value)
  t.strictSame(peers.map(selects), [true])
  t.notOk(selects(podSelector.matchLabels), 'it is not a pod of the service')
})

import t from 'tap'
import { authorize, checkEscalation } from '../world/api/rbac.ts'
import { Resources } from '../world/api/resources.ts'
import { routeOf } from '../world/api/routes.ts'
import { chartRoles, METACONTROLLER_ACCOUNT, SERVICE_ACCOUNT } from '../world/chart-roles.ts'
import type { ApiObject } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'
import { outdatedRoles } from './golden.ts'

/** The API with the chart's Roles, and a namespace. */
function api(roles = chartRoles()): Resources {
  const resources = new Resources(new ManualClock(new Date(0)))
  const create = (object: ApiObject) => {
    const kind = resources.kinds.of(object.apiVersion, object.kind)
    resources.create(kind, object.metadata.namespace ?? '', object)
  }
  for (const name of [SERVICE_ACCOUNT.namespace, 'shop', 'books', 'other']) {
    create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
  for (const role of roles) create(role)
  return resources
}

function call(resources: Resources, method: string, path: string) {
  const { pathname, searchParams: query } = new URL(path, 'http://api')
  const route = routeOf(resources.kinds, pathname)
  if (route === undefined) throw new Error(`no route ${path}`)
  return { route, query, method }
}

t.test('the recorded Roles are those of the templates of today', async (t) => {
  t.strictSame(outdatedRoles(), [], 'node test/chart/golden.ts --record renders them again')
})

t.test('an installation for some namespaces has no rights in another', async (t) => {
  const resources = api(chartRoles('roles-of-namespaces'))
  const list = (namespace: string, path: string) =>
    authorize(resources, SERVICE_ACCOUNT, call(resources, 'GET', path.replace('NAME', namespace)))
  for (const path of ['/apis/batch/v1/namespaces/NAME/jobs', '/api/v1/namespaces/NAME/pods']) {
    t.doesNotThrow(() => list('shop', path))
    t.doesNotThrow(() => list('books', path))
    t.throws(() => list('other', path), { code: 403 })
  }
})

t.test(
  'an account may do what its Roles permit where they are bound, and nothing else',
  async (t) => {
    const resources = api()
    const jobs = '/apis/batch/v1/namespaces/shop/jobs'
    const may = (account: typeof SERVICE_ACCOUNT, method: string, path: string) =>
      authorize(resources, account, call(resources, method, path))
    t.doesNotThrow(() => may(SERVICE_ACCOUNT, 'GET', `${jobs}?labelSelector=a`))
    t.throws(() => may(SERVICE_ACCOUNT, 'GET', `${jobs}?watch=true`), { code: 403 })
    t.throws(() => may(SERVICE_ACCOUNT, 'POST', jobs), { code: 403 })
    t.doesNotThrow(() => may(METACONTROLLER_ACCOUNT, 'POST', jobs))
    t.throws(() => may({ namespace: 'shop', name: 'default' }, 'GET', jobs), {
      message: `jobs.batch is forbidden: User "system:serviceaccount:shop:default" cannot list resource "jobs" in API group "batch" in the namespace "shop"`,
    })
    const secrets = `/api/v1/namespaces/${SERVICE_ACCOUNT.namespace}/secrets`
    t.throws(() => may(SERVICE_ACCOUNT, 'PATCH', `${secrets}/hook-token`), { code: 403 })
  },
)

t.test('a right that is missing in the chart is missing in the embedded API', async (t) => {
  const roles = chartRoles().map(
    (role) =>
      JSON.parse(
        JSON.stringify(role).replace('"verbs":["list","delete"]', '"verbs":["list"]'),
      ) as ApiObject,
  )
  const resources = api(roles)
  const path = '/apis/batch/v1/namespaces/shop/jobs/a'
  t.throws(() => authorize(resources, SERVICE_ACCOUNT, call(resources, 'DELETE', path)), {
    code: 403,
  })
  t.doesNotThrow(() => authorize(api(), SERVICE_ACCOUNT, call(resources, 'DELETE', path)))
})

t.test(
  'Metacontroller creates only Roles with rights that it has, and binds only the Role for helm',
  async (t) => {
    const resources = api()
    const at = '/apis/rbac.authorization.k8s.io/v1/namespaces/shop'
    const gives = (path: string, body: object) => {
      const { route } = call(resources, 'POST', `${at}/${path}`)
      checkEscalation(resources, METACONTROLLER_ACCOUNT, { route, body })
    }
    const rule = (verb: string) => ({
      rules: [
        {
          apiGroups: ['vec-operator.dev'],
          resources: ['vecbackups'],
          resourceNames: ['a'],
          verbs: [verb],
        },
      ],
    })
    const ref = (name: string) => ({ roleRef: { kind: 'ClusterRole', name } })
    t.doesNotThrow(() => gives('roles', rule('patch')))
    t.throws(() => gives('roles', rule('deletecollection')), { code: 403 })
    t.doesNotThrow(() => gives('rolebindings', ref('vec-operator-helm')))
    t.throws(() => gives('rolebindings', ref('vec-operator')), { code: 403 })
  },
)

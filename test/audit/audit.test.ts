import { join } from 'node:path'
import t from 'tap'
import { sumUp, writesIn, type Calls } from './calls.ts'
import { holders } from './holders.ts'
import { compareRules, type Holder } from './compare.ts'

const USER = 'system:serviceaccount:vec-system:vec-operator'

function entry(verb: string, resource: string, more: { decision?: string; group?: string } = {}) {
  return JSON.stringify({
    verb,
    requestURI: `/path/${resource}`,
    user: { username: USER },
    objectRef: { resource, ...(more.group !== undefined && { apiGroup: more.group }) },
    annotations: { 'authorization.k8s.io/decision': more.decision ?? 'allow' },
  })
}

const holder: Holder = {
  name: 'the service',
  user: /:vec-operator$/,
  rules: [
    { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'delete'] },
    { apiGroups: ['vec-operator.dev'], resources: ['vecclusters'], verbs: ['list'] },
    { apiGroups: ['rbac.authorization.k8s.io'], resources: ['clusterroles'], verbs: ['bind'] },
  ],
  rare: [],
}

const listed = entry('list', 'vecclusters', { group: 'vec-operator.dev' })

t.test(
  'calls that are alike are counted once; discovery and half a line are no calls',
  async (t) => {
    const discovery = JSON.stringify({ verb: 'get', requestURI: '/api', user: { username: USER } })
    const calls = await sumUp([entry('get', 'secrets'), entry('get', 'secrets'), discovery, '{"ve'])
    t.strictSame(calls, [
      {
        ...{ user: USER, verb: 'get', group: '', resource: 'secrets' },
        ...{ allowed: true, count: 2, example: '/path/secrets' },
      },
    ] satisfies Calls[])
  },
)

t.test(
  'writes in a namespace are a line each; reads, other places and pods are none',
  async (t) => {
    const at = (verb: string, namespace: string, subresource?: string) => {
      const objectRef = { resource: 'pods', namespace, ...(subresource && { subresource }) }
      return JSON.stringify({ verb, requestURI: '/path', user: { username: USER }, objectRef })
    }
    const log = [
      at('create', 'shop'),
      at('get', 'shop'),
      at('create', 'shop', 'proxy'),
      at('patch', 'shopping'),
      at('delete', 'shop'),
      '{"verb":"create","objectRef":{"namespace":"shop"',
    ]
    const file = join(t.testdir({ log: log.join('\n') }), 'log')
    t.strictSame(await writesIn(file, 'shop'), [`${USER}: create /path`, `${USER}: delete /path`])
  },
)

t.test('nothing is reported when every permission was used and no call was denied', async (t) => {
  const calls = await sumUp([entry('get', 'secrets'), entry('delete', 'secrets'), listed])
  t.strictSame(compareRules(calls, [holder]), { problems: [], notes: [] })
})

t.test('a denied call is reported with the path of the first one', async (t) => {
  const refused = entry('create', 'pods', { decision: 'forbid' })
  const all = [entry('get', 'secrets'), entry('delete', 'secrets'), listed, refused, refused]
  t.strictSame(compareRules(await sumUp(all), [holder]).problems, [
    'the service was refused 2 times: create pods, /path/pods',
  ])
})

t.test('an unused permission is reported, unless it has a reason', async (t) => {
  const calls = await sumUp([entry('get', 'secrets'), listed])
  t.strictSame(compareRules(calls, [holder]).problems, [
    'the service may and never did: delete secrets',
  ])
  const rare = [[/^delete secrets$/, 'rarely']] as const
  t.strictSame(compareRules(calls, [{ ...holder, rare }]), {
    problems: [],
    notes: ['the service did not use: delete secrets (rarely)'],
  })
})

t.test('a denied call that is not needed is accepted and listed with the reason', async (t) => {
  const refused = entry('create', 'pods', { decision: 'forbid' })
  const calls = await sumUp([entry('get', 'secrets'), entry('delete', 'secrets'), listed, refused])
  const vain = [[/^create pods$/, 'it can do without']] as const
  t.strictSame(compareRules(calls, [{ ...holder, vain }]), {
    problems: [],
    notes: ['the service asked in vain: create pods (it can do without)'],
  })
})

t.test(
  'permissions for a kind without a resource, and of an account that did not act, are not judged',
  async (t) => {
    const calls = await sumUp([entry('get', 'secrets'), entry('delete', 'secrets')])
    const absent = { ...holder, name: 'Metacontroller', user: /:metacontroller$/ }
    t.strictSame(compareRules(calls, [holder, absent]), {
      problems: [],
      notes: ['the service saw no vecclusters', 'Metacontroller made no call'],
    })
  },
)

t.test(
  'the holders are the service, Metacontroller and the accounts of Jobs, each by its name',
  async (t) => {
    const found = await holders(
      { rules: async () => [] },
      { release: 'vec-operator', namespace: 'vec-system' },
    )
    const who = (user: string) => found.filter((one) => one.user.test(user)).map(({ name }) => name)
    t.strictSame(who(USER), ['the service'])
    t.strictSame(who('system:serviceaccount:metacontroller:metacontroller'), ['Metacontroller'])
    t.strictSame(who('system:serviceaccount:shop:cluster-0123456789ab'), ['Jobs of a VecCluster'])
    t.strictSame(who('system:serviceaccount:shop:backup-0123456789ab'), ['Jobs of a VecBackup'])
    t.strictSame(who('system:serviceaccount:shop:default'), [])
  },
)

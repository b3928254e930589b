import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { controllers, PLURALS, type Installation } from '../../metacontroller/controllers.ts'
import { TEMPLATE, renderTemplate } from '../../metacontroller/generate.ts'

const installation: Installation = {
  url: 'http://operator.vec-system.svc.cluster.local:8080',
  version: '0.1.0',
  tokenFingerprint: 'abc',
  namespacesHash: 'def',
  token: { name: 'token', namespace: 'vec-system', key: 'token' },
  kinds: PLURALS,
}

const onDelete = (apiVersion: string, resource: string) => ({
  apiVersion,
  resource,
  updateStrategy: { method: 'OnDelete' },
})

const hook = (plural: string, name: string) => ({
  version: 'v2',
  webhook: {
    url: `http://operator.vec-system.svc.cluster.local:8080/${plural}/${name}?release=0.1.0&token=abc&namespaces=def`,
    timeout: '10s',
    responseUnMarshallMode: 'strict',
    authorization: {
      type: 'Bearer',
      secretRef: { name: 'token', namespace: 'vec-system', key: 'token' },
    },
  },
})

t.test('the CompositeController of VecCluster is this one', async (t) => {
  const [controller] = controllers({ ...installation, kinds: ['vecclusters'] })
  t.strictSame(controller, {
    apiVersion: 'metacontroller.k8s.io/v1alpha1',
    kind: 'CompositeController',
    metadata: {
      name: 'vecclusters.vec-operator.dev',
      labels: { 'app.kubernetes.io/name': 'vec-operator' },
    },
    spec: {
      parentResource: {
        apiVersion: 'vec-operator.dev/v1alpha1',
        resource: 'vecclusters',
        ignoreStatusChanges: true,
      },
      childResources: [
        onDelete('batch/v1', 'jobs'),
        onDelete('v1', 'serviceaccounts'),
        onDelete('rbac.authorization.k8s.io/v1', 'roles'),
        onDelete('rbac.authorization.k8s.io/v1', 'rolebindings'),
      ],
      generateSelector: true,
      resyncPeriodSeconds: 300,
      hooks: {
        customize: hook('vecclusters', 'customize'),
        sync: hook('vecclusters', 'sync'),
        finalize: hook('vecclusters', 'finalize'),
      },
    },
  })
})

for (const controller of controllers(installation)) {
  const { name } = controller.metadata
  const { spec } = controller
  t.test(`${name} keeps what the facts about Metacontroller ask of every controller`, async (t) => {
    t.ok(name.length <= 43, 'the finalizer made of its name has at most 63 characters')
    t.notOk('labelSelector' in spec.parentResource, 'unlabelling a resource never finalizes it')
    t.ok(spec.parentResource.ignoreStatusChanges, 'its own status writes do not sync it')
    t.ok(spec.generateSelector)
    t.ok(spec.resyncPeriodSeconds < 1800, 'Metacontroller ignores longer periods')
    for (const { version, webhook } of Object.values(spec.hooks)) {
      t.equal(version, 'v2', 'all hooks have one version')
      t.equal(webhook.responseUnMarshallMode, 'strict')
      t.match(webhook.url, /release=0\.1\.0&token=abc&namespaces=def$/)
      t.match(webhook.timeout, /^\d+s$/)
    }
  })
}

t.test(
  'children are replaced by deletion, but for Secrets of keys and backups of a schedule',
  async (t) => {
    const updates = controllers(installation).flatMap(({ metadata, spec }) =>
      (spec.childResources ?? [])
        .filter(({ updateStrategy }) => updateStrategy.method === 'InPlace')
        .map(({ resource }) => `${metadata.name}: ${resource}`),
    )
    t.strictSame(updates, [
      'vecaccesskeys.vec-operator.dev: secrets',
      'vecbackupschedules.vec-operator.dev: vecbackups',
    ])
  },
)

t.test('every kind but VecAccessKey, whose Secret is owned, is finalized by a hook', async (t) => {
  const without = controllers(installation).filter(({ spec }) => spec.hooks.finalize === undefined)
  t.strictSame(
    without.map(({ metadata }) => metadata.name),
    ['vecaccesskeys.vec-operator.dev'],
  )
})

t.test(
  'a new release, token or list of namespaces is a new spec, so that all are synced',
  async (t) => {
    const before = JSON.stringify(controllers(installation))
    t.equal(JSON.stringify(controllers({ ...installation })), before)
    for (const change of [
      { version: '0.2.0' },
      { tokenFingerprint: 'x' },
      { namespacesHash: 'x' },
    ]) {
      t.not(JSON.stringify(controllers({ ...installation, ...change })), before)
    }
  },
)

t.test('a private authority is trusted by every hook', async (t) => {
  const trusted = (parts: { caBundle?: string }) =>
    controllers({ ...installation, ...parts })
      .flatMap(({ spec }) => Object.values(spec.hooks))
      .map(({ webhook }) => webhook.caBundle?.inline)
  t.strictSame([...new Set(trusted({ caBundle: 'PEM' }))], ['PEM'])
  t.strictSame([...new Set(trusted({}))], [undefined])
})

t.test('a kind there is not is rejected by name', async (t) => {
  t.throws(() => controllers({ ...installation, kinds: ['vecpods'] }), {
    message: /^kinds: vecpods is not one of vecclusters, /,
  })
})

t.test('the chart holds the template that this table generates', async (t) => {
  t.equal(readFileSync(TEMPLATE, 'utf8'), renderTemplate(), 'npm run generate')
  const script = join(import.meta.dirname, '../../metacontroller/generate.ts')
  const { status, stderr } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' })
  t.strictSame([status, stderr], [0, ''])
})

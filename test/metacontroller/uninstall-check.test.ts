import { pino } from 'pino'
import t from 'tap'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { finalizerName } from '../../metacontroller/controllers.ts'
import { resourcesWithFinalizer, uninstallMessage } from '../../metacontroller/uninstall-check.ts'
import { startApi } from '../world/api/server.ts'
import { ApiClient } from '../world/client.ts'
import { ManualClock } from '../world/clock.ts'

async function world(t: Tap) {
  const api = await startApi(new ManualClock(new Date()))
  const client = new ApiClient({ server: api.url, token: api.token })
  t.teardown(async () => {
    await client.close()
    await api.close()
  })
  const authorize = async () => ({
    headers: { authorization: `Bearer ${api.token}` },
    dispatcher: undefined,
  })
  const kubernetes = new Kubernetes({ server: api.url, authorize }, pino({ level: 'silent' }))
  return { client, kubernetes }
}
type Tap = Pick<typeof t, 'teardown'>

t.test(
  'uninstalling is rejected while a finalizer needs the operator, and says whose',
  async (t) => {
    const { client, kubernetes } = await world(t)
    for (const resource of RESOURCES)
      await client.create(customResourceDefinition(resource, '0.1.0'))
    await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } })
    t.strictSame(await resourcesWithFinalizer(kubernetes), [])

    const apiVersion = 'vec-operator.dev/v1alpha1'
    const spec = { version: '1.18.3' }
    const finalizers = [finalizerName('vecclusters')]
    const metadata = { name: 'products', namespace: 'shop' }
    await client.create({
      apiVersion,
      kind: 'VecCluster',
      metadata: { ...metadata, finalizers },
      spec,
    })
    // No operator watched this one: it is deleted without a finalizer.
    const free = { name: 'free', namespace: 'shop' }
    await client.create({ apiVersion, kind: 'VecCluster', metadata: free, spec })
    t.strictSame(await resourcesWithFinalizer(kubernetes), ['VecCluster shop/products'])
    t.strictSame(await resourcesWithFinalizer(kubernetes, ['vecbackups']), [], 'of other kinds')
    t.strictSame(await resourcesWithFinalizer(kubernetes, ['vecclusters']), [
      'VecCluster shop/products',
    ])
  },
)

t.test('uninstalling is not held up by CRDs that are gone', async (t) => {
  const { kubernetes } = await world(t)
  t.strictSame(await resourcesWithFinalizer(kubernetes), [])
})

t.test('of thousands of resources twenty are named', async (t) => {
  const names = Array.from({ length: 25 }, (_, index) => `VecCollection shop/c-${index}`)
  const lines = uninstallMessage(names).split('\n')
  t.equal(lines[0], '25 resources have a finalizer that only the running operator removes:')
  t.equal(lines.filter((line) => line.startsWith('  VecCollection')).length, 20)
  t.ok(lines.includes('  and 5 more'))
  t.match(uninstallMessage([]), 'no resource is left')
})

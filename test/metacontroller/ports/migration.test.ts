/** Ports of the VecMigration hooks: above all, whether the target accepts points. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import { migrationPorts } from '../../../metacontroller/ports/migration.ts'
import { embeddedApi, installCrds } from '../embedded.ts'

const TARGET = { namespace: 'ns', name: 'a', replicas: 1, tls: false }
const secret = async () => undefined

/** The engine of the target answers `/readyz` like this; without an answer it is silent. */
async function stage(t: Test, status?: number) {
  const embedded = await embeddedApi(t)
  const { kubernetes, server, api } = embedded
  await installCrds(api)
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const engine = createServer((_, response) => {
    if (status !== undefined) response.writeHead(status).end()
  })
  await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    engine.closeAllConnections()
    engine.close()
  })
  server.attach({ log: () => undefined, port: () => (engine.address() as AddressInfo).port })
  const account = { name: 'default', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
  const spec = { containers: [{ name: 'a', image: 'a' }] }
  const metadata = { name: 'vec-a-0', namespace: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'Pod', metadata, spec })
  const log = pino({ level: 'silent' })
  const tools = { kubernetes, connections, secret, freshSecret: secret, namespaces: [], log }
  return { ...embedded, tools, ports: migrationPorts({ ...tools, route: 'proxy' }) }
}

for (const [says, status, isReady] of [
  ['answers 200', 200, true],
  ['is not ready', 503, false],
  ['says nothing for two seconds', undefined, false],
] as const) {
  t.test(`a target that ${says} is ${isReady ? '' : 'not '}ready`, async (t) => {
    const { ports } = await stage(t, status)
    t.equal(await ports.isReady(TARGET), isReady)
  })
}

t.test('a target that cannot be reached is not ready', async (t) => {
  const { ports, tools } = await stage(t, 200)
  t.equal(await ports.isReady({ ...TARGET, name: 'gone' }), false)
  // Here no name of a Service resolves.
  t.equal(await migrationPorts({ ...tools, route: 'direct' }).isReady(TARGET), false)
})

t.test(
  'a Secret of the target that cannot be read is an error, not an engine that waits',
  async (t) => {
    const { tools } = await stage(t, 200)
    const refused = async () => Promise.reject(new TypeError('a defect'))
    const ports = migrationPorts({ ...tools, route: 'proxy', secret: refused })
    const key = { secret: 'vec-a-apikey', key: 'api-key' }
    await t.rejects(ports.isReady({ ...TARGET, key }), TypeError)
  },
)

t.test('a VecMigration is read live', async (t) => {
  const { api, ports } = await stage(t)
  t.equal(await ports.migration('ns', 'm'), undefined)
  await api.create({
    apiVersion: API_VERSION,
    kind: 'VecMigration',
    metadata: { name: 'm', namespace: 'ns' },
    spec: { source: { clusterRef: { name: 'b' } }, targetClusterRef: { name: 'a' } },
  })
  t.match(await ports.migration('ns', 'm'), { spec: { batchSize: 256, createMissing: true } })
})

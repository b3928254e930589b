/** Ports of the VecMigration hooks: above all, whether the target accepts points. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EngineConnections } from '../../../jobs/clients/engine/transport.ts'
import { AddressGuard } from '../../../jobs/clients/http/address-guard.ts'
import { engineLookup, serviceReader } from '../../../metacontroller/ports/engine-client.ts'
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

const signal = new AbortController().signal

for (const [says, status, reason] of [
  ['answers 200 is ready', 200, undefined],
  ['answers 503 is not ready', 503, /^GET \/readyz on vec-a-0\.ns answered 503: /],
  ['says nothing for two seconds is not ready', undefined, /^GET vec-a-0\/readyz got no answer: /],
] as const) {
  t.test(`a target that ${says}`, async (t) => {
    const { ports } = await stage(t, status)
    const found = await ports.notReadyReason(TARGET, signal)
    if (reason === undefined) t.equal(found, undefined)
    else t.match(found, reason)
  })
}

t.test('a target that cannot be reached is not ready, with the cause', async (t) => {
  const { ports, tools } = await stage(t, 200)
  t.match(
    await ports.notReadyReason({ ...TARGET, name: 'gone' }, signal),
    /^GET \/readyz on vec-gone-0\.ns answered 404: pods "vec-gone-0" not found$/,
  )
  // Here no name of a Service resolves.
  const direct = migrationPorts({ ...tools, route: 'direct' })
  t.match(await direct.notReadyReason(TARGET, signal), /ENOTFOUND|EAI_AGAIN/)
})

t.test(
  'a target whose Service points elsewhere is not called, and the reason says so',
  async (t) => {
    const { api, tools, kubernetes, clock } = await stage(t, 200)
    const metadata = { name: 'vec-a', namespace: 'ns' }
    const spec = { type: 'ExternalName', externalName: 'vec-prod.other.svc.cluster.local' }
    await api.create({ apiVersion: 'v1', kind: 'Service', metadata, spec })
    const guard = new AddressGuard({ allowHttp: true, denied: [] }, () => [])
    const read = serviceReader(kubernetes, () => clock.now())
    const connections = new EngineConnections({ lookup: engineLookup(guard, read) })
    t.teardown(() => connections.close())
    const ports = migrationPorts({ ...tools, connections, route: 'direct' })
    t.match(
      await ports.notReadyReason(TARGET, signal),
      /Service ns\/vec-a is of type ExternalName, which is not called: delete it/,
    )
  },
)

t.test('the check of a target ends with its hook', async (t) => {
  const { ports } = await stage(t)
  const ended = new AbortController()
  const check = ports.notReadyReason(TARGET, ended.signal)
  ended.abort()
  await t.rejects(check, { name: 'AbortError' })
})

t.test(
  'a Secret of the target that cannot be read is an error, not an engine that waits',
  async (t) => {
    const { tools } = await stage(t, 200)
    const refused = async () => Promise.reject(new TypeError('a defect'))
    const ports = migrationPorts({ ...tools, route: 'proxy', secret: refused })
    const key = { secret: 'vec-a-apikey', key: 'api-key' }
    await t.rejects(ports.notReadyReason({ ...TARGET, key }, signal), TypeError)
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

/** Where the service connects to for an engine: the address of its Service, and never elsewhere. */
import type { LookupAddress } from 'node:dns'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { AddressGuard } from '../../../jobs/clients/http/address-guard.ts'
import { Engine } from '../../../jobs/clients/engine/client.ts'
import {
  dnsTransport,
  EngineConnections,
  urlTransport,
} from '../../../jobs/clients/engine/transport.ts'
import { engineLookup, serviceReader } from '../../../metacontroller/ports/engine-client.ts'
import { embeddedApi } from '../embedded.ts'

const guard = new AddressGuard({ allowHttp: true, denied: [] }, () => [])
const CONNECTION = { namespace: 'ns', name: 'a', replicas: 1, tls: false }

async function stage(t: Test, spec?: object) {
  const { api, kubernetes, clock } = await embeddedApi(t)
  if (spec !== undefined) {
    const metadata = { name: 'vec-a', namespace: 'ns' }
    await api.create({ apiVersion: 'v1', kind: 'Service', metadata, spec })
  }
  const lookup = engineLookup(
    guard,
    serviceReader(kubernetes, () => clock.now()),
  )
  const resolved = (name: string, all = true) =>
    new Promise<string | LookupAddress[]>((resolve, reject) => {
      lookup(name, { all }, (error, address) => (error ? reject(error) : resolve(address)))
    })
  return { lookup, resolved }
}

const HOST = 'vec-a.ns.svc.cluster.local'

t.test('the address of an engine is that of its Service', async (t) => {
  const { resolved } = await stage(t, { clusterIPs: ['10.96.1.2', 'fd00::2'] })
  t.strictSame(await resolved(HOST), [
    { address: '10.96.1.2', family: 4 },
    { address: 'fd00::2', family: 6 },
  ])
  t.equal(await resolved(HOST, false), '10.96.1.2')
})

t.test('a Service that points elsewhere is not called, and the engine call says why', async (t) => {
  const spec = { type: 'ExternalName', externalName: 'vec-prod.other.svc.cluster.local' }
  const { lookup } = await stage(t, spec)
  const connections = new EngineConnections({ lookup })
  t.teardown(() => connections.close())
  const call = { method: 'GET', path: '/', headers: {}, timeoutMs: 1000 } as const
  await t.rejects(dnsTransport(connections, CONNECTION).send(call, undefined), {
    code: 'EngineError',
    message: /Service ns\/vec-a is of type ExternalName/,
  })
  const engine = new Engine({
    transport: dnsTransport(connections, CONNECTION),
    credentials: async () => ({}),
    log: pino({ level: 'silent' }),
  })
  t.match(await engine.notReadyReason(), /is of type ExternalName, which is not called: delete it/)
})

t.test(
  'without a Service, for pods and for a headless one, DNS decides within the rules',
  async (t) => {
    const none = await stage(t)
    await t.rejects(none.resolved(HOST), { code: /ENOTFOUND|EAI_AGAIN/ })
    const headless = await stage(t, { clusterIPs: ['None'] })
    await t.rejects(headless.resolved(HOST), { code: /ENOTFOUND|EAI_AGAIN/ })
    await t.rejects(headless.resolved('vec-a-0.vec-a-headless.ns.svc.cluster.local'), {
      code: /ENOTFOUND|EAI_AGAIN/,
    })
    await t.rejects(headless.resolved('localhost'), { message: /is not called from here/ })
  },
)

t.test('connections of the service are created by it', async (t) => {
  const engine = createServer((_, response) => response.end('{"ok":true}'))
  await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve))
  const { address, port } = engine.address() as AddressInfo
  t.teardown(() => engine.close())
  const asked: string[] = []
  const connections = new EngineConnections({
    lookup: (name, _, answer) => {
      asked.push(name)
      answer(null, [{ address, family: 4 }])
    },
  })
  t.teardown(() => connections.close())
  const call = { method: 'GET', path: '/', headers: {}, timeoutMs: 5000 } as const
  t.match(await urlTransport(`http://${HOST}:${port}`, connections).send(call, undefined), {
    status: 200,
  })
  t.strictSame(asked, [HOST])
})

/** Replicas of the service: one answers hooks, the others answer probes, and the Service leads to the first. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { CertificateFiles } from '../../../metacontroller/identity/hook-credentials.ts'
import { LEASE_SECONDS } from '../../../metacontroller/leader/election.ts'
import { startElected } from '../../../metacontroller/serve.ts'
import { settings } from '../../builders.ts'
import { freePort } from '../../cluster/process.ts'
import { EXPIRED, TWO } from '../certificates.ts'
import { embeddedApi, installCrds, kubeconfigFile, type Embedded } from '../embedded.ts'

const SERVICE = { namespace: 'ns', name: 'vec-operator-leader' }
const SLICE = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...SERVICE }
const LEASE = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', ...SERVICE }

async function ground(t: Test) {
  const embedded = await embeddedApi(t)
  await installCrds(embedded.api)
  const service = { apiVersion: 'v1', kind: 'Service', metadata: SERVICE, spec: {} }
  const { metadata } = await embedded.api.create(service)
  return { ...embedded, serviceUid: metadata.uid }
}

async function replica(
  t: Test,
  embedded: Embedded,
  { name, address = '10.0.0.1', tls }: { name: string; address?: string; tls?: CertificateFiles },
) {
  const { clock } = embedded
  const port = await freePort()
  const lost: string[] = []
  const running = await startElected(
    {
      kubeconfig: kubeconfigFile(t, embedded),
      ...{ port, host: '127.0.0.1', insecureHooks: true, settings, engineRoute: 'proxy' },
      log: pino({ level: 'silent' }),
      now: () => clock.now(),
      setTimeout: (run, milliseconds) => clock.setTimeout(run, milliseconds),
      ...(tls !== undefined && { tls }),
      leader: { service: SERVICE, replica: { pod: { name, uid: `uid-${name}` }, address, port } },
    },
    (reason) => void lost.push(reason),
  )
  let isClosed = false
  const close = async () => {
    if (!isClosed) await running.close()
    isClosed = true
  }
  t.teardown(close)
  const url = `http://127.0.0.1:${port}`
  const status = async (path: string, method = 'GET') => {
    const options =
      method === 'GET' ? {} : { body: '{}', headers: { 'content-type': 'application/json' } }
    return (await fetch(url + path, { method, ...options })).status
  }
  /** Undefined while it listens to nothing, between waiting and leading. */
  const leads = async () => {
    const metrics = await fetch(`${url}/metrics`).catch(() => undefined)
    return /^vec_operator_leader (\d)$/m.exec((await metrics?.text()) ?? '')?.[1]
  }
  return { ...running, close, lost, status, leads, port }
}

/** Advances the clock second by second until it holds. */
async function until(t: Test, { clock }: Embedded, title: string, holds: () => Promise<boolean>) {
  for (let second = 0; second < 5 * LEASE_SECONDS; second += 1) {
    if (await holds()) return void t.pass(title)
    clock.advance(1000)
    await sleep(20)
  }
  t.fail(title)
}

interface Slice extends AnyObject {
  endpoints: { addresses: string[]; targetRef: { name: string } }[]
  ports: { name: string; port: number }[]
}

t.test('one replica answers hooks, the others probes; another one takes over', async (t) => {
  const embedded = await ground(t)
  const { api, serviceUid } = embedded
  const first = await replica(t, embedded, { name: 'a' })
  await first.leading
  const second = await replica(t, embedded, { name: 'b', address: '10.0.0.2' })
  // 400: the hook reads the body, which is empty.
  t.equal(await first.status('/vecclusters/sync', 'POST'), 400)
  t.equal(await second.status('/vecclusters/sync', 'POST'), 404)
  t.strictSame([await first.leads(), await second.leads()], ['1', '0'])
  t.equal(await second.status('/healthz'), 200)

  const slice = async () => ((await api.get(SLICE)) ?? {}) as Partial<Slice>
  const leadsTo = (name: string) => async () =>
    (await slice()).endpoints?.[0]?.targetRef.name === name
  await until(t, embedded, 'the Service leads to the first', leadsTo('a'))
  const found = await slice()
  t.strictSame(found.endpoints?.[0]?.addresses, ['10.0.0.1'])
  t.strictSame(found.ports, [{ name: 'leader', port: first.port, protocol: 'TCP' }])
  t.equal(found.metadata?.labels?.['kubernetes.io/service-name'], SERVICE.name)
  for (const owned of [found, await api.get(LEASE)])
    t.strictSame(
      owned?.metadata?.ownerReferences?.map(({ uid }) => uid),
      [serviceUid],
    )

  await api.delete(SLICE)
  await until(t, embedded, 'a deleted EndpointSlice is written again', leadsTo('a'))

  await first.close()
  await until(
    t,
    embedded,
    'the other one answers hooks',
    async () => (await second.leads()) === '1',
  )
  await second.leading
  t.equal(await second.status('/vecclusters/sync', 'POST'), 400)
  await until(t, embedded, 'the Service leads to it', leadsTo('b'))
  t.strictSame(
    (await slice()).endpoints?.map(({ addresses }) => addresses),
    [['10.0.0.2']],
  )
  t.strictSame([first.lost, second.lost], [[], []])
})

t.test('a leader that cannot renew its Lease loses it', async (t) => {
  const embedded = await ground(t)
  const first = await replica(t, embedded, { name: 'a' })
  await first.leading
  await embedded.server.close()
  await until(t, embedded, 'it lost the Lease', async () => first.lost.length > 0)
  t.strictSame(first.lost, ['the Lease was not renewed for 10 s'])
})

t.test(
  'a client that sends nothing to a waiting replica does not delay its leadership',
  async (t) => {
    const embedded = await ground(t)
    const first = await replica(t, embedded, { name: 'a' })
    await first.leading
    const second = await replica(t, embedded, { name: 'b', address: '10.0.0.2' })
    const silent = connect(second.port, '127.0.0.1')
    const incomplete = connect(second.port, '127.0.0.1')
    for (const socket of [silent, incomplete]) {
      t.teardown(() => socket.destroy())
      socket.on('error', () => undefined)
      await once(socket, 'connect')
    }
    incomplete.write('GET /healthz HTTP/1.1\r\nhost: a\r\nx: ')
    await first.close()
    const leads = async () => (await second.leads()) === '1'
    await until(t, embedded, 'the other one answers hooks', leads)
  },
)

t.test('a replica that waits serves a renewed certificate, too', async (t) => {
  const embedded = await ground(t)
  const first = await replica(t, embedded, { name: 'a' })
  await first.leading
  const folder = t.testdir({ 'tls.crt': EXPIRED.cert, 'tls.key': EXPIRED.key })
  const tls = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') }
  const second = await replica(t, embedded, { name: 'b', address: '10.0.0.2', tls })
  const answer = (ca: string) =>
    new Promise<string>((resolve) => {
      const socket = connectTls({ host: '127.0.0.1', port: second.port, ca }, () => {
        resolve('trusted')
        socket.destroy()
      }).on('error', ({ message }: Error) => resolve(message))
    })
  t.equal(await answer(EXPIRED.cert), 'certificate has expired')
  writeFileSync(tls.certFile, TWO.cert)
  writeFileSync(tls.keyFile, TWO.key)
  const isRenewed = async () => (await answer(TWO.cert)) === 'trusted'
  await until(t, embedded, 'it is renewed while it waits', isRenewed)
  t.equal(await first.leads(), '1')
})

t.test('the metrics of a replica count its calls of the API from the election on', async (t) => {
  const embedded = await ground(t)
  const first = await replica(t, embedded, { name: 'a' })
  await first.leading
  const calls = async (method: string) => {
    const text = await (await fetch(`http://127.0.0.1:${first.port}/metrics`)).text()
    const name = 'vec_operator_client_requests_total'
    const found = new RegExp(`^${name}{target="kubernetes",method="${method}",.*} (.*)$`, 'm').exec(
      text,
    )
    return Number(found?.[1] ?? 0)
  }
  t.ok((await calls('POST')) > 0, 'the creation of its Lease')
  const before = await calls('PUT')
  const isCounted = async () => (await calls('PUT')) > before
  await until(t, embedded, 'each renewal', isCounted)
})

/** Replicas of the service: one answers hooks, the others answer probes, and the Service leads to the first. */
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { LEASE_SECONDS } from '../../../metacontroller/leader/election.ts'
import { startElected } from '../../../metacontroller/serve.ts'
import { settings } from '../../builders.ts'
import { freePort } from '../../cluster/process.ts'
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

async function replica(t: Test, embedded: Embedded, name: string, address: string) {
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
  for (let second = 0; second < 4 * LEASE_SECONDS; second += 1) {
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
  const first = await replica(t, embedded, 'a', '10.0.0.1')
  await first.leading
  const second = await replica(t, embedded, 'b', '10.0.0.2')
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
  const first = await replica(t, embedded, 'a', '10.0.0.1')
  await first.leading
  await embedded.server.close()
  await until(t, embedded, 'it lost the Lease', async () => first.lost.length > 0)
  t.strictSame(first.lost, ['the Lease was not renewed for 10 s'])
})

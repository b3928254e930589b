/**
 * The real Metacontroller, where METACONTROLLER_BIN names one of 4.16 or newer, and our service, which makes
 * its own certificate and token: before the service is there nothing is believed, afterwards hooks are called.
 * They share the embedded API, which is enough for this.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { parseAllDocuments } from 'yaml'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { newAuthority, newCertificate } from '../../../metacontroller/identity/certificates.ts'
import { controllers } from '../../../metacontroller/controllers.ts'
import { startService } from '../../../metacontroller/serve.ts'
import { settings } from '../../builders.ts'
import { realMetacontroller } from '../../cluster/metacontroller.ts'
import {
  embeddedApi,
  installCrds,
  kubeconfigFile,
  type Embedded,
} from '../../metacontroller/embedded.ts'

const SECRET_REF = { namespace: 'ns', name: 'hooks' }
const COLLECTION = { apiVersion: API_VERSION, kind: 'VecCollection', namespace: 'ns', name: 'a' }

const real = realMetacontroller(process.env)
const definitions = real === undefined ? '' : readFileSync(real.crds, 'utf8')

if (real === undefined || !definitions.includes('caBundle')) {
  const why = real === undefined ? 'names no Metacontroller' : 'names one that knows no caBundle'
  t.pass(`METACONTROLLER_BIN ${why}: nothing to examine`, { skip: true })
} else {
  t.setTimeout(300_000)
  t.test('hooks are called over TLS once the service has said whom to trust', async (t) => {
    const embedded = await embeddedApi(t)
    const { api } = embedded
    await installCrds(api)
    for (const document of parseAllDocuments(definitions))
      await api.create(document.toJS() as object)
    await api.create({ apiVersion: 'v1', kind: 'Secret', metadata: SECRET_REF, type: 'Opaque' })
    // A server with another certificate, which answers first, is not trusted.
    const { stranger, port } = await strangerOn(t)
    const installation = { version: '0.1.0', tokenFingerprint: 't', namespacesHash: 'n' }
    const url = `https://localhost:${port}`
    for (const one of controllers({ ...installation, url, kinds: ['veccollections'] })) {
      await api.create(one)
    }
    const metadata = { name: COLLECTION.name, namespace: COLLECTION.namespace }
    const spec = { clusterRef: { name: 'x' }, vectors: [{ size: 4, distance: 'Dot' }] }
    await api.create({ apiVersion: API_VERSION, kind: 'VecCollection', metadata, spec })
    const said = startMetacontroller(t, real.bin, embedded)
    await said(/x509: certificate signed by unknown authority/)
    t.strictSame(stranger.requests, [], 'no call, and no token')
    await stranger.close()

    const running = await startService({
      kubeconfig: kubeconfigFile(t, embedded),
      ...{ port, host: '127.0.0.1', settings, engineRoute: 'proxy' },
      identity: { secret: SECRET_REF, hosts: ['localhost'], rotation: '', ownTls: true },
      log: pino({ level: 'silent' }),
    })
    t.teardown(() => running.close())
    for (;;) {
      const found = (await api.get(COLLECTION)) as { status?: { phase?: string } } | undefined
      if (found?.status?.phase !== undefined) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    t.pass('a status is written')
  })
}

/** A server with a certificate of another authority. */
async function strangerOn(t: Test) {
  const now = new Date()
  const certificate = newCertificate(newAuthority(now, 1), ['localhost'], now, { days: 1 })
  const requests: string[] = []
  const server = createServer(certificate, ({ url = '' }, response) => {
    requests.push(url)
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  t.teardown(() => (server.listening ? close() : undefined))
  return { stranger: { requests, close }, port: (server.address() as AddressInfo).port }
}

/** Metacontroller on the embedded API; what it answers waits until that is in its log. */
function startMetacontroller(t: Test, bin: string, { server }: Embedded) {
  const config = {
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'e' },
    contexts: [{ name: 'e', context: { cluster: 'e', user: 'e' } }],
    clusters: [{ name: 'e', cluster: { server: server.openUrl } }],
    users: [{ name: 'e', user: {} }],
  }
  const kubeconfig = join(t.testdir({}), 'kubeconfig')
  writeFileSync(kubeconfig, JSON.stringify(config))
  const flags = ['--discovery-interval=1s', '--metrics-address=0', '--health-probe-bind-address=0']
  // Our API does not stream the beginning of a list.
  const env = { ...process.env, KUBE_FEATURE_WatchListClient: 'false' }
  const child = spawn(bin, [`--kubeconfig=${kubeconfig}`, ...flags], { env })
  t.teardown(async () => {
    child.kill()
    await once(child, 'exit')
  })
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()))
  return async (pattern: RegExp) => {
    while (!pattern.test(log)) await once(child.stderr, 'data')
  }
}

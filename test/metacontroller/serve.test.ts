import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { connect } from 'node:tls'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { parse } from 'yaml'
import { API_VERSION, ANNOTATIONS } from '../../crds/contract/names.ts'
import { startService, type ServiceOptions } from '../../metacontroller/serve.ts'
import { settings } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'
import { EXPIRED, ONE, TWO } from './certificates.ts'
import { embeddedApi, installCrds, kubeconfigFile, VERSION } from './embedded.ts'

const ROOT = join(import.meta.dirname, '../..')
const SERVE = join(ROOT, 'metacontroller/serve.ts')
const VALUES = join(ROOT, 'chart/values.yaml')

/** A service on a free port, with the embedded API behind it. */
async function service(t: Test, options: Partial<ServiceOptions> = {}, crds = VERSION) {
  const embedded = await embeddedApi(t)
  const { clock, api } = embedded
  if (crds !== '') await installCrds(api, crds)
  const running = await startService({
    kubeconfig: kubeconfigFile(t, embedded),
    port: 0,
    host: '127.0.0.1',
    insecureHooks: true,
    settings,
    engineRoute: 'proxy',
    log: pino({ level: 'silent' }),
    now: () => clock.now(),
    setTimeout: (run, milliseconds) => clock.setTimeout(run, milliseconds),
    ...options,
  })
  t.teardown(() => running.close())
  return { ...embedded, url: running.url, apiUrl: embedded.url, running }
}

const veccluster = {
  apiVersion: API_VERSION,
  kind: 'VecCluster',
  metadata: { name: 'a', namespace: 'ns' },
  spec: { version: '1.18.3' },
}
const reference = { apiVersion: API_VERSION, kind: 'VecCluster', namespace: 'ns', name: 'a' }

function post(url: string, body: object, token?: string): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify(body),
  })
}

t.test('a VecCluster gets the RBAC of its Job from a service on the real clients', async (t) => {
  const { api, url } = await service(t)
  const parent = await api.create(veccluster)
  const request = { parent, children: {}, related: {}, finalizing: false, controller: {} }
  const customize = await post(`${url}/vecclusters/customize`, request)
  matchWhole(t, await customize.json(), { relatedResources: [{ resource: 'statefulsets' }] })
  const sync = await post(`${url}/vecclusters/sync?release=0.1.0`, request)
  t.equal(sync.status, 200)
  const { children } = (await sync.json()) as { children: { kind: string }[] }
  t.ok(children.some(({ kind }) => kind === 'ServiceAccount'))
})

t.test('each kind that the chart serves by default has its hooks', async (t) => {
  const { url } = await service(t)
  const values = parse(readFileSync(VALUES, 'utf8')) as { kinds: string[] }
  for (const plural of values.kinds) {
    // 400: the handler reads the body, which is empty.
    t.equal((await post(`${url}/${plural}/sync`, {})).status, 400, plural)
  }
})

t.test('/healthz answers, and /metrics counts hook calls by kind, hook and code', async (t) => {
  const { api, url } = await service(t)
  t.equal((await fetch(`${url}/healthz`)).status, 200)
  const parent = await api.create(veccluster)
  const request = { parent, children: {}, related: {}, finalizing: false }
  await post(`${url}/vecclusters/sync`, request)
  await post(`${url}/vecclusters/sync`, {})
  const metrics = await fetch(`${url}/metrics`)
  t.match(metrics.headers.get('content-type'), 'text/plain')
  const text = await metrics.text()
  for (const line of [
    'vec_operator_hook_requests_total{kind="VecCluster",hook="sync",code="200"} 1',
    'vec_operator_hook_requests_total{kind="VecCluster",hook="sync",code="400"} 1',
    'vec_operator_hook_duration_seconds_count{kind="VecCluster",hook="sync"} 2',
    'process_resident_memory_bytes ',
  ]) {
    t.match(text, line)
  }
})

const s3 = { bucket: 'b', credentialsSecretRef: { name: 's' } }
const clusterRef = { name: 'missing' }
const source = { s3: { ...s3, path: 'p' } }
/** One resource of each kind, in a namespace without anything it names, and why it waits. */
const WAITING: [kind: string, plural: string, spec: object, reason: string][] = [
  ['VecCluster', 'vecclusters', { version: '1.18.3' }, 'HelmStarting'],
  [
    'VecCollection',
    'veccollections',
    { clusterRef, vectors: [{ size: 4, distance: 'Dot' }] },
    'ClusterNotFound',
  ],
  ['VecAccessKey', 'vecaccesskeys', { clusterRef, access: 'r' }, 'ClusterNotFound'],
  ['VecBackup', 'vecbackups', { clusterRef, storage: { s3 } }, 'ClusterNotFound'],
  [
    'VecBackupSchedule',
    'vecbackupschedules',
    { clusterRef, storage: { s3 }, schedule: '0 0 31 2 *' },
    'InvalidSchedule',
  ],
  ['VecRestore', 'vecrestores', { targetClusterRef: clusterRef, source }, 'ClusterNotFound'],
  [
    'VecMigration',
    'vecmigrations',
    { targetClusterRef: clusterRef, source: { endpoint: { url: 'http://engine.example:6333' } } },
    'ClusterNotFound',
  ],
]

t.test('of each kind the log says once why a resource waits', async (t) => {
  const lines: { kind?: string; reason?: string; condition?: string }[] = []
  const write = (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number])
  const { api, url } = await service(t, { log: pino({ level: 'info' }, { write }) })
  for (const [kind, plural, spec] of WAITING) {
    const metadata = { name: 'a', namespace: 'ns' }
    const parent = await api.create({ apiVersion: API_VERSION, kind, metadata, spec })
    const request = { parent, children: {}, related: {}, finalizing: false }
    for (let pass = 0; pass < 3; pass += 1) {
      t.equal((await post(`${url}/${plural}/sync`, request)).status, 200)
    }
  }
  t.strictSame(
    lines
      .filter(({ condition }) => condition !== undefined)
      .map(({ kind, reason }) => [kind, reason]),
    WAITING.map(([kind, , , reason]) => [kind, reason]),
  )
})

t.test('hooks of a CRD that is too old, or missing, answer 503 with the reason', async (t) => {
  for (const [crds, reason] of [
    ['0.0.9', /is of release 0\.0\.9, 0\.1\.0 is needed/],
    ['', /vecclusters\.vec-operator\.dev is not installed/],
  ] as const) {
    const { url } = await service(t, {}, crds)
    const answer = await post(`${url}/vecclusters/sync`, {})
    t.equal(answer.status, 503)
    t.match(await answer.text(), reason)
  }
})

t.test(
  'the token in the file, current or previous, opens the hooks and nothing else does',
  async (t) => {
    const file = join(t.testdir({ tokens: 'current\nprevious\n' }), 'tokens')
    const { url } = await service(t, { tokenFile: file, insecureHooks: false })
    const status = async (token?: string) =>
      (await post(`${url}/vecclusters/customize`, {}, token)).status
    // 400: past the door, for the body says nothing.
    t.strictSame(
      [await status(), await status('wrong'), await status('current'), await status('previous')],
      [401, 401, 400, 400],
    )
  },
)

t.test('the service does not start without a token, unless an option allows it', async (t) => {
  await t.rejects(service(t, { insecureHooks: false }), {
    message:
      'no HOOK_TOKEN_FILE and no HOOK_SECRET; --insecure-hooks accepts calls without a token',
  })
})

t.test('after a minute of health it marks each VecCluster that was there before', async (t) => {
  const embedded = await embeddedApi(t)
  const { api, clock } = embedded
  await installCrds(api)
  await api.create(veccluster)
  clock.advance(1_000)
  const start = `${clock.now().toISOString()}/${settings.version}`
  const running = await startService({
    kubeconfig: kubeconfigFile(t, embedded),
    ...{ port: 0, host: '127.0.0.1', insecureHooks: true, settings },
    ...{ engineRoute: 'proxy', log: pino({ level: 'silent' }) },
    now: () => clock.now(),
    setTimeout: (run, milliseconds) => clock.setTimeout(run, milliseconds),
  })
  t.teardown(() => running.close())
  const { resourceVersion } = await api.list(API_VERSION, 'VecCluster')
  const watch = api.watch(API_VERSION, 'VecCluster', {
    resourceVersion,
    signal: AbortSignal.timeout(5_000),
  })
  clock.advance(60_000)
  for await (const { object } of watch) {
    if (object.metadata.annotations?.[ANNOTATIONS.restartedAt] === start) break
  }
  t.match((await api.get(reference))?.metadata.annotations, { [ANNOTATIONS.restartedAt]: start })
})

t.test('TLS by file, with the renewed certificate after a while', async (t) => {
  const folder = t.testdir({ 'tls.crt': ONE.cert, 'tls.key': ONE.key })
  const files = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') }
  const { url, clock } = await service(t, { tls: files })
  t.match(url, /^https:/)
  const served = () =>
    new Promise<unknown>((resolve, reject) => {
      const { hostname: host, port } = new URL(url)
      const socket = connect({ host, port: Number(port), rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().subject.CN)
        socket.destroy()
      }).on('error', reject)
    })
  t.equal(await served(), 'one')
  writeFileSync(files.certFile, TWO.cert)
  clock.advance(60_000)
  t.equal(await served(), 'one', 'not with the key of another certificate')
  writeFileSync(`${files.keyFile}.new`, TWO.key)
  renameSync(`${files.keyFile}.new`, files.keyFile)
  clock.advance(60_000)
  t.equal(await served(), 'two')
})

t.test(
  'clients reject an expired certificate until it is renewed, without a restart',
  async (t) => {
    const folder = t.testdir({ 'tls.crt': EXPIRED.cert, 'tls.key': EXPIRED.key })
    const files = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') }
    const { url, clock } = await service(t, { tls: files })
    const greeted = (ca: string) =>
      new Promise<string>((resolve) => {
        const { hostname: host, port } = new URL(url)
        const socket = connect({ host, port: Number(port), ca }, () => {
          resolve('trusted')
          socket.destroy()
        }).on('error', (error: Error) => resolve(error.message))
      })
    t.equal(await greeted(EXPIRED.cert), 'certificate has expired')
    writeFileSync(files.certFile, TWO.cert)
    writeFileSync(files.keyFile, TWO.key)
    clock.advance(60_000)
    t.equal(await greeted(TWO.cert), 'trusted')
  },
)

/** The process itself; resolves with its exit code and what it printed. */
function processOf(args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [SERVE, ...args], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { text: '' }
  const ended = new Promise<{ code: number | null; text: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, text: output.text }))
  })
  const prints = (line: RegExp) =>
    new Promise<RegExpExecArray>((resolve, reject) => {
      const look = (chunk?: Buffer) => {
        output.text += chunk?.toString() ?? ''
        const found = line.exec(output.text)
        if (found !== null) resolve(found)
      }
      child.stdout.on('data', look)
      child.stderr.on('data', look)
      child.on('close', () => reject(new Error(`ended without ${String(line)}: ${output.text}`)))
    })
  return { child, ended, prints }
}

t.test('the process says in one line what is wrong with how it was started', async (t) => {
  const { ended, prints } = processOf([], {})
  await prints(/\n/)
  t.strictSame(await ended, {
    code: 1,
    text: 'vec-operator: neither HOOK_SECRET nor HOOK_TOKEN_FILE is set; --insecure-hooks accepts calls without a token\n',
  })
})

t.test('--help prints the usage and exits with 0', async (t) => {
  const { ended, prints } = processOf(['--help'], {})
  await prints(/Usage: /)
  const { code, text } = await ended
  t.equal(code, 0)
  t.match(text, /^Usage: [^]*--insecure-hooks/)
})

t.test('on SIGTERM the process answers requests in progress and exits with 0', async (t) => {
  const embedded = await embeddedApi(t)
  await installCrds(embedded.api)
  const kubeconfig = kubeconfigFile(t, embedded)
  const { child, ended, prints } = processOf(
    ['--insecure-hooks', '--port', '0', '--host', '127.0.0.1', '--log-format', 'text'],
    { KUBECONFIG: kubeconfig },
  )
  const [, url = ''] = await prints(/INFO serving url=(\S+)/)
  const parent = await embedded.api.create(veccluster)
  const body = JSON.stringify({ parent, children: {}, related: {}, finalizing: false })
  const call = httpRequest(`${url}/vecclusters/customize`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      expect: '100-continue',
    },
  })
  call.flushHeaders()
  await once(call, 'continue')
  child.kill('SIGTERM')
  await prints(/INFO stopping signal=SIGTERM/)
  const answered = once(call, 'response') as Promise<[IncomingMessage]>
  call.end(body)
  const [response] = await answered
  t.equal(response.statusCode, 200)
  response.resume()
  t.equal((await ended).code, 0)
})

/** Prints each module of the bucket's SDK that is asked for. */
const REPORT_SDK = `import { registerHooks } from 'node:module'
registerHooks({
  resolve(name, context, next) {
    if (name.startsWith('@aws-sdk/')) console.log(name)
    return next(name, context)
  },
})`

t.test('the SDK of the bucket is loaded with the first purge, not at the start', async (t) => {
  const loads = (file: string) => {
    const hook = `data:text/javascript,${encodeURIComponent(REPORT_SDK)}`
    const code = `await import(${JSON.stringify(join(ROOT, file))})`
    const args = ['--import', hook, '--input-type=module', '--eval', code]
    return spawnSync(process.execPath, args, { encoding: 'utf8' })
  }
  t.match(loads('metacontroller/serve.ts'), { status: 0, stdout: /^$/ })
  t.match(loads('jobs/clients/s3/bucket.ts'), { status: 0, stdout: /^@aws-sdk\/client-s3$/m })
})

/** A store that is reached through a proxy, as the variables of Jobs say. */
import { createServer, request } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { EXIT, JOB_ENV, encodePlan } from '../../../crds/contract/job.ts'
import { AddressGuard } from '../../../jobs/clients/http/address-guard.ts'
import { Bucket } from '../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../jobs/log.ts'
import { instantClock, runJob } from '../job-world.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { KEYS } from './backup-world.ts'
import { backupFixture } from './fixture.ts'

/** Forwards everything to one port, and records which hosts it was asked for. */
async function startProxy(t: Test, port: () => number) {
  const hosts = new Set<string>()
  const server = createServer((incoming, response) => {
    const { host, pathname, search } = new URL(incoming.url ?? '')
    hosts.add(host)
    const { method, headers } = incoming
    const target = { host: '127.0.0.1', port: port(), method, headers, path: pathname + search }
    const outgoing = request(target, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    incoming.pipe(outgoing)
  })
  server.on('connect', ({ url = '' }, client) => {
    hosts.add(url)
    const target = connect(port(), '127.0.0.1', () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      target.pipe(client).pipe(target)
    })
    target.on('error', () => client.destroy())
    client.on('error', () => target.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { hosts, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

async function stage(t: Test, tls?: typeof ONE) {
  const { world, s3, manifest } = await backupFixture(t, tls && { store: { tls } })
  world.credentials({ ...KEYS, ...(tls && { 'ca.crt': tls.cert }) })
  const port = Number(new URL(s3.url).port)
  const proxy = await startProxy(t, () => port)
  const run = (endpoint: string, env: NodeJS.ProcessEnv) => {
    const storage = { ...world.plan.storage, endpoint }
    const plan = encodePlan({ ...world.plan, storage }, 'spec')
    return runJob(['backup', 'run', 'ns/b'], { ...world.env, ...env, [JOB_ENV.plan]: plan })
  }
  return { proxy, run, port, s3, manifest }
}

t.test('HTTP_PROXY: a store by http is called through it, the API server is not', async (t) => {
  const { proxy, run, manifest } = await stage(t)
  const { code, log } = await run('http://store.invalid', { HTTP_PROXY: proxy.url })
  t.equal(code, EXIT.done, log)
  t.equal(manifest().collections.length, 1)
  t.strictSame([...proxy.hosts], ['store.invalid'])
})

t.test('HTTPS_PROXY: a store by https is called through a tunnel', async (t) => {
  const { proxy, run, s3, port, manifest } = await stage(t, ONE)
  const { code, log } = await run(s3.url, { HTTPS_PROXY: proxy.url })
  t.equal(code, EXIT.done, log)
  t.equal(manifest().collections.length, 1)
  t.strictSame([...proxy.hosts], [`127.0.0.1:${port}`])
})

t.test('NO_PROXY: a store in it is called directly', async (t) => {
  const { proxy, run, s3, manifest } = await stage(t)
  const { code, log } = await run(s3.url, { HTTP_PROXY: proxy.url, NO_PROXY: '127.0.0.1' })
  t.equal(code, EXIT.done, log)
  t.equal(manifest().collections.length, 1)
  t.strictSame([...proxy.hosts], [])
})

t.test('where addresses are guarded, no proxy is used', async (t) => {
  const { proxy, port } = await stage(t)
  const bucket = new Bucket({
    target: {
      ...{ bucket: 'backups', region: 'us-east-1', forcePathStyle: true },
      endpoint: `http://localhost:${port}`,
    },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    ...{ time: instantClock(), log: jobLog({ LOG_LEVEL: 'ERROR' }), attempts: 1 },
    guard: new AddressGuard({ allowHttp: true, denied: [] }),
    proxyEnv: { HTTP_PROXY: proxy.url },
  })
  await t.rejects(bucket.putJson('key', {}), { message: /loopback|not called|refused|not allowed/ })
  t.strictSame([...proxy.hosts], [])
})

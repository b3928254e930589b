/** Certificate and token of the hooks: created by the service, configured in Metacontroller, renewed in time. */
import { X509Certificate } from 'node:crypto'
import { connect } from 'node:tls'
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { Agent, request } from 'undici'
import { newAuthority, newCertificate } from '../../../metacontroller/identity/certificates.ts'
import { loadHookCredentials } from '../../../metacontroller/identity/hook-credentials.ts'
import { connectControllers } from '../../../metacontroller/identity/identity.ts'
import {
  readAuthority,
  completeData,
  expiresAt,
  readJobKey,
  acceptedTokens,
} from '../../../metacontroller/identity/secret.ts'
import { controllers, PLURALS } from '../../../metacontroller/controllers.ts'
import { startService } from '../../../metacontroller/serve.ts'
import { NOW, settings } from '../../builders.ts'
import { compositeControllerCrd } from '../../world/composite-controllers.ts'
import { embeddedApi, installCrds, kubeconfigFile } from '../embedded.ts'

const DAY = 86_400_000
const NAME = { namespace: 'ns', name: 'hooks' }
const SECRET = { apiVersion: 'v1', kind: 'Secret', ...NAME }
const CONTROLLER = {
  apiVersion: 'metacontroller.k8s.io/v1alpha1',
  kind: 'CompositeController',
  namespace: '',
}

const later = (days: number) => new Date(NOW.getTime() + days * DAY)
const wish = (now: Date, rotation = '') => ({ now, rotation, ownTls: true })

/** Whether a client accepts the server's certificate. */
function greeted(url: string, ca: string, servername?: string): Promise<string> {
  const { hostname: host, port } = new URL(url)
  return new Promise((resolve) => {
    const named = servername === undefined ? {} : { servername }
    const socket = connect({ host, port: Number(port), ca, ...named }, () => {
      resolve('trusted')
      socket.destroy()
    }).on('error', ({ message }: Error) => resolve(message))
  })
}

t.test('an empty Secret gets an authority, a token and a key for Jobs; then nothing', async (t) => {
  const data = completeData({}, wish(NOW))
  t.equal(acceptedTokens(data).length, 1)
  t.equal(acceptedTokens(data)[0]?.name, 'token.20260301T120000Z')
  t.match(acceptedTokens(data)[0]?.token, /^[\w-]{48}$/)
  t.match(readJobKey(data), /^[\w-]{48}$/)
  t.ok(expiresAt(readAuthority(data)?.signer.cert ?? '') > later(3600).getTime())
  t.strictSame(completeData(data, wish(later(29))), data)
  t.notSame(completeData({}, wish(NOW)), data, 'random')
})

t.test(
  'a token is renewed after 30 days, or by another word; the old one is good for a day',
  async (t) => {
    const first = completeData({}, wish(NOW))
    const second = completeData(first, wish(later(30)))
    t.strictSame(
      acceptedTokens(second).map(({ name }) => name),
      ['token.20260331T120000Z', 'token.20260301T120000Z'],
    )
    t.strictSame(completeData(second, wish(later(30.9))), second)
    const third = completeData(second, wish(later(31)))
    t.strictSame(
      acceptedTokens(third).map(({ name }) => name),
      ['token.20260331T120000Z'],
    )
    const rotated = completeData(third, wish(later(32), 'march'))
    t.equal(acceptedTokens(rotated).length, 2)
    t.strictSame(completeData(rotated, wish(later(32.5), 'march')), rotated)
    t.equal(readJobKey(rotated), readJobKey(first), 'Jobs stay ours')
  },
)

t.test(
  'an authority is followed by the next one two years before it ends, and is trusted on',
  async (t) => {
    const first = completeData({}, wish(NOW))
    const near = later(3650 - 729)
    const second = completeData(first, wish(near))
    const [old, both] = [readAuthority(first), readAuthority(second)]
    t.equal(both?.caBundle, `${both?.signer.cert ?? ''}${old?.caBundle ?? ''}`)
    t.not(both?.signer.key, old?.signer.key)
  },
)

t.test('an authority that a clock that was ahead made is followed by a valid one', async (t) => {
  const ahead = completeData({}, wish(later(400)))
  const data = completeData(ahead, wish(NOW))
  const signer = readAuthority(data)?.signer.cert ?? ''
  t.ok(new X509Certificate(signer).validFromDate <= NOW)
  t.match(readAuthority(data)?.caBundle, readAuthority(ahead)?.signer.cert ?? 'none')
  t.strictSame(completeData(data, wish(NOW)), data)
  const tolerated = completeData({}, wish(later(1 / 25)))
  t.strictSame(completeData(tolerated, wish(NOW)), tolerated, 'an hour is tolerated')
})

t.test('a token of a clock that was ahead is replaced like any other', async (t) => {
  const ahead = completeData({}, wish(later(400)))
  const [leaked] = acceptedTokens(ahead)
  const back = completeData(ahead, wish(NOW))
  t.strictSame(
    acceptedTokens(back).map(({ token }) => token),
    [leaked?.token],
    'Metacontroller may still send it',
  )
  const rotated = completeData(back, wish(NOW, 'march'))
  t.not(acceptedTokens(rotated)[0]?.token, leaked?.token, 'a rotation has an effect')
  t.equal(acceptedTokens(rotated)[1]?.token, leaked?.token)
  const nextDay = completeData(rotated, wish(later(1.1), 'march'))
  t.equal(acceptedTokens(nextDay).length, 1)
  t.equal(acceptedTokens(completeData(back, wish(later(31)))).length, 2, 'it is renewed')
  const tolerated = completeData({}, wish(later(1 / 25)))
  t.strictSame(completeData(tolerated, wish(NOW)), tolerated, 'an hour is tolerated')
})

t.test('invalid keys of the Secret are recreated', async (t) => {
  const data = completeData({}, wish(NOW))
  for (const broken of ['', 'no certificate', '-----BEGIN CERTIFICATE-----\nxx\n']) {
    const repaired = completeData({ ...data, 'ca.crt': broken }, wish(NOW))
    t.ok(expiresAt(readAuthority(repaired)?.signer.cert ?? '') > 0)
  }
})

t.test('every host is in the certificate, be it a name or an address', async (t) => {
  const authority = newAuthority(new Date(), 10)
  const hosts = ['a.ns.svc', '127.0.0.1', 'fd00::1', '::1']
  const { cert } = newCertificate(authority, hosts, new Date(), { days: 1 })
  const read = new X509Certificate(cert)
  t.equal(read.checkHost('a.ns.svc'), 'a.ns.svc')
  t.equal(read.checkHost('b.ns.svc'), undefined)
  for (const address of ['127.0.0.1', 'fd00::1', '::1']) t.equal(read.checkIP(address), address)
  t.notOk(read.ca)
  t.ok(read.checkIssued(new X509Certificate(authority.cert)))
})

/** A service with the CompositeControllers of the chart, as it renders them by default. */
async function service(t: Test, host = 'localhost') {
  const embedded = await embeddedApi(t)
  const { clock, api } = embedded
  await installCrds(api)
  await api.create(compositeControllerCrd())
  const url = `https://${host}:8080`
  const rendered = { url, version: '0.1.0', tokenFingerprint: 't', namespacesHash: 'n' }
  for (const one of controllers({ ...rendered, kinds: PLURALS })) await api.create(one)
  await api.create({ ...SECRET, metadata: NAME, type: 'Opaque' })
  const origin = clock.now().getTime()
  const start = async (rotation = '') => {
    const running = await startService({
      kubeconfig: kubeconfigFile(t, embedded),
      ...{ port: 0, host: '127.0.0.1', settings, engineRoute: 'proxy' as const },
      identity: { secret: NAME, hosts: ['localhost'], rotation, ownTls: true },
      log: pino({ level: 'silent' }),
      // Certificates are judged by the clock of the machine.
      now: () => new Date(Date.now() + clock.now().getTime() - origin),
      setTimeout: (run, milliseconds) => clock.setTimeout(run, milliseconds),
    })
    t.teardown(() => running.close())
    return running
  }
  const data = async () => {
    const found = (await api.get(SECRET)) as { data?: Record<string, string> } | undefined
    return Object.fromEntries(
      Object.entries(found?.data ?? {}).map(([key, value]) => [
        key,
        Buffer.from(value, 'base64').toString(),
      ]),
    )
  }
  const webhooks = async (plural = 'vecclusters') => {
    const found = await api.get({ ...CONTROLLER, name: `${plural}.vec-operator.dev` })
    const { hooks } = (found as unknown as Hooks).spec
    return Object.values(hooks).map(({ webhook }) => webhook)
  }
  /** Lets timers run until a look at everything has shown this. */
  const until = async (isSo: () => Promise<boolean>, step = 0) => {
    for (;;) {
      clock.advance(step)
      if (await isSo()) return
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  return { ...embedded, start, data, webhooks, until }
}

interface Hooks {
  spec: {
    hooks: Record<
      string,
      {
        webhook: {
          url: string
          caBundle?: { inline: string }
          authorization?: { type: string; secretRef: { key: string } }
        }
      }
    >
  }
}

t.test('every hook of every kind has the authority to trust and the token to send', async (t) => {
  const { start, data, webhooks, until } = await service(t)
  const { url } = await start()
  await until(async () => (await webhooks('vecmigrations'))[2]?.caBundle !== undefined)
  const known = await data()
  const [newest] = acceptedTokens(known)
  for (const plural of PLURALS) {
    for (const { caBundle, authorization } of await webhooks(plural)) {
      t.strictSame(caBundle, { inline: known['ca.crt'] })
      const secretRef = { ...NAME, key: newest?.name }
      t.strictSame(authorization, { type: 'Bearer', secretRef })
    }
  }
  const local = url.replace('127.0.0.1', 'localhost')
  t.equal(await greeted(local, known['ca.crt'] ?? ''), 'trusted')
  t.match(await greeted(local, newAuthority(new Date(), 1).cert), /unable to verify|signature/)
  t.match(await greeted(local, known['ca.crt'] ?? '', 'other.host'), /does not match/)
})

t.test(
  'a CompositeController created just after the start is connected within seconds',
  async (t) => {
    const { start, webhooks, until, api, clock } = await service(t)
    const late = { ...CONTROLLER, name: 'vecclusters.vec-operator.dev' }
    const rendered = await api.get(late)
    await api.delete(late)
    await start()
    await until(async () => (await webhooks('vecmigrations'))[2]?.caBundle !== undefined)
    const { apiVersion, kind, spec } = rendered as unknown as Record<string, unknown>
    await api.create({ apiVersion, kind, metadata: { name: late.name }, spec })
    const created = clock.now().getTime()
    await until(async () => (await webhooks()).every(({ caBundle }) => caBundle !== undefined), 10)
    t.ok(clock.now().getTime() - created < 30_000)
  },
)

t.test('another token by another word: both are accepted, the new one is to be sent', async (t) => {
  const { start, data, webhooks, until, clock } = await service(t)
  const first = await start()
  await until(async () => (await webhooks('vecmigrations'))[2]?.authorization !== undefined)
  const [old] = acceptedTokens(await data())
  await first.close()
  // The name of a token is its second.
  clock.advance(1000)
  const { url } = await start('march')
  const [newest] = acceptedTokens(await data())
  t.not(newest?.name, old?.name)
  await until(async () => {
    return (await webhooks('vecmigrations'))[2]?.authorization?.secretRef.key === newest?.name
  })
  const ca = (await data())['ca.crt'] ?? ''
  const dispatcher = new Agent({ connect: { ca, servername: 'localhost' } })
  t.teardown(() => dispatcher.destroy())
  for (const [token, status] of [
    [newest?.token, 404],
    [old?.token, 404],
    ['other', 401],
  ] as const) {
    const headers = { authorization: `Bearer ${token ?? ''}` }
    const answer = await request(`${url}/none`, { method: 'POST', headers, dispatcher })
    await answer.body.dump()
    t.equal(answer.statusCode, status)
  }
})

t.test('an emptied Secret or hook is written again with the same content', async (t) => {
  const { start, data, webhooks, until, api } = await service(t)
  await start()
  await until(async () => (await webhooks('vecmigrations'))[2]?.caBundle !== undefined)
  const before = await data()
  const found = await api.get(SECRET)
  await api.replace({ ...found, data: {} })
  const patch = { spec: { hooks: { sync: { webhook: { caBundle: null } } } } }
  await api.patch({ ...CONTROLLER, name: 'vecclusters.vec-operator.dev' }, patch)
  await until(async () => {
    const whole = (await webhooks()).every(({ caBundle }) => caBundle !== undefined)
    return whole && Object.keys(await data()).length > 0
  }, 60_000)
  t.strictSame(await data(), before)
})

t.test(
  'a certificate is replaced after ten days, by the same authority, without a restart',
  async (t) => {
    const { start, data, webhooks, until, clock } = await service(t)
    const { url } = await start()
    await until(async () => (await webhooks('vecmigrations'))[2]?.caBundle !== undefined)
    const ca = (await data())['ca.crt'] ?? ''
    const served = () =>
      new Promise<string>((resolve, reject) => {
        const { port } = new URL(url)
        const options = { host: 'localhost', port: Number(port), rejectUnauthorized: false }
        const socket = connect(options, () => {
          const found = socket.getPeerX509Certificate()
          // By the machine's clock the new one is not valid yet.
          const isOurs = found?.verify(new X509Certificate(ca).publicKey) === true
          resolve(isOurs ? found.serialNumber : 'foreign')
          socket.destroy()
        }).on('error', reject)
      })
    const first = await served()
    clock.advance(11 * DAY)
    await until(async () => (await served()) !== first, 60_000)
    t.not(await served(), 'foreign')
    t.equal((await data())['ca.crt'], ca)
  },
)

t.test('a replica that waits renews only its certificate, with the authority it has', async (t) => {
  const { clock, kubernetes, start, data, webhooks } = await service(t)
  await (await start()).close()
  const [before, connected] = [await data(), await webhooks()]
  const identity = { secret: NAME, hosts: ['localhost'], rotation: '', ownTls: true }
  const log = pino({ level: 'silent' })
  let passed = 0
  const now = () => new Date(Date.now() + passed)
  const credentials = await loadHookCredentials(
    { identity },
    { kubernetes, plurals: PLURALS, now, timers: clock, log },
  )
  const served: string[] = []
  const stop = credentials.watchCertificate({
    setSecureContext: ({ cert }) => void served.push(String(cert)),
  })
  clock.advance(60_000)
  t.strictSame(served, [])
  passed = 11 * DAY
  clock.advance(60_000)
  t.equal(served.length, 1)
  const authority = new X509Certificate(before['ca.crt'] ?? '')
  t.ok(new X509Certificate(served[0] ?? '').verify(authority.publicKey))
  stop()
  passed = 30 * DAY
  clock.advance(60_000)
  t.equal(served.length, 1)
  t.strictSame([await data(), await webhooks()], [before, connected])
})

t.test('a CompositeController that calls another service is not changed', async (t) => {
  const { webhooks, kubernetes } = await service(t, 'elsewhere.example')
  const log = pino({ level: 'silent' })
  const ours = { kubernetes, plurals: PLURALS, hosts: ['localhost'], log }
  await connectControllers(ours, { caBundle: 'PEM' })
  for (const { caBundle } of await webhooks()) t.equal(caBundle, undefined)
  await connectControllers({ ...ours, hosts: ['elsewhere.example'] }, { caBundle: 'PEM' })
  for (const { caBundle } of await webhooks()) t.strictSame(caBundle, { inline: 'PEM' })
})

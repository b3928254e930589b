/** What the check of an installation says of CompositeControllers and hooks. */
import t, { type Test } from 'tap'
import { pino } from 'pino'
import { acceptedTokens } from '../../metacontroller/identity/secret.ts'
import { checkInstallation } from '../../metacontroller/install-check.ts'
import { controllers, PLURALS, type SecretKey } from '../../metacontroller/controllers.ts'
import { startService } from '../../metacontroller/serve.ts'
import { settings } from '../builders.ts'
import type { ScriptedAnswer, ScriptedCall } from '../doubles/scripted-api.ts'
import type { ApiObject } from '../world/client.ts'
import { compositeControllerCrd } from '../world/composite-controllers.ts'
import { embeddedApi, installCrds, kubeconfigFile } from './embedded.ts'
import {
  changeHooks,
  CONTROLLER,
  hasToken,
  installation,
  NAME,
  SECRET,
  service,
  type Installation,
} from './installation.ts'

t.test('an installation whose seven hooks answer their token alone passes', async (t) => {
  const one = await installation(t)
  t.strictSame(await one.run(), {
    passed: true,
    report: [
      `7 CompositeControllers call the hooks at ${one.hooks.url}, which reject a wrong token`,
      'not checked: whether Metacontroller calls the hooks, because "kinds" has no veccollections',
      '',
    ].join('\n'),
  })
  const called = PLURALS.flatMap((plural) => [true, false].map((known) => `${plural} ${known}`))
  t.strictSame(
    one.hooks.calls
      .map((call) => {
        const { path } = call
        t.equal(path.split('?')[0]?.split('/')[2], 'customize')
        return `${path.split('/')[1]} ${hasToken(call)}`
      })
      .toSorted(),
    called.toSorted(),
  )
  t.equal(one.waitedMs(), 0)
})

const WRONG: Record<string, [(one: Installation) => Promise<unknown>, RegExp | string]> = {
  'a CompositeController is missing': [
    ({ api }) => api.delete(CONTROLLER),
    `CompositeController ${NAME} does not exist`,
  ],
  'a hook is missing': [
    (one) => changeHooks(one, (hooks) => delete hooks['finalize']),
    `CompositeController ${NAME}: hook finalize is missing`,
  ],
  'a hook is called elsewhere': [
    (one) =>
      changeHooks(one, ({ sync }) => {
        if (sync) sync.webhook['url'] = 'https://other:8080/veccollections/sync?release=0.1.0'
      }),
    new RegExp(
      `^CompositeController ${NAME}: hook sync is called at https://other:8080/veccollections/sync, this release is at http://127.0.0.1:\\d+/veccollections/sync$`,
    ),
  ],
  'a hook has no token': [
    (one) => changeHooks(one, ({ sync }) => delete sync?.webhook['authorization']),
    `CompositeController ${NAME}: hook sync is called without a token: the service has not connected it`,
  ],
  'a hook has another CA than the others': [
    (one) =>
      changeHooks(one, ({ finalize }) => {
        if (finalize) finalize.webhook['caBundle'] = { inline: 'PEM' }
      }),
    `CompositeController ${NAME}: hook finalize is called with another token or CA than hook customize`,
  ],
}

for (const [title, [damage, problem]] of Object.entries(WRONG)) {
  t.test(`it fails and says so if ${title}`, async (t) => {
    const one = await installation(t)
    await damage(one)
    const { passed, report } = await one.run('shop')
    t.notOk(passed)
    if (typeof problem === 'string') t.equal(report, `${problem}\n`)
    else t.match(report.trimEnd(), problem)
    t.equal(one.waitedMs(), 60_000, 'a service that has just started is waited for')
    t.strictSame(await one.collections(), [], 'nothing is created')
  })
}

/** Answers of the hooks, by the token that is right or wrong, and the end of each line. */
const ANSWERS: Record<string, [(call: ScriptedCall) => ScriptedAnswer | undefined, string]> = {
  'the hooks reject their token': [
    () => ({ status: 401, body: { error: 'the bearer token is missing or wrong' } }),
    'hook customize answers its token with 401: {"error":"the bearer token is missing or wrong"}',
  ],
  'the hooks answer another form': [
    (call) => (hasToken(call) ? { status: 200, body: { items: [] } } : service(call)),
    'hook customize answered without a valid /relatedResources: Expected required property',
  ],
  'the hooks answer no JSON': [
    (call) => (hasToken(call) ? { status: 200, body: '<html>' } : service(call)),
    'hook customize answered something that is not JSON',
  ],
  'the hooks accept any token': [
    () => ({ status: 200, body: { relatedResources: [] } }),
    'hook customize answers a wrong token with 200 instead of 401',
  ],
}

for (const [title, [answer, problem]] of Object.entries(ANSWERS)) {
  t.test(`it fails and says so for each kind if ${title}`, async (t) => {
    const { passed, report } = await (await installation(t, answer)).run('shop')
    t.notOk(passed)
    t.strictSame(
      report,
      PLURALS.map((plural) => `CompositeController ${plural}.vec-operator.dev: ${problem}\n`).join(
        '',
      ),
    )
  })
}

t.test('it fails and says so if the hooks cannot be reached', async (t) => {
  const one = await installation(t)
  await one.hooks.close()
  const { passed, report } = await one.run('shop')
  t.notOk(passed)
  const { port } = new URL(one.hooks.url)
  t.strictSame(
    report,
    PLURALS.map(
      (plural) =>
        `CompositeController ${plural}.vec-operator.dev: hook customize cannot be called at ${one.hooks.url}/${plural}/customize: connect ECONNREFUSED 127.0.0.1:${port}\n`,
    ).join(''),
  )
})

t.test('it fails and says so if the token is missing', async (t) => {
  const one = await installation(t)
  const live = (await one.api.get(SECRET)) as ApiObject
  await one.api.replace({ ...live, data: {} })
  t.match(
    (await one.run()).report,
    `${NAME}: Secret vec-system/token has no token in its key token\n`,
  )
  await one.api.delete(SECRET)
  t.match(
    (await one.run()).report,
    `${NAME}: Secret vec-system/token with its token does not exist\n`,
  )
})

t.test('the hooks of a service that has just started are waited for', async (t) => {
  let calls = 0
  const one = await installation(t, (call) =>
    (calls += 1) > 20 ? service(call) : { status: 503, body: { error: 'starting' } },
  )
  t.ok((await one.run()).passed)
  t.ok(one.waitedMs() > 0)
})

/** The real service, with the token and the certificate that it creates; `now` moves in the pauses of a check. */
async function realService(t: Test) {
  const embedded = await embeddedApi(t)
  const { api, clock, kubernetes } = embedded
  await installCrds(api)
  await api.create(compositeControllerCrd())
  const { apiVersion, kind, ...metadata } = SECRET
  await api.create({ apiVersion, kind: 'Namespace', metadata: { name: metadata.namespace } })
  await api.create({ apiVersion, kind, metadata, type: 'Opaque' })
  const origin = clock.now().getTime()
  const running = await startService({
    kubeconfig: kubeconfigFile(t, embedded),
    ...{ port: 0, host: '127.0.0.1', settings, engineRoute: 'proxy' as const },
    identity: { secret: metadata, hosts: ['localhost'], rotation: '', ownTls: true },
    log: pino({ level: 'silent' }),
    // Certificates are judged by the clock of the machine.
    now: () => new Date(Date.now() + clock.now().getTime() - origin),
    setTimeout: (callback, milliseconds) => clock.setTimeout(callback, milliseconds),
  })
  t.teardown(() => running.close())
  const time = {
    monotonicMs: () => clock.now().getTime(),
    sleep: async (ms: number) => {
      clock.advance(ms)
      await new Promise((resolve) => setTimeout(resolve, 20))
    },
  }
  /** Checks controllers that call the service at this host. */
  const check = async (
    host: string,
    credentials: { token?: SecretKey; caBundle?: string } = {},
  ) => {
    const url = `https://${host}:${new URL(running.url).port}`
    const rendered = { version: '0.1.0', tokenFingerprint: 't', namespacesHash: 'n' }
    for (const one of controllers({ url, ...rendered, ...credentials, kinds: PLURALS }))
      await api.create(one)
    return checkInstallation({ kubernetes, time }, { url, kinds: PLURALS })
  }
  return { api, check }
}

t.test('the real service passes with the token and the certificate it creates', async (t) => {
  const { check } = await realService(t)
  const { passed, report } = await check('localhost')
  t.ok(passed, report)
})

t.test('it fails and says so if the certificate is not for the host or not trusted', async (t) => {
  for (const [trusts, reason] of [
    [true, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [false, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  ] as const) {
    const { api, check } = await realService(t)
    const { data = {} } = (await api.get(SECRET)) as { data?: Record<string, string> }
    const [newest] = acceptedTokens(data)
    const token = { namespace: 'vec-system', name: 'token', key: newest?.name ?? '' }
    const ca = Buffer.from(data['ca.crt'] ?? '', 'base64').toString()
    const { passed, report } = await check('127.0.0.1', { token, ...(trusts && { caBundle: ca }) })
    t.notOk(passed)
    t.match(report.split('\n')[1], `/veccollections/customize: ${reason}`)
  }
})

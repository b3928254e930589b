/** Credentials of an identity: when they are renewed, and what happens if that fails. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { StorageError } from '../../../../crds/contract/errors.ts'
import type { Clock } from '../../../../jobs/clock.ts'
import { identityCredentials } from '../../../../jobs/clients/s3/identity.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { ROLE_ARN, startIdentityServer } from '../../../doubles/identity/server.ts'
import { ONE, TWO } from '../../../metacontroller/certificates.ts'

const VARIABLES = [
  ...['AWS_ROLE_ARN', 'AWS_WEB_IDENTITY_TOKEN_FILE', 'AWS_ENDPOINT_URL_STS'],
  ...['AWS_CONTAINER_CREDENTIALS_FULL_URI', 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE'],
  ...['AWS_EC2_METADATA_DISABLED', 'AWS_REGION'],
]

/** The SDK reads the environment of the process; this file is a process of its own. */
async function stage(t: Test, kind: 'web identity' | 'container', tls?: typeof ONE) {
  const clock = { now: Date.now() }
  const identity = await startIdentityServer({
    ...{ store: { keys: new Map(), tokens: new Map() }, token: 'pod-token' },
    now: () => new Date(clock.now),
    ...(tls !== undefined && { tls }),
  })
  const authority = { pem: undefined as string | undefined }
  const file = join(t.testdir({ token: 'pod-token' }), 'token')
  const variables: Record<string, string> =
    kind === 'container'
      ? {
          AWS_CONTAINER_CREDENTIALS_FULL_URI: `${identity.url}/v1/credentials`,
          AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file,
        }
      : {
          AWS_ROLE_ARN: ROLE_ARN,
          AWS_WEB_IDENTITY_TOKEN_FILE: file,
          AWS_ENDPOINT_URL_STS: identity.url,
        }
  for (const name of VARIABLES) process.env[name] = ''
  Object.assign(process.env, variables, { AWS_EC2_METADATA_DISABLED: 'true' })
  t.teardown(() => identity.close())
  const time: Clock = {
    now: () => new Date(clock.now),
    monotonicMs: () => 0,
    sleep: async () => undefined,
  }
  const lines: string[] = []
  const log = jobLog({ LOG_LEVEL: 'INFO' }, { write: (line: string) => lines.push(line) })
  const read = identityCredentials({
    ...{ account: 'ns/backup', region: 'us-east-1', env: process.env, time, log },
    readCa: () => authority.pem,
  })
  return {
    identity,
    read,
    authority,
    clock,
    lines,
    writeToken: (token: string) => writeFileSync(file, token),
  }
}

const MINUTE = 60_000

for (const kind of ['web identity', 'container'] as const) {
  t.test(`${kind}: read once, and renewed with half an hour left`, async (t) => {
    const { read, clock, identity } = await stage(t, kind)
    t.strictSame(await read(), {
      accessKeyId: 'ASIA1',
      secretAccessKey: 'secret-of-session-1',
      sessionToken: 'session-token-1',
    })
    clock.now += 29 * MINUTE
    t.equal((await read()).accessKeyId, 'ASIA1')
    t.equal(identity.issued.length, 1)
    clock.now += 2 * MINUTE
    t.equal(
      (await read()).accessKeyId,
      'ASIA2',
      'a URL that is signed now is good for half an hour',
    )
    t.equal((await read()).accessKeyId, 'ASIA2')
    t.equal(identity.issued.length, 2)
  })

  t.test(`${kind}: rejected credentials are renewed at once`, async (t) => {
    const { read, identity } = await stage(t, kind)
    await read()
    t.equal((await read({ renew: true })).accessKeyId, 'ASIA2')
    t.equal((await read()).accessKeyId, 'ASIA2')
    t.equal(identity.issued.length, 2)
  })
}

t.test('sessions shorter than half an hour are renewed once a minute', async (t) => {
  const { read, clock, identity } = await stage(t, 'container')
  identity.lifetimeSeconds = 15 * 60
  await read()
  await read()
  clock.now += MINUTE / 2
  await read()
  t.equal(identity.issued.length, 1)
  clock.now += MINUTE
  t.equal((await read()).accessKeyId, 'ASIA2')
})

t.test(
  'valid credentials outlive an outage of the token service, expired ones do not',
  async (t) => {
    const { read, clock, identity, lines } = await stage(t, 'web identity')
    await read()
    clock.now += 40 * MINUTE
    identity.rejection = { status: 400, code: 'ExpiredTokenException', message: 'token expired' }
    t.equal((await read()).accessKeyId, 'ASIA1')
    t.match(lines.join(''), /early renewal of bucket credentials failed/)
    t.notMatch(lines.join(''), /pod-token|session-token|secret-of/)
    clock.now += 21 * MINUTE
    await t.rejects(read(), {
      reason: 'IdentityRefused',
      message: /no credentials for ServiceAccount ns\/backup: ExpiredTokenException: token expired/,
    })
    identity.rejection = undefined
    t.equal((await read()).accessKeyId, 'ASIA2')
  },
)

t.test('the token of the pod is read again for each renewal', async (t) => {
  const { read, identity, writeToken } = await stage(t, 'web identity')
  await read()
  identity.token = 'next-token'
  await t.rejects(read({ renew: true }), { message: /InvalidIdentityToken/ })
  writeToken('next-token')
  t.equal((await read({ renew: true })).accessKeyId, 'ASIA2')
})

t.test('a container credentials endpoint that refuses is asked again', async (t) => {
  const { read, identity } = await stage(t, 'container')
  identity.token = 'another'
  const error = await read().catch((cause: unknown) => cause)
  t.match(error, {
    message: /no credentials for ServiceAccount ns\/backup: the container credentials endpoint/,
    reason: undefined,
  })
  t.notOk(identity.calls.some((call) => call.includes('/latest/')))
})

t.test('static credentials of the environment are no identity', async (t) => {
  const { identity, read } = await stage(t, 'container')
  for (const name of VARIABLES) if (name.includes('CONTAINER')) process.env[name] = ''
  process.env['AWS_ACCESS_KEY_ID'] = 'id'
  process.env['AWS_SECRET_ACCESS_KEY'] = 'secret'
  t.teardown(() => {
    delete process.env['AWS_ACCESS_KEY_ID']
    delete process.env['AWS_SECRET_ACCESS_KEY']
  })
  await t.rejects(read(), {
    reason: 'IdentityRefused',
    message: /gives its pods no cloud identity/,
  })
  t.strictSame(identity.calls, [])
})

t.test('the authority of the token service is read again for each renewal', async (t) => {
  const { read, authority, identity } = await stage(t, 'web identity', ONE)
  const refused = { reason: 'CertificateRefused', message: /self-signed certificate \(trust its / }
  await t.rejects(read(), refused)
  authority.pem = TWO.cert
  await t.rejects(read(), refused)
  authority.pem = ONE.cert
  t.equal((await read()).accessKeyId, 'ASIA1')
  t.equal((await read({ renew: true })).accessKeyId, 'ASIA2')
  authority.pem = undefined
  await t.rejects(read({ renew: true }), refused)
  t.equal(identity.calls.length, 2)
})

t.test('a temporary rejection by the token service is retried', async (t) => {
  const { read, identity } = await stage(t, 'web identity')
  for (const [status, code, reason] of [
    [400, 'Throttling', undefined],
    [400, 'ThrottlingException', undefined],
    [400, 'IDPCommunicationError', undefined],
    [429, 'TooManyRequests', undefined],
    [500, 'InternalFailure', undefined],
    [503, 'ServiceUnavailable', undefined],
    [403, 'AccessDenied', 'IdentityRefused'],
    [400, 'InvalidIdentityToken', 'IdentityRefused'],
  ] as const) {
    identity.rejection = { status, code, message: 'no' }
    const error = await read().catch((cause: unknown) => cause)
    t.match(error, { code: 'StorageError', message: new RegExp(`${code}.*: no$`) })
    t.equal((error as StorageError).reason, reason, `${status} ${code}`)
  }
})

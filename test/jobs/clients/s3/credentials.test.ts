/** Credentials of a bucket: where they are found in a Secret, and that temporary ones work and are renewed. */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import {
  mountedBucketCa,
  mountedBucketCredentials,
  parseCredentials,
  withCa,
  type BucketCredentials,
} from '../../../../jobs/clients/s3/credentials.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { startBucketServer } from '../../../doubles/bucket/server.ts'
import { ONE, TWO } from '../../../metacontroller/certificates.ts'
import { instantClock } from '../../job-world.ts'

const DEFAULTS = {
  name: 'keys',
  accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
  secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
}
const CLOUD = { CLOUD_ACCESS_KEY_ID: 'id', CLOUD_SECRET_ACCESS_KEY: 'secret' }
const AWS = { AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: 'secret' }
const OWN = { ...DEFAULTS, accessKeyIdKey: 'own-id', secretAccessKeyKey: 'own-secret' }
const OWN_DATA = { 'own-id': 'id', 'own-secret': 'secret', 'own-token': 'token' }

const FOUND: [string, Parameters<typeof parseCredentials>[0], Record<string, string>, string?][] = [
  ['no token', DEFAULTS, CLOUD],
  ['the token beside its own keys', DEFAULTS, { ...CLOUD, CLOUD_SESSION_TOKEN: 'c' }, 'c'],
  ['the token of the second choice', DEFAULTS, { ...AWS, AWS_SESSION_TOKEN: 'a\n' }, 'a'],
  ['no token of other keys', DEFAULTS, { ...CLOUD, AWS_SESSION_TOKEN: 'a' }],
  ['an empty token as none', DEFAULTS, { ...AWS, AWS_SESSION_TOKEN: '' }],
  ['no default token beside own keys', OWN, { ...OWN_DATA, AWS_SESSION_TOKEN: 'a' }],
  ['the token that is named', { ...OWN, sessionTokenKey: 'own-token' }, OWN_DATA, 'token'],
]
for (const [what, reference, data, sessionToken] of FOUND) {
  t.test(`a Secret gives ${what}`, async (t) => {
    t.strictSame(await parseCredentials(reference, (key) => data[key]), {
      ...{ accessKeyId: 'id', secretAccessKey: 'secret', ca: undefined },
      ...(sessionToken !== undefined && { sessionToken }),
    })
  })
}

t.test('a token that is named and missing is rejected by its name', async (t) => {
  const reference = { ...DEFAULTS, sessionTokenKey: 'token' }
  await t.rejects(
    parseCredentials(reference, (key) => ({ ...CLOUD })[key as keyof typeof CLOUD]),
    { message: 'Secret keys has no token', reason: 'MissingCredentials' },
  )
})

async function stage(t: Test) {
  const s3 = await startBucketServer()
  s3.tokens.set('id', 'first')
  const present: { credentials: BucketCredentials } = {
    credentials: { accessKeyId: 'id', secretAccessKey: 'secretsecret', sessionToken: 'first' },
  }
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => present.credentials,
    time: instantClock(async () => renew.now()),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
    rotationMs: 60_000,
  })
  const renew = { now: () => undefined as unknown }
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  return { s3, bucket, present, renew }
}

t.test('temporary credentials read, write, upload and presign', async (t) => {
  const { s3, bucket } = await stage(t)
  t.equal(await bucket.putJson('a.json', { n: 1 }), true)
  t.strictSame(await bucket.getJson('a.json'), { n: 1 })
  async function* bytes() {
    yield Buffer.alloc(9 * 1024 * 1024, 1)
  }
  await bucket.upload({ key: 'large', source: bytes() })
  const answer = await fetch(await bucket.presignedUrl('a.json'))
  t.equal(await answer.text(), '{"n":1}')
  t.equal(s3.buckets.get('backups')?.objects.size, 2)
})

for (const sessionToken of [undefined, 'another'] as const) {
  t.test(`a temporary key with the token ${sessionToken} is rejected at once`, async (t) => {
    const { bucket, present } = await stage(t)
    const { accessKeyId, secretAccessKey } = present.credentials
    present.credentials = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) }
    await t.rejects(bucket.getJson('a.json'), {
      message: /40[03] Invalid(AccessKeyId|Token).*check the credentials/,
    })
  })
}

t.test('a token that expires is waited for, as a key that is rotated is', async (t) => {
  const { s3, bucket, present, renew } = await stage(t)
  await bucket.putJson('a.json', {})
  s3.expired.add('first')
  let waits = 0
  renew.now = () => {
    waits += 1
    s3.tokens.set('id', 'second')
    present.credentials = { ...present.credentials, sessionToken: 'second' }
  }
  await bucket.putJson('b.json', {})
  t.ok(waits > 0)
  t.strictSame(s3.buckets.get('backups')?.keys(), ['a.json', 'b.json'])
})

t.test('an untrusted certificate is final, unless the store was trusted before', async (t) => {
  const s3 = await startBucketServer({ tls: ONE })
  const authority: { pem: string; pauses: number } = { pem: TWO.cert, pauses: 0 }
  const pause = async () => {
    authority.pauses += 1
    if (authority.pauses === 2) authority.pem = ONE.cert
  }
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: s3.url, forcePathStyle: true },
    credentials: async () => ({
      ...{ accessKeyId: 'id', secretAccessKey: 'secretsecret', ca: authority.pem },
    }),
    time: instantClock(pause),
    log: jobLog({ LOG_LEVEL: 'ERROR' }),
  })
  t.teardown(async () => {
    bucket.close()
    await s3.close()
  })
  await t.rejects(bucket.list(''), { reason: 'CertificateRefused', message: /self-signed/ })
  t.equal(authority.pauses, 0)
  authority.pem = ONE.cert
  t.strictSame((await bucket.list('')).objects, [])
  // The Job reads the authority of the next certificate early, and the store still has this one.
  authority.pem = TWO.cert
  t.strictSame((await bucket.list('')).objects, [])
  t.equal(authority.pauses, 2)
})

t.test('the keys are read from mounted files at each call', async (t) => {
  const folder = t.testdir({ bucket: { ...CLOUD, 'ca.crt': '' } })
  const read = mountedBucketCredentials(DEFAULTS, { VEC_CREDENTIALS: folder })
  const keys = { accessKeyId: 'id', secretAccessKey: 'secret', ca: undefined }
  t.strictSame(await read(), keys)
  writeFileSync(join(folder, 'bucket/CLOUD_ACCESS_KEY_ID'), 'renewed\n')
  writeFileSync(join(folder, 'bucket/ca.crt'), 'pem')
  t.strictSame(await read(), { ...keys, accessKeyId: 'renewed', ca: 'pem' })
  rmSync(join(folder, 'bucket/CLOUD_SECRET_ACCESS_KEY'))
  await t.rejects(read(), {
    reason: 'MissingCredentials',
    message: 'Secret keys has no CLOUD_SECRET_ACCESS_KEY',
  })
})

t.test('the authority that a bucket names is read at each call, and has to be one', async (t) => {
  const folder = t.testdir({ 'bucket-ca': { 'ca.pem': ONE.cert } })
  const env = { VEC_CREDENTIALS: folder }
  const file = join(folder, 'bucket-ca/ca.pem')
  const read = mountedBucketCa({ caConfigMapRef: { name: 'store', key: 'ca.pem' } }, env)
  t.equal(read(), ONE.cert)
  t.equal(read(), ONE.cert)
  writeFileSync(file, TWO.cert)
  t.equal(read(), TWO.cert)
  const text = 'caConfigMapRef: ConfigMap store has'
  for (const [content, problem] of [
    ['', 'no value'],
    ['-----BEGIN CERTIFICATE-----', 'no valid certificate \\(PEM\\)'],
  ] as const) {
    writeFileSync(file, content)
    t.throws(read, {
      reason: 'MissingCredentials',
      message: new RegExp(`^${text} ${problem} in key ca\\.pem$`),
    })
  }
  rmSync(file)
  t.throws(read, { message: `${text} no value in key ca.pem` })
  writeFileSync(file, TWO.cert)
  t.equal(read(), TWO.cert)
  t.equal(mountedBucketCa({}, env)(), undefined, 'a bucket that names none')
})

t.test('an authority that a bucket names replaces that of its Secret', async (t) => {
  const asked: unknown[] = []
  const keys = { accessKeyId: 'id', secretAccessKey: 'secret', ca: 'of the Secret' }
  const read = async (options?: { renew: boolean }) => {
    asked.push(options)
    return keys
  }
  t.strictSame(await withCa(read, () => undefined)(), keys)
  t.strictSame(await withCa(read, () => 'named')({ renew: true }), { ...keys, ca: 'named' })
  t.strictSame(asked, [undefined, { renew: true }])
})

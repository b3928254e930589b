/** Addressing of a store: by path or host name, by region, and with a trusted certificate. */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { EXIT, JOB_ENV, encodePlan } from '../../../crds/contract/job.ts'
import { ONE, TWO } from '../../metacontroller/certificates.ts'
import { KEYS } from './backup-world.ts'
import { backupFixture } from './fixture.ts'

const NAMES = fileURLToPath(new URL('../../doubles/loopback-names.ts', import.meta.url))

t.test('virtual-host style: the bucket is in the host name', async (t) => {
  const { world, s3, store, manifest } = await backupFixture(t, { store: { host: 's3.test' } })
  const endpoint = s3.url.replace('127.0.0.1', 's3.test')
  const storage = { ...world.plan.storage, endpoint, forcePathStyle: false }
  const { child, log } = world.start({
    NODE_OPTIONS: `--import ${NAMES}`,
    [JOB_ENV.plan]: encodePlan({ ...world.plan, storage }, 'spec'),
  })
  const [code] = (await once(child, 'close')) as [number]
  t.equal(code, EXIT.done, await log)
  t.equal(manifest().collections.length, 1)
  t.ok(store().keys().includes('nightly/b/manifest.json'), 'the key is without the bucket')
})

t.test('custom CA: the key ca.crt of the Secret is trusted', async (t) => {
  const { world, manifest } = await backupFixture(t, { store: { tls: ONE } })
  world.credentials({ ...KEYS, 'ca.crt': ONE.cert })
  const { code, log } = await world.run()
  t.equal(code, EXIT.done, log)
  t.equal(manifest().collections.length, 1)
})

for (const [what, keys] of [
  ['without ca.crt', KEYS],
  ['with the ca.crt of another', { ...KEYS, 'ca.crt': TWO.cert }],
] as const) {
  t.test(`TLS verification fails ${what}, and the error says what to do`, async (t) => {
    const { world } = await backupFixture(t, { store: { tls: ONE } })
    world.credentials(keys)
    const { code, log } = await world.run()
    t.equal(code, EXIT.failed)
    t.notMatch(log, /retrying bucket call/, 'a certificate does not change within seconds')
    t.match(
      (await world.progress())?.backup?.error,
      /s3:\/\/backups\/.* got no answer: self-signed certificate \(trust its authority by caSecretRef or caConfigMapRef of the bucket, or the key ca\.crt of its Secret\)/,
    )
  })
}

const BY_CONFIG_MAP = { caConfigMapRef: { name: 'root', key: 'root.pem' } }

t.test(
  'the authority that the bucket names is trusted, and that of the Secret is not',
  async (t) => {
    const { world, manifest } = await backupFixture(t, { store: { tls: ONE } })
    world.credentials({ ...KEYS, 'ca.crt': TWO.cert })
    world.authority('root.pem', `${TWO.cert}${ONE.cert}`)
    const storage = { ...world.plan.storage, ...BY_CONFIG_MAP }
    const { code, log } = await world.run({ storage })
    t.equal(code, EXIT.done, log)
    t.equal(manifest().collections.length, 1)
  },
)

for (const [what, content, problem] of [
  ['is gone', undefined, 'no value'],
  ['has another value by now', TWO.key, 'no valid certificate (PEM)'],
] as const) {
  t.test(
    `a Job whose authority ${what} fails at once, and the error names the field`,
    async (t) => {
      const { world, s3 } = await backupFixture(t, { store: { tls: ONE } })
      if (content !== undefined) world.authority('root.pem', content)
      const storage = { ...world.plan.storage, ...BY_CONFIG_MAP }
      const { code, log } = await world.run({ storage })
      t.equal(code, EXIT.failed)
      t.notMatch(log, /retrying bucket call/)
      const { error = '' } = (await world.progress())?.backup ?? {}
      t.ok(error.includes(`caConfigMapRef: ConfigMap root has ${problem} in key root.pem`), error)
      t.strictSame(s3.calls, [])
    },
  )
}

t.test('wrong region: the error names the region in which the bucket is', async (t) => {
  const { world } = await backupFixture(t)
  const storage = { ...world.plan.storage, region: 'eu-west-1' }
  t.equal((await world.run({ storage })).code, EXIT.failed)
  t.match(
    (await world.progress())?.backup?.error,
    /400 AuthorizationHeaderMalformed: .* \(the bucket is in region us-east-1, not in eu-west-1\)/,
  )
})

/**
 * A Job that accesses its bucket with the identity of its ServiceAccount: by a web identity token or by
 * the container credentials endpoint, renewed in the middle of an upload, and never by the role of a node.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { encodePlan, EXIT, JOB_ENV } from '../../../crds/contract/job.ts'
import type { S3Target } from '../../../crds/storage.ts'
import { ROLE_ARN, startIdentityServer } from '../../doubles/identity/server.ts'
import { ONE } from '../../metacontroller/certificates.ts'
import { startCli } from '../job-fixture.ts'
import { MIB, backupFixture } from './fixture.ts'

const NODE_ROLE_OFF = { AWS_EC2_METADATA_DISABLED: 'true' }

interface Authorities {
  store?: typeof ONE
  tokenService?: typeof ONE
  /** What the bucket names. */
  bucket?: Pick<S3Target, 'caSecretRef'>
}

async function stage(t: Test, snapshotBytes = 0, tls: Authorities = {}) {
  // No key of a Secret is good.
  const store = { keys: {}, ...(tls.store && { tls: tls.store }) }
  const fixture = await backupFixture(t, { nodes: 1, snapshotBytes, store })
  const { world, s3 } = fixture
  const identity = await startIdentityServer({
    ...{ store: s3, token: 'pod-token-1' },
    ...(tls.tokenService && { tls: tls.tokenService }),
  })
  t.teardown(() => identity.close())
  const tokenFile = join(t.testdirName, 'pod-token')
  const setToken = (token: string) => writeFileSync(tokenFile, token)
  setToken('pod-token-1')
  const { credentialsSecretRef: _, ...rest } = world.plan.storage
  const storage: S3Target = { ...rest, ...tls.bucket, serviceAccountName: 'backup' }
  const metadata = { AWS_EC2_METADATA_SERVICE_ENDPOINT: identity.url }
  return {
    ...fixture,
    identity,
    setToken,
    /** Variables that admission sets for a pod with an identity. */
    variables: {
      'web identity': {
        AWS_ROLE_ARN: ROLE_ARN,
        AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
        AWS_ENDPOINT_URL_STS: identity.url,
        AWS_REGION: 'eu-central-1',
      },
      'container credentials': {
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `${identity.url}/v1/credentials`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: tokenFile,
      },
    },
    run: async (verb: 'run' | 'purge', variables: NodeJS.ProcessEnv) => {
      const plan = verb === 'run' ? { ...world.plan, storage } : purgePlan(world, storage)
      const env = { ...world.env, ...metadata, [JOB_ENV.plan]: encodePlan(plan, 'spec') }
      const { child, log } = startCli(t, ['backup', verb, 'ns/b'], { ...env, ...variables })
      const [code] = (await once(child, 'close')) as [number | null]
      return { code, log: await log }
    },
  }
}

type World = Awaited<ReturnType<typeof backupFixture>>['world']

function purgePlan({ plan, uid }: World, storage: S3Target) {
  const { resource, namespace, name } = plan
  return { ...{ resource, namespace, name, uid, run: 2, hash: 'purge' }, storage }
}

for (const kind of ['web identity', 'container credentials'] as const) {
  t.test(`${kind}: renewed in the middle of an upload, with a renewed token`, async (t) => {
    const { run, variables, identity, setToken, s3, keys, manifest, world } = await stage(
      t,
      40 * MIB,
    )
    let parts = 0
    s3.misbehave(({ operation }) => {
      if (operation !== 'UploadPart' || (parts += 1) !== 3) return undefined
      // The kubelet has written another token, and the session ends.
      identity.token = 'pod-token-2'
      setToken('pod-token-2')
      for (const token of identity.issued) s3.expired.add(token)
      return undefined
    })
    const { code, log } = await run('run', { ...NODE_ROLE_OFF, ...variables[kind] })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(await world.progress(), { state: 'Done', message: 'Backed up 1/1 collections' })
    t.equal(identity.issued.length, 2, 'once at the start, once after the session ended')
    t.equal(s3.calls.filter(({ operation }) => operation === 'CreateMultipartUpload').length, 1)
    const [snapshot] = manifest().collections.flatMap(({ snapshots }) => snapshots)
    t.equal(snapshot?.sizeBytes, 40 * MIB)
    t.ok(keys().includes(snapshot?.key ?? ''))
    t.notMatch(log, /pod-token|session-token|secret-of-session/, 'no credential in the log')
    t.notOk(
      identity.calls.some((call) => call.includes('/latest/')),
      'no role of a node',
    )

    const purged = await run('purge', { ...NODE_ROLE_OFF, ...variables[kind] })
    t.equal(purged.code, EXIT.done, purged.log.slice(-2000))
    t.match(await world.progress(), { verb: 'purge', state: 'Done', run: 2 })
    t.strictSame(keys(), [])
  })
}

t.test('a token service that refuses the role fails the backup, with its answer', async (t) => {
  const { run, variables, identity, world, s3 } = await stage(t)
  identity.rejection = { status: 403, code: 'AccessDenied', message: 'Not authorized' }
  const { code } = await run('run', { ...NODE_ROLE_OFF, ...variables['web identity'] })
  t.equal(code, EXIT.failed)
  t.match(await world.progress(), {
    state: 'Failed',
    message: /no credentials for ServiceAccount ns\/backup: AccessDenied: Not authorized/,
  })
  t.equal(s3.calls.length, 0)
  t.equal(identity.calls.length, 1, 'a rejection is not retried')
})

t.test(
  'a pod without an identity fails at once, and does not take the role of the node',
  async (t) => {
    const { run, identity, world, s3 } = await stage(t)
    const { code } = await run('run', NODE_ROLE_OFF)
    t.equal(code, EXIT.failed)
    t.match(await world.progress(), {
      state: 'Failed',
      message: /ServiceAccount ns\/backup gives its pods no cloud identity/,
    })
    t.strictSame(identity.calls, [])
    t.strictSame(s3.calls, [])
  },
)

t.test('an identity is not used by a Job that could take the role of the node', async (t) => {
  const { run, identity, variables } = await stage(t)
  const { code } = await run('run', { ...variables['web identity'] })
  t.equal(code, EXIT.failed)
  t.strictSame(identity.calls, [])
})

t.test('a purge reports why the store refuses it, and deletes nothing', async (t) => {
  const { run, variables, s3, keys, world } = await stage(t)
  const env = { ...NODE_ROLE_OFF, ...variables['web identity'] }
  t.equal((await run('run', env)).code, EXIT.done)
  const before = keys()
  s3.misbehave(({ operation }) =>
    operation === 'DeleteObjects' ? { status: 400, code: 'InvalidRequest' } : undefined,
  )
  t.equal((await run('purge', env)).code, EXIT.failed)
  t.match(await world.progress(), { verb: 'purge', state: 'Failed', message: /400 InvalidRequest/ })
  t.strictSame(keys(), before)
})

t.test('a purge reports an owner.json that names no backup, and deletes nothing', async (t) => {
  const { run, variables, store, keys, world } = await stage(t)
  const env = { ...NODE_ROLE_OFF, ...variables['web identity'] }
  t.equal((await run('run', env)).code, EXIT.done)
  store().put('nightly/b/owner.json', Buffer.from('{}'))
  const before = keys()
  t.equal((await run('purge', env)).code, EXIT.failed)
  const message = 's3://backups/nightly/b/owner.json is not an owner.json of a backup'
  t.match(await world.progress(), { verb: 'purge', state: 'Failed', message })
  t.strictSame(keys(), before)
})

t.test(
  'an authority of the bucket is trusted for the store and for the token service',
  async (t) => {
    const { run, variables, manifest, keys, world } = await stage(t, 0, {
      ...{
        store: ONE,
        tokenService: ONE,
        bucket: { caSecretRef: { name: 'root', key: 'ca.crt' } },
      },
    })
    world.authority('ca.crt', ONE.cert)
    const env = { ...NODE_ROLE_OFF, ...variables['web identity'] }
    const { code, log } = await run('run', env)
    t.equal(code, EXIT.done, log.slice(-2000))
    t.equal(manifest().collections.length, 1)
    t.equal((await run('purge', env)).code, EXIT.done)
    t.strictSame(keys(), [])
  },
)

for (const [what, tls, message] of [
  [
    'store',
    { store: ONE },
    /s3:\/\/backups\/.* got no answer: self-signed certificate \(trust its authority by caSecretRef /,
  ],
  [
    'token service',
    { tokenService: ONE },
    /no credentials for ServiceAccount ns\/backup: Error: self-signed certificate \(trust its authority by caSecretRef /,
  ],
] as const) {
  t.test(`a ${what} with an untrusted certificate fails the backup at once`, async (t) => {
    const { run, variables, world, s3 } = await stage(t, 0, tls)
    const { code, log } = await run('run', { ...NODE_ROLE_OFF, ...variables['web identity'] })
    t.equal(code, EXIT.failed)
    t.notMatch(log, /retrying bucket call/)
    t.match(await world.progress(), { state: 'Failed', message })
    t.strictSame(s3.calls, [])
  })
}
